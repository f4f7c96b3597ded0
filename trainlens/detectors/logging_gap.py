"""Logging gap: rows are missing from the log, or a metric stopped being logged while the run went on.

Why it matters
What happened in the gap cannot be judged: a spike, a restart or a hang may lie in it. A loss that is no longer logged
is often a loss that was not a number.

How it is found
The distance of rows is compared with the median of its twenty neighbours; more than `factor` times that (and more
than two steps over it) is a gap. A change to another logging interval is none. Where the training loss ends and at
least `tail` rows of other metrics follow, the loss went missing.

What to do
Look at what the process did in these steps: a restart without a resumed logger, a full disk, a filter on NaN.

When it is wrong
Where steps are counted in something other than updates and jump by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import measured
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Run, Series
from trainlens.plugins import threshold
from trainlens.signals import rolling_median

NEEDS = ()
_SAME_ROWS = ("grad_norm", "lr", "step_time", "loss_scale", "tokens_per_second")
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 4 gaps found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    factor: float = threshold(3.0, "distance of two rows against the usual one", unit="times", source=_RUNS)
    tail: int = threshold(5, "rows of other metrics after the end of the loss", source=_RUNS)
    points: int = threshold(20, "rows needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = run.get("train/loss") or max(
        (one for one in run.series if one.about.role not in ("eval-loss", "score")), key=len, default=None
    )
    if series is None or series.positional:
        return NotApplicable("the log has no step numbers")
    if len(series) < options.points:
        return NotEnoughData(f"{len(series)} rows, {options.points} are needed")
    apart = np.diff(series.step).astype(float)
    usual = rolling_median(apart, 10)
    wide = np.flatnonzero((apart > options.factor * usual) & (apart > usual + 2))
    if np.mean(np.abs(apart - usual) <= 1) < 0.5 or len(wide) > max(5, len(apart) // 50):  # rows come irregularly
        wide = wide[apart[wide] > options.factor * np.quantile(apart, 0.99)]
    found = [_gap(series, options, int(at), float(usual[at])) for at in wide]
    return [*found, *_ended(run, series, options, float(usual[-1]))]


def _gap(series: Series, options: Options, at: int, usual: float) -> Finding:
    first, last = int(series.step[at]), int(series.step[at + 1])
    missing = round((last - first) / usual) - 1
    return Finding(
        detector="logging-gap",
        severity="warning",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"{missing:,} rows missing between {first:,} and {last:,}",
        message=f"{series.metric} is logged every {usual:,.0f} steps, but not between step {first:,} and {last:,}: "
        f"{missing:,} rows are missing.",
        confidence=surely((last - first) / usual, options.factor),
        first_time=_moment(series, at),
        last_time=_moment(series, at + 1),
        evidence=(
            Evidence("distance of rows", series.metric, first, last, last - first, usual, options.factor * usual,
                     "steps", "logging-gap.factor"),
        ),
        actions=("See whether the process was restarted, or its log lost, in these steps",),
    )  # fmt: skip


def _ended(run: Run, series: Series, options: Options, usual: float) -> list[Finding]:
    """The finding that the loss is no longer logged while metrics of the same rows go on."""
    end = int(series.step[-1])
    others = [
        one
        for one in run.series
        if one.metric in _SAME_ROWS and one.rank == series.rank and np.isin(series.step[-50:], one.step).all()
    ]
    longest = max(others, key=lambda one: int(one.step[-1]), default=None)
    if longest is None or np.count_nonzero(longest.step > end) < options.tail or longest.step[-1] < end + 3 * usual:
        return []
    last, rows = int(longest.step[-1]), int(np.count_nonzero(longest.step > end))
    return [
        Finding(
            detector="logging-gap",
            severity="warning",
            metric=series.metric,
            first_step=end,
            last_step=last,
            title=f"{series.metric} is no longer logged after {end:,}",
            message=f"{series.metric} ends at step {end:,}, but {longest.metric} has {rows:,} more rows, "
            f"up to step {last:,}.",
            confidence=surely(rows, options.tail),
            ongoing=True,
            evidence=(
                Evidence("rows after its end", longest.metric, end, last, rows, 0, options.tail, "rows",
                         "logging-gap.tail"),
            ),
            actions=("Look for NaN that the logger leaves out, and for a filter on what is logged",),
        )
    ]  # fmt: skip


def _moment(series: Series, at: int) -> float | None:
    return float(series.time[at]) if np.isfinite(series.time[at]) else None
