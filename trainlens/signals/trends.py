"""Questions to a series: how far chance alone reaches, whether it rises, where its level changes. See `signals`."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from trainlens.model import Floats
from trainlens.signals.rolling import GAUSSIAN, block_medians, block_noise, episodes

FAMILY_ERROR = 1e-3  # chance that a whole series of pure noise crosses its threshold once
_ALIKE = 100  # of as many pairs of equal tails, once one reaches _ALIKE ** (1 / degrees) times as far as the other
_DEGREES = (4, 6, 8, 12, 20, 50, 200)  # all even: the distribution is then a finite sum
_MOST_POINTS = 400  # of tests that compare every pair


def tail_threshold(lower: Floats, tests: int, floor: float) -> float:
    """How many standard deviations an upward move must have to be no chance in `tests` points; at least `floor`.

    `lower` holds the sizes of the downward residuals in robust standard deviations: they contain no upward spikes, so
    a run full of spikes cannot hide itself. A Student-t distribution is fitted to their quantiles and asked for the
    value that `tests` points exceed with probability 0.001. As far as the other of two equal tails reaches once in 100
    times, and at least twice the largest of `lower`, is always enough.
    """
    if len(lower) < 60:
        return max(floor, 7.0)
    middle, high, far = np.quantile(lower, [0.5, 0.9, 0.98])
    if middle <= 0:
        return floor
    ratios = math.log(far / middle), math.log(high / middle)
    degrees = min(_DEGREES, key=lambda df: sum(abs(a - b) for a, b in zip(ratios, _tail_ratios(df), strict=True)))
    reach = t_quantile(1 - FAMILY_ERROR / max(1, tests), degrees) / t_quantile(0.75, degrees) / GAUSSIAN
    other = max(2.0, math.pow(_ALIKE, 1 / degrees)) * float(lower.max())
    return max(floor, min(reach, other))


@cache
def _tail_ratios(df: int) -> tuple[float, float]:
    middle = t_quantile(0.75, df)
    return math.log(t_quantile(0.99, df) / middle), math.log(t_quantile(0.95, df) / middle)


@cache
def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t for p > 0.5 and an even number of degrees of freedom (Abramowitz and Stegun 26.7.4)."""
    low, high = 0.0, 1.0
    while _t_between(high, df) < 2 * p - 1 and high < 1e6:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_between(middle, df) < 2 * p - 1 else (low, middle)
    return high


def _t_between(t: float, df: int) -> float:
    """Probability of |T| <= t."""
    angle = math.atan(t / math.sqrt(df))
    square = math.cos(angle) ** 2
    term = total = 1.0
    for k in range(2, df - 1, 2):
        term *= (k - 1) / k * square
        total += term
    return math.sin(angle) * total


def theil_sen(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Median slope of all pairs of points and its 95 % interval, (slope, low, high); at most 400 even picks are used.

    (0, -inf, inf) when fewer than 3 points differ in x.
    """
    if len(x) > _MOST_POINTS:
        picks = np.linspace(0, len(x) - 1, _MOST_POINTS).astype(int)
        x, y = x[picks], y[picks]
    i, j = np.triu_indices(len(x), 1)
    run = x[j] - x[i]
    apart = run != 0
    slopes = np.sort((y[j] - y[i])[apart] / run[apart])
    if len(slopes) < 3:
        return 0.0, -math.inf, math.inf
    n = len(x)
    reach = 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, round((len(slopes) - reach) / 2))
    high = min(len(slopes) - 1, round((len(slopes) + reach) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def kendall(y: Floats) -> tuple[float, float]:
    """Kendall's tau of a series against its order, and its two-sided p (normal approximation, ties allowed for).

    1 is a steady rise, −1 a steady fall. Of more than 400 points even picks are used; (0, 1) for fewer than 3.
    """
    if len(y) > _MOST_POINTS:
        y = y[np.linspace(0, len(y) - 1, _MOST_POINTS).astype(int)]
    n = len(y)
    if n < 3:
        return 0.0, 1.0
    i, j = np.triu_indices(n, 1)
    score = float(np.sign(y[j] - y[i]).sum())
    ties = np.unique(y, return_counts=True)[1].astype(float)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return 0.0, 1.0
    p = math.erfc(max(0.0, abs(score) - 1) / math.sqrt(2 * variance))
    return score / (n * (n - 1) / 2), p


def fit_line(x: Floats, y: Floats) -> tuple[float, float]:
    """Least-squares slope of y over x and its standard error; (0, inf) for fewer than 3 different points."""
    n = len(x)
    centred = x - x.mean() if n else x
    spread = float((centred**2).sum())
    if n < 3 or spread <= 0:
        return 0.0, math.inf
    slope = float((centred * y).sum()) / spread
    rest = y - y.mean() - slope * centred
    return slope, math.sqrt(float((rest**2).sum()) / (n - 2) / spread)


def change_point(x: Floats) -> int | None:
    """Index at which the level of `x` changes most, or None where no change is sure (cumulative sums over blocks).

    Scatter is measured from block to block, which allows for noise that is correlated; the index is that of a block's
    first point, so it is as sharp as n / 200 points.
    """
    size = max(1, len(x) // 200)
    blocks = block_medians(x, size)
    n = len(blocks)
    noise = block_noise(blocks)
    if n < 8:
        return None
    sums = np.cumsum(blocks - blocks.mean())[:-1]
    before = np.arange(1, n)
    weight = np.sqrt(before * (n - before) / n)
    moves = np.abs(sums) / weight  # = weight × difference of the means of both sides
    at = int(np.argmax(moves * ((before >= 3) & (n - before >= 3))))
    limit = noise * (2 * math.log(n) + 6) ** 0.5 * 1.5
    return (at + 1) * size if moves[at] > max(limit, 1e-12 * float(np.abs(blocks).max())) else None


def held_level(x: Floats, least: int) -> tuple[int, int] | None:
    """First and last index of the longest stretch of exactly equal values, None when shorter than `least` points."""
    if len(x) < max(2, least):
        return None
    same = episodes(np.diff(x) == 0, 1)
    first, last = max(same, key=lambda found: found[1] - found[0], default=(0, -1))
    return (first, last + 1) if last + 2 - first >= least else None
