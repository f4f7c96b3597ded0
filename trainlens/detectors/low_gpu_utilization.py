"""Low GPU utilisation: GPUs wait, for data, for each other or for the host.

Why it matters
A GPU that waits costs what a busy one does. Utilisation says that some kernel ran, not that it was efficient: a high
figure proves little, a low one is plain waste.

How it is found
The share of time a GPU is busy, below `share` on most points of a stretch of at least `lasting` of the run; idle time
before the first work and after the last is left out. Of several GPUs the one that is low for longest is told, with
the number of those like it.

What to do
More data-loading workers and pinned memory, larger batches, overlapped communication; see data-loading time per step.

When it is wrong
Where the sampling is coarse against the steps, or the machine is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors import _levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Run, Series
from trainlens.plugins import threshold

NEEDS = ("gpu/utilization",)


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.80, "utilisation that is too low", unit="share", source=USUAL)
    severe: float = threshold(0.40, "utilisation that is an error", unit="share", source=JUDGEMENT)
    idle: float = threshold(0.05, "utilisation before and after the work", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=measured("405 labelled runs"))
    points: int = threshold(20, "points needed", source=measured("405 labelled runs"))


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = [_at_work(one, options.idle) for one in run.all("gpu/utilization")]
    if (found := _levels.longest(group)) < options.points:
        return NotEnoughData(f"{found} points at work, {options.points} are needed")
    low = _levels.stretches(group, lambda value: value < options.share, options.lasting)
    return [_finding(one, options) for one in low]


def _at_work(series: Series, idle: float) -> Series:
    """The series from its first busy point to its last; as it is where no point is busy."""
    busy = np.flatnonzero(series.finite & (series.value > idle))
    if not len(busy):
        return series
    inside = np.zeros(len(series), bool)
    inside[busy[0] : busy[-1] + 1] = True
    return replace(series, raw=np.where(inside, series.raw, np.nan))


def _finding(found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    return Finding(
        detector="low-gpu-utilization",
        severity="error" if found.level < options.severe else "warning",
        metric="gpu/utilization",
        first_step=first,
        last_step=last,
        title=f"GPU utilisation is {number(found.level, 'share')}{found.where}",
        message=f"gpu/utilization is {number(found.level, 'share')}{found.where} {found.span}; "
        f"above {number(options.share, 'share')} is usual.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(
            Evidence("median", "gpu/utilization", first, last, found.level, None, options.share, "share",
                     "low-gpu-utilization.share"),
        ),
        actions=("Time the data loader; if it is quick, trace a step and see what the GPU waits for",),
    )  # fmt: skip
