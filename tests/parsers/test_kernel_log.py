from __future__ import annotations

import pytest

from tests.parsers.door import batches, events, points, sniffed
from trainlens.model import Event
from trainlens.parsers import kernel_log, key_value_text

BOOT = (
    "[Wed Mar  1 17:38:27 2023] Linux version 4.18.0-372 (gcc 8.5)\n[Wed Mar  1 17:38:27 2023] BIOS-provided RAM map:\n"
)


def dated(text: str, second: int = 0) -> str:
    return f"[Sat Mar  4 04:10:{second:02} 2023] {text}\n"


def one(content: str) -> Event:
    (found,) = events(kernel_log, content)
    return found


BLOCKED = "INFO: task python:280058 blocked for more than 120 seconds."
OLDER = "INFO: task kworker/u8:2:77 blocked for more than 120 seconds."


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("xid", "NVRM: Xid (PCI:0000:44:00): 79, pid=1234, GPU has fallen off the bus."),
        ("gpu-lost", "NVRM: GPU 0000:44:00.0: GPU has fallen off the bus."),
        (
            "gpu-lost",
            "NVRM: The NVIDIA GPU 0000:44:00.0 (PCI ID: 10de:2204) has fallen off the bus and is not responding",
        ),
        ("hang", BLOCKED),
        ("hang", "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:77]"),
        ("host-out-of-memory", "Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB"),
        ("host-out-of-memory", "Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB"),
        ("pcie", "pcieport 0000:40:01.1: AER: Corrected error received: 0000:44:00.0"),
        ("pcie", "pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received: 0000:44:00.0"),
        ("hang", "nfs: server filer1 not responding, still trying"),
        ("hang", "Lustre: 7:0:(c.c:9:f()) fs-OST1: Connection to fs-OST1 (at 10.0.0.1@o2ib) was lost; in progress"),
        ("hang", "rcu: INFO: rcu_sched self-detected stall on CPU"),
        ("gpu-lost", "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!"),
        ("ecc", "NVRM: GPU at PCI:0000:3b:00: GPU-1: uncorrectable double bit ECC error"),
        ("xid", "NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error"),
        ("machine-check", "mce: [Hardware Error]: Machine check events logged"),
        ("machine-check", "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"),
        ("machine-check", "[Hardware Error]: Uncorrected error, software restartable action required."),
        ("link-down", "mlx5_core 0000:17:00.0 ib0: Link down"),
        ("thermal", "CPU7: Core temperature above threshold, cpu clock throttled (total events = 1)"),
        ("segmentation-fault", "python[4711]: segfault at 8 ip 00007f sp 00007f error 4 in libcuda.so"),
        ("host-out-of-memory", "Out of memory: Kill process 4711 (python) score 900 or sacrifice child"),
        ("pcie", "nvidia 0000:44:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
    ],
)
@pytest.mark.parametrize(
    ("prefix", "time"),
    [
        ("[Sat Mar  4 04:10:52 2023] ", 1677903052.0),
        ("2023-03-04T04:10:52,000000+00:00 ", 1677903052.0),
        ("[ 1843.308145] ", None),
        ("[  +0.000316] ", None),
        ("May 29 01:37:38 node7 kernel: [257087.812628] ", None),
        ("<4>[ 1843.308145] ", None),
        ("<4>[Sat Mar  4 04:10:52 2023] ", 1677903052.0),
        ("2023-03-04T04:10:52.000000+0000 node7 kernel: ", 1677903052.0),
        ("2023-03-04 04:10:52 node7 kernel: ", 1677903052.0),
        ("May 29 2023 01:37:38 node7 kernel: ", None),
    ],
)
def test_what_it_says(kind: str, text: str, prefix: str, time: float | None) -> None:
    found = one(prefix + text + "\n")
    assert (found.kind, found.text, found.time) == (kind, text, time)
    assert str(found.place) == "x line 1"


def test_what_is_said_again_is_one_event_with_its_count() -> None:
    found = events(kernel_log, BOOT + "".join(dated(BLOCKED, at) for at in (1, 20, 52)) + dated(OLDER))
    assert [event.text for event in found] == [f"{BLOCKED} (3 times, the last at Sat Mar  4 04:10:52 2023)", OLDER]
    assert found[0].place is not None
    assert found[0].place.line == 3


def test_two_errors_of_one_gpu_are_two_events() -> None:
    lines = [f"[ 18.{at:06}] NVRM: Xid (PCI:0000:44:00): {code}, x\n" for at, code in enumerate((63, 63, 94))]
    assert len(events(kernel_log, "".join(lines))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "ACPI FADT declares the system doesn't support PCIe ASPM, so disable it",
        "acpi PNP0A08:00: _OSC: platform does not support [SHPCHotplug AER LTR DPC]",
        "pcieport 0000:60:03.1: PME: Signaling with IRQ 25",
        "EDAC amd64: ECC enabled.",
        "EDAC MC0: Giving out device to module skx_edac controller",
        "mce: CPU supports 20 MCE banks",
        "nfs: server filer1 OK",
        "mlx5_core 0000:17:00.0: firmware version: 20.31.1014",
        "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready",
        "amdgpu 0000:c1:00.0: amdgpu: Fetched VBIOS from VFCT",
        "thermal_sys: Registered thermal governor 'step_wise'",
        "python[4711]: started",
        "oom_reaper: reaped process 4711 (python), now anon-rss:0kB",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.60.13",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    ],
)
def test_what_is_no_event(text: str) -> None:
    assert events(kernel_log, BOOT + dated(text)) == []


def test_it_has_no_points() -> None:
    assert points(batches(kernel_log, BOOT)) == []


@pytest.mark.parametrize(
    "content",
    [BOOT, "[    0.000000] Linux version 5.15\n[    0.000001] Command line: ro\n", dated(BLOCKED),
     "May 29 01:37:38 node7 kernel: [257087.812628] NVRM: Xid (PCI:0000:90:1c): 64, row\n" * 3,
     BOOT.encode("utf-16")],
)  # fmt: skip
def test_knows_its_own(content: str | bytes) -> None:
    assert sniffed(kernel_log, content) > max(0.9, sniffed(key_value_text, content))


@pytest.mark.parametrize(
    "content",
    ["", "step 1 loss 2.0\n", "2023-03-04T04:10:52 INFO step=1 loss=2\n" * 9, "[ 12.000001] step 1 loss 2\n" * 9,
     "Xid errors on instance: NVRM: Xid (PCI:0000:90:1c): 64\n", "\0\0\0\0"],
)  # fmt: skip
def test_knows_what_is_not_its_own(content: str) -> None:
    assert sniffed(kernel_log, content) == 0
