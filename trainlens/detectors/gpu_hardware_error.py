"""GPU hardware error: the driver, the kernel or CUDA reports a fault of a GPU.

Why it matters
A GPU that lost its bus or whose memory is broken ends the run, or worse: lets it go on with wrong numbers. The same
node fails again until it is reset or replaced.

How it is found
What the logs say. An error is: Xid 48, 63, 64, 92, 94, 95 and 140 (memory that ECC could not correct, and pages or rows
taken out of use), 74, 144 to 150 and 155 (NVLink), 79 and "fallen off the bus", 61, 62, 119 to 123, 143, 154 and 156 to
158 (the GPU's own processors and parts), and uncorrectable ECC errors that CUDA reports. Xid 13, 31, 43 and 45 come as
a rule of the program that ran (a bad address, a process that was ended) and are a warning, as are other Xids, resets
by a driver, fatal errors of PCI Express, errors of the machine's memory or processor that were not corrected, and
network links that went down while the run went on. The numbers: https://docs.nvidia.com/deploy/xid-errors. What was
corrected is not told.

What to do
Take the node out, reset the GPU, run `dcgmi diag -r 3`; restart from a checkpoint from before the fault. For an
application's fault look for the first error of the program itself.

When it is wrong
Where a kernel log covers days before the run, or another job on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.detectors import _incidents
from trainlens.detectors._gpu_faults import HARDWARE, PROGRAM, code, device, of_hardware
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.model import Event, Run

NEEDS = ()

_WORDS = {
    "gpu-lost": HARDWARE[79], "ecc": HARDWARE[48], "pcie": "PCI Express has errors", "reset": "A driver reset a GPU",
    "machine-check": "The machine's memory or processor has errors", "link-down": "A network link went down",
}  # fmt: skip
_BUS = ("79", "gpu-lost")


@dataclass(frozen=True)
class Options:
    """No thresholds: the log states it."""


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:  # noqa: ARG001
    if not _incidents.tells_ends(run):
        return NotApplicable("no text was read in which a driver or a kernel would say so")
    groups: dict[str, list[Event]] = {}
    for event in run.events:
        if (name := _group(run, event)) is not None:
            groups.setdefault(name, []).append(event)
    if _BUS[0] in groups and _BUS[1] in groups:  # one fault in two lines
        groups[_BUS[0]] += groups.pop(_BUS[1])
    if "ecc" in groups and any(name in groups for name in ("48", "94", "95", "140")):  # what CUDA says of the same
        del groups["ecc"]
    return [_finding(run, name, events) for name, events in groups.items()]


def _group(run: Run, event: Event) -> str | None:
    """What is told together: the number of an Xid, else the kind; None for what is not told here."""
    if event.kind == "xid":
        number = code(event)
        return None if number is None else str(number)
    if event.kind == "gpu-lost":
        return "reset" if "reset" in event.text else event.kind
    if event.kind == "pcie":
        return event.kind if "(Fatal)" in event.text else None
    if event.kind == "machine-check":
        return None if "orrected" in event.text and "ncorrected" not in event.text else event.kind
    if event.kind == "link-down":
        return event.kind if _within(run, event) else None
    return event.kind if event.kind == "ecc" else None


def _within(run: Run, event: Event) -> bool:
    """Whether it was while the run went on, as far as clocks tell: links go down whenever a machine starts."""
    rows = _incidents.main_series(run)
    if event.time is None or rows is None or not np.isfinite(rows.time).any():
        return rows is None or event.step is not None
    return bool(np.nanmin(rows.time) <= event.time <= np.nanmax(rows.time) + 3600)


def _finding(run: Run, name: str, events: Sequence[Event]) -> Finding:
    xid = int(name) if name.isdecimal() else -1
    hardware = any(map(of_hardware, events)) and name != "reset"
    said = _WORDS.get(name) or HARDWARE.get(xid) or PROGRAM.get(xid) or "A GPU reports a fault"
    first = events[0]
    steps = [step for event in events if (step := _step(run, event)) is not None]
    times = [event.time for event in events if event.time is not None]
    devices = len({bus for event in events if (bus := device(event))})
    title = f"{said}{f' (Xid {xid})' if xid >= 0 else ''}"
    where = f" on {devices} devices" if devices > 1 else f" on rank {first.rank}" if first.rank >= 0 else ""
    after = f" after step {min(steps):,}" if steps else ""
    head = f"{title}{where}{after}"
    return Finding(
        detector="gpu-hardware-error",
        severity="error" if hardware else "warning",
        metric=None,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        title=title,
        message=f"{head}: “{_incidents.quoted(first, 190 - len(head))}”.",
        rank=first.rank if first.rank >= 0 else None,
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        evidence=tuple(Evidence(event.kind, first_step=_step(run, event), place=event.place) for event in events[:3]),
        actions=(
            "Take the node out and test its GPUs; restart from a checkpoint from before the fault"
            if hardware or name in _WORDS
            else "Look for the first error of the program itself; if it comes on one GPU only, test that GPU",
        ),
    )


def _step(run: Run, event: Event) -> int | None:
    """The step an event names; else the last one that was logged before its time, where it lies within the run."""
    rows = _incidents.main_series(run)
    if event.step is not None or event.time is None or rows is None or rows.positional:
        return event.step
    known = np.isfinite(rows.time)
    time, step = rows.time[known], rows.step[known]
    if not len(time) or not time[0] <= event.time <= time[-1] + 3600:
        return None
    return int(step[max(0, int(np.searchsorted(np.maximum.accumulate(time), event.time, side="right")) - 1)])
