"""Which schedule a learning rate follows: warmup first, then the smallest family of curves that fits the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints, Series

Family = Literal[
    "constant", "linear", "cosine", "warmup-stable-decay", "multi-step", "inverse-sqrt", "exponential", "restarts",
    "warmup-only", "unknown",
]  # fmt: skip
FITS = 0.005  # root mean square error against the peak below which a family is believed
FEWEST = 20  # points
MOST = 4000  # points that curves are fitted to


@dataclass(frozen=True)
class Schedule:
    """A schedule as read from its points. Rates are as logged; `error` is the misfit as a share of the peak."""

    family: Family
    peak: float
    final: float
    warmup_steps: int = 0  # steps until the peak, 0 without a warmup
    error: float = 0.0

    @property
    def known(self) -> bool:
        return self.family != "unknown"


def points(series: Series) -> tuple[Ints, Floats]:
    """Finite points of a learning rate."""
    return series.step[series.finite], series.value[series.finite]


def peak_of(rate: Floats) -> float:
    """The largest rate of more than a few points: exceeded by 3 % of them, the true peak where none is far above."""
    if not len(rate):
        return 0.0
    high = float(np.quantile(rate, 0.97))
    return high if high > 0 and rate.max() > 1.5 * high else float(rate.max())


def warmup_end(rate: Floats, peak: float, near: float = 0.995) -> int:
    """Index of the first point near the peak."""
    return int(np.argmax(rate >= near * peak)) if len(rate) and peak > 0 else 0


def identify(step: Ints, rate: Floats) -> Schedule:
    """The schedule of a finite learning rate; "unknown" where too few points or no family fits.

    A log that ends early shows only what came so far: a cosine cut after its plateau reads as constant.
    """
    if len(rate) < FEWEST or rate.max() <= 0:
        return Schedule("unknown", float(rate.max()) if len(rate) else 0.0, float(rate[-1]) if len(rate) else 0.0)
    peak, final = float(rate.max()), float(rate[-1])
    begin = warmup_end(rate, peak)
    if begin > len(rate) // 2:
        rises = rises_to(rate, peak)
        family: Family = "restarts" if len(rises) > 1 else "warmup-only"
        return Schedule(family, peak, final, int(step[begin]) if family == "warmup-only" else 0)
    few = np.unique(np.linspace(begin, len(rate) - 1, MOST).astype(int))
    height, at = rate[few] / peak, step[few].astype(float)
    warmup = int(step[begin]) if begin else 0
    if len(height) < 5:
        return Schedule("unknown", peak, final, warmup)
    if len(rises_to(height, 1.0)) and np.mean(np.diff(height) > 0) < 0.4:
        return Schedule("restarts", peak, final, warmup)
    fits = sorted((_misfit(height, curve) + handicap, family) for family, curve, handicap in _families(at, height))
    error, best = fits[0]
    return Schedule(best if error < 2 * FITS else "unknown", peak, final, warmup, error)  # type: ignore[arg-type]


def rises_to(rate: Floats, peak: float) -> NDArray[np.intp]:
    """Indices where the rate leaps up from below half of the peak to at least 0.8 of it within three points."""
    if len(rate) < 4:
        return np.empty(0, np.intp)
    ahead = np.minimum(np.arange(len(rate)) + 3, len(rate) - 1)
    leap = (rate < 0.5 * peak) & (rate[ahead] >= 0.8 * peak)
    leap &= rate[ahead] > 1.5 * np.maximum(rate, 1e-30)
    firsts = np.flatnonzero(leap & ~np.r_[False, leap[:-1]])
    return firsts[firsts > 0]


def _misfit(height: Floats, curve: Floats) -> float:
    return float(np.sqrt(np.mean((height - curve) ** 2)))


def _families(at: Floats, height: Floats) -> Iterator[tuple[str, Floats, float]]:
    """(family, its best curve, handicap): the more a family can bend, the more its misfit counts."""
    n, end = len(height), float(height[-1])
    x = (at - at[0]) / max(1.0, at[-1] - at[0])
    yield "constant", np.ones(n), 0.0
    if end < 0.98:
        yield "linear", 1 + (end - 1) * x, 0.001
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


def _cosines(at: Floats, height: Floats) -> Iterator[tuple[str, Floats, float]]:
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


def _stable_decay(x: Floats, height: Floats) -> Iterator[tuple[str, Floats, float]]:
    """A plateau and a tail that falls linearly, by a root, along a cosine or exponentially."""
    below = np.flatnonzero(height < 0.995)
    n, end = len(height), float(height[-1])
    begin = int(below[0]) if len(below) else n
    if not 0.3 * n < begin < n - 2:
        return
    z = (x[begin:] - x[begin - 1]) / (1 - x[begin - 1])
    for tail in (
        1 + (end - 1) * z,
        1 + (end - 1) * np.sqrt(z),
        end + (1 - end) * (1 + np.cos(np.pi * z)) / 2,
        np.exp(np.log(max(end, 1e-3)) * z),
    ):
        yield "warmup-stable-decay", np.r_[np.ones(begin), tail], 0.002


def steps_down(rate: Floats, at: int, peak: float) -> bool:
    """Whether the rate was level before a fall and stays level for at least 2 % of the run after it."""
    before, after = rate[max(0, at - 5) : at], rate[at : at + max(5, len(rate) // 50)]
    level = all(np.ptp(part) <= 0.02 * part.max() for part in (before, after) if part.max() > 0)
    return bool(level and len(before) >= 3 and after.min() > 1e-4 * peak)


def cycles(series: Series, rises: NDArray[np.intp], peak: float, ended: float) -> bool:
    """Whether the rises are warm restarts: regular, or one where the cycle before has ended and the same curve begins.

    `rises` index the finite points; a cycle has ended where the rate is at most `ended` of the peak. No restart of the
    schedule's own making is a rise right where the run was resumed.
    """
    step, rate = points(series)
    if not len(rises):
        return False
    begins = rises[np.r_[True, np.diff(rises) > 3]]
    start = warmup_end(rate, peak, 0.98)
    gaps = np.diff(step[np.r_[start, begins]]).astype(float)
    ratios = gaps[1:] / gaps[:-1]
    if len(begins) > 1 and (gaps > 0).all() and np.ptp(ratios) <= 0.1 and 0.9 <= ratios[0] <= 4.1:
        return True
    if (
        len(series.attempt) == len(series)
        and np.isin(step[begins], series.step[1:][np.diff(series.attempt) != 0]).any()
    ):
        return False
    low = bool((rate[begins - 1] <= ended * peak).all())
    return low and len(begins) == 1 and start < begins[0] and _same_curve(step, rate, peak, start, int(begins[0]))


def _same_curve(step: Ints, rate: Floats, peak: float, start: int, restart: int) -> bool:
    """Whether the curve after a restart is the first cycle's again, in the same or twice the time."""
    top = restart + int(np.argmax(rate[restart : restart + 4]))
    first, second = step[start:restart] - step[start], step[top:] - step[top]
    for stretch in (1, 2):
        compared = second <= first[-1] * stretch
        if compared.sum() < max(5, 0.3 * len(first)):
            continue
        expected = np.interp(second[compared] / stretch, first, rate[start:restart])
        if np.max(np.abs(rate[top:][compared] - expected)) <= 0.05 * peak:
            return True
    return False
