"""Periodic stall: every so many steps one step takes much longer.

Why it matters
Saving checkpoints, evaluating or collecting garbage inside the timed loop stops all GPUs; the pause is small each
time and large in sum.

How it is found
Points more than `factor` times and `sigmas` deviations over the running median of their neighbours are stalls; stalls
much smaller than the largest are left out. They are periodic when there are at least `count` of them and most gaps
between them are equal. What counts is their share of all time: below `share` they are worth a line only.

What to do
Save checkpoints in the background, evaluate less often, look at what the loop does every so many steps.

When it is wrong
Where slow steps are part of the method, such as an optimizer that refreshes its statistics every tenth step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import measured
from trainlens.detectors import _speed
from trainlens.detectors._levels import cost
from trainlens.diagnosis import Evidence, Explained, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number, seconds
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import surely

NEEDS = ()
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 11 periodic stalls found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.05, "part of all time lost that is a warning", unit="share", source=_RUNS)
    severe: float = threshold(0.20, "part of all time lost that is an error", unit="share", source=_RUNS)
    notable: float = threshold(0.005, "part of all time lost that is worth a line", unit="share", source=_RUNS)
    factor: float = threshold(1.3, "time of a stall against its neighbours", unit="times", source=_RUNS)
    sigmas: float = threshold(6.0, "time of a stall in deviations", source=_RUNS)
    count: int = threshold(4, "stalls needed", source=_RUNS)
    regular: float = threshold(0.6, "part of the gaps that must be equal", unit="share", source=_RUNS)
    points: int = threshold(60, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotApplicable | NotEnoughData:
    pace = _speed.pace(run)
    if pace is None or not pace.timed:
        return NotApplicable("the log has no step times and no clock")
    if len(pace.step) < options.points:
        return NotEnoughData(f"{len(pace.step)} step times, {options.points} are needed")
    found = _speed.stalls(pace, options.factor, options.sigmas, options.regular)
    if len(found.at) < options.count or not found.period:
        return []
    first, last = int(pace.step[found.at[0]]), int(pace.step[found.at[-1]])
    if found.share < options.notable:
        what = f"a stall every {found.period:,} steps, {number(round(found.share, 4), 'share')} of all time"
        return [Explained("periodic-stall", what, first, last, pace.metric)]
    each = float(np.median(found.lost))
    lost = float(np.minimum(found.lost, 3 * each).sum())  # the rest of a longer one has another cause, and its finding
    usual = float(found.usual[found.at].mean())
    severity: Severity = "info" if found.share < options.share else "warning"
    ongoing = last + found.period > int(pace.step[-1])
    return [
        Finding(
            detector="periodic-stall",
            severity="error" if found.share >= options.severe and ongoing else severity,
            metric="step_time" if run.get("step_time") else None,
            first_step=first,
            last_step=last,
            title=f"A stall every {found.period:,} steps: {number(found.share, 'share')} of all time",
            message=f"{pace.name} is {number(usual, 's')}, but {number(each, 's')} more every {found.period:,} steps, "
            f"{len(found.at)} times from step {first:,} to {last:,}: {seconds(lost)} in all.",
            confidence=min(surely(len(found.at), options.count), surely(each / max(usual, 1e-12), options.factor - 1)),
            ongoing=ongoing,
            cost=cost(run, lost),
            evidence=(
                Evidence("share of all time lost", pace.metric, first, last, found.share, 0.0, options.share, "share",
                         "periodic-stall.share"),
                Evidence("stalls", pace.metric, first, last, len(found.at), None, options.count, "",
                         "periodic-stall.count"),
            ),
            actions=(f"See what runs every {found.period:,} steps and do it in the background or less often",),
        )
    ]  # fmt: skip
