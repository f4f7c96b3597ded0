"""Gradient spike: the gradient norm leaps far above its level for a few steps.

Why it matters
A leap often comes a few steps before the loss leaves its trend; a run with many of them is near its limit.

How it is found
The logarithm of the norm against the running median of its neighbours. A spike is more than `ratio` times that level
and further out than chance would reach in a series of this length (the tail of the downward scatter tells, and the
tail of this run's other peaks, carried on), and than `usual` times the peaks that this run has all along, and lasts
at most 2 % of the run. What only the tail of the other peaks explains is worth a line, for the three highest. It is a
warning when it is more than `severe` times the level, or when the training loss leaves its own level within 20 steps;
else it is worth a line: small batches have such leaps without harm. A first norm of more than `start` times those
that follow is worth a line. In a log of fewer than `points` the one point or two that lie `ratio` times above all
others are a spike, and back when the log ends.

What to do
Look at the samples of these steps; clip the gradient, or clip it lower.

When it is wrong
Where the norm is logged once in many steps, and a single large one stands for none of its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors._chance import beyond_chance, usual_reach
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import episodes, lone_peak, mad, rolling_median, tail_threshold

NEEDS = ("role:grad-norm",)
TOLD_INSIDE = ("loss-spike", "loss-divergence", "gradient-explosion")
_DOUBT, _TOLD = 0.5, 3  # confidence in spikes that the run's own peaks explain, and how many of them are told
_SHORT = measured("1,800 simulated healthy runs of 6 to 59 points, five noises: two warnings")
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 15 spikes found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    ratio: float = threshold(4.0, "norm against its level that is worth a line", unit="times", source=_RUNS)
    severe: float = threshold(10.0, "norm against its level that is a warning", unit="times", source=_RUNS)
    sigmas: float = threshold(6.0, "least height in deviations of the logarithm", source=_RUNS)
    usual: float = threshold(1.3, "height over what a usual twentieth of the run reaches", unit="times", source=_RUNS)
    loss_sigmas: float = threshold(6.0, "height of a loss that counts as following", source=_RUNS)
    start: float = threshold(100.0, "first norm against those that follow", unit="times", source=JUDGEMENT)
    points: int = threshold(40, "points needed to know the scatter", source=_RUNS)
    few: int = threshold(8, "points needed", source=_SHORT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    found: list[Finding] = []
    longest = 0
    for series in run.with_role("grad-norm"):
        use = series.finite & (series.value > 0)
        step, value = series.step[use], series.value[use]
        longest = max(longest, len(value))
        if options.few <= len(value) < options.points:
            found += _of_few(run, series, options, step, np.log(value))
        elif len(value) >= options.points:
            found += [*_first(series, options, step, value), *_of(run, series, options, step, np.log(value))]
    if longest < options.few:
        return NotEnoughData(f"{longest} gradient norms, {options.few} are needed")
    return found


def _first(series: Series, options: Options, step: Ints, value: Floats) -> list[Finding]:
    """The line that the very first norms are of another size than all that follow."""
    usual = float(np.median(value[10:60]))
    high = int(np.argmax(np.r_[value[:10] <= options.start * usual, True]))
    if not high or step[0] > 10 * (step[1] - step[0]):
        return []
    first, last = int(step[0]), int(step[high - 1])
    return [
        Finding(
            detector="gradient-spike",
            severity="info",
            metric=series.metric,
            first_step=first,
            last_step=last,
            title=f"First gradient norm is {number(float(value[0]))}, then {number(usual)}",
            message=f"{series.metric} is {number(float(value[0]))} at step {first:,} and {number(usual)} from step "
            f"{int(step[10]):,} on: the initial weights, or a state that was not loaded, are far off.",
            confidence=0.7,
            evidence=(
                Evidence("first norm against those that follow", series.metric, first, last, float(value[0]), usual,
                         usual * options.start, limit_name="gradient-spike.start"),
            ),
            actions=("Look at the initialisation, and clip from the first step on",),
        )
    ]  # fmt: skip


def _of(run: Run, series: Series, options: Options, step: Ints, logs: Floats) -> list[Finding]:
    n = len(logs)
    window = int(np.clip(n // 15, 24, 128))
    level = rolling_median(logs, window)
    rest = logs - level
    rest[: max(8, n // 30)] = 0
    late = rest[n // 10 :]
    sigma = max(mad(late), 1e-3)
    limit = sigma * tail_threshold(-late[late < 0] / sigma, n, options.sigmas)
    limit = max(limit, options.usual * usual_reach(late), float(np.log(options.ratio)))
    hits = rest > limit
    sure, reach = beyond_chance(rest, hits, n // 10, window // 12)
    out, doubtful = [], []
    for first, last in episodes(hits, max(2, window // 12)):
        if last - first + 1 > max(5, n // 50):
            continue
        top = first + int(np.argmax(rest[first : last + 1]))
        usual, peak = float(np.exp(level[first])), float(np.exp(logs[top]))
        follows = _loss_follows(run, int(step[first]), int(step[last]), options)
        beyond = bool(sure[first : last + 1].any())
        least = float(np.exp(max(limit, reach) if beyond else limit))
        found = _finding(series, options, step, (first, top, last), usual, peak, follows, least)
        if beyond:
            out.append(found)
        else:
            doubtful.append((peak / usual, replace(found, severity="info", confidence=_DOUBT)))
    return [*out, *(found for _, found in sorted(doubtful, key=lambda one: -one[0])[:_TOLD])]


def _of_few(run: Run, series: Series, options: Options, step: Ints, logs: Floats) -> list[Finding]:
    """The one point or two of a short log that lie `ratio` times above all others."""
    peak = lone_peak(logs)
    if peak is None or peak.gap < np.log(options.ratio) or peak.last == len(logs) - 1:  # not back yet
        return []
    at, usual, height = (peak.first, peak.top, peak.last), float(np.exp(peak.usual)), float(np.exp(logs[peak.top]))
    follows = _loss_follows(run, int(step[peak.first]), int(step[peak.last]), options)
    return [_finding(series, options, step, at, usual, height, follows, options.ratio)]


def _loss_follows(run: Run, first: int, last: int, options: Options) -> bool:
    """Whether the training loss rose above its level before the spike within 20 steps (at least 3 rows) after it."""
    loss = run.get("train/loss")
    if loss is None:
        return False
    step, value = loss.step[loss.finite], loss.value[loss.finite]
    at = int(np.searchsorted(step, first))
    end = max(int(np.searchsorted(step, last + 20, side="right")), min(len(step), at + 3))
    before, after = value[max(0, at - 50) : at], value[at:end]
    if len(before) < 10 or not len(after):
        return False
    rise = float(after.max() - np.median(before))
    return rise > options.loss_sigmas * mad(before) and rise > 0.02 * abs(float(np.median(before)))


def _finding(
    series: Series, options: Options, step: Ints, at: tuple[int, int, int], usual: float, peak: float, follows: bool,
    chance: float,
) -> Finding:  # fmt: skip
    first, top, last = (int(step[i]) for i in at)
    rows = at[2] - at[0] + 1
    limit = max(options.ratio, chance)
    return Finding(
        detector="gradient-spike",
        severity="warning" if peak > options.severe * usual or follows else "info",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"Gradient spike at {first:,}: {number(round(peak / usual, 1))} times its level",
        message=f"{series.metric} leapt from {number(usual)} to {number(peak)} at step {top:,} and was back after "
        f"{rows} row{'s' if rows > 1 else ''}; the loss {'rose with it' if follows else 'did not follow'}.",
        confidence=surely(float(np.log(peak / usual)), float(np.log(limit))),
        evidence=(
            Evidence("norm against its level", series.metric, first, last, peak / usual, 1.0, limit, "times",
                     "gradient-spike.ratio" if limit == options.ratio else "gradient-spike.sigmas"),
        ),
        actions=(f"Look at the samples of step {first:,}; clip the gradient if they are sound",),
    )  # fmt: skip
