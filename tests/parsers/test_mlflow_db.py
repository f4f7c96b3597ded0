from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.parsers.door import points, table
from trainlens.errors import InputError
from trainlens.model import Batch, Event, Fact, Note
from trainlens.parsers import _sqlite, mlflow_db
from trainlens.sources import Source

SCHEMA = """
CREATE TABLE runs (run_uuid VARCHAR(32) PRIMARY KEY, name VARCHAR(250), status VARCHAR(9), start_time BIGINT,
    end_time BIGINT, lifecycle_stage VARCHAR(20));
CREATE TABLE metrics (key VARCHAR(250), value DOUBLE, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT DEFAULT 0,
    is_nan BOOLEAN, PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32), PRIMARY KEY (key, run_uuid));
"""
A, B, C = "a" * 32, "b" * 32, "c" * 32
START = 1_760_000_000_000


def store(
    path: Path,
    runs: Sequence[tuple[str, str | None, str]] = ((A, "one", "FINISHED"),),
    metrics: Sequence[tuple[str, str, object, int, bool]] = (),
    params: Sequence[tuple[str, str, str]] = (),
    stage: str = "active",
) -> Path:
    """A store of runs (id, name, status), metrics (run, key, value, step, is NaN) and params (run, key, value)."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    for at, (run, name, status) in enumerate(runs):
        database.execute(
            "INSERT INTO runs VALUES (?,?,?,?,?,?)", (run, name, status, START + at, START + 60_000, stage)
        )
    for run, key, value, step, nan in metrics:
        database.execute("INSERT INTO metrics VALUES (?,?,?,?,?,?)", (key, value, START + step * 500, run, step, nan))
    database.executemany("INSERT INTO params VALUES (?,?,?)", [(key, value, run) for run, key, value in params])
    database.commit()
    database.close()
    return path


def read(path: Path) -> list[Batch]:
    return list(mlflow_db.read(Source.of(path)))


def losses(run: str, count: int) -> list[tuple[str, str, object, int, bool]]:
    return [(run, "train/loss", 3.0 - at / 100, at, False) for at in range(count)]


def test_points_with_time_and_run(tmp_path: Path) -> None:
    (one,) = points(read(store(tmp_path / "mlflow.db", metrics=losses(A, 3))))
    assert (one.tag, one.run) == ("train/loss", "one")
    assert one.step is not None
    assert one.time is not None
    assert one.step.tolist() == [0, 1, 2]
    assert one.value.tolist() == [3.0, 2.99, 2.98]
    assert one.time.tolist() == [1_760_000_000.0, 1_760_000_000.5, 1_760_000_001.0]


def test_not_a_number_and_infinity(tmp_path: Path) -> None:
    most = 1.7976931348623157e308
    cells: list[tuple[str, str, object, int, bool]] = [
        (A, "x", 0.0, 0, True),
        (A, "x", most, 1, False),
        (A, "x", -most, 2, False),
        (A, "x", "words", 3, False),
    ]
    found = table(read(store(tmp_path / "mlflow.db", metrics=cells)))["x"]
    assert math.isnan(found[0][1])
    assert found[1:3] == [(1, math.inf), (2, -math.inf)]
    assert math.isnan(found[3][1])


def test_runs_are_told_apart(tmp_path: Path) -> None:
    runs = [(A, "same", "FINISHED"), (B, "same", "FINISHED"), (C, None, "RUNNING")]
    found = points(read(store(tmp_path / "mlflow.db", runs, [*losses(A, 2), *losses(B, 3), *losses(C, 4)])))
    assert {one.run: len(one.value) for one in found} == {"same-aaaaaaaa": 2, "same-bbbbbbbb": 3, C: 4}


def test_deleted_runs_are_left_out(tmp_path: Path) -> None:
    (note,) = read(store(tmp_path / "mlflow.db", metrics=losses(A, 2), params=[(A, "lr", "1")], stage="deleted"))
    assert isinstance(note, Note)
    assert "1 run is deleted in MLflow" in note.message


def test_many_rows_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "mlflow.db", metrics=[*losses(A, 50), *((A, "lr", 0.1, at, False) for at in range(50))])
    at_once = table(read(path))
    monkeypatch.setattr(mlflow_db, "ROWS", 7)
    assert table(read(path)) == at_once
    assert len(at_once["train/loss"]) == len(at_once["lr"]) == 50


def test_parameters_are_facts(tmp_path: Path) -> None:
    params = [(A, "lr", "0.1"), (A, "bf16", "True"), (A, "model", "gpt")]
    found = read(store(tmp_path / "mlflow.db", params=params))
    assert {one.name: (one.value, one.run) for one in found if isinstance(one, Fact)} == {
        "lr": (0.1, "one"),
        "bf16": (True, "one"),
        "model": ("gpt", "one"),
    }


@pytest.mark.parametrize(
    ("status", "kinds"),
    [("FINISHED", ["run-end"]), ("FAILED", ["exit-code"]), ("KILLED", ["killed"]), ("RUNNING", []), ("SCHEDULED", [])],
)
def test_how_a_run_ended(tmp_path: Path, status: str, kinds: list[str]) -> None:
    found = [one for one in read(store(tmp_path / "mlflow.db", [(A, "one", status)])) if isinstance(one, Event)]
    assert [one.kind for one in found] == kinds
    assert all((one.run, one.time) == ("one", 1_760_000_060.0) for one in found)


def test_rows_that_wait_in_the_log_are_read_and_nothing_is_made_or_changed_beside_it(tmp_path: Path) -> None:
    path = store(tmp_path / "mlflow.db", metrics=losses(A, 3))
    writer = sqlite3.connect(path)
    writer.executescript("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0;")
    writer.execute("INSERT INTO metrics VALUES ('late', 7.5, ?, ?, 9, 0)", (START, A))
    writer.commit()
    writer.execute("INSERT INTO metrics VALUES ('open', 1, ?, ?, 1, 0)", (START, A))  # never committed
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if not one.name.endswith("-shm")}
    assert set(before) == {"mlflow.db", "mlflow.db-wal"}
    found = table(read(path))
    assert (len(found["train/loss"]), found["late"], "open" in found) == (3, [(9, 7.5)], False)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if not one.name.endswith("-shm")} == before
    writer.close()


def test_a_log_beside_a_database_too_large_to_copy_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "mlflow.db", metrics=losses(A, 3))
    (tmp_path / "mlflow.db-wal").write_bytes(b"newer rows")
    monkeypatch.setattr(_sqlite, "LARGEST", 100)
    (note,) = [one for one in read(path) if isinstance(one, Note)]
    assert (note.kind, "mlflow.db-wal" in note.message) == ("limit", True)
    assert {one.name for one in tmp_path.iterdir()} == {"mlflow.db", "mlflow.db-wal"}


def test_a_locked_database_is_read(tmp_path: Path) -> None:
    path = store(tmp_path / "mlflow.db", metrics=losses(A, 3))
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    assert len(table(read(path))["train/loss"]) == 3
    writer.close()


def test_runs_that_share_a_metric_and_cells_of_other_types(tmp_path: Path) -> None:
    runs = [(A, "one", "FINISHED"), (B, "two", "RUNNING")]
    metrics = [row for pair in zip(losses(A, 3), losses(B, 3), strict=True) for row in pair]
    path = store(tmp_path / "mlflow.db", runs=runs, metrics=[*metrics, (A, "train/loss", "word", 7, False)])
    found = {one.run: [] if one.step is None else one.step.tolist() for one in points(read(path))}
    assert found == {"one": [0, 1, 2, 7], "two": [0, 1, 2]}
    (value,) = [one.value.tolist() for one in points(read(path)) if one.run == "one"]
    assert math.isnan(value[3])


def test_rows_are_told_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "mlflow.db", metrics=losses(A, 30))
    at_once = table(read(path))
    monkeypatch.setattr(mlflow_db, "ROWS", 7)
    assert table(read(path)) == at_once
    assert len(points(read(path))) == 5


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = store(tmp_path / "mlflow.db", metrics=losses(A, 2000))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="MLflow database that cannot be read") as raised:
        read(path)
    assert raised.value.hint


def test_sniff(tmp_path: Path) -> None:
    path = store(tmp_path / "mlflow.db")
    assert mlflow_db.sniff(path.read_bytes()[:65536], path) == 1.0
    other = tmp_path / "other.db"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE metrics (key TEXT)")
    database.close()
    assert mlflow_db.sniff(other.read_bytes(), other) == 0.0
    assert mlflow_db.sniff(path.read_bytes(), tmp_path / "gone.db") == 0.0
    assert mlflow_db.sniff(b"step,loss\n1,2\n", path) == 0.0
