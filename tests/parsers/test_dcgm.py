from __future__ import annotations

from pathlib import Path

import pytest

from tests.parsers.door import batches, events, facts, notes, points, rows, sniffed
from trainlens import analyze
from trainlens.errors import InputError
from trainlens.parsers import csv, dcgm, key_value_text

MONITOR = """\
#Entity   GPUTL  SMACT        DRAMA    POWER  FBUSD
ID
GPU 0     98     0.900        0.300    401.2  30000
GPU 1     97     0.800        N/A      399.2  30001
#Entity   GPUTL  SMACT        DRAMA    POWER  FBUSD
ID
GPU 0     96     0.910        0.310    402.0  30000
GPU-I 3   50     0.500        0.100    N/A    5000
"""


def scrape(stamp: int, busy: int, xid: int = 0, hosts: tuple[str, ...] = ("node1",)) -> str:
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for name, value in (
        ("DCGM_FI_DEV_GPU_UTIL", busy),
        ("DCGM_FI_DEV_FB_USED", 30000),
        ("DCGM_FI_DEV_XID_ERRORS", xid),
    ):
        lines += [
            f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100",Hostname="{host}"}} '
            f"{value + gpu if name.endswith('UTIL') else value} {stamp}"
            for host in hosts
            for gpu in range(2)
        ]
    return "\n".join(lines) + "\n"


def by_rank(content: str) -> dict[tuple[str, int], list[float]]:
    return {(one.tag, one.rank): one.value.tolist() for one in points(batches(dcgm, content))}


def test_what_dmon_prints() -> None:
    found = by_rank(MONITOR)
    assert found["GPUTL", 0] == [98, 96]
    assert found["DRAMA", 0] == [0.3, 0.31]
    assert ("DRAMA", 1) not in found
    assert found["GPU-I/SMACT", 3] == [0.5]
    assert not notes(dcgm, MONITOR)
    assert all(one.step is None and one.time is None for one in points(batches(dcgm, MONITOR)))


def test_scrapes_of_an_exporter() -> None:
    text = scrape(1767456267514, 95) + scrape(1767456277514, 96)
    busy = [one for one in points(batches(dcgm, text)) if one.tag == "DCGM_FI_DEV_GPU_UTIL"]
    assert {one.rank: one.value.tolist() for one in busy} == {0: [95, 96], 1: [96, 97]}
    assert busy[0].time is not None
    assert busy[0].time.tolist() == [1767456267.514, 1767456277.514]
    assert facts(dcgm, text) == {"0.gpu_name": "NVIDIA H100", "1.gpu_name": "NVIDIA H100"}
    assert not events(dcgm, text)


def test_hosts_have_ranks_of_their_own() -> None:
    found = by_rank(scrape(1767456267514, 95, hosts=("b", "a")))
    assert {rank: value for (tag, rank), value in found.items() if tag.endswith("UTIL")} == {
        0: [95], 1: [96], 2: [95], 3: [96]
    }  # fmt: skip


def test_an_xid_is_an_event_once() -> None:
    text = scrape(1767456267514, 95) + scrape(1767456277514, 0, 79) + scrape(1767456287514, 0, 79)
    assert [(one.kind, one.text, one.rank, one.time) for one in events(dcgm, text)] == [
        ("xid", "Xid 79 on GPU 0", 0, 1767456277.514), ("xid", "Xid 79 on GPU 1", 1, 1767456277.514)
    ]  # fmt: skip


def test_dates_between_scrapes_are_the_clock() -> None:
    line = 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 61\n'
    (found,) = points(batches(dcgm, f"2026-01-03 16:04:27\n{line}2026-01-03 16:04:37\n{line}"))
    assert found.time is not None
    assert found.time.tolist() == [1767456267, 1767456277]


def test_odd_lines_are_noted() -> None:
    (note,) = notes(dcgm, MONITOR + "Error: connection lost\n")
    assert (note.kind, note.line) == ("not-understood", 9)


@pytest.mark.parametrize("content", [MONITOR, scrape(1767456267514, 95)])
def test_every_beginning_gives_a_beginning(content: str) -> None:
    whole = by_rank(content)
    for end in range(content.index("\n", 200) + 1, len(content), 5):
        for key, values in by_rank(content[:end]).items():
            assert whole[key][: len(values)] == values


def test_knows_its_own() -> None:
    for content in (MONITOR, scrape(1767456267514, 95)):
        assert sniffed(dcgm, content) > max(0.9, sniffed(csv, content), sniffed(key_value_text, content))
    for other in ("", "step 1 loss 2\n", "# Entity\n", 'http_requests{code="200"} 3\n', "# gpu sm\n# Idx %\n 0 3\n"):
        assert sniffed(dcgm, other) == 0
    with pytest.raises(InputError, match="no samples"):
        rows(dcgm, "GPU 0 98\n")


def test_the_measures_have_their_canonical_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(scrape(1767456267514, 95) + scrape(1767456277514, 96))
    (run,) = analyze([tmp_path / "a"]).runs
    assert {(one.name, one.unit) for one in run.metrics} >= {("gpu/utilization", "share"), ("gpu/memory_used", "bytes")}
