"""Slow step: single steps that took many times as long as their neighbours.

Why it matters
One step that takes a minute instead of a second is a stalled disk, a retried collective or another job on the
machine; a few are harmless, many are a fault that grows.

How it is found
Points more than `factor` times and `sigmas` deviations over the running median of their neighbours, in one finding
with the slowest first. Stalls that come regularly belong to periodic-stall. The first step after a start is left out.

What to do
Look at the system log and the storage at the time of the slowest.

When it is wrong
Where an evaluation or a checkpoint is timed as part of a step and comes irregularly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens import context
from trainlens.citations import measured
from trainlens.detectors import _speed
from trainlens.detectors._levels import cost, surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotApplicable, NotEnoughData
from trainlens.figures import counted, number, seconds
from trainlens.model import Run
from trainlens.plugins import threshold

NEEDS = ()
TOLD_INSIDE = ("hang", "slowdown")
_RUNS = measured("405 labelled runs, 130 of them healthy: no warning on any of them")
_TOLD = 3  # how many single steps a message names


@dataclass(frozen=True)
class Options:
    factor: float = threshold(2.0, "time of a slow step against its neighbours", unit="times", source=_RUNS)
    sigmas: float = threshold(8.0, "time of a slow step in deviations", source=_RUNS)
    share: float = threshold(0.10, "part of all time lost that is a warning", unit="share", source=_RUNS)
    notable: float = threshold(0.001, "part of all time lost that is worth a line", unit="share", source=_RUNS)
    points: int = threshold(40, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotApplicable | NotEnoughData:
    pace = _speed.pace(run)
    if pace is None or not pace.timed:
        return NotApplicable("the log has no step times and no clock")
    if len(pace.step) < options.points:
        return NotEnoughData(f"{len(pace.step)} step times, {options.points} are needed")
    found = _speed.stalls(pace, options.factor, options.sigmas, 0.6)
    if not len(found.at) or found.period or found.share < options.notable:
        return []
    where = context.of(run).common(pace.step[found.at], 1.5 * float(np.median(np.diff(pace.step))))
    if where and found.share < options.share:
        first, last = int(pace.step[found.at[0]]), int(pace.step[found.at[-1]])
        what = f"{counted(len(found.at), 'slow step')} at {where}, {seconds(float(found.lost.sum()))} in all"
        return [Explained("slow-step", what, first, last, pace.metric)]
    worst = found.at[np.argsort(-found.lost, kind="stable")]
    top, many = worst[0], len(worst)
    slowest, usual = float(pace.seconds[top]), float(found.usual[top])
    named = ", ".join(f"{number(float(pace.seconds[at]), 's')} at {pace.step[at]:,}" for at in worst[:_TOLD])
    lost = float(found.lost.sum())
    return [
        Finding(
            detector="slow-step",
            severity="warning" if found.share >= options.share and many > 1 else "info",
            metric="step_time" if run.get("step_time") else None,
            first_step=int(pace.step[found.at[0]]),
            last_step=int(pace.step[found.at[-1]]),
            title=f"{counted(many, 'slow step')}, up to {number(slowest, 's')} at {pace.step[top]:,}",
            message=f"{pace.name} is {number(usual, 's')}, but {named}"
            f"{' and others' if many > _TOLD else ''}: {seconds(lost)} lost in all.",
            confidence=surely(slowest / usual, options.factor),
            cost=cost(run, lost),
            evidence=(
                Evidence("slowest step", pace.metric, int(pace.step[top]), int(pace.step[top]), slowest, usual,
                         usual * options.factor, "s", "slow-step.factor"),
                Evidence("share of all time lost", pace.metric, None, None, found.share, 0.0, options.share, "share",
                         "slow-step.share"),
            ),
            actions=(f"Look at the system log around step {pace.step[top]:,}",),
        )
    ]  # fmt: skip
