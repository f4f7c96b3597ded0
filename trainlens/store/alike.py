"""Two columns of one quantity held against each other: the same told twice, what one has more. Part of `store`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trainlens.model import NO_RANK, Ints
from trainlens.store.stitch import Column

_PRINTED = 5e-3  # that a console, which prints few digits, is off
_ALIKE = 5  # values that must be the same in turn where there are no steps to go by


def repeats(one: Column, two: Column, elsewhere: bool) -> bool:
    """Whether `two` goes over the same steps, at the same times, as `one`. `elsewhere`: in another format."""
    if one.step is None or two.step is None:
        return min(len(one.value), len(two.value)) >= _ALIKE and begins_alike(one, two)
    steps, a, b = common(one, two)
    whole = len(np.unique(two.step))
    if elsewhere:  # a console may print ten times as often as a tracker logs
        whole = min(whole, len(np.unique(one.step)))
    if len(steps) < max(2, 0.5 * whole):
        return False
    if one.time is not None and two.time is not None:
        apart = np.abs(one.time[a] - two.time[b])
        return not (np.isfinite(apart).any() and bool(np.nanmedian(apart) > 60.0))
    return True


def begins_alike(one: Column, two: Column) -> bool:
    """Whether the values are the same in turn, as far as the shorter one goes."""
    count = min(len(one.value), len(two.value))
    near = np.isclose(one.value[:count], two.value[:count], rtol=_PRINTED, atol=1e-12, equal_nan=True)
    return bool(near.mean() > 0.98) if count else True


def equal(one: Column, two: Column) -> bool:
    _, a, b = common(one, two)
    equal = np.isclose(one.value[a], two.value[b], rtol=1e-6, atol=0.0, equal_nan=True)
    return not len(equal) or bool(equal.mean() > 0.98)


def common(one: Column, two: Column) -> tuple[Ints, Ints, Ints]:
    """The steps that both have, and where each has them (the last time)."""
    found = []
    for column in (one, two):
        steps, back = np.unique(column.steps()[::-1], return_index=True)
        found.append((steps, len(column.value) - 1 - back))
    steps, a, b = np.intersect1d(found[0][0], found[1][0], assume_unique=True, return_indices=True)
    return steps, found[0][1][a], found[1][1][b]


def fuller(one: Column, other: Column) -> bool:
    """Whether `one` has clearly more points of a quantity that `other` tells too."""
    return one.step is not None and other.step is not None and len(one.value) > 2 * len(other.value)


def lacking(column: Column, other: Column) -> tuple[Column | None, Column | None]:
    """What `other` has outside the steps of `column`: before its first, and after its last."""
    if column.step is None or other.step is None:
        return None, None
    return _where(other, other.step < column.step.min()), _where(other, other.step > column.step.max())


def _where(column: Column, these: NDArray[np.bool_]) -> Column | None:
    return column.rows(these) if column.step is not None and these.any() else None


def agreed(ranks: Mapping[int, Column]) -> bool:
    """Whether all ranks logged the same: equal values, to the bit, at the steps that each shares with the fullest."""
    fullest = max(ranks, key=lambda rank: (len(ranks[rank].value), -rank))
    model = ranks[fullest]
    for rank, column in ranks.items():
        if rank in (fullest, NO_RANK):
            continue
        if column.step is model.step or np.array_equal(column.steps(), model.steps()):
            if not np.array_equal(column.value, model.value, equal_nan=True):
                return False
            continue
        steps, a, b = common(model, column)
        if len(steps) < len(column.value) / 2 or not np.array_equal(model.value[a], column.value[b], equal_nan=True):
            return False
    return True
