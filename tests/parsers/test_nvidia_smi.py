from __future__ import annotations

from pathlib import Path

import pytest

from tests.parsers.door import batches, checkpoint, facts, notes, points, rows, sniffed, table
from trainlens import analyze
from trainlens.errors import InputError
from trainlens.parsers import csv, nvidia_smi

QUERY = """\
timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], temperature.gpu
2026/01/03 16:04:27.514, 0, NVIDIA A100, 95 %, 17939 MiB, 40960 MiB, 283.27 W, 61
2026/01/03 16:04:27.516, 1, NVIDIA A100, 35 %, 17000 MiB, 40960 MiB, [N/A], 40
2026/01/03 16:04:28.520, 0, NVIDIA A100, 96 %, 17939 MiB, 40960 MiB, 284.00 W, 62
2026/01/03 16:04:28.522, 1, NVIDIA A100, 36 %, 17000 MiB, 40960 MiB, [Not Supported], 41
"""
DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    mclk     fb
# Idx      W      C      C      %      %     MHz     MB
    0     71     39      -     90      5    1593   2000
    1     60     38      -     10      1    1593   1000
# gpu    pwr  gtemp  mtemp     sm    mem    mclk     fb
# Idx      W      C      C      %      %     MHz     MB
    0     72     39      -     91      5    1593   2000
    1     61     38      -     11      1    1593   1000
"""
PMON = """# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name
    0       1001     C    40     3     -     -   python train.py
    0       1002     C    30     2     -     -   python
    1          -     -     -     -     -     -   -
    0       1001     C    41     3     -     -   python
    0       1002     C    31     2     -     -   python
"""


def by_rank(content: str | bytes) -> dict[tuple[str, int], list[float]]:
    found: dict[tuple[str, int], list[float]] = {}
    for one in points(batches(nvidia_smi, content)):
        found.setdefault((one.tag, one.rank), []).extend(one.value.tolist())
    return found


def test_a_query_by_gpu() -> None:
    found = by_rank(QUERY)
    assert found["utilization.gpu [%]", 0] == [95, 96]
    assert found["utilization.gpu [%]", 1] == [35, 36]
    assert found["power.draw [W]", 0] == [283.27, 284]
    assert ("power.draw [W]", 1) not in found
    assert facts(nvidia_smi, QUERY)["name"] == "NVIDIA A100"
    assert not notes(nvidia_smi, QUERY)


def test_rows_have_a_clock_and_no_steps() -> None:
    first = points(batches(nvidia_smi, QUERY))[0]
    assert first.step is None
    assert first.time is not None
    assert first.origin is not None
    assert first.time.tolist() == [1767456267.514, 1767456268.52]
    assert first.origin.tolist() == [2, 4]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_whatever_windows_makes_of_it(encoding: str) -> None:
    content = QUERY.replace("\n", "\r\n").encode(encoding)
    assert by_rank(content) == by_rank(QUERY)
    assert sniffed(nvidia_smi, content) > 0.9


def test_without_units_in_the_cells() -> None:
    plain = QUERY.replace(" %,", ",").replace(" MiB,", ",").replace(" W,", ",")
    assert by_rank(plain) == by_rank(QUERY)


def test_gpus_are_numbered_by_their_bus_where_they_have_no_number() -> None:
    text = "pci.bus_id, utilization.gpu [%]\n00000000:41:00.0, 5 %\n00000000:07:00.0, 6 %\n00000000:41:00.0, 7 %\n"
    assert by_rank(text) == {("utilization.gpu [%]", 0): [5, 7], ("utilization.gpu [%]", 1): [6]}


def test_throttle_reasons_are_flags() -> None:
    header = "index, clocks_throttle_reasons.hw_slowdown, clocks_throttle_reasons.active"
    text = f"{header}\n0, Not Active, 0x04\n0, Active, 0x0C\n"
    found = by_rank(text)
    assert found["clocks_throttle_reasons.hw_slowdown", 0] == [0, 1]
    assert found["clocks_throttle_reasons.active", 0] == [4, 12]


def test_a_repeated_header_and_a_cut_row() -> None:
    text = QUERY + QUERY + "2026/01/03 16:04:29.5, 0, NVI"
    assert by_rank(text)["utilization.gpu [%]", 0] == [95, 96, 95, 96]
    assert not notes(nvidia_smi, text)


def test_a_row_that_does_not_fit_is_noted() -> None:
    (note,) = notes(nvidia_smi, QUERY + "Unable to determine the device handle\n")
    assert (note.kind, note.line) == ("not-understood", 6)


def test_dmon() -> None:
    found = by_rank(DMON)
    assert found["sm [%]", 0] == [90, 91]
    assert found["pwr [W]", 1] == [60, 61]
    assert found["fb [MB]", 0] == [2000, 2000]
    assert found["gtemp", 1] == [38, 38]
    assert not any(tag == "mtemp" for tag, _ in found)
    assert not notes(nvidia_smi, DMON)


def test_dmon_with_dates() -> None:
    header = "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n"
    text = header + " 20260103   16:04:27      0     71     90\n"
    (power, busy) = points(batches(nvidia_smi, text))
    assert power.time is not None
    assert (busy.value.tolist(), power.time.tolist()) == ([90], [1767456267])


def test_the_processes_of_a_gpu_add_up() -> None:
    assert by_rank(PMON)["sm [%]", 0] == [70, 72]
    assert ("sm [%]", 1) not in by_rank(PMON)


def test_goes_on_where_it_ended() -> None:
    lines = QUERY.splitlines(keepends=True)
    first = batches(nvidia_smi, "".join(lines[:3]))
    rest = batches(nvidia_smi, QUERY, since=checkpoint(first))
    assert table(first)["utilization.gpu [%]"] + table(rest)["utilization.gpu [%]"] == [
        (None, 95.0), (None, 35.0), (None, 96.0), (None, 36.0)
    ]  # fmt: skip


@pytest.mark.parametrize("content", [QUERY, DMON, PMON, "timestamp, utilization.gpu [%]\n"])
def test_knows_its_own(content: str) -> None:
    assert sniffed(nvidia_smi, content) > max(0.9, sniffed(csv, content))


@pytest.mark.parametrize(
    "content",
    ["step,loss\n1,2\n", "index,memory\n1,2\n", "# gpu\n# a\n1 2\n", "timestamp,loss\n1,2\n", "", "\0\1\2",
     "2026/01/03 16:04:27.514, 0, 95 %, 17939 MiB\n"],
)  # fmt: skip
def test_knows_what_is_not_its_own(content: str) -> None:
    assert sniffed(nvidia_smi, content) == 0


def test_says_that_a_header_is_missing() -> None:
    with pytest.raises(InputError, match="header"):
        rows(nvidia_smi, "0, 95 %, 17939 MiB\n")


def test_the_measures_have_their_canonical_names(tmp_path: Path) -> None:
    for name, content in (("a", QUERY), ("b", DMON)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text(content)
    runs = analyze([tmp_path]).runs
    assert len(runs) == 2
    for run in runs:
        told = {(one.name, one.unit, one.rank) for one in run.metrics}
        units = {"gpu/utilization": "share", "gpu/memory_used": "bytes", "gpu/temperature": "°C", "gpu/power": "W"}
        assert {(name, unit) for name, unit, _ in told} >= units.items()
        highest = {one.max for one in run.metrics if one.name == "gpu/utilization"}
        assert highest in ({0.96, 0.36}, {0.91, 0.11})


@pytest.mark.parametrize(
    ("busy", "watts", "memory", "raised"),
    [
        (20, 300, 10_000, {"low-gpu-utilization"}),
        (97, 300, 40_000, {"memory-pressure"}),
        (97, 300, 10_000, set()),
    ],
)
def test_the_detectors_of_gpus_judge_it(tmp_path: Path, busy: int, watts: int, memory: int, raised: set[str]) -> None:
    lines = [QUERY.splitlines()[0]]
    lines += [
        f"2026/01/03 16:{at // 60:02}:{at % 60:02}.500, 0, A100, {busy + at % 3} %, {memory + at % 5} MiB, 40960 MiB, "
        f"{watts + at % 7}.00 W, {60 + at % 2}"
        for at in range(300)
    ]
    (tmp_path / "gpu.csv").write_text("\n".join(lines) + "\n")
    (run,) = analyze([tmp_path]).runs
    assert {finding.detector for finding in run.findings if finding.severity != "info"} == raised
    judged = {check.detector for check in run.checks if check.status in ("clean", "found")}
    assert {"power-throttling", "memory-pressure", "low-gpu-utilization"} <= judged


REPORT = """
==============NVSMI LOG==============

Timestamp                                 : Sat Mar  4 04:56:17 2023
Driver Version                            : 525.60.13
Attached GPUs                             : 2
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    ECC Errors
        Volatile
            DRAM Correctable              : 4
            DRAM Uncorrectable            : 2
    Retired Pages
        Double Bit ECC                    : N/A
GPU 00000000:0B:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
"""


def test_a_report_gives_facts() -> None:
    assert sniffed(nvidia_smi, REPORT) == 1
    assert facts(nvidia_smi, REPORT) == {
        "Timestamp": "Sat Mar  4 04:56:17 2023",
        "Driver Version": "525.60.13",
        "Attached GPUs": 2,
        "0.Product Name": "NVIDIA A100-SXM4-80GB",
        "0.ECC Errors.Volatile.DRAM Uncorrectable": 2,
        "1.Product Name": "NVIDIA A100-SXM4-80GB",
    }
