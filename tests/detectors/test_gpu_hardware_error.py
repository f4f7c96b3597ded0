from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Event, EventKind, Place, Run


def said(*events: tuple[EventKind, str], step: int | None = None, time: float | None = None) -> Run:
    told = [Event(kind, text, step=step, time=time, place=Place("dmesg.txt", 7)) for kind, text in events]
    times = {"train/loss": [START + at for at in range(100)]}
    return run_of({"train/loss": np.ones(100)}, events=told, times=times)


def xid(code: int, bus: str = "0000:44:00") -> tuple[EventKind, str]:
    return "xid", f"NVRM: Xid (PCI:{bus}): {code}, pid=77, name=python"


@pytest.mark.parametrize("code", [48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143, 149, 154, 158])
def test_faults_of_the_hardware_are_errors(code: int) -> None:
    (found,) = findings("gpu-hardware-error", said(xid(code)))
    assert (found.severity, found.confidence) == ("error", None)
    assert f"(Xid {code})" in found.title
    assert found.evidence[0].place == Place("dmesg.txt", 7)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 999])
def test_faults_of_a_program_are_warnings(code: int) -> None:
    (found,) = findings("gpu-hardware-error", said(xid(code)))
    assert found.severity == "warning"


@pytest.mark.parametrize(
    ("event", "severity"),
    [
        (("gpu-lost", "NVRM: GPU 0000:44:00.0: GPU has fallen off the bus."), "error"),
        (("ecc", "CUDA error: uncorrectable ECC error encountered"), "error"),
        (("pcie", "pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received: 0000:44:00.0"), "warning"),
        (("gpu-lost", "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!"), "warning"),
        (("machine-check", "mce: [Hardware Error]: Machine check events logged"), "warning"),
        (("machine-check", "[Hardware Error]: Uncorrected error, software restartable action required."), "warning"),
    ],
)
def test_what_has_no_number(event: tuple[EventKind, str], severity: str) -> None:
    (found,) = findings("gpu-hardware-error", said(event))
    assert found.severity == severity


def test_one_fault_in_two_lines_is_one_finding() -> None:
    lost: tuple[EventKind, str] = ("gpu-lost", "NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.")
    (found,) = findings("gpu-hardware-error", said(xid(79), lost))
    assert "devices" not in found.message


def test_what_cuda_says_of_the_same_fault_is_told_with_it() -> None:
    ecc: tuple[EventKind, str] = ("ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    (found,) = findings("gpu-hardware-error", said(xid(94), ecc))
    assert "(Xid 94)" in found.title


@pytest.mark.parametrize(("time", "count"), [(START + 50, 1), (START - 50, 0), (START + 9e5, 0)])
def test_links_that_go_down_while_the_run_goes_on(time: float, count: int) -> None:
    down: tuple[EventKind, str] = ("link-down", "mlx5_core 0000:17:00.0 ib0: Link down")
    assert len(findings("gpu-hardware-error", said(down, time=time))) == count


def test_devices_are_counted() -> None:
    (found,) = findings("gpu-hardware-error", said(xid(94), xid(94, "0000:07:00"), xid(94, "0000:07:00")))
    assert "on 2 devices" in found.message
    assert len(findings("gpu-hardware-error", said(xid(94), xid(63)))) == 2


@pytest.mark.parametrize(
    ("step", "time", "want"), [(12, None, 12), (None, START + 49.5, 50), (None, START - 9e6, None), (None, None, None)]
)
def test_when_it_was(step: int | None, time: float | None, want: int | None) -> None:
    (found,) = findings("gpu-hardware-error", said(xid(79), step=step, time=time))
    assert (found.first_step, found.first_time) == (want, time)


@pytest.mark.parametrize(
    "run",
    [
        said(("hang", "INFO: task python:7 blocked for more than 120 seconds.")),
        said(("out-of-memory", "CUDA out of memory")),
        said(("pcie", "pcieport 0000:40:01.1: AER: Corrected error received: 0000:44:00.0")),
        said(("pcie", "pcieport 0000:40:01.1: AER: Uncorrected (Non-Fatal) error received: 0000:44:00.0")),
        said(("traceback", "RuntimeError: no")),
        said(("thermal", "CPU7: Core temperature above threshold, cpu clock throttled")),
        said(("machine-check", "[Hardware Error]: Corrected error, no action required.")),
        said(("device-error", "CUDA error: an illegal memory access was encountered")),
        said(("link-down", "mlx5_core 0000:17:00.0 ib0: Link down")),
        said(("xid", "NVRM: Xid table loaded")),
    ],
)
def test_quiet(run: Run) -> None:
    assert findings("gpu-hardware-error", run) == []


def test_says_that_no_text_was_read() -> None:
    assert isinstance(answer("gpu-hardware-error", run_of(np.ones(100))), NotApplicable)
