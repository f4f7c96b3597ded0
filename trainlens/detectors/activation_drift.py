"""Activation drift: the activations of a layer grow without end, or die.

Why it matters
A growing standard deviation ends in overflow or a divergence long before the loss shows it, and one near zero means
that a layer passes nothing on.

How it is found
For each layer's spread (standard deviation, root mean square or largest value), medians of 40 blocks against the
level at a tenth of the run: `factor` times that in the last blocks is a drift, `severe` times an error; it began
where the level last left 1.25 times the first. A spread below `dead` that was higher before is a dead layer. All
layers are one finding, told by the worst.

What to do
Normalise before the attention or in front of the output, lower the learning rate, add weight decay or a logit
penalty.

When it is wrong
Where the tenth of the run that is the measure still lies in the warmup: activations grow there by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import measured
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import counted, number
from trainlens.model import Run, Series
from trainlens.plugins import threshold
from trainlens.signals import block_medians

NEEDS = ("role:activation",)
TOLD_INSIDE = ("loss-divergence",)
_SPREADS = ("std", "rms", "max", "norm", "var")
_RUNS = measured("405 labelled runs: all of 4 growing layers found; healthy layers at most double")


@dataclass(frozen=True)
class Options:
    factor: float = threshold(3.0, "spread at the end against the tenth of the run", unit="times", source=_RUNS)
    severe: float = threshold(10.0, "the same, for an error", unit="times", source=_RUNS)
    dead: float = threshold(1e-4, "spread of a dead layer", source=_RUNS)
    points: int = threshold(60, "points needed", source=_RUNS)


@dataclass(frozen=True)
class _Drift:
    series: Series
    first: int  # step
    last: int
    before: float
    now: float

    @property
    def times(self) -> float:
        return self.now / self.before


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    layers = [one for one in run.with_role("activation") if any(word in one.metric.lower() for word in _SPREADS)]
    if not layers:
        return NotApplicable("no spread of activations is logged, only means")
    most = max(int(one.finite.sum()) for one in layers)
    if most < options.points:
        return NotEnoughData(f"{most} points, {options.points} are needed")
    drifts = [found for one in layers if (found := _drift(one, options))]
    grown = [one for one in drifts if one.times > 1]
    dying = [one for one in drifts if one.times < 1]
    told = [(group, max(group, key=lambda one: abs(np.log(one.times)))) for group in (grown, dying) if group]
    return [_finding(options, group, worst) for group, worst in told]


def _drift(series: Series, options: Options) -> _Drift | None:
    use = series.finite & (series.value >= 0)
    step, value = series.step[use], series.value[use]
    if len(value) < options.points:
        return None
    size = max(3, len(value) // 40)
    blocks = block_medians(value, size)
    tenth = max(1, len(blocks) // 10)
    before = float(np.median(blocks[tenth : tenth + 2]))
    now = float(np.median(blocks[-2:]))
    if before <= 0:
        return None
    if now > options.factor * before:
        quiet = np.flatnonzero(blocks <= 1.25 * before)
    elif now < options.dead and before > 2 * options.dead:
        quiet, now = np.flatnonzero(blocks >= 0.8 * before), max(now, 1e-30)
    else:
        return None
    onset = min(len(blocks) - 1, int(quiet[-1]) + 1 if len(quiet) else tenth)
    return _Drift(series, int(step[onset * size]), int(step[-1]), before, now)


def _finding(options: Options, group: list[_Drift], worst: _Drift) -> Finding:
    grows = worst.times > 1
    name, first = worst.series.metric, min(one.first for one in group)
    others = f"; {counted(len(group) - 1, 'other layer')} likewise" if len(group) > 1 else ""
    if grows:
        title = f"Activations grew {number(round(worst.times, 1))}-fold since {first:,}"
        message = f"{name} grew from {number(worst.before)} to {number(worst.now)} since step {first:,}{others}."
        limit, limit_name = options.factor * worst.before, "activation-drift.factor"
    else:
        title = f"Activations died since {first:,}"
        message = f"{name} fell from {number(worst.before)} to {number(worst.now)} since step {first:,}{others}."
        limit, limit_name = options.dead, "activation-drift.dead"
    return Finding(
        detector="activation-drift",
        severity="error" if grows and worst.times > options.severe else "warning",
        metric=name,
        first_step=first,
        last_step=worst.last,
        title=title,
        message=message,
        confidence=surely(worst.times, options.factor) if grows else 0.9,
        ongoing=True,
        evidence=tuple(
            Evidence("spread at the end", one.series.metric, one.first, one.last, one.now, one.before, limit,
                     limit_name=limit_name)
            for one in (worst, *(other for other in group if other is not worst))[:5]
        ),
        actions=("Normalise the layer's input or lower the learning rate" if grows else "Look what feeds this layer",),
    )  # fmt: skip
