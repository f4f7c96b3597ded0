"""Low GPU utilisation: GPUs wait, for data, for each other or for the host.

Why it matters
A GPU that waits costs what a busy one does. Utilisation says that some kernel ran, not that it was efficient: a high
figure proves little, a low one is plain waste.

How it is found
The share of time a GPU is busy, below `share` on most points of a stretch of at least `lasting` of the run; idle time
before the first work and after the last is left out. Of several GPUs the one that is low for longest is told, with
the number of those like it. GPUs that never reach `unused` while others work are worth a line: they are seldom the
run's. A short log must be below at all of its points.

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
_NAMED = 8  # GPUs in a message


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.80, "utilisation that is too low", unit="share", source=USUAL)
    severe: float = threshold(0.40, "utilisation that is an error", unit="share", source=JUDGEMENT)
    unused: float = threshold(0.10, "highest utilisation of a GPU that never works", unit="share", source=JUDGEMENT)
    idle: float = threshold(0.05, "utilisation before and after the work", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=measured("405 labelled runs"))
    points: int = threshold(_levels.FEW, "points needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    every = [one for one in run.all("gpu/utilization") if one.finite.any()]
    works = [float(one.value[one.finite].max()) > options.unused for one in every]
    works = works if any(works) else [True] * len(every)
    group = [_at_work(one, options.idle) for one, at_work in zip(every, works, strict=True) if at_work]
    idle = _unused([one for one, at_work in zip(every, works, strict=True) if not at_work], len(every), options)
    if (found := _levels.longest(group)) < options.points:
        return idle or NotEnoughData(f"{found} points at work, {options.points} are needed")
    low = _levels.stretches(group, lambda value: value < options.share, options.lasting)
    return [*(_finding(one, options) for one in low), *idle]


def _unused(idle: Sequence[Series], of: int, options: Options) -> list[Finding]:
    """The line that some GPUs of a machine never work: they are seldom the run's."""
    if not idle:
        return []
    first, last = min(int(one.step[0]) for one in idle), max(int(one.step[-1]) for one in idle)
    most = max(float(one.value[one.finite].max()) for one in idle)
    which = ", ".join(str(one.rank) for one in idle[:_NAMED]) + (" …" if len(idle) > _NAMED else "")
    return [
        Finding(
            detector="low-gpu-utilization",
            severity="info",
            metric="gpu/utilization",
            first_step=first,
            last_step=last,
            title=f"{len(idle)} of {of} GPUs never work",
            message=f"gpu/utilization of {len(idle)} of {of} GPUs ({which}) is at most {number(most, 'share')} all "
            "along: not of this run, or left out by mistake.",
            evidence=(
                Evidence("highest utilisation of these", "gpu/utilization", first, last, most, None, options.unused,
                         "share", "low-gpu-utilization.unused"),
            ),
            actions=("See that the run was given the GPUs it should have (CUDA_VISIBLE_DEVICES, world size)",),
        )
    ]  # fmt: skip


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
