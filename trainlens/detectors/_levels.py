"""What the detectors of sustained levels share: stretches beyond a bound, how sure they are, what they cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Cost, Floats, Ints, Run, Series
from trainlens.signals import episodes

Mask = NDArray[np.bool_]
_WORLD = ("world_size", "num_gpus", "n_gpus", "gpus", "num_processes", "ngpu")


def sustained(beyond: Mask, least: int = 10) -> list[tuple[int, int]]:
    """Inclusive index pairs of the stretches of at least `least` points where most points of a 2 % window are beyond."""
    n = len(beyond)
    if n == 0:
        return []
    window = min(n, max(5, n // 50))
    sums = np.cumsum(np.r_[0, beyond])
    middle = np.arange(n)
    low, high = np.maximum(0, middle - window // 2), np.minimum(n, middle - window // 2 + window)
    mostly = (sums[high] - sums[low]) > (high - low) / 2
    hits = np.flatnonzero(beyond)
    found = []
    for first, last in episodes(mostly, window):
        inside = hits[np.searchsorted(hits, first) : np.searchsorted(hits, last, side="right")]
        if len(inside) and inside[-1] - inside[0] + 1 >= least:
            found.append((int(inside[0]), int(inside[-1])))
    return found


def settled(series: Series, share: float = 0.02, least: int = 10) -> tuple[Ints, Floats]:
    """Steps and values that are finite, without the first `share` of the points (at least `least`, if half is left)."""
    step, value = series.step[series.finite], series.value[series.finite]
    begin = min(max(least, int(share * len(step))), len(step) // 2)
    return step[begin:], value[begin:]


def surely(observed: float, limit: float) -> float:
    """Confidence from how far a measure lies beyond its limit: 0.5 at the limit, 0.88 at twice, 0.97 at four times."""
    if not np.isfinite(observed) or limit <= 0:
        return 0.99
    return round(min(0.99, max(0.5, 1 - 0.5 * (limit / max(observed, limit)) ** 2)), 2)


def share_beyond(beyond: Mask, first: int, last: int) -> float:
    """Confidence of a stretch: the share of its points that are beyond the bound, at most 0.99."""
    return round(min(0.99, float(np.mean(beyond[first : last + 1]))), 2)


def cost(run: Run, lost: float | None) -> Cost | None:
    """Lost seconds as a cost, in GPU time too where the log states the number of GPUs; None when nothing is known."""
    if lost is None or not np.isfinite(lost) or lost <= 0:
        return None
    world = run.fact(*_WORLD)
    gpus = float(world.value) if world and isinstance(world.value, int | float) and world.value > 0 else None
    return Cost(round(lost, 1), round(lost * gpus, 1) if gpus else None)
