"""Weight update ratio: steps are far too large or far too small for the weights they change.

Why it matters
‖Δw‖ ÷ ‖w‖ tells whether the learning rate suits the weights, whatever the loss: near 0.1 a step rewrites the layer,
below 0.00001 nothing is learned.

How it is found
After the first tenth, and where the learning rate is above a tenth of its peak (all points where it is not logged): a
median above `high`, or more than 5 % of the points above it, is a warning; a median below `low` is worth a line:
AdamW on large models and gentle fine-tuning lie there. A stretch below `still` while the rate is above zero is a
warning wherever it lies, unless it is only the last 5 % of the run.

What to do
Change the learning rate by the factor that is missing; look whether the weights of a layer are frozen or tiny.

When it is wrong
Where the ratio is of one layer (embeddings, norms), or the norm of a gradient is logged in place of that of the
update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import CS231N, USUAL, measured
from trainlens.detectors import _learning_rate, _levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import interpolate_last

NEEDS = ("role:update-ratio",)
TOLD_INSIDE = ("learning-rate-jump",)
_RUNS = measured("405 labelled runs: AdamW runs lie between 0.0001 and 0.04 while the rate is high")


@dataclass(frozen=True)
class Options:
    high: float = threshold(0.1, "ratio that is too large", source=USUAL)
    low: float = threshold(1e-3, "ratio that is worth a line", source=CS231N)
    still: float = threshold(1e-5, "ratio at which nothing is learned", source=_RUNS)
    often: float = threshold(0.05, "part of the points", unit="share", source=_RUNS)
    points: int = threshold(20, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    found: list[Finding] = []
    most = 0
    for series in run.with_role("update-ratio"):
        step, value = _levels.settled(series, 0.1)
        most = max(most, len(value))
        if len(value) >= options.points:
            found += _of(run, series, options, step, value)
    return found if most >= options.points else NotEnoughData(f"{most} ratios, {options.points} are needed")


def _of(run: Run, series: Series, options: Options, step: Ints, value: Floats) -> list[Finding]:
    rate, peak = _rate(run, step)
    still = (value < options.still) & (rate > 0)
    least = max(10, round(options.often * len(value)))
    for first, last in _levels.sustained(still, least):
        if first < 0.95 * len(value):
            level = float(np.median(value[first : last + 1]))
            sure = _levels.share_beyond(still, first, last)
            return [_finding(series, "warning", step, first, last, level, (options.still, "still"), sure)]
    working = rate > 0.1 * peak
    if np.count_nonzero(working) < options.points:
        return []
    level, above = float(np.median(value[working])), working & (value > options.high)
    if float(np.mean(above[working])) > options.often:
        hits = np.flatnonzero(above)
        level = float(np.median(value[hits]))
        sure = _levels.surely(level, options.high)
        return [_finding(series, "warning", step, int(hits[0]), int(hits[-1]), level, (options.high, "high"), sure)]
    if level < options.low:
        hits = np.flatnonzero(working)
        return [_finding(series, "info", step, int(hits[0]), int(hits[-1]), level, (options.low, "low"), 0.5)]
    return []


def _rate(run: Run, step: Ints) -> tuple[Floats, float]:
    """Learning rate at each step and its peak; ones where it is not logged."""
    series = run.get("lr")
    if series is None or not series.finite.any():
        return np.ones(len(step)), 1.0
    known, rate = _learning_rate.points(series)
    return np.nan_to_num(interpolate_last(step, known, rate)), _learning_rate.peak_of(rate)


def _finding(
    series: Series, severity: Severity, step: Ints, first: int, last: int, level: float, limit: tuple[float, str],
    sure: float,
) -> Finding:  # fmt: skip
    begin, end = int(step[first]), int(step[last])
    bound, name = limit
    side = "above" if name == "high" else "below"
    ongoing = last >= len(step) - max(3, len(step) // 50)
    what = {"high": "too large", "low": "small", "still": "nearly zero"}[name]
    return Finding(
        detector="weight-update-ratio",
        severity=severity,
        metric=series.metric,
        first_step=begin,
        last_step=end,
        title=f"Weight updates are {what}: {number(level)} of the weights",
        message=f"{series.metric} is {number(level)}, {side} {number(bound)}, from step {begin:,} to {end:,}"
        f"{', the end of the log' if ongoing else ''}; 0.001 to 0.1 is usual.",
        confidence=sure,
        ongoing=ongoing,
        evidence=(
            Evidence("median ratio", series.metric, begin, end, level, None, bound,
                     limit_name=f"weight-update-ratio.{name}"),
        ),
        actions=("Lower the learning rate",) if name == "high" else ("Raise the learning rate, or see what is frozen",),
    )  # fmt: skip
