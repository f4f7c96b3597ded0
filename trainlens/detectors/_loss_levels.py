"""Whether a curve ends well above its best level, how that began, and jumps of level that are learned away again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.detectors._loss_context import Curve, curve_of, remembered
from trainlens.detectors._loss_spikes import LEAST, Spike, spikes_of
from trainlens.model import Floats, Series
from trainlens.signals import EXACT_POINTS, block_medians, block_noise, episodes, mad, median, window_medians

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """What counts as a lasting rise: see the thresholds of loss-divergence and loss-shift."""

    size: float = 0.05  # of the best level
    errors: float = 6.0  # standard errors of a level
    lost: float = 0.35  # share of all progress that makes a rise a divergence
    lost_signed: float = 0.5  # the same where values change sign or higher is better
    crept: float = 0.2  # share of the best level that makes a rise without a jump a divergence


@dataclass(frozen=True, slots=True)
class Rise:
    """A level left for good: indices into the curve. `still` tells that the level grows on."""

    diverges: bool
    onset: int
    best: int
    level: float  # the best one
    end: float  # of the last twentieth
    lost: float  # share of the progress up to `best` that is gone
    still: bool
    abrupt: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """A step of level inside the run: first point of the new level, level before and after."""

    at: int
    before: float
    after: float


@remembered
def rise_of(series: Series, limits: LevelLimits = LevelLimits()) -> Rise | None:
    """The lasting rise of a series, or None."""
    return find_rise(curve_of(series), limits)


def find_rise(curve: Curve, limits: LevelLimits) -> Rise | None:
    """The rise above the best level that lasts to the end of the log, or None. A short log: 1.5 times its start."""
    n = len(curve)
    if n < LEAST:
        return _short_rise(curve) if curve.positive else _short_collapse(curve, limits.lost_signed)
    value = curve.value
    width = max(5, n // 50)
    picks, levels = _levels(value, width)
    best = int(np.argmin(levels))
    level, end = float(levels[best]), float(np.median(value[-max(5, n // 20) :]))
    progress = max(float(levels[0]) - level, 1e-12)
    error = 1.5 * curve.noise / width**0.5
    swing = block_noise(block_medians(value, width)[10:])
    if curve.positive:
        need = max(limits.size * abs(level), limits.errors * error, limits.errors * swing)
    else:
        need = max(limits.lost_signed * progress, 8 * error, 4 * curve.noise, limits.errors * swing)
    if best >= len(levels) - 3 or end - level <= need:
        return None if curve.ends_finite else _rise_before_death(curve, level)
    onset, abrupt = _onset(curve, picks, levels, best, end, error)
    after = value[onset:]
    tail = after[len(after) // 5 :] if len(after) > 20 else after
    half = len(tail) // 2
    drift = float(np.median(tail[half:]) - np.median(tail[:half])) if half > 3 else end - level
    wild = mad(np.diff(tail)) / 2**0.5 / max(curve.noise, 1e-12) if len(tail) > 4 else 1.0
    lost = (end - level) / progress
    still = drift > max(3 * curve.noise / max(half, 1) ** 0.5, 0.1 * (end - level))
    crept = curve.positive and not abrupt and end - level > limits.crept * abs(level)
    diverges = still or lost > limits.lost or (wild > 2 and lost > 0.1) or crept
    if not diverges and not abrupt and drift > 0:
        return None
    return Rise(diverges, onset, int(picks[best]), level, end, lost, still, abrupt)


def _levels(value: Floats, width: int) -> tuple[Places, Floats]:
    """Medians of the last `width` + 1 points at every (width / 2)th point."""
    picks = np.arange(0, len(value), max(1, width // 2))
    short = picks[picks < width]
    levels = [median(value[: at + 1]) for at in short.tolist()]
    return picks, np.concatenate([levels, _medians(value, picks[len(short) :] + 1, width + 1)])


def _onset(curve: Curve, picks: Places, levels: Floats, best: int, end: float, error: float) -> tuple[int, bool]:
    """First point of the rise, and whether one jump explains half of it."""
    value, n, level = curve.value, len(curve), float(levels[best])
    width = max(5, n // 50)
    risen = np.flatnonzero(levels[best:] > level + max(4 * error, 0.2 * (end - level)))
    about = int(picks[best + risen[0]]) if len(risen) else int(picks[best])
    half = max(2, width // 3)
    places = np.arange(max(half, about - 2 * width), min(n - 3, about + width))
    moves = _medians(value, places + half, half) - _medians(value, places, half)
    if len(moves) and moves.max() > 0.5 * (end - level):
        return int(places[int(np.argmax(moves))]), True
    low = np.flatnonzero(levels[best:] <= level + max(6 * error, 0.08 * abs(level)))
    return int(picks[best + (int(low[-1]) if len(low) else 0)]), False


def _rise_before_death(curve: Curve, level: float) -> Rise | None:
    """The log ends in NaN: the explosion is in its very last numbers."""
    n = len(curve)
    tail = max(3, n // 40)
    high = level + max(0.3 * abs(level), 10 * curve.noise)
    up = np.flatnonzero(curve.value[-tail:] > high)
    if len(up) < 2:
        return None
    onset = n - tail + int(up[0])
    return Rise(True, onset, max(0, onset - 1), level, float(curve.value[-1]), 1.0, True, False)


def _short_rise(curve: Curve) -> Rise | None:
    """Of a handful of points: all well above the first from some point on, and the last near the highest."""
    value, n = curve.value, len(curve)
    if n < 4:
        return None
    level = curve.level(0, 2)
    up = np.flatnonzero(value <= 1.3 * level)
    onset = int(up[-1]) + 1 if len(up) else n
    peak = float(value[onset:].max()) if onset < n else 0.0
    if n - onset < 2 or peak <= 1.5 * level or value[-1] < 0.9 * peak:  # on its way back: an unrecovered spike
        return None
    return Rise(True, onset, max(0, onset - 1), level, float(np.median(value[onset:])), 1.0, True, False)


def _short_collapse(curve: Curve, share: float) -> Rise | None:
    """Of a handful of points of a score: at once, to the end, worse than the three before by most of the progress."""
    value, n = curve.value, len(curve)
    for at in range(3, n - 1):
        recent, start = value[at - 3 : at], curve.level(0, 2)
        level = float(np.median(recent))
        gap = float(value[at:].min() - recent.max())
        noise = float(np.median(np.abs(np.diff(value[:at]))))
        if gap > max(share * (start - level), 4 * noise, 0.0) and start > level:
            end = float(np.median(value[at:]))
            return Rise(True, at, at - 1, level, end, (end - level) / (start - level), False, True)
    return None


@remembered
def jumps_of(series: Series, deviations: float = 7.0, size: float = 0.06) -> list[Jump]:
    """Jumps of level that were learned away again, none near a spike; [] where the rise lasts to the end."""
    curve = curve_of(series)
    if rise_of(series) is not None or len(curve) < 100:
        return []
    return find_jumps(curve, spikes_of(series), deviations, size)


def _medians(value: Floats, ends: Places, width: int) -> Floats:
    """Medians of the `width` points before each of `ends`, which are evenly spaced."""
    return window_medians(value, ends - width, width) if len(ends) else np.empty(0)


def find_jumps(curve: Curve, spikes: list[Spike], deviations: float, size: float) -> list[Jump]:
    """Upward steps of the median of n / 60 points, `deviations` beyond their own scatter and `size` of the level."""
    value, n = curve.value, len(curve)
    half = int(np.clip(n // 60, 8, 200))
    places = np.arange(max(3 * half, n // 15), n - half, max(1, half // (4 if n <= EXACT_POINTS else 2)))
    if len(places) < 8:
        return []
    ahead, near, long = (
        _medians(value, places + shift, width) for shift, width in ((half, half), (0, half), (0, 2 * half))
    )
    far, close = ahead - long, ahead - near
    scatter = max(mad(far[len(far) // 4 :]), 1.5 * curve.noise * (1.5 / half) ** 0.5)
    # Where the loss falls far its scatter falls with it: early levels are held against the scatter around them.
    moves = _medians(np.abs(np.diff(value)), places + half - 1, 3 * half - 1) / 0.954
    scatter = np.maximum(scatter, 1.5 * moves * (1.5 / half) ** 0.5)
    least = size * np.maximum(abs(float(np.median(value))), np.abs(long))
    hits = (far > deviations * scatter) & (close > 0.7 * deviations * scatter) & (far > least)
    found = []
    for first, last in episodes(hits, max(4, len(places) // 20)):
        place = first + int(np.argmax(close[first : last + 1]))
        at = int(places[place])
        if not any(spike.first - 3 * half <= at <= spike.end(n) + 3 * half for spike in spikes):
            found.append(Jump(at, float(long[place]), float(ahead[place])))
    return found
