"""Which schedule a learning rate follows: warmup first, then the smallest family of curves that fits the rest.

Least squares on (step, rate); rates are taken as printed, so the step of their rounding is allowed for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainlens.diagnosis import Family, Schedule
from trainlens.model import Floats, Ints

FITS = 0.01  # root mean square error against the peak, handicap included, below which a family is believed
FEWEST = 20  # points
MOST = 4000  # points that curves are fitted to
_HELD = 0.05  # part of the points at the end that must stand still to be called held


def identify(step: Ints, rate: Floats) -> Schedule:
    """The schedule of a finite learning rate; "unknown" where too few points or no family fits.

    A log that ends early shows only what came so far: a run that is cut on its plateau reads as constant. Single rows
    far above the rest are left out where no family fits with them.
    """
    found = _identify(step, rate)
    if (
        found.family == "unknown"
        and len(rate) >= FEWEST
        and rate.max() > 1.5 * (high := float(np.quantile(rate, 0.97)))
    ):
        use = rate <= 1.05 * high
        return _identify(step[use], rate[use])
    return found


def _identify(step: Ints, rate: Floats) -> Schedule:
    peak, final = (float(rate.max()), float(rate[-1])) if len(rate) else (0.0, 0.0)
    if len(rate) < FEWEST or peak <= 0:
        return Schedule("unknown", peak, final)
    if (period := _period(step, rate, peak)) is not None:
        return Schedule("restarts" if len(rises_to(rate, peak)) else "cyclic", peak, final, period=period)
    begin = int(np.argmax(rate >= 0.995 * peak))
    if begin > len(rate) // 2 and (final > 0.9 * peak or len(rate) - begin < 8 or not _rises(rate[: begin + 1])):
        rises = rises_to(rate, peak)
        late = final > 0.9 * peak or (len(rate) - begin < 8 and _rises(rate[: begin + 1]))
        family: Family = "restarts" if len(rises) > 1 else "warmup-only" if late else "unknown"
        return Schedule(family, peak, final, int(step[begin]) if family == "warmup-only" else 0)
    top = int(np.argmax(rate))
    if begin < top <= begin + 0.08 * len(rate) and _rises(rate[begin : top + 1]):
        begin = top  # a half cosine goes flat before it is at its peak
    warmup = int(step[begin]) if begin else 0
    few = np.unique(np.linspace(begin, len(rate) - 1, MOST).astype(int))
    height, at = rate[few] / peak, step[few].astype(float)
    if len(height) < 5:
        return Schedule("unknown", peak, final, warmup)
    if len(rises_to(height, 1.0)) and np.mean(np.diff(height) > 0) < 0.4:
        return Schedule("restarts", peak, final, warmup)
    grain = min(0.2, _grain(rate, peak))
    held = _held(height, grain)
    error, best, plateau = _best(at, height, len(height))
    if held < len(height) and best != "multi-step" and best != "constant":
        within = _best(at, height, held + 1)
        if within[0] <= error + 0.002:
            error, best, plateau = within
        else:
            held = len(height)
    if best in ("cosine", "linear") and _is_one_cycle(step[: begin + 1], rate[: begin + 1] / peak, len(rate), grain):
        best = "one-cycle"
    known = error < max(FITS, 0.6 * grain)
    return Schedule(
        best if known else "unknown", peak, final, warmup, error,
        decay_begin=int(at[plateau]) if known and best == "warmup-stable-decay" else None,
        held_from=int(at[held]) if known and held < len(height) and best != "multi-step" else None,
    )  # fmt: skip


def rises_to(rate: Floats, peak: float) -> NDArray[np.intp]:
    """Indices where the rate leaps up from below half of the peak to at least 0.8 of it within three points."""
    if len(rate) < 4:
        return np.empty(0, np.intp)
    ahead = np.minimum(np.arange(len(rate)) + 3, len(rate) - 1)
    leap = (rate < 0.5 * peak) & (rate[ahead] >= 0.8 * peak)
    leap &= rate[ahead] > 1.5 * np.maximum(rate, 1e-30)
    firsts = np.flatnonzero(leap & ~np.r_[False, leap[:-1]])
    return firsts[firsts > 0]


def _rises(part: Floats) -> bool:
    """Whether a warmup does nothing but rise."""
    return bool((np.diff(part) >= -0.01 * part[-1]).all())


def _period(step: Ints, rate: Floats, peak: float) -> int | None:
    """Steps from one top to the next where the rate goes up and down again and again, evenly; else None."""
    moves = np.diff(rate)
    moving = np.flatnonzero(np.abs(moves) > 1e-6 * peak)
    if len(moving) < 10:
        return None
    up = moves[moving] > 0
    turns = moving[1:][up[:-1] & ~up[1:]]  # the first fall after a rise: its left end is a top
    tops = [at for at in turns if rate[at] > 0.2 * peak]
    if up[0] is np.False_ and rate[0] > 0.9 * peak:
        tops = [0, *tops]
    if len(tops) < 3 or len(tops) > len(rate) / 6:
        return None
    lows = [float(rate[a:b].min()) / float(min(rate[a], rate[b])) for a, b in pairwise(tops)]
    gaps = np.diff(step[np.array(tops)]).astype(float)
    even = np.ptp(gaps) <= 0.1 * gaps.mean() + 2 * float(np.median(np.diff(step)))
    return round(float(np.median(gaps))) if even and max(lows) < 0.7 else None


def _grain(rate: Floats, peak: float) -> float:
    """The unit of the last figure that is printed of rates near the peak, against it; 0 where it is fine."""
    positive = rate[rate > 0]
    places = np.floor(np.log10(positive))
    two_figures = np.round(positive / 10 ** (places - 1)) * 10 ** (places - 1)
    if np.allclose(positive, two_figures, rtol=1e-6, atol=0):
        return float(10 ** (np.floor(np.log10(peak)) - 1)) / peak
    decimals = [10.0**-place for place in (4, 5, 6, 7)]
    return next((unit / peak for unit in decimals if np.allclose(rate / unit, np.round(rate / unit), 0, 1e-4)), 0.0)


def _held(height: Floats, grain: float) -> int:
    """Index from which the rate stands still at its lowest until the end; the length where it does not for long."""
    n = len(height)
    still = np.abs(height - height[-1]) <= 1e-6 + 1e-3 * height[-1]
    moves = np.flatnonzero(~still)
    begin = int(moves[-1]) + 1 if len(moves) else 0
    rounded = 2 * (2 * grain) ** 0.5 / np.pi  # the foot of a cosine stands still when it is rounded
    lowest = height[-1] <= min(0.9, 1.01 * float(height.min()) + 1e-6)
    return begin if lowest and begin >= 5 and n - begin > max(5, _HELD * n, rounded * n) else n


def _is_one_cycle(step: Ints, height: Floats, points: int, grain: float) -> bool:
    """Whether the rise to the peak is a half cosine of at least 5 % of the run, as in a one-cycle policy."""
    if len(height) < max(8, 0.05 * points):
        return False
    x = (step - step[0]) / max(1, step[-1] - step[0])
    low = height[0]
    wave = low + (1 - low) * (1 - np.cos(np.pi * x)) / 2
    return _misfit(height, wave) < min(0.02 + 0.5 * grain, 0.6 * _misfit(height, low + (1 - low) * x))


def _misfit(height: Floats, curve: Floats) -> float:
    return float(np.sqrt(np.mean((height - curve) ** 2)))


def _best(at: Floats, height: Floats, end: int) -> tuple[float, Family, int]:
    """(misfit with its handicap, family, index at which a plateau ends) of the points before `end`."""
    fits = [(_misfit(height[:end], curve) + handicap, family) for family, curve, handicap
            in _families(at[:end], height[:end])]  # fmt: skip
    error, family = min(fits)
    return error, family, _plateau(height[:end], 0.005)


def _families(at: Floats, height: Floats) -> Iterator[tuple[Family, Floats, float]]:
    """(family, its best curve, handicap): the more a family can bend, the more its misfit counts."""
    n, end = len(height), float(height[-1])
    x = (at - at[0]) / max(1.0, at[-1] - at[0])
    yield "constant", np.ones(n), 0.0
    if end < 0.98:
        yield "linear", 1 + (end - 1) * x, 0.001
        yield from (("polynomial", end + (1 - end) * (1 - x) ** power, 0.003) for power in (0.5, 1.5, 2.0, 3.0, 4.0))
    yield from _cosines(at, height)
    yield from _stable_decay(x, height)
    moves = np.flatnonzero(np.abs(np.diff(height)) > 0.02)
    if 1 <= len(moves) <= 6 and np.median(np.abs(np.diff(height))) < 1e-6:
        edges = np.r_[0, moves + 1, n]
        levels = [np.full(b - a, np.median(height[a:b])) for a, b in pairwise(edges)]
        yield "multi-step", np.concatenate(levels), 0.002
    for offset in (0.0, at[0]):
        begin = max(1.0, at[0] if offset == 0 else 1.0)
        yield "inverse-sqrt", np.sqrt(begin / np.maximum(at - offset + (begin if offset else 0), begin)), 0.001
    if (height > 0).all() and end < 0.9:
        slope, level = np.polyfit(x, np.log(height), 1)
        yield "exponential", np.exp(slope * x + level), 0.004


def _cosines(at: Floats, height: Floats) -> Iterator[tuple[Family, Floats, float]]:
    """The best cosine: begun at the peak or with the run, to any floor, and cut off anywhere by the end of the log."""
    few = np.unique(np.linspace(0, len(at) - 1, 400).astype(int))
    best, curve = np.inf, None
    for begin in {float(at[0]), 0.0}:
        phase = (at - begin) / max(1.0, at[-1] - begin)
        for angle in np.linspace(0.15, 1, 35) * np.pi:
            wave = np.cos(angle * phase)
            slope, level = np.polyfit(wave[few], height[few], 1)
            error = _misfit(height[few], slope * wave[few] + level)
            if error < best and slope > 0 and level - slope > -0.02:
                best, curve = error, slope * wave + level
    if curve is not None:
        yield "cosine", curve, 0.001


def _plateau(height: Floats, near: float) -> int:
    """Index of the last point near the peak before the rate falls."""
    below = np.flatnonzero(height < 1 - near)
    return max(0, int(below[0]) - 1) if len(below) else len(height) - 1


def _stable_decay(x: Floats, height: Floats) -> Iterator[tuple[Family, Floats, float]]:
    """A plateau and a tail that falls linearly, by a root, along a cosine or exponentially."""
    n, end = len(height), float(height[-1])
    for near in (0.005, 0.0002):
        begin = _plateau(height, near) + 1
        if not 0.15 * n < begin < n - 2:
            continue
        z = (x[begin:] - x[begin - 1]) / (1 - x[begin - 1])
        for tail in (
            1 + (end - 1) * z,
            1 + (end - 1) * np.sqrt(z),
            end + (1 - end) * (1 + np.cos(np.pi * z)) / 2,
            np.exp(np.log(max(end, 1e-3)) * z),
        ):
            yield "warmup-stable-decay", np.r_[np.ones(begin), tail], 0.002
