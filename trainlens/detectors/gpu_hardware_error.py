"""GPU hardware error: the driver, the kernel or CUDA reports a fault of a GPU.

Why it matters
A GPU that lost its bus or whose memory is broken ends the run, or worse: lets it go on with wrong numbers. The same
node fails again until it is reset or replaced.

How it is found
What the logs say. An error is: Xid 48, 63, 64, 94 and 95 (memory that ECC could not correct, and pages or rows taken
out of use), 74 (NVLink), 79 and "fallen off the bus", 62, 119, 120 and 140 (the GPU's own processors), and
uncorrectable ECC errors that CUDA reports. Xid 13, 31, 43 and 45 come as a rule of the program that ran (a bad address,
a process that was ended) and are a warning, as are other Xids, and fatal errors of PCI Express. The numbers:
https://docs.nvidia.com/deploy/xid-errors. Errors that PCI Express corrected are not told.

What to do
Take the node out, reset the GPU, run `dcgmi diag -r 3`; restart from a checkpoint from before the fault. For an
application's fault look for the first error of the program itself.

When it is wrong
Where a kernel log covers days before the run, or another job on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.detectors import _incidents
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.model import Event, Run

NEEDS = ()

_XID = re.compile(r"Xid \(([^)]*)\): (\d+)")
_DEVICE = re.compile(r"(?:PCI:)?[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2}")
_HARDWARE = {
    48: "GPU memory has an uncorrectable ECC error", 62: "A GPU's own processor halted",
    63: "GPU memory was taken out of use after ECC errors", 64: "Broken GPU memory could not be taken out of use",
    74: "NVLink has an error", 79: "A GPU has fallen off the bus",
    94: "GPU memory has a contained ECC error", 95: "GPU memory has an uncontained ECC error",
    119: "A GPU's system processor does not answer", 120: "A GPU's system processor failed",
    140: "GPU memory has an unrecovered ECC error",
}  # fmt: skip
_APPLICATION = {
    13: "A program failed on a GPU", 31: "A program used a bad GPU address", 43: "A GPU stopped a program",
    45: "A program on a GPU was ended",
}  # fmt: skip
_WORDS = {"gpu-lost": _HARDWARE[79], "ecc": _HARDWARE[48], "pcie": "PCI Express has errors"}
_BUS = ("79", "gpu-lost")


@dataclass(frozen=True)
class Options:
    """No thresholds: the log states it."""


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:  # noqa: ARG001
    if not _incidents.tells_ends(run):
        return NotApplicable("no text was read in which a driver or a kernel would say so")
    groups: dict[str, list[Event]] = {}
    for event in run.events:
        if event.kind == "xid" and (found := _XID.search(event.text)):
            groups.setdefault(found[2], []).append(event)
        elif event.kind in ("ecc", "gpu-lost") or (event.kind == "pcie" and "orrect" in event.text and _fatal(event)):
            groups.setdefault(event.kind, []).append(event)
    if _BUS[0] in groups and _BUS[1] in groups:  # one fault in two lines
        groups[_BUS[0]] += groups.pop(_BUS[1])
    return [_finding(run, name, events) for name, events in groups.items()]


def _fatal(event: Event) -> bool:
    return "(Fatal)" in event.text


def _devices(events: Sequence[Event]) -> Iterator[str]:
    """The buses that the texts name, without the word before and the function behind."""
    for event in events:
        if found := _DEVICE.search(event.text):
            yield found[0].removeprefix("PCI:").lower()[-10:]


def _finding(run: Run, name: str, events: Sequence[Event]) -> Finding:
    code = int(name) if name.isdecimal() else None
    hardware = code in _HARDWARE or name in ("ecc", "gpu-lost")
    said = _WORDS.get(name) or _HARDWARE.get(code or 0) or _APPLICATION.get(code or 0) or "A GPU reports a fault"
    first = events[0]
    steps = [step for event in events if (step := _step(run, event)) is not None]
    times = [event.time for event in events if event.time is not None]
    devices = len(set(_devices(events)))
    title = f"{said}{f' (Xid {code})' if code is not None else ''}"
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
            if hardware or name == "pcie"
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
