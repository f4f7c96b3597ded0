from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tests.parsers.door import batches, facts, notes, points, sniffed
from trainlens.errors import InputError
from trainlens.model import NO_RANK
from trainlens.parsers import mlflow_db, nsys

START = 1_700_000_000
NAMES = {1: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 2: "sgemm", 3: "step 11", 4: "relu_nccl_like"}
Row = tuple[int, int, int, int]


def export(
    tmp_path: Path, kernels: list[Row], copies: list[Row], ranges: list[tuple[str | None, int | None, int, int]]
) -> bytes:
    path = tmp_path / "x.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (deviceId INT, start INT, end INT, shortName INT)")
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", kernels)
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (deviceId INT, start INT, end INT, bytes INT)")
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?)", copies)
        database.execute("CREATE TABLE NVTX_EVENTS (text TEXT, textId INT, start INT, end INT)")
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?)", ranges)
        database.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT)")
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (START * 10**9,))
        database.execute("CREATE TABLE TARGET_INFO_GPU (name TEXT)")
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100')")
    database.close()
    return path.read_bytes()


def kernels(device: int = 0) -> list[Row]:
    """Of each 100 µs: 40 compute, 30 communication of which 10 are hidden."""
    return [
        (device, begin * 1000, end * 1000, name)
        for at in (0, 100)
        for begin, end, name in ((at, at + 30, 2), (at + 20, at + 40, 4), (at + 30, at + 60, 1))
    ]


COPIES = [(0, at + 55_000, at + 70_000, 8) for at in (0, 100_000)]
RANGES: list[tuple[str | None, int | None, int, int]] = [
    ("step 10", None, 0, 100_000), (None, 3, 100_000, 200_000), ("dataloader", None, 0, 20_000),
    ("forward", None, 0, 9),
]  # fmt: skip
EXPECTED = {
    "step_time": [100e-6] * 2, "data_time": [20e-6, 0], "gpu/utilization": [0.7] * 2, "comm_share": [0.2] * 2,
    "profile/compute_share": [0.4] * 2, "profile/memcpy_share": [0.1] * 2, "profile/idle_share": [0.3] * 2,
    "comm_time": [30e-6] * 2, "profile/data_share": [0.0] * 2, "profile/comm_overlap": [1 / 3] * 2,
}  # fmt: skip


def test_where_a_step_goes(tmp_path: Path) -> None:
    found = points(batches(nsys, export(tmp_path, kernels(), COPIES, RANGES)))
    assert {one.tag for one in found} == EXPECTED.keys()
    for one in found:
        assert np.allclose(one.value, EXPECTED[one.tag]), one.tag
        assert one.step is not None
        assert one.time is not None
        assert (one.step.tolist(), one.rank) == ([10, 11], NO_RANK)
        assert one.time.tolist() == pytest.approx([START, START])


def test_several_gpus_are_ranks(tmp_path: Path) -> None:
    found = points(batches(nsys, export(tmp_path, kernels() + kernels(5), COPIES, RANGES)))
    shares = {one.rank: one.value.tolist() for one in found if one.tag == "profile/idle_share"}
    assert shares.keys() == {0, 5}
    assert shares[5] == pytest.approx([0.4, 0.4])


def test_ranges_without_numbers_are_counted(tmp_path: Path) -> None:
    ranges: list[tuple[str | None, int | None, int, int]] = [
        ("iteration", None, at, at + 90_000) for at in (0, 100_000)
    ]
    found = points(batches(nsys, export(tmp_path, kernels(), COPIES, ranges)))
    assert all(one.step is not None and one.step.tolist() == [0, 1] for one in found)


@pytest.mark.parametrize("missing", ["text", "textId"])
def test_schemas_of_other_versions(tmp_path: Path, missing: str) -> None:
    export(tmp_path, kernels(), COPIES, RANGES)
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        if missing == "text":
            database.execute("UPDATE NVTX_EVENTS SET textId = 3 WHERE text = 'step 10'")
        else:
            database.execute("UPDATE NVTX_EVENTS SET text = 'step 11' WHERE textId = 3")
        database.execute(f"ALTER TABLE NVTX_EVENTS DROP COLUMN {missing}")
        database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY")
        database.execute("DROP TABLE TARGET_INFO_GPU")
        database.execute("DROP TABLE TARGET_INFO_SESSION_START_TIME")
    database.close()
    found = points(batches(nsys, (tmp_path / "x.sqlite").read_bytes()))
    steps = {one.tag: one.step.tolist() for one in found if one.step is not None}
    assert steps["step_time"][-1] == 11
    assert all(one.time is None for one in found)


def test_without_ranges_it_is_one_window(tmp_path: Path) -> None:
    found = points(batches(nsys, export(tmp_path, kernels(), COPIES, [])))
    assert "step_time" not in {one.tag for one in found}
    assert all(one.step is None and len(one.value) == 1 for one in found)


def test_facts_and_what_is_missing(tmp_path: Path) -> None:
    content = export(tmp_path, [], [], RANGES)
    assert facts(nsys, content) == {"gpu_name": "NVIDIA H100"}
    assert [note.kind for note in notes(nsys, content)] == ["no-points"]
    assert {one.tag for one in points(batches(nsys, content))} == {"step_time", "data_time"}


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    content = export(tmp_path, kernels() * 500, COPIES, RANGES)
    with pytest.raises(InputError, match="database"):
        batches(nsys, content[:4096] + b"\xff" * 8192 + content[12288:])


def test_knows_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    content = export(tmp_path, kernels(), COPIES, RANGES)
    assert nsys.sniff(content[:100], path) == 1
    assert mlflow_db.sniff(content[:100], path) == 0
    with sqlite3.connect(tmp_path / "y.sqlite") as database:
        database.execute("CREATE TABLE runs (x INT)")
    database.close()
    assert nsys.sniff(content[:100], tmp_path / "y.sqlite") == 0
    assert sniffed(nsys, "step,loss\n1,2\n") == 0
