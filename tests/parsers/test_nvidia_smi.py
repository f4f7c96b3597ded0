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


TREE = """
==============NVSMI LOG==============

Timestamp                                 : Sat Mar  4 04:56:17 2023
Attached GPUs                             : 2
GPU 00000000:07:00.0
    Clocks Throttle Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Active
    FB Memory Usage
        Total                             : 81920 MiB
        Used                              : 22377 MiB
    Utilization
        Gpu                               : 97 %
        Memory                            : 12 %
    Temperature
        GPU Current Temp                  : 28 C
    Power Readings
        Power Draw                        : 68.37 W
        Power Limit                       : 400.00 W
    Clocks
        SM                                : 1155 MHz
    Max Clocks
        SM                                : 1410 MHz
GPU 00000000:0B:00.0
    Utilization
        Gpu                               : N/A
    GPU Power Readings
        Instantaneous Power Draw          : 70.00 W
"""
AS_XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Sat Mar  4 04:56:17 2023</timestamp>
  <gpu id="00000000:07:00.0">
    <clocks_event_reasons>
      <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
      <clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
    </clocks_event_reasons>
    <fb_memory_usage><total>81920 MiB</total><used>22377 MiB</used></fb_memory_usage>
    <utilization><gpu_util>97 %</gpu_util><memory_util>12 %</memory_util></utilization>
    <temperature><gpu_temp>28 C</gpu_temp></temperature>
    <gpu_power_readings><power_draw>68.37 W</power_draw></gpu_power_readings>
    <clocks><sm_clock>1155 MHz</sm_clock></clocks>
    <max_clocks><sm_clock>1410 MHz</sm_clock></max_clocks>
  </gpu>
  <gpu id="00000000:0B:00.0">
    <utilization><gpu_util>N/A</gpu_util></utilization>
    <gpu_power_readings><instant_power_draw>70.00 W</instant_power_draw></gpu_power_readings>
  </gpu>
</nvidia_smi_log>
"""
MEASURES = {
    ("clocks_event_reasons.hw_slowdown", 0): [0.0], ("clocks_event_reasons.hw_thermal_slowdown", 0): [1.0],
    ("memory.total [MiB]", 0): [81920.0], ("memory.used [MiB]", 0): [22377.0], ("utilization.gpu [%]", 0): [97.0],
    ("utilization.memory [%]", 0): [12.0], ("temperature.gpu", 0): [28.0], ("power.draw [W]", 0): [68.37],
    ("clocks.sm [MHz]", 0): [1155.0], ("power.draw [W]", 1): [70.0],
}  # fmt: skip
WINDOW = """\
Every 2.0s: nvidia-smi

Sat Nov  1 10:00:0{second} 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   39C    P0            118W /  700W |    1185MiB /  81559MiB |     9{second}%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 4090        Off |   00000000:1A:00.0  On |                  N/A |
| 30%   41C    P8             N/A /  450W |     100MiB /  24564MiB |    N/A      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|    0   N/A  N/A    280058      C   python                                       1180MiB |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize("content", [TREE, AS_XML])
def test_a_report_is_one_moment(content: str) -> None:
    assert sniffed(nvidia_smi, content) == 1
    assert by_rank(content) == MEASURES
    assert all(
        one.time is not None and one.time.tolist() == [1677905777.0] for one in points(batches(nvidia_smi, content))
    )


@pytest.mark.parametrize("content", [TREE, AS_XML])
def test_reports_one_after_another_are_moments(content: str) -> None:
    twice = content + content.replace("04:56:17", "04:56:18")
    assert by_rank(twice) == {key: values * 2 for key, values in MEASURES.items()}
    assert points(batches(nvidia_smi, twice))[0].time.tolist() == [1677905777.0, 1677905778.0]  # type: ignore[union-attr]


def test_the_table_of_the_bare_command() -> None:
    text = WINDOW.format(second=1) + WINDOW.format(second=3)
    assert sniffed(nvidia_smi, text) == 1
    found = by_rank(text)
    assert found["utilization.gpu [%]", 0] == [91, 93]
    assert found["power.draw [W]", 0] == [118, 118]
    assert found["memory.used [MiB]", 1] == [100, 100]
    assert ("utilization.gpu [%]", 1) not in found
    assert ("power.draw [W]", 1) not in found
    assert facts(nvidia_smi, text)["1.Product Name"] == "NVIDIA GeForce RTX 4090"


def test_a_training_that_prints_a_table_on_its_way_is_not_its_own() -> None:
    assert sniffed(nvidia_smi, WINDOW.format(second=1) + "step:1/20 train_loss:3.1\n" * 20) == 0


@pytest.mark.parametrize("content", [TREE, AS_XML, WINDOW.format(second=1)])
def test_every_beginning_gives_a_beginning(content: str) -> None:
    whole = by_rank(content)
    for end in range(0, len(content), 7):
        for key, values in (
            by_rank(content[:end]).items() if nvidia_smi.sniff(content[:end].encode(), Path("x")) else ()
        ):
            assert whole[key][: len(values)] == values


def test_the_memory_of_processes_adds_up_by_gpu() -> None:
    text = """timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/01/03 16:04:27.514, GPU-1, 10, python, 100 MiB
2026/01/03 16:04:27.514, GPU-2, 11, python, 200 MiB
2026/01/03 16:04:27.515, GPU-1, 12, python, 50 MiB
2026/01/03 16:04:28.514, GPU-1, 10, python, 101 MiB
"""
    assert sniffed(nvidia_smi, text) > 0.9
    assert by_rank(text) == {("used_gpu_memory [MiB]", 0): [150, 101], ("used_gpu_memory [MiB]", 1): [200]}
