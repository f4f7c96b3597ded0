"""How far chance lets a series' points reach, told by its own peaks: what a spike has to be beyond."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats
from trainlens.signals import episodes

_ONCE = 50  # runs in which chance reaches as far once
_PEAKS = 1000  # stretches of whose peaks a tail is fitted
_HEAVIEST = 0.7  # shape of a tail
_UNSURE = 0.75  # standard errors by which a shape is taken heavier than it is found


def usual_reach(above: Floats) -> float:
    """The furthest that a curve goes in a usual twentieth of the run: skewed scatter goes far all along."""
    parts = np.array_split(above, 20)
    return float(np.median([part.max() for part in parts]))


def chance_reach(above: Floats) -> float:
    """How far chance reaches once in `_ONCE` runs, by a generalised Pareto tail of the highest tenth of the peaks.

    `above` lacks the points that may be spikes. Its tail is fitted by probability-weighted moments (Hosking and Wallis
    1987); a shape of few points is unsure, and is taken heavier by a part of its standard error. 0 of fewer than 100
    points.
    """
    n = len(above)
    if n < 100:
        return 0.0
    peaks = np.sort(_peaks(above, max(1, n // _PEAKS)))
    count = max(20, len(peaks) // 10)
    least = float(peaks[-count - 1])
    excess = peaks[-count:] - least
    mean = float(excess.mean())
    lower = float((excess * (1 - (np.arange(count) + 0.65) / count)).mean())
    if mean <= 2 * lower or lower <= 0:
        return float(peaks[-1])
    shape = 2 - mean / (mean - 2 * lower)
    scale = 2 * mean * lower / (mean - 2 * lower)
    shape = min(_HEAVIEST, shape + _UNSURE / count**0.5)
    times = math.log(count * _ONCE)
    return least + scale * (math.expm1(shape * times) / shape if abs(shape) > 1e-6 else times)


def beyond_chance(above: Floats, hits: NDArray[np.bool_], begin: int, around: int) -> tuple[NDArray[np.bool_], float]:
    """Those of the hits that are beyond the chance of all other points (from `begin` on), and how far that reaches.

    Points within `around` of a hit are left out, as its shoulders. The lowest peak goes back to the others as long as
    chance explains it.
    """
    hits, reach = hits.copy(), 0.0
    peaks = sorted(episodes(hits, around), key=lambda at: float(above[at[0] : at[1] + 1].max()))
    spikes_near = np.zeros(len(above), np.int32)
    spikes_near[:begin] = 1
    for first, last in peaks:
        spikes_near[max(0, first - around) : last + around + 1] += 1
    for first, last in peaks:
        reach = chance_reach(above[spikes_near == 0])
        if above[first : last + 1].max() > reach:
            break
        hits[first : last + 1] = False
        spikes_near[max(0, first - around) : last + around + 1] -= 1
    return hits, reach


def _peaks(above: Floats, size: int) -> Floats:
    """Largest values of successive stretches of `size` points; a last, shorter one is left out."""
    return np.asarray(above[: len(above) // size * size].reshape(-1, size).max(axis=1))
