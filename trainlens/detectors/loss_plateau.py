"""A loss that stops falling while the learning rate would still let it.

Why it matters
Compute is spent without progress. The usual causes can be mended: a learning rate fallen to nothing, frozen layers,
dead units, data that repeats.

How it is found
Against ln(step): under a power law with an exponent up to 1 the slope falls at most by half with each doubling. A
kink is a step where the slope before it is sure and more than 1 % of the level for each doubling, while after it the
upper bound of the slope is less than `slope` of that, and the loss falls less than `fall` of its level (or 2.5
standard errors) over the rest of the log, or over an eighth of it until learning sets in again. Spikes are cut off
first, and the end of a decayed learning rate is left out. Only the last quarter flat: told as info, as is a loss that
fell slowly for at least a doubling of the steps and then, within the first 60 % of the log, three times as fast. With a
learning rate or gradient of 0 it is an error.

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

from trainlens import context
from trainlens.citations import TISSUE, measured
from trainlens.detectors._loss_context import (
    Curve,
    curve_of,
    is_dead,
    is_evaluation,
    judged,
    learning_rate,
)
from trainlens.detectors._loss_flat import Flat, find_flat, late_learning
from trainlens.detectors._loss_levels import jumps_of, rise_of
from trainlens.detectors._loss_spikes import Spike, spikes_of
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.model import Floats, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import surely_below

NEEDS = ("role:loss",)
LEAST = 60
_TUNED = measured("405 labelled runs, 19 plateaus, 130 healthy runs")


@dataclass(frozen=True)
class Options:
    slope: float = threshold(0.12, "slope after the kink as a share of the slope before", source=TISSUE, unit="share")
    fall: float = threshold(0.004, "fall within the flat part, as a share of the level", source=_TUNED, unit="share")
    quarter: float = threshold(
        0.01, "fall of the last quarter below which it is told as info", source=_TUNED, unit="share"
    )


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
    return _quarter(run, curve, value, options) or _late(run, curve, value, end)


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


def _late(run: Run, curve: Curve, value: Floats, end: int) -> list[Finding]:
    """The line that the loss fell slowly for long and then fast: learning set in late."""
    schedule = context.of(run).schedule
    warm = int(np.searchsorted(curve.step, schedule.warmup_steps)) if schedule and schedule.warmup_steps else 0
    slow = late_learning(curve, value, warm, min(end, len(curve)))
    if slow is None or slow.last > 0.6 * len(curve):
        return []
    first, last = int(curve.step[slow.first]), int(curve.step[slow.last])
    width = max(3, (slow.last - slow.first) // 10)
    begin, finish = curve.level(slow.first, slow.first + width), curve.level(slow.last - width, slow.last)
    after = int(np.searchsorted(curve.step, 2.5 * last))
    then = curve.level(min(after, len(curve) - width), min(after + width, len(curve)))
    reached = min(int(2.5 * last), curve.last_step)
    return [
        Finding(
            detector="loss-plateau",
            severity="info",
            metric=curve.metric,
            first_step=first,
            last_step=last,
            title=f"Learning set in late, at {last:,}",
            message=f"{curve.metric} went only from {curve.shown(begin)} to {curve.shown(finish)} between steps "
            f"{first:,} and {last:,}, and then to {curve.shown(then)} by step {reached:,}.",
            confidence=0.7,
            evidence=(Evidence("fall within the slow part", curve.metric, first, last, begin - finish, begin - then),),
            actions=("Compare warmup, initialisation and rate with a run that learns at once",),
        )
    ]


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
