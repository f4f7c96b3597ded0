"""Learning rate jump: the rate leaps or drops where no schedule would, is zero for long, or not a number.

Why it matters
A resumed run that begins its warmup again, or a schedule that got another length, spends days on the wrong rate; a
leap upwards can undo the run within steps.

How it is found
Changes from row to row after the warmup: rises of more than `rise` and falls by more than `fall` times, of at least 2
% of the peak and three times the changes around them (of as many steps). No fault are falls from one held level to
another (multi-step decay) that are not taken back, restarts that come regularly or begin where a cycle has ended
(warm restarts), and the tail of a decay. A rate below a millionth of the peak for more than `zero` of the run after a
drop, or at zero from the start that long, is one. A move too small for that is worth a line where a rate that changes
smoothly moves `kink` times as far as in the rows around and by `slight` to `rise` of its value: a resume with another
length.

What to do
See that the scheduler's state is in the checkpoint, and that its number of steps is that of the whole run.

When it is wrong
Where the rate is set by hand or by the loss (reduce on plateau with a large factor and no held level).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainlens import context
from trainlens.citations import JUDGEMENT, SGDR, measured
from trainlens.detectors import _learning_rate
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotEnoughData
from trainlens.figures import counted, number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import episodes

NEEDS = ("role:learning-rate",)
_BESIDE = 5  # changes on either side that a kink is held against
_FEW = 3  # kinks of a run
_SHORT = 40  # points of a log in which one fall of a cosine from row to row is as large as a fault's
_GONE = 3  # points at nothing to the end of such a log
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 12 anomalies found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    rise: float = threshold(0.15, "rise within one row", unit="share", source=_RUNS)
    fall: float = threshold(1.5, "fall within one row", unit="times", source=_RUNS)
    severe: float = threshold(5.0, "rise within one row that is an error", unit="times", source=JUDGEMENT)
    zero: float = threshold(0.05, "part of the run at zero", unit="share", source=_RUNS)
    cycle: float = threshold(0.2, "rate against the peak at which a cycle has ended", unit="share", source=SGDR)
    kink: float = threshold(10.0, "change within one row against those around", unit="times", source=JUDGEMENT)
    slight: float = threshold(0.01, "change within one row that is worth a line", unit="share", source=JUDGEMENT)
    points: int = threshold(8, "points needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotEnoughData:
    found: list[Finding] = []
    longest = 0
    for series in run.with_role("learning-rate"):
        step, rate = _learning_rate.points(series)
        longest = max(longest, len(rate))
        if len(rate) >= options.points:
            found += [one for one in _of(series, options, step, rate)
                      if not any(one.first_step == other.first_step for other in found)]  # fmt: skip
    if longest < options.points:
        return NotEnoughData(f"{longest} learning rates, {options.points} are needed")
    return found or _lawful(run)


def _lawful(run: Run) -> list[Explained]:
    """Leaps and falls of the rate that belong to its schedule."""
    series, schedule = run.get("lr"), context.of(run).schedule
    if series is None or schedule is None:
        return []
    if schedule.family == "multi-step" and len(steps := context.of(run).at("learning rate")):
        at = ", ".join(f"{step:,}" for step in steps[:4])
        at += " and others" if len(steps) > 4 else ""
        what = f"{counted(len(steps), 'fall')} to a held level at {at}, as a multi-step schedule has them"
        return [Explained("learning-rate-jump", what, int(steps[0]), int(steps[-1]), series.metric)]
    if schedule.period is not None and schedule.family == "restarts":
        what = f"warm restarts every {counted(schedule.period, 'step')}"
        return [Explained("learning-rate-jump", what, int(series.step[0]), int(series.step[-1]), series.metric)]
    return []


def _of(series: Series, options: Options, step: Ints, rate: Floats) -> list[Finding]:
    n = len(rate)
    told = []
    if not series.finite.all():
        at = series.step[~series.finite]
        told.append(_held(series, int(at[0]), int(at[-1]), "is not a number", len(at)))
    peak = _learning_rate.peak_of(rate)
    zeros = int(np.argmax(rate > 0)) if (rate > 0).any() else n
    if zeros > max(10, options.zero * n):
        return [*told, _held(series, int(step[0]), int(step[zeros - 1]), "is zero", zeros)]
    if peak <= 0:
        return told
    if n < _SHORT:
        return [*told, *(_finding(series, options, step, rate, at, at) for at in _of_few(options, rate))]
    jumps, rises = _jumps(options, step, rate, peak)
    groups = episodes(jumps, max(25, n // 15))
    if _learning_rate.cycles(series, np.flatnonzero(rises), peak, options.cycle):
        groups = episodes(jumps & ~rises, max(25, n // 15))
    groups = _joined(groups, rate)
    if len(groups) > 3:  # again and again is one fault
        groups = [(groups[0][0], groups[-1][1])]
    told += [_finding(series, options, step, rate, first, last) for first, last in groups]
    return told or _kinks(series, options, step, rate)


def _of_few(options: Options, rate: Floats) -> list[int]:
    """The first point of a short log at which the rate is what no schedule makes of it.

    Far above all before it; at the peak again out of the middle of a fall; fallen at once, to the end or to rise again.
    """
    highest = np.maximum.accumulate(rate)
    at = np.arange(2, len(rate))
    before, top = rate[at - 1], highest[at - 1]
    fallen = (before < top / (1 + options.rise)) & (before > options.cycle * top)
    up = (rate[at] > (1 + options.rise) * before) & (rate[at] > 0.9 * top) & (rate[at - 2] >= before)
    stood = (rate[at - 2] >= 0.98 * top) & (before >= 0.98 * top) & (at >= max(4, len(rate) // 4))  # no warmup does
    beyond = stood & (rate[at] > 2 * top)
    lowest = np.maximum.accumulate(rate[::-1])[::-1][at]
    gone = (lowest <= 1e-3 * before) & (before > options.cycle * top) & (len(rate) - at >= _GONE)
    regained = np.maximum.accumulate(rate[::-1])[::-1][at] > 0.5 * top
    dropped = (rate[at] < 0.1 * top) & (before > 0.7 * top) & regained  # a cycle that ends does so little by little
    return [int(found) for found in at[(up & fallen) | beyond | gone | dropped][:1]]


def _joined(groups: list[tuple[int, int]], rate: Floats) -> list[tuple[int, int]]:
    """The groups, a move and the one that takes it back as one."""
    joined: list[tuple[int, int]] = []
    for first, last in groups:
        if joined and abs(rate[last] / max(rate[joined[-1][0] - 1], 1e-30) - 1) <= 0.1:
            joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return joined


def _jumps(options: Options, step: Ints, rate: Floats, peak: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Points that the rate leapt to, and those of them that are rises."""
    n = len(rate)
    logs = np.log(np.maximum(rate, peak * 1e-8))
    moves = np.diff(logs, prepend=logs[0])
    big = np.abs(np.diff(rate, prepend=rate[0])) >= 0.02 * peak
    warm = min(_learning_rate.warmup_end(rate, peak, 0.98), max(5, round(0.12 * n)))
    after = np.arange(n) > warm
    rises = (moves > np.log1p(options.rise)) & big & after
    falls = (moves < -np.log(options.fall)) & big & after & (np.arange(n) < n - 3)
    far = np.flatnonzero(rises | falls)
    beside = np.pad(moves, 3)[far[:, None] + np.array([0, 1, 2, 4, 5, 6])]
    around, trend = np.median(np.abs(beside), axis=1), np.median(beside, axis=1)
    apart = np.diff(step, prepend=step[0]) / max(1.0, float(np.median(np.diff(step)))) if n > 1 else np.ones(n)
    rows = np.where(moves[far] * trend > 0, np.maximum(1.0, apart[far]), 1.0)  # the way on over rows that are missing
    usual = far[np.abs(moves[far]) <= 3 * around * rows]  # moves like those around them
    rises[usual] = falls[usual] = False
    for at in np.flatnonzero(falls):
        soon = rate[at : at + max(25, n // 8)]
        taken_back = bool(rises[at : at + len(soon)].any()) and float(soon.max()) >= 0.9 * rate[at - 1]
        falls[at] = taken_back or not _learning_rate.steps_down(rate, int(at), peak)
    return rises | falls, rises


def _kinks(series: Series, options: Options, step: Ints, rate: Floats) -> list[Finding]:
    """The line for single rows at which a smooth schedule goes on from another rate; several are no accident."""
    slope = np.diff(rate) / np.diff(step)
    if len(slope) < 2 * _BESIDE + 1:
        return []
    around = np.lib.stride_tricks.sliding_window_view(slope, 2 * _BESIDE + 1)
    sides = np.median(around[:, :_BESIDE], axis=1), np.median(around[:, _BESIDE + 1 :], axis=1)
    own, usual = around[:, _BESIDE], np.maximum(np.abs(sides[0]), np.abs(sides[1]))
    at = np.arange(len(own)) + _BESIDE + 1
    far = (sides[0] * sides[1] > 0) & (np.abs(own) >= options.kink * usual)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs(np.log(rate[at] / rate[at - 1]))
    at = at[far & (moved >= np.log1p(options.slight)) & (moved <= np.log1p(options.rise))]  # larger ones were judged
    if not 0 < len(at) <= _FEW:
        return []
    return [
        replace(
            found := _finding(series, options, step, rate, first, first),
            severity="info",
            title=f"Schedule goes on from another rate at step {found.first_step:,}",
            confidence=surely(float(np.abs(own[first - _BESIDE - 1]) / usual[first - _BESIDE - 1]), options.kink),
            evidence=(replace(found.evidence[0], limit=None, limit_name="learning-rate-jump.kink"),),
        )
        for first in at.tolist()
    ]


def _finding(series: Series, options: Options, step: Ints, rate: Floats, first: int, last: int) -> Finding:
    old, new, end = float(rate[first - 1]), float(rate[first]), float(rate[min(len(rate) - 1, last + 1)])
    begin, at = int(step[first]), int(step[last])
    times = max(old, new) / max(min(old, new), 1e-30)
    held = rate[first : first + max(10, round(options.zero * len(rate)))]
    gone = bool(held.max() <= 1e-3 * old)
    taken_back = last > first and abs(end / max(old, 1e-30) - 1) <= 0.1
    resumed = len(series.attempt) == len(series) and begin in series.step[1:][np.diff(series.attempt) != 0]
    size = f"{'up' if new > old else 'down'} {number(round(times, 2))}-fold" if times < 1e6 else "to nearly zero"
    return Finding(
        detector="learning-rate-jump",
        severity="error" if not taken_back and (gone or (new > old and times >= options.severe)) else "warning",
        metric=series.metric,
        first_step=begin,
        last_step=at,
        title=f"Learning rate {size} at step {begin:,}",
        message=f"{series.metric} went from {number(old)} to {number(new)} within one row at step {begin:,}"
        + (f", and was {number(end)} by step {at:,}" if last > first else "")
        + ("; the run was resumed there." if resumed else "."),
        confidence=surely(times, options.fall if new < old else 1 + options.rise),
        ongoing=bool(gone and rate[-1] <= 1e-3 * old),
        evidence=(
            Evidence("rate within one row", series.metric, int(step[first - 1]), begin, new, old,
                     old / options.fall if new < old else old * (1 + options.rise),
                     limit_name=f"learning-rate-jump.{'fall' if new < old else 'rise'}"),
        ),
        actions=("See that the scheduler's state is saved and loaded, and its length is that of the run",),
    )  # fmt: skip


def _held(series: Series, first: int, last: int, what: str, rows: int) -> Finding:
    return Finding(
        detector="learning-rate-jump",
        severity="error",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"Learning rate {what} from step {first:,}",
        message=f"{series.metric} {what} in {rows:,} rows from step {first:,} to {last:,}: nothing is learned there.",
        confidence=0.99,
        ongoing=bool(last >= series.step[-1]),
        evidence=(Evidence("rows", series.metric, first, last, rows, 0),),
        actions=("See what the scheduler computes in these steps",),
    )
