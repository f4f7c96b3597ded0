"""Levels of a series: running medians, blocks, scatter, episodes and thinning. Public names stand in `signals`."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainlens.model import Floats, Ints

GAUSSIAN = 1.4826  # a normal distribution's standard deviation ÷ its median absolute deviation
EXACT_POINTS = 20_000  # longer series get medians at every quarter of the half-window, joined by straight lines
_CHUNK = 2_000_000  # window elements sorted at once: bounds the memory to some 16 MB
_HALVED = range(65, 514)  # widths that sorted halves are fastest for, as measured: rows of up to 256 sort fast


class Thinned(NamedTuple):
    """A series in few points: middle step, smallest, median and largest value of each block."""

    step: Ints
    low: Floats
    median: Floats
    high: Floats


def mad(x: Floats) -> float:
    """Median absolute deviation as a standard deviation (× 1.4826); 0 of nothing."""
    if len(x) == 0:
        return 0.0
    return float(GAUSSIAN * median(np.abs(x - median(x))))


def median(x: Floats) -> float:
    """Median of a not empty array, NaN where it holds one: that of numpy to the bit (see `row_medians`)."""
    return float("nan") if np.isnan(x.max()) else float(row_medians(x.reshape(1, -1))[0])


def row_medians(rows: Floats) -> Floats:
    """Medians of the rows of a finite (rows, columns) array.

    numpy's median asks its partition for three places at once, which takes the slow path; one place takes that of
    vectors, and the other middle of an even number is the largest below it.
    """
    width = rows.shape[1]
    middle = width // 2
    parted = np.partition(rows, middle, axis=1)
    if width % 2:
        return np.asarray(parted[:, middle])
    return np.asarray((parted[:, :middle].max(axis=1) + parted[:, middle]) / 2)


def rolling_median(x: Floats, half: int) -> Floats:
    """Centred running median over `half` points to each side, one value a point; `x` is finite.

    At the start the window shrinks to both sides alike (at least 2), so that a falling curve gets no lag; at the end
    only its right side shrinks. Beyond 20,000 points medians are taken at every (half / 4)th centre, beyond 200,000 at
    every (half / 2)th, and joined by straight lines.
    """
    n = len(x)
    if n == 0 or half < 1:
        return x.astype(float, copy=True)
    half = min(half, n)
    stride = 1 if n <= EXACT_POINTS else max(1, half // (4 if n <= 10 * EXACT_POINTS else 2))
    centres = np.arange(0, n, stride)
    whole = centres[(centres >= half) & (centres + half < n)]
    medians = np.empty(len(centres))
    if len(whole):
        begin = int(np.searchsorted(centres, whole[0]))
        medians[begin : begin + len(whole)] = window_medians(x, whole - half, 2 * half + 1)
    edge = np.flatnonzero((centres < half) | (centres + half >= n))
    reach = np.minimum(half, np.maximum(2, centres[edge]))
    medians[edge] = _ragged_medians(x, centres[edge] - reach, centres[edge] + reach + 1)
    return medians if stride == 1 else np.interp(np.arange(n), centres, medians)


def trailing_median(x: Floats, window: int) -> Floats:
    """Median of the `window` points before each point (fewer at the start); NaN for the first, which has none.

    Beyond 20,000 points the median is renewed at every (window / 16)th point and held between.
    """
    n = len(x)
    result = np.full(n, np.nan)
    window = max(1, min(window, n))
    first = np.arange(1, min(window, n))
    result[first] = _ragged_medians(x, np.zeros_like(first), first)
    if n > window:
        stride = max(1, window // 16) if n > EXACT_POINTS else 1
        ends = np.arange(window, n, stride)
        held = window_medians(x, ends - window, window)
        result[window:] = np.repeat(held, stride)[: n - window]
    return result


def window_medians(x: Floats, begins: NDArray[np.intp], width: int) -> Floats:
    """Medians of x[b : b + width] for evenly spaced begins b; every window lies within `x`."""
    middles = sorted({(width - 1) // 2, width // 2})
    stride = int(begins[1] - begins[0]) if len(begins) > 1 else 1
    halves = width in _HALVED and (width // 2) % stride == 0
    levels = len(x).bit_length() * len(middles)
    if len(begins) * width > (6 if halves else 2) * (len(x) + len(begins)) * levels:  # as measured
        found = [_ranked(x, begins, width, middle) for middle in middles]
        return found[0] if len(found) == 1 else np.asarray((found[0] + found[1]) / 2)
    if halves:
        return _halved(x, begins, width, stride)
    windows = sliding_window_view(x, width)
    rows = max(1, _CHUNK // width)
    chosen = windows[int(begins[0]) : int(begins[-1]) + 1 : stride]
    return np.concatenate([row_medians(chosen[at : at + rows]) for at in range(0, len(chosen), rows)])


def _halved(x: Floats, begins: NDArray[np.intp], width: int, stride: int) -> Floats:
    """The same by sorted halves: the second half of a window is the first of a later one, so each is sorted once.

    A search over all windows at once finds how many of the lower `half` values of a window its first half holds. The
    last point of an odd window is left to the end: it is the median where it lies between the two middles.
    """
    half, rows = width // 2, max(1, 2 * _CHUNK // width)
    later = half // stride  # windows from one to that which begins with its second half
    views = sliding_window_view(x, half)
    parts = []
    for at in range(0, len(begins), rows):
        begin = begins[at : at + rows]
        ordered = np.sort(views[int(begin[0]) : int(begin[-1]) + half + 1 : stride], axis=1).ravel()
        first = np.arange(len(begin)) * half
        second = first + later * half
        taken = np.zeros(len(begin), np.intp)
        for power in reversed(range(half.bit_length())):
            tried = taken + (1 << power)
            near = np.minimum(tried, half)
            lower = (tried <= half) & (ordered[first + near - 1] < ordered[second + half - near])
            taken = np.where(lower, tried, taken)
        rest = half - taken
        low = np.maximum(
            np.where(taken > 0, ordered[first + taken - 1], -np.inf),
            np.where(rest > 0, ordered[second + rest - 1], -np.inf),
        )
        high = np.minimum(
            np.where(taken < half, ordered[first + np.minimum(taken, half - 1)], np.inf),
            np.where(rest < half, ordered[second + np.minimum(rest, half - 1)], np.inf),
        )
        parts.append(np.clip(x[begin + 2 * half], low, high) if width % 2 else (low + high) / 2)
    return np.concatenate(parts)


def _ranked(x: Floats, begins: NDArray[np.intp], width: int, nth: int) -> Floats:
    """The nth smallest (from 0) of each x[b : b + width], in O(n log n) whatever the width.

    A wavelet matrix (Claude, Navarro, Ordóñez 2015): the ranks of the values are parted by their bits, the highest
    first; how many zeros lie before each place tells which half holds the nth of a window, and where that window lies
    in it.
    """
    order = np.argsort(x, kind="stable")
    places = np.empty(len(x), np.int32)
    places[order] = np.arange(len(x), dtype=np.int32)
    first = begins.astype(np.int32)
    last = first + np.int32(width)
    wanted, rank = np.full(len(begins), nth, np.int32), np.zeros(len(begins), np.int32)
    zeros = np.zeros(len(x) + 1, np.int32)
    for bit in reversed(range((len(x) - 1).bit_length())):
        low = (places >> bit) & 1 == 0
        np.cumsum(low, out=zeros[1:])
        low_first, low_last = zeros[first], zeros[last]
        count = low_last - low_first
        high = wanted >= count
        wanted -= np.where(high, count, 0)
        rank |= high.astype(np.int32) << bit
        first = np.where(high, first - low_first + zeros[-1], low_first)
        last = np.where(high, last - low_last + zeros[-1], low_last)
        places = np.concatenate([places[low], places[~low]])
    return np.asarray(x[order[rank]])


def _ragged_medians(x: Floats, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """Medians of x[b:e] for a few windows of different, not empty, extent; parts beyond the ends of x do not count."""
    if not len(begins):
        return np.empty(0)
    begins, ends = np.maximum(begins, 0), np.minimum(ends, len(x))
    rows, size = np.arange(len(begins)), ends - begins
    offsets = np.arange(int(size.max()))
    windows = x[np.minimum(begins[:, None] + offsets, len(x) - 1)]
    windows[offsets >= size[:, None]] = np.inf
    windows.sort(axis=1)
    return np.asarray((windows[rows, (size - 1) // 2] + windows[rows, size // 2]) / 2)


def block_medians(x: Floats, size: int) -> Floats:
    """Medians of successive blocks of `size` points; a last, shorter block is left out."""
    return row_medians(_blocks(x, size)) if len(x) >= size else np.empty(0)


def block_means(x: Floats, size: int) -> Floats:
    """Means of successive blocks of `size` points; a last, shorter block is left out."""
    return np.asarray(_blocks(x, size).mean(axis=1), float) if len(x) >= size else np.empty(0)


def _blocks(x: Floats, size: int) -> Floats:
    count = len(x) // size
    return x[: count * size].reshape(count, size)


def block_noise(blocks: Floats) -> float:
    """Standard deviation of block levels, from the difference of neighbours: a trend or a step hardly counts."""
    return mad(np.diff(blocks)) / 2**0.5


def episodes(mask: NDArray[np.bool_], gap: int = 1) -> list[tuple[int, int]]:
    """Inclusive (first, last) indices of the stretches where `mask` holds, merged when hits are <= `gap` apart."""
    hits = np.flatnonzero(mask)
    if len(hits) == 0:
        return []
    cuts = np.flatnonzero(np.diff(hits) > max(1, gap))
    firsts = hits[np.r_[0, cuts + 1]]
    lasts = hits[np.r_[cuts, len(hits) - 1]]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def thin(step: Ints, value: Floats, blocks: int) -> Thinned:
    """At most `blocks` points of a finite series: block medians with smallest and largest value, for drawing."""
    n = len(value)
    if n <= blocks:
        return Thinned(step, value, value, value)
    edges = np.linspace(0, n, blocks + 1).astype(int)
    low = np.minimum.reduceat(value, edges[:-1])
    high = np.maximum.reduceat(value, edges[:-1])
    median = np.array([np.median(value[a:b]) for a, b in pairwise(edges)])
    return Thinned(step[(edges[:-1] + edges[1:] - 1) // 2], low, median, high)


def interpolate_last(step_query: Ints, step: Ints, value: Floats) -> Floats:
    """The last known value at each queried step; NaN before the first. `step` rises."""
    at = np.searchsorted(step, step_query, side="right") - 1
    if len(step) == 0:
        return np.full(len(step_query), np.nan)
    return np.where(at >= 0, value[np.maximum(at, 0)], np.nan)
