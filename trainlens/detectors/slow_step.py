"""Slow step: single steps that took many times as long as their neighbours.

Why it matters
One step that takes a minute instead of a second is a stalled disk, a retried collective or another job on the
machine; a few are harmless, many are a fault that grows.

How it is found
Points more than `factor` times and `sigmas` deviations over the running median of their neighbours, in one finding
with the slowest first; without such, those over `little` are worth a line where they cost `seconds`. Stalls that come
regularly belong to periodic-stall. The first steps after a start are left out: compiling and warming caches are worth
a line where they took `startup` times the usual and lost `seconds` and `notable` of all time. Worth a line besides:
time per step that scatters by more than `unsteady` all along, and, where the log has step times and time stamps,
pauses between steps that are `pause` times as long as rows are apart, and at least `seconds`.

What to do
Look at the system log and the storage at the time of the slowest.

When it is wrong
Where an evaluation or a checkpoint is timed as part of a step and comes irregularly; where batches differ in length and
the log does not say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens import context
from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors import _speed
from trainlens.detectors._levels import cost, surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotApplicable, NotEnoughData
from trainlens.figures import counted, number, seconds
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import mad, rolling_median

NEEDS = ()
TOLD_INSIDE = ("hang", "slowdown")
_RUNS = measured("405 labelled runs, 130 of them healthy: no warning on any of them")
_TOLD = 3  # how many single steps a message names


@dataclass(frozen=True)
class Options:
    factor: float = threshold(2.0, "time of a slow step against its neighbours", unit="times", source=_RUNS)
    little: float = threshold(
        1.1, "time of a slow step against its neighbours that is worth a line", unit="times", source=JUDGEMENT
    )
    sigmas: float = threshold(8.0, "time of a slow step in deviations", source=_RUNS)
    share: float = threshold(0.10, "part of all time lost that is a warning", unit="share", source=_RUNS)
    notable: float = threshold(0.001, "part of all time lost that is worth a line", unit="share", source=_RUNS)
    points: int = threshold(12, "points needed", source=JUDGEMENT)
    unsteady: float = threshold(
        0.20, "scatter of the time per step that is worth a line", unit="share", source=JUDGEMENT
    )
    pause: float = threshold(4.0, "time between two rows against the usual one", unit="times", source=JUDGEMENT)
    seconds: float = threshold(5.0, "shortest pause between steps that is told", unit="s", source=JUDGEMENT)
    startup: float = threshold(1.5, "time of the first steps against the usual", unit="times", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotApplicable | NotEnoughData:
    begun = _begun(run, options)
    pace = _speed.pace(run)
    if pace is None or not pace.timed:
        return begun or NotApplicable("the log has no step times and no clock")
    told = [*begun, *_unsteady(run, pace, options), *_pauses(run, options)]
    if len(pace.step) < options.points:
        return told or NotEnoughData(f"{len(pace.step)} step times, {options.points} are needed")
    return [*_slow(run, pace, options), *told]


def _begun(run: Run, options: Options) -> list[Finding | Explained]:
    """What the start of a run cost, where its first steps took much longer than all others."""
    times = run.get("step_time")
    if times is None or times.positional:
        return []
    use = times.finite & (times.value > 0) & (np.cumsum(_speed.starts(times)) == 1)
    step, each = times.step[use], times.value[use]
    if len(each) < 2 or step[0] > 10 * (step[1] - step[0]):
        return []
    many = min(10, len(each) // 2)
    usual = float(np.median(each[many:]))
    slow = int(np.argmax(np.r_[each[:many] < options.startup * usual, True]))
    spent = each * np.clip(np.diff(step, prepend=0), 1, max(1, int(np.median(np.diff(step)))))  # of the steps of a row
    lost = float((spent * (1 - usual / each))[:slow].sum())
    share = lost / float(spent.sum())
    if not slow:
        return []
    first, last = int(step[0]), int(step[slow - 1])
    which = f"Step {first:,}" if slow == 1 else f"Steps {first:,} to {last:,}"
    which = which if first <= 1 else f"The steps up to {last:,}"  # a row tells of all since the one before
    if share < options.notable or lost < options.seconds:
        return [Explained("slow-step", f"a slow start, {seconds(lost)} in all", first, last, "step_time")]
    return [
        Finding(
            detector="slow-step",
            severity="info",
            metric="step_time",
            first_step=first,
            last_step=last,
            title=f"Start-up took {seconds(lost)}: step {first:,} {number(float(each[0] / usual))} times the usual",
            message=f"{which} took {seconds(float(spent[:slow].sum()))}, later ones {seconds(usual)} each: "
            f"{seconds(lost)}, {number(share, 'share')} of all time, went into the start.",
            evidence=(
                Evidence("time of the first step", "step_time", first, first, float(each[0]), usual,
                         usual * options.startup, "s", "slow-step.startup"),
            ),
            actions=("Keep compiled kernels in a cache between launches, where the start is compiling",),
        )
    ]  # fmt: skip


def _unsteady(run: Run, pace: _speed.Pace, options: Options) -> list[Finding]:
    """The line that steps differ in time all along, which batches of different size do not explain."""
    if len(pace.step) < options.points:
        return []
    logs = np.log(pace.seconds) - _speed.work(run, pace.step)
    scatter = float(np.diff(np.quantile(logs - rolling_median(logs, 12), [0.16, 0.84]))[0]) / 2  # bursts on a floor too
    rates = [one for one in (run.get("tokens_per_second"), run.get("samples_per_second")) if one is not None]
    steady = any(mad(np.log(one.value[one.finite & (one.value > 0)])) < scatter / 2 for one in rates)
    low, usual, high = (float(one) for one in np.quantile(pace.seconds, [0.1, 0.5, 0.9]))
    if scatter < options.unsteady or steady:
        return []
    first, last = int(pace.step[0]), int(pace.step[-1])
    return [
        Finding(
            detector="slow-step",
            severity="info",
            metric="step_time" if run.get("step_time") else None,
            first_step=first,
            last_step=last,
            title=f"Step time is unsteady: {seconds(low)} to {seconds(high)}",
            message=f"{pace.name} scatters by {number(scatter, 'share')} about {seconds(usual)} all along: one step "
            f"in ten takes less than {seconds(low)}, one more than {seconds(high)}.",
            confidence=surely(scatter, options.unsteady),
            evidence=(
                Evidence("scatter", pace.metric, first, last, scatter, None, options.unsteady, "share",
                         "slow-step.unsteady"),
            ),
            actions=("Look for other jobs on the machine or its network, and at how batches differ in length",),
        )
    ]  # fmt: skip


def _pauses(run: Run, options: Options) -> list[Finding]:
    """The line that time passed between steps that are timed themselves: saving, evaluating, waiting."""
    times = run.get("step_time")
    if times is None or times.positional or np.isfinite(times.time).sum() < options.points:
        return []
    known = np.isfinite(times.time) & times.finite
    step, clock, each = times.step[known], _speed.wall_clock(times)[known], times.value[known]
    apart = np.diff(clock, prepend=clock[0])
    joined = ~_speed.breaks(times)[known] & ~_speed.resumed(run, step) & (apart > 0)
    usual = float(np.median(apart[joined])) if joined.any() else 0.0
    beyond = apart - np.maximum(each, usual)
    at = np.flatnonzero(joined & (apart > options.pause * usual) & (beyond > options.seconds))
    lost, whole = float(beyond[at].sum()), float(apart[joined].sum())
    if not len(at) or lost < options.notable * whole or len(at) > len(step) / 10:
        return []
    top = at[np.argmax(beyond[at])]
    first, last = int(step[at[0] - 1]), int(step[at[-1]])
    return [
        Finding(
            detector="slow-step",
            severity="info",
            metric="step_time",
            first_step=first,
            last_step=last,
            title=f"{counted(len(at), 'pause')} between steps, up to {seconds(float(beyond[top]))}",
            message=f"{seconds(lost)} passed between steps, {number(lost / whole, 'share')} of all time, the longest "
            f"before step {step[top]:,}: {seconds(float(beyond[top]))}. Steps took {seconds(float(np.median(each)))}.",
            evidence=(
                Evidence("longest pause", "step_time", int(step[top - 1]), int(step[top]), float(beyond[top]), None,
                         options.seconds, "s", "slow-step.seconds"),
            ),
            actions=("See what the loop does there: saving, evaluating, waiting for data",),
        )
    ]  # fmt: skip


def _slow(run: Run, pace: _speed.Pace, options: Options) -> list[Finding | Explained]:
    found = _speed.stalls(pace, options.factor, options.sigmas, 0.6)
    limit, name = options.factor, "slow-step.factor"
    if not len(found.at):
        found = replace(_speed.stalls(pace, options.little, options.sigmas, 0.6), period=0)
        limit, name = options.little, "slow-step.little"
        if found.lost.sum() < options.seconds:
            return []
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
            confidence=surely(slowest / usual - 1, limit - 1),
            cost=cost(run, lost),
            evidence=(
                Evidence("slowest step", pace.metric, int(pace.step[top]), int(pace.step[top]), slowest, usual,
                         usual * limit, "s", name),
                Evidence("share of all time lost", pace.metric, None, None, found.share, 0.0, options.share, "share",
                         "slow-step.share"),
            ),
            actions=(f"Look at the system log around step {pace.step[top]:,}",),
        )
    ]  # fmt: skip
