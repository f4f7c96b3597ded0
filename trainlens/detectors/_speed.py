"""How long steps take, whatever the log tells it by: step times, a running clock, time stamps or throughput."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import interpolate_last, mad, rolling_median

MILLISECONDS = 1e11  # a clock beyond this (the year 5138) counts milliseconds
MOST_RESETS = 0.05  # part of a clock's rows at which it may begin anew
TICKS = 20  # a clock of whole seconds is read over intervals of at least so many of them


@dataclass(frozen=True)
class Pace:
    """Time per step along a run. `steps` is how many steps each value stands for, `step` their last.

    `seconds` is 1 / throughput where the log has nothing but that (`metric` tells); ratios hold all the same. `grain`
    is what one tick of a clock of whole seconds is of a value, as a share; 0 where clocks are finer.
    """

    metric: str
    step: Ints
    seconds: Floats
    steps: Floats
    grain: float = 0.0

    @property
    def timed(self) -> bool:
        return not self.metric.endswith("_per_second")

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.metric if self.metric == "step_time" or not self.timed else f"time per step (by {self.metric})"


def pace(run: Run) -> Pace | None:
    """Step times as logged, else from a running clock, else from time stamps, else 1 / throughput; None without any.

    The first value after a start or restart is left out (compiling, warming caches), and so are intervals with an
    evaluation or checkpoint in them when they are read from a clock.
    """
    logged = run.get("step_time")
    if logged is not None and np.count_nonzero(logged.finite & (logged.value > 0)) > 1:
        return _as_logged(run, logged, logged.value)
    for clock in run.with_role("clock"):
        if np.mean(np.diff(clock.value[clock.finite]) < 0) > MOST_RESETS:
            continue  # the time of each row, by a name that clocks have
        if found := _between(run, clock, clock.value, clock.metric):
            return found
    timed = _timed(run)
    if timed is not None and (found := _between(run, timed, wall_clock(timed), "the time stamps")):
        return found
    for name in ("tokens_per_second", "samples_per_second"):
        rate = run.get(name)
        if rate is not None and np.count_nonzero(rate.finite & (rate.value > 0)) > 1:
            with np.errstate(divide="ignore"):
                return _as_logged(run, rate, 1 / rate.value)
    return None


def wall_clock(series: Series) -> Floats:
    """Unix seconds of each point; clocks that count milliseconds are put right."""
    late = np.nanmedian(series.time) if np.isfinite(series.time).any() else 0.0
    return series.time / 1000 if late > MILLISECONDS else series.time


def _timed(run: Run) -> Series | None:
    """The series whose time stamps tell the pace: the training loss, else the one with most stamps."""
    stamped = [one for one in run.series if np.count_nonzero(np.isfinite(one.time)) > 1 and not one.positional]
    loss = run.get("train/loss")
    return loss if loss in stamped else max(stamped, key=len, default=None)


def _as_logged(run: Run, series: Series, seconds: Floats) -> Pace:
    steps = np.diff(series.step, prepend=series.step[0]).astype(float)
    use = np.isfinite(seconds) & (seconds > 0) & ~starts(series) & ~resumed(run, series.step)
    usual = float(np.median(steps[1:])) if len(steps) > 1 else 1.0
    return Pace(series.metric, series.step[use], seconds[use], np.clip(steps[use], 1, max(1.0, usual)))


def _between(run: Run, series: Series, clock: Floats, name: str) -> Pace | None:
    """Pace from a clock's differences, over so many points that whole seconds do not matter."""
    known = np.isfinite(clock)
    step, clock, joined = series.step[known], clock[known], ~breaks(series)[known]
    if len(step) < 10:
        return None
    stride = _stride(clock)
    step, clock = step[::stride], clock[::stride]
    joined = np.logical_and.reduceat(joined, np.arange(0, len(joined), stride)) if stride > 1 else joined
    joined[: 2 if stride == 1 else 1] = False
    elapsed, steps = np.diff(clock, prepend=clock[0]), np.diff(step, prepend=step[0]).astype(float)
    use = joined & (elapsed > 0) & (steps > 0) & ~resumed(run, step)
    use[1:] &= ~starts(series)[known][::stride][:-1]
    quiet = use & ~interrupted(run, step)
    use = quiet if quiet.sum() >= use.sum() / 2 else use
    if use.sum() < 10:
        return None
    grain = 1 / float(np.median(elapsed[use])) if np.all(clock == np.round(clock)) else 0.0
    return Pace(name, step[use], elapsed[use] / steps[use], steps[use], grain)


def _stride(clock: Floats) -> int:
    apart = np.diff(clock)
    usual = float(np.median(apart[apart >= 0])) if (apart >= 0).any() else 1.0
    if not np.all(clock == np.round(clock)) or usual >= TICKS:
        return 1
    return int(np.clip(np.ceil(TICKS / max(usual, 0.5)), 1, max(1, len(clock) // 40)))


def starts(series: Series) -> NDArray[np.bool_]:
    """Whether a point is the first of its attempt."""
    first = np.zeros(len(series), bool)
    first[:1] = True
    if len(series.attempt) == len(series):
        first[1:] = np.diff(series.attempt) != 0
    return first


def resumed(run: Run, step: Ints) -> NDArray[np.bool_]:
    """Whether a later attempt begins in the interval that ends at each step: its pause is that of the restart."""
    begins = np.unique([one.first_step for one in run.attempts[1:]]).astype(np.int64)
    before = np.r_[step[:1] - 1, step[:-1]]
    return np.searchsorted(begins, step, side="right") > np.searchsorted(begins, before, side="right")


def breaks(series: Series) -> NDArray[np.bool_]:
    """Whether a point's clock cannot be compared with that of the point before: another attempt, another file."""
    broken = starts(series)
    if len(series.source) == len(series):
        broken[1:] |= np.diff(series.source) != 0
    return broken


def interrupted(run: Run, step: Ints) -> NDArray[np.bool_]:
    """Whether an evaluation or a checkpoint lies at either end of the interval that ends at each step."""
    marks = [series.step for role in ("eval-loss", "score") for series in run.with_role(role)
             if series.metric.startswith("eval") and len(series) * 2 < len(step)]  # fmt: skip
    kinds = ("evaluation", "checkpoint-begin", "checkpoint-end")
    marks.append(np.array([event.step for event in run.events if event.kind in kinds and event.step is not None], int))
    at = np.unique(np.concatenate(marks))
    before = np.r_[step[:1] - 1, step[:-1]]
    return np.searchsorted(at, step, side="right") > np.searchsorted(at, before, side="left")


def work(run: Run, step: Ints) -> Floats:
    """Logarithm of the work in a step (batch × length) against its median; 0 where the log does not tell."""
    total = np.zeros(len(step))
    for name in ("batch_size", "sequence_length"):
        series = run.get(name)
        if series is None or not series.finite.any():
            continue
        amount = interpolate_last(step, series.step[series.finite], series.value[series.finite])
        if np.nanmin(amount) > 0:
            total += np.nan_to_num(np.log(amount / np.nanmedian(amount)))
    return total


@dataclass(frozen=True)
class Stalls:
    """Single slow steps: `at` indexes the pace, `lost` the seconds beyond usual, `usual` the local median."""

    at: NDArray[np.intp]
    lost: Floats
    usual: Floats
    period: int = 0  # steps from one to the next, 0 where they do not come regularly
    share: float = 0.0  # lost time ÷ all time


def stalls(found: Pace, factor: float, sigmas: float, regular: float) -> Stalls:
    """Points slower than `factor` times and `sigmas` deviations over the local median, and their period.

    Those much smaller than the largest do not count; a period needs `regular` of the gaps to be one length, or twice
    or three times it where one stall was missed.
    """
    logs = np.log(found.seconds)
    base = rolling_median(logs, 12)
    rest = logs - base
    out = np.flatnonzero(rest > max(np.log(factor), sigmas * max(mad(rest), 1e-3)))
    usual = np.exp(base)
    lost = (found.seconds - usual) * found.steps
    if len(out):
        out = out[lost[out] > 0.35 * np.quantile(lost[out], 0.9)]
    share = float(lost[out].sum() / (found.seconds * found.steps).sum()) if len(out) else 0.0
    return Stalls(out, lost[out], usual, _period(found, out, regular), share)


def _period(found: Pace, out: NDArray[np.intp], regular: float) -> int:
    if len(out) < 4:
        return 0
    gaps = np.diff(found.step[out])
    row = max(1, int(np.median(np.diff(found.step))))
    lengths, counts = np.unique(np.round(gaps / row), return_counts=True)
    period = lengths[np.argmax(counts)] * row
    times = np.maximum(1, np.round(gaps / max(period, 1)))
    equal = (np.abs(gaps - times * period) <= row) & (times <= 3)
    return int(period) if period >= 3 * row and np.mean(equal) >= regular else 0


@dataclass(frozen=True)
class Episode:
    """A slow stretch: `begin` and `end` index the pace; `before` and `reached` are logarithms of the time per step."""

    begin: int
    end: int
    before: float
    reached: float
    gradual: bool
    ongoing: bool

    @property
    def rise(self) -> float:
        return float(np.expm1(self.reached - self.before))


def measure(logs: Floats, blocks: Floats, before: float, size: int, first: int, last: int) -> Episode:
    """The exact ends of slow blocks `first` to `last`, and the level they reached."""
    inside = blocks[first : last + 1]
    reached = max(float(np.median(inside)), float(np.median(inside[-max(1, len(inside) // 3) :])))
    rise = float(np.expm1(reached - before))
    onset = int(np.argmax(inside >= min(before + np.log1p(rise / 4), inside.max())))
    most = int(np.argmax(inside >= min(before + np.log1p(rise * 0.75), inside.max())))
    begin = (first + onset) * size
    if onset == 0:
        begin = _crossing(logs, max(0, (first - 1) * size), min(len(logs), (first + 2) * size), (before + reached) / 2)
    ongoing = last == len(blocks) - 1
    end = len(logs) - 1 if ongoing else (last + 1) * size - 1
    return Episode(begin, end, before, reached, most - onset > 0.1 * len(blocks), ongoing)


def _crossing(logs: Floats, low: int, high: int, middle: float) -> int:
    """The point in a span at which the level crosses `middle` for good: the lowest of the cumulative sums about it."""
    return low + int(np.argmin(np.r_[0, np.cumsum(logs[low:high] - middle)][:-1]))
