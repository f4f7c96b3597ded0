"""A loss that stops falling while the learning rate would still let it.

Why it matters
Compute is spent without progress. The usual causes can be mended: a learning rate fallen to nothing, frozen layers,
dead units, data that repeats.

How it is found
Against ln(step): under a power law with an exponent up to 1 the slope falls at most by half with each doubling. A
kink is a step where the slope before it is sure and more than 1 % of the level for each doubling, while after it the
upper bound of the slope is less than `slope` of that, and the loss falls less than `fall` of its level (or 2.5
standard errors) over the rest of the log, or over an eighth of it until learning sets in again. Spikes are cut off
first, and the end of a decayed learning rate is left out. With a learning rate or gradient of 0 it is an error.
Told as info: only the last quarter flat; and a stretch of at least a tenth of the run after which learning sets in and
the loss falls faster by the step, by a tenth of its level or more, while no rate decays and none was warming up.

What to do
Check learning rate and gradient norm over that range, then frozen parameters and the data order; compare with a
reference run.

When it is wrong
With scatter of 8 % and fewer than 1,000 points an early plateau cannot be told from one curve alone. Fine-tuning that
has converged (loss below half of its start) is told as info. Warm-up is flat by nature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import TISSUE, measured
from trainlens.detectors._loss_context import (
    Curve,
    curve_of,
    is_dead,
    is_evaluation,
    judged,
    learning_rate,
)
from trainlens.detectors._loss_flat import Flat, find_flat
from trainlens.detectors._loss_levels import jumps_of, rise_of
from trainlens.detectors._loss_spikes import Spike, spikes_of
from trainlens.detectors._loss_stands import Stand, find_stand
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.model import Floats, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import surely_below

NEEDS = ("role:loss",)
LEAST = 60
_TUNED = measured("405 labelled runs, 19 plateaus, 130 healthy runs")
_SIMULATED = measured("600 simulated losses, half with a plateau that ends; chosen with four real logs in view")
_SETS_IN = 0.1  # fall after a plateau that ended, as a share of its level: a decaying rate brings less


@dataclass(frozen=True)
class Options:
    slope: float = threshold(0.12, "slope after the kink as a share of the slope before", source=TISSUE, unit="share")
    fall: float = threshold(0.004, "fall within the flat part, as a share of the level", source=_TUNED, unit="share")
    quarter: float = threshold(
        0.01, "fall of the last quarter below which it is told as info", source=_TUNED, unit="share"
    )
    excess: float = threshold(
        0.03, "height over a chord of the curve where learning sets in late", source=_SIMULATED, unit="share"
    )
    stretch: float = threshold(0.1, "points of such a stretch, as a share of the run", source=_SIMULATED, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = [one for one in judged(run, ("loss",)) if not is_evaluation(one)]
    if not series:
        return NotApplicable("no training loss with a direction")
    curve = curve_of(series[0])
    if len(curve) < LEAST:
        return NotEnoughData(f"{len(curve)} points, {LEAST} are needed")
    rise = rise_of(series[0])
    if not curve.positive or rise is not None:
        return []
    value = masked(curve, spikes_of(series[0]))
    end = decay_begin(run, curve)
    flat = find_flat(curve, value, value != curve.value, end, _blocked(curve, series[0]), options.slope, options.fall)
    if flat is not None:
        return [_told(run, curve, value, flat, options)]
    stand = find_stand(value[:end], options.stretch, options.excess, _SETS_IN)
    if stand is not None and not _by_rate(run, curve, stand):
        return [_ended(curve, stand, options)]
    return _quarter(run, curve, value, options)


def masked(curve: Curve, spikes: list[Spike]) -> Floats:
    """The values with spikes cut down to their level."""
    value = curve.value.copy()
    half = int(np.clip(len(value) // 15, 24, 128))
    for spike in spikes:
        part = slice(spike.first, min(len(value), max(spike.end(len(value)), spike.last + half) + 1))
        value[part] = np.minimum(value[part], spike.base)
    return value


def decay_begin(run: Run, curve: Curve) -> int:
    """Index where the rate has decayed to a tenth of its peak in the last quarter of the run, else the end."""
    n = len(curve)
    rate = run.get("lr")
    if rate is None or not rate.finite.any():
        return n
    high = np.flatnonzero(rate.finite & (rate.value > 0.1 * float(rate.value[rate.finite].max())))
    if not len(high) or high[-1] >= len(rate) - 2:
        return n
    at = int(np.searchsorted(curve.step, rate.step[high[-1] + 1]))
    return at if at >= 0.7 * n else n


def _blocked(curve: Curve, series: Series) -> int:
    """Index up to which a kink is the work of a long spike or of a jump of level."""
    n = len(curve)
    ends = [spike.end(n) for spike in spikes_of(series) if spike.end(n) - spike.first > 0.05 * n]
    return max([*ends, *(jump.at for jump in jumps_of(series))], default=-1)


def _told(run: Run, curve: Curve, value: Floats, flat: Flat, options: Options) -> Finding:
    kink, end = flat.first, flat.last + 1
    first, last = int(curve.step[kink]), int(curve.step[end - 1])
    third = max(1, (end - kink) // 3)
    begin, finish = float(np.median(value[kink : kink + third])), float(np.median(value[end - third : end]))
    converged = finish < 0.5 * float(np.median(value[: max(5, len(value) // 50)])) and finish < 0.5
    dead = is_dead(run, first, last)
    severity: Severity = "error" if dead else "info" if converged else "warning"
    why = ": learning rate or gradient norm is 0 there" if dead else ": it has converged" if converged else ""
    steps = f"{last - first:,} steps"
    return Finding(
        detector="loss-plateau",
        severity=severity,
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss plateau from {first:,} at {curve.shown(finish)}",
        message=f"{curve.metric} went only from {curve.shown(begin)} to {curve.shown(finish)} over the {steps} "
        f"from step {first:,}{why}.",
        confidence=surely_below((begin - finish) / max(abs(begin), 1e-12), options.fall),
        ongoing=flat.lasts and end == len(curve),
        evidence=(
            Evidence(
                "fall within the flat part, as a share of the level",
                curve.metric,
                first,
                last,
                (begin - finish) / max(abs(begin), 1e-12),
                limit=options.fall,
                unit="share",
                limit_name="loss-plateau.fall",
            ),
        ),
    )


def _by_rate(run: Run, curve: Curve, stand: Stand) -> bool:
    """Whether the rate was warming up in the stretch, or decays while the loss falls after it."""
    first, last, until = (int(curve.step[at]) for at in (stand.first, stand.last, stand.until))
    early, late = learning_rate(run, (first + last) // 2, last), learning_rate(run, last, until)
    return bool((early and early[0] < 0.9 * early[1]) or (late and late[1] < 0.5 * late[0]))


def _ended(curve: Curve, stand: Stand, options: Options) -> Finding:
    first, last, until = (int(curve.step[at]) for at in (stand.first, stand.last, stand.until))
    return Finding(
        detector="loss-plateau",
        severity="info",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss stood near {curve.shown(stand.after)} from {first:,} to {last:,}, then went on falling",
        message=f"{curve.metric} went only from {curve.shown(stand.before)} to {curve.shown(stand.after)} over the "
        f"{last - first:,} steps from step {first:,}; learning set in after that: {curve.shown(stand.reached)} at step "
        f"{until:,}.",
        confidence=0.6,
        evidence=(
            Evidence(
                "height over the chord to the later fall, as a share of the level",
                curve.metric,
                first,
                last,
                stand.excess,
                limit=options.excess,
                unit="share",
                limit_name="loss-plateau.excess",
            ),
        ),
    )


def _quarter(run: Run, curve: Curve, value: Floats, options: Options) -> list[Finding]:
    """The cruder rule, as info: the last quarter is no better than the one before, at a rate that could still learn."""
    n = len(value)
    quarter = n // 4
    before, last = value[n - 2 * quarter : n - quarter], value[n - quarter :]
    level, now = float(np.median(before)), float(np.median(last))
    first, end = int(curve.step[n - quarter]), int(curve.step[-1])
    rates = learning_rate(run, first, end)
    if n < 4 * LEAST or rates is None or min(rates) < 0.1 or level - now >= options.quarter * level:
        return []
    if now < 0.5 * curve.level(0, max(5, n // 50)) and now < 0.5:
        return []
    width = max(5, n // 50)
    if float(np.median(value[-width:])) < min(
        float(np.median(part)) for part in np.array_split(value[: n - quarter], 40)
    ):
        return []
    return [
        Finding(
            detector="loss-plateau",
            severity="info",
            metric=curve.metric,
            first_step=first,
            last_step=end,
            title=f"Loss flat over the last quarter, {curve.shown(now)}",
            message=f"{curve.metric} went from {curve.shown(level)} to {curve.shown(now)} between the last two "
            "quarters of the run, with no new minimum.",
            confidence=0.5,  # a crude rule: about every second is right on the labelled runs
            ongoing=True,
            evidence=(
                Evidence(
                    "fall of the last quarter, as a share of the level",
                    curve.metric,
                    first,
                    end,
                    (level - now) / level,
                    limit=options.quarter,
                    unit="share",
                    limit_name="loss-plateau.quarter",
                ),
            ),
        )
    ]
