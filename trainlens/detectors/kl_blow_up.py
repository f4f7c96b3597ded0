"""KL blow-up: the policy runs away from the model it is held against.

Why it matters
Far from the reference the reward model is asked about text it never saw; the policy exploits its errors, and language
falls apart while the reward may still rise.

How it is found
With a stated target (`target_kl` and the like): the level stays above `above` times it. Without one: the median of a
stretch rises above `times` the highest level of the first two thirds of the steps up to it. A divergence that grows
with any moderate power of the steps stays far below that. The stretch lasts `lasting` of the points, at least 10, so
single peaks do not count. It is an error when the reward falls meanwhile and the divergence is still high at the end.
Without a target it is told as info when the reward is not logged, or rose by more than `gain` of its range: some
distance is the price of what is learned.

What to do
Raise the KL coefficient, lower the learning rate or the number of updates a batch, and go back to a checkpoint before
the rise. Look at samples: the reward alone does not show it.

When it is wrong
The first tenth of the run is not judged, as the divergence begins at zero. Another KL coefficient or a reset of the
reference explains a jump. Estimates that are negative have no ratio and are judged against a stated target only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, PPO
from trainlens.detectors._levels import Mask
from trainlens.detectors._rewards import LEAST, Levels, gain, levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Floats, Run
from trainlens.plugins import threshold
from trainlens.signals import episodes, mad

NEEDS = ("kl",)
_TARGETS = ("target_kl", "kl_target", "desired_kl", "kl_target_value")


@dataclass(frozen=True)
class Options:
    above: float = threshold(4.0, "level over the stated target", source=PPO, unit="times")
    times: float = threshold(6.0, "level over the highest before", source=JUDGEMENT, unit="times")
    gain: float = threshold(0.15, "gain of the reward, as a share of its range", source=JUDGEMENT, unit="share")
    lasting: float = threshold(0.03, "points of the stretch as a share of the run", source=JUDGEMENT, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    series = run.get("kl")
    known = 0 if series is None else int(series.finite.sum())
    if series is None or known < LEAST:
        return NotEnoughData(f"{known} points, {LEAST} are needed")
    curve = levels(series)
    least = max(10, round(options.lasting * len(curve)))
    target = _target(run)
    limit = np.full(len(curve), options.above * target) if target else options.times * _highest_before(curve)
    beyond = curve.level > limit
    beyond[: len(curve) // 10] = False
    begun = _lasting(curve, beyond, limit, least)
    return [] if begun is None else [_told(run, curve, begun, float(limit[begun]), target, options)]


def _target(run: Run) -> float | None:
    fact = run.fact(*_TARGETS)
    if fact is None or isinstance(fact.value, str | bool) or not float(fact.value) > 0:
        return None
    return float(fact.value)


def _highest_before(curve: Levels) -> Floats:
    """The highest level in the first two thirds of the points up to each; infinite where that is none or too little."""
    highest = np.maximum.accumulate(curve.level)
    before = highest[(np.arange(len(curve)) * 2) // 3]
    scatter = mad(np.diff(curve.value)) / 2**0.5
    return np.where(before > 0, np.maximum(before, scatter), np.inf)


def _lasting(curve: Levels, beyond: Mask, limit: Floats, least: int) -> int | None:
    """The first point from which on the values stay above the limit of that point for `least` points."""
    for first, _ in episodes(beyond, 3):
        after = curve.value[first : first + least]
        if len(after) == least and float(np.mean(after > limit[first])) >= 0.8:
            return first
    return None


def _told(run: Run, curve: Levels, at: int, limit: float, target: float | None, options: Options) -> Finding:
    metric, first, last = curve.series.metric, int(curve.step[at]), int(curve.step[-1])
    ongoing = curve.end > limit
    under = np.flatnonzero(curve.level[at:] <= limit)
    if not ongoing and len(under):
        last = int(curve.step[at + int(under[0])])
    top = float(curve.level[at:].max())
    gained = gain(run, first, int(curve.step[-1]), options.gain)
    falls = gained is not None and gained.fell
    hidden = target is None and (gained is None or gained.rose)  # it may be the price of what was learned
    severity: Severity = "error" if falls and ongoing else "info" if hidden else "warning"
    base = limit / (options.above if target else options.times)
    against = f"a target of {number(target)}" if target else f"at most {number(base)} before"
    beside = ""
    if gained is not None:
        beside = f", while {gained.metric} went from {number(gained.before)} to {number(gained.after)}"
    return Finding(
        detector="kl-blow-up",
        severity=severity,
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"KL divergence blows up at {first:,}: {number(round(top / base, 1))} times",
        message=f"{metric} reached a level of {number(top)} after step {first:,} against {against}{beside}.",
        confidence=0.9 if target else 0.6 if hidden else 0.8,
        ongoing=ongoing,
        evidence=(
            Evidence("level", metric, first, last, top, target or base, limit,
                     limit_name=f"kl-blow-up.{'above' if target else 'times'}"),
        ),
        actions=("Raise the KL coefficient or lower the learning rate, from a checkpoint before the rise.",),
    )  # fmt: skip
