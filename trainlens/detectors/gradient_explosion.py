"""Gradient explosion: the gradient norm stays far above any usual size.

Why it matters
Steps that large undo what was learned; the loss follows within a few steps, and clipping only hides the size.

How it is found
The norm is above `norm` again and again, at most five points apart, over at least `length` points and 1 % of the run,
and then more than `factor` times the median of the rest of the run. Infinite norms are left aside: they are steps
that half precision skipped. The first 2 % of a run, where norms fall from their initial size, are not judged. Where
the norm is above the bound from beginning to end the scale is merely unusual (a sum instead of a mean) and that is
worth a line. Below the bound it is a warning where the running median over that length (5 % of the run at most) is
`leap` times the lowest one before, and came there within twice that length: a rise that is slow belongs to learning.
In a log of fewer than `points` the last three at least must all lie that far above all before them.

What to do
Lower the learning rate or lengthen its warmup, clip, and look at the samples of the first steps.

When it is wrong
Where the logged norm is multiplied by the loss scale, summed over micro-batches, or measured after clipping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors._levels import settled, share_beyond, surely
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import episodes, parted, rolling_median

NEEDS = ("role:grad-norm",)
TOLD_INSIDE = ("loss-divergence",)
_LAST = 3  # points at the end of a short log
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 9 explosions found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    norm: float = threshold(100.0, "gradient norm that is too large", source=USUAL)
    factor: float = threshold(3.0, "norm against the median of the rest of the run", unit="times", source=_RUNS)
    leap: float = threshold(
        10.0, "sudden lasting rise that is a warning below the bound", unit="times", source=JUDGEMENT
    )
    length: int = threshold(10, "points it must last", source=_RUNS)
    points: int = threshold(30, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    found: list[Finding] = []
    longest = 0
    for series in run.with_role("grad-norm"):
        step, value = settled(series)
        longest = max(longest, len(value))
        if len(value) < options.points:
            found += _of_few(series, options)
            continue
        beyond = value > options.norm
        if float(np.mean(beyond)) > 0.95:
            found.append(_unusual(series, options, step, value))
            continue
        least = max(options.length, round(0.01 * len(value)))
        exploded = len(found)
        for first, last in episodes(beyond, 5):
            if last - first + 1 < least:
                continue
            rest = np.r_[value[:first], value[last + 1 :]]
            if not len(rest):  # always near the limit: large by nature
                continue
            usual = float(np.median(rest))
            inside = value[first : last + 1]
            if float(np.median(inside[inside > options.norm])) > options.factor * usual:
                found.append(_finding(series, options, step, value, (first, last), usual))
        if len(found) == exploded:
            found.extend(_leaps(series, options, step, value, least))
    if longest < options.points and not found:
        return NotEnoughData(f"{longest} gradient norms after the start, {options.points} are needed")
    return found


def _of_few(series: Series, options: Options) -> list[Finding]:
    """The norms of a short log that all lie far above all before them, to its end."""
    use = series.finite & (series.value > 0)
    step, value = series.step[use], series.value[use]
    part = parted(np.log(value), after=_LAST)
    if part is None:
        return []
    at, usual = (part.begin, len(value) - 1), float(np.exp(part.before))
    if part.gap >= np.log(options.factor) and float(value[part.begin :].min()) > options.norm:
        return [_finding(series, options, step, value, at, usual)]
    return [_leap(series, options, step, value, at, usual)] if part.gap >= np.log(options.leap) else []


def _finding(series: Series, options: Options, step: Ints, value: Floats, at: tuple[int, int], usual: float) -> Finding:
    first, last = int(step[at[0]]), int(step[at[1]])
    inside = value[at[0] : at[1] + 1]
    peak, ongoing = float(inside.max()), at[1] >= len(value) - 3
    top = int(step[at[0] + int(inside.argmax())])
    return Finding(
        detector="gradient-explosion",
        severity="error",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"Gradient norm above {number(options.norm)} {'since' if ongoing else 'from'} step {first:,}",
        message=f"{series.metric} was {number(usual)} as a rule and above {number(options.norm)} from step {first:,} "
        f"to {last:,}{', the end of the log' if ongoing else ''}, up to {number(peak)} at {top:,}.",
        confidence=share_beyond(value > options.norm, *at),
        ongoing=ongoing,
        evidence=(
            Evidence("largest norm", series.metric, first, last, peak, usual, options.norm,
                     limit_name="gradient-explosion.norm"),
        ),
        actions=("Lower the learning rate or clip the gradient", f"Look at the batches just before step {first:,}"),
    )  # fmt: skip


def _leaps(series: Series, options: Options, step: Ints, value: Floats, least: int) -> list[Finding]:
    """Stretches far above the lowest level before them, whatever the level is, that began at once."""
    logs = np.log(np.where(value > 0, value, np.nan))
    known = np.isfinite(logs)
    step, value, logs = step[known], value[known], logs[known]
    half = int(np.clip(least, 5, max(5, len(logs) // 40)))
    if len(logs) < max(options.points, 6 * half):
        return []
    level = rolling_median(logs, half)
    lowest = np.minimum.accumulate(level)
    found = []
    for first, last in episodes(level - lowest > np.log(options.leap), 2 * half):
        low = np.flatnonzero(level[:first] < lowest[first] + np.log(2))
        if last - first + 1 < least or not len(low) or first - low[-1] > 4 * half:
            continue
        begin = int(low[-1]) + int(np.argmax(logs[low[-1] : last + 1] > lowest[first] + np.log(options.leap) / 2))
        found.append(_leap(series, options, step, value, (begin, last), float(np.exp(lowest[first]))))
    return found


def _leap(series: Series, options: Options, step: Ints, value: Floats, at: tuple[int, int], usual: float) -> Finding:
    first, last = int(step[at[0]]), int(step[at[1]])
    reached, ongoing = float(np.median(value[at[0] : at[1] + 1])), at[1] >= len(value) - 3
    times = reached / usual
    return Finding(
        detector="gradient-explosion",
        severity="warning",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"Gradient norm {number(times)} times as large {'since' if ongoing else 'from'} {first:,}",
        message=f"{series.metric} rose from {number(usual)} to {number(reached)} at step {first:,} and "
        f"{'is there at the end of the log' if ongoing else f'stayed there until {last:,}'}.",
        confidence=surely(times, options.leap / 2),
        ongoing=ongoing,
        evidence=(
            Evidence("level against the lowest before", series.metric, first, last, reached, usual,
                     usual * options.leap, limit_name="gradient-explosion.leap"),
        ),
        actions=(f"Look at the learning rate and the batches just before step {first:,}",),
    )  # fmt: skip


def _unusual(series: Series, options: Options, step: Ints, value: Floats) -> Finding:
    level = float(np.median(value))
    return Finding(
        detector="gradient-explosion",
        severity="info",
        metric=series.metric,
        first_step=int(step[0]),
        last_step=int(step[-1]),
        title=f"Gradient norm is {number(level)} all along: unusual scale",
        message=f"{series.metric} is {number(level)} all along, above {number(options.norm)}: "
        "is it of a summed or a scaled loss?",
        confidence=0.5,
        evidence=(
            Evidence("median norm", series.metric, int(step[0]), int(step[-1]), level, None, options.norm,
                     limit_name="gradient-explosion.norm"),
        ),
        actions=("Log the norm of the unscaled gradient of the mean loss",),
    )  # fmt: skip
