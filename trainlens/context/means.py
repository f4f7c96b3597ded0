"""Means since the start, or since each epoch: found by their scatter, and taken back to means of few rows.

A mean of k rows moves by a k-th of what one row does, so its scatter shrinks as 1 / k, which no measurement does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints

_FEWEST = 60  # rows of a stretch
_FIRST = 16  # rows of a mean from which its scatter is looked at
_PIECES = 100  # means that a stretch is taken back to: rounding is enlarged by no more than that
_LEAP = 12.0  # times the usual move that may be a reset


@dataclass(frozen=True, eq=False)
class Mean:
    since: str  # "the start", "each of 5 resets"
    size: int  # rows of a mean that was taken back
    rows: NDArray[np.bool_]  # the last row of each
    value: Floats


def since(step: Ints, value: Floats, starts: Ints) -> Mean | None:
    """The means behind a running mean; None where the series is none, which is nearly always."""
    if len(value) < _FEWEST or not np.isfinite(value).all():
        return None
    known = np.unique(np.r_[0, np.searchsorted(step, starts)])
    known = known[known < len(value)]
    for begins in (known, _resets(value)):
        if len(begins) and _shrinks(value, begins):
            return _taken_back(value, begins)
    return None


def _counts(n: int, begins: Ints) -> Ints:
    """Rows since the last begin, from 1."""
    rows = np.arange(n)
    return rows - begins[np.searchsorted(begins, rows, side="right") - 1] + 1


def _shrinks(value: Floats, begins: Ints) -> bool:
    """Whether the rows behind the means would scatter alike for few rows and many: of a measurement they do not."""
    lengths = np.diff(np.r_[begins, len(value)])
    most = int(np.median(lengths))
    if most < _FEWEST:
        return False
    k = _counts(len(value), begins)
    behind = np.diff(value * k, prepend=0.0)
    behind[begins] = value[begins]
    bend = np.abs(behind[1:-1] - 0.5 * (behind[:-2] + behind[2:]))
    k, level = k[1:-1], np.abs(value[1:-1])
    moves = np.abs(np.diff(value))
    rounding = float(moves[moves > 0].min(initial=np.inf))
    edges = [_FIRST if most >= 16 * _FIRST else _FIRST // 4]  # the loss falls fastest, and scatters most, at the start
    while edges[-1] * 2 < most:
        edges.append(edges[-1] * 2)
    inside = [(k >= low) & (k < high) for low, high in zip(edges, [*edges[1:], most], strict=True)]
    told = [
        (float(np.median(bend[one])), float(np.median(level[one])))
        for one in inside
        if one.sum() >= 4 and np.median(bend[one]) > 1.5 * rounding * np.median(k[one])
    ]
    if len(told) < (4 if len(begins) < 3 else 3):
        return False
    scatter, levels = np.array(told).T
    # A loss that falls as 1 / k carries its scatter down with it; the level of a mean does not fall like that.
    steady = levels.min() > 0 and levels.max() / levels.min() < 2 ** (0.5 * len(told))
    # A measurement's would grow with k, twofold from one to the next: alike is what is less than half of that way.
    alike = scatter.max() / scatter.min() < min(4.0, 2 ** (0.5 * (len(told) - 1)))
    return bool(alike and scatter[-1] / scatter[-3] < 2 and steady)


def _resets(value: Floats) -> Ints:
    """Rows at which a mean may begin anew: leaps at equal distances, the same count of rows apart."""
    moves = np.abs(np.diff(value))
    usual = float(np.median(moves))
    leaps = np.flatnonzero(moves > _LEAP * usual) + 1 if usual > 0 else np.empty(0, np.int64)
    if len(leaps) < 3 or len(leaps) > 0.2 * len(value):
        return np.empty(0, np.int64)
    first = leaps[np.r_[True, np.diff(leaps) > _FEWEST // 2]]
    first = first[first > _FEWEST // 2]
    if len(first) < 2:
        return np.empty(0, np.int64)
    period = int(np.median(np.diff(np.r_[0, first])))
    if period < _FEWEST or np.mean(np.abs(np.diff(np.r_[0, first]) % period) <= 2) < 0.5:
        return np.empty(0, np.int64)
    offset = int(np.bincount(first % period).argmax())
    return np.unique(np.r_[0, np.arange(offset, len(value), period)])


def _taken_back(value: Floats, begins: Ints) -> Mean:
    n = len(value)
    k = _counts(n, begins)
    longest = int(np.diff(np.r_[begins, n]).max())
    size = max(1, -(-longest // _PIECES))
    rows = k % size == 0
    total = value * k
    before = np.where(k[rows] > size, total[np.flatnonzero(rows) - size], 0.0)
    told = "the start" if len(begins) == 1 else f"each of {len(begins)} resets"
    return Mean(told, size, rows, (total[rows] - before) / size)
