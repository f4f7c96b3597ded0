"""Arrays of one quantity, as logged, → one value a step: restarts, replaced points, disorder, clocks. Part of `store`.

A *cut* is a position in the order of the log where the run went back to an earlier step. What a later attempt did
again replaces all that earlier attempts logged from its first step on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints, Points

Shorts = NDArray[np.int16]

MAX_CUTS = 200
# A run that begins again from its start and has come less far than this share of the old points does not hide them.
SMALL_REPEAT = 0.1
# Steps logged twice, no more of them than this share (or one): a resume at the last step, so the later row holds.
FEW_DOUBLES = 0.05


@dataclass(frozen=True, slots=True)
class Column:
    """The points of one tag and rank of one source, in the order of the log; `step` None where it has no steps."""

    tag: str
    step: Ints | None
    value: Floats
    time: Floats | None
    origin: Ints | None
    unit: str = ""  # as the log writes it beside the values

    def rows(self, which: Ints | NDArray[np.bool_] | slice) -> Column:
        """Some of its points: by place, by mask or as a stretch."""
        return Column(
            self.tag,
            None if self.step is None else self.step[which],
            self.value[which],
            None if self.time is None else self.time[which],
            None if self.origin is None else self.origin[which],
            self.unit,
        )

    def steps(self) -> Ints:
        return np.arange(len(self.value), dtype=np.int64) if self.step is None else self.step


def join(pieces: Sequence[Points], tag: str, joined: dict[Any, Any]) -> Column:
    """The batches of one tag as one column; nothing is copied when there is only one.

    `joined` remembers what was joined before: tags whose batches share their steps share the joined steps too.
    """
    if len(pieces) == 1:
        one = pieces[0]
        return Column(tag, one.step, one.value, one.time, one.origin, one.unit)
    stepped = all(piece.step is not None for piece in pieces)
    return Column(
        tag,
        _together([piece.step for piece in pieces], pieces, -1, joined) if stepped else None,
        np.concatenate([piece.value for piece in pieces]),
        _together([piece.time for piece in pieces], pieces, np.nan, joined),
        _together([piece.origin for piece in pieces], pieces, -1, joined),
        pieces[-1].unit if len({piece.unit for piece in pieces}) == 1 else "",
    )


def _together(arrays: Sequence[Any], pieces: Sequence[Points], unknown: float, joined: dict[Any, Any]) -> Any:
    if all(array is None for array in arrays):
        return None
    key = tuple(id(array) for array in arrays), tuple(len(piece.value) for piece in pieces)
    if key not in joined:
        filled = [
            np.full(len(piece.value), unknown) if array is None else array
            for piece, array in zip(pieces, arrays, strict=True)
        ]
        whole = np.concatenate(filled).astype(np.float64 if np.isnan(unknown) else np.int64, copy=False)
        joined[key] = whole, arrays  # the parts are held, so that their identities stay theirs
    return joined[key][0]


# ---- steps -----------------------------------------------------------------------------------------------------------


def increasing(step: Ints) -> bool:
    return len(step) < 2 or bool((step[1:] > step[:-1]).all())


def unwrapped(step: Ints) -> Ints | None:
    """Steps of a 32-bit counter that turned negative, counted on; None when it did not."""
    if len(step) < 2 or step.min() >= 0 or step.max() >= 1 << 31 or step.min() < -(1 << 31):
        return None
    wraps = np.flatnonzero(np.diff(step) < -(1 << 31)) + 1
    wraps = wraps[step[wraps] < 0]
    if not len(wraps):
        return None
    counted = step.copy()
    for at in wraps:
        counted[at:] += 1 << 32
    return counted


def stands_still(step: Ints) -> bool:
    """All points bear one step, and too many for it to be a step that was logged twice."""
    return len(step) >= 3 and bool((step == step[0]).all()) and (step[0] == 0 or len(step) >= 10)


def cuts(step: Ints) -> Ints:
    """Positions where the run went back and did steps again; empty for records that are only out of order.

    Out of order: the steps still fit between each other at the usual spacing. Done again: a step comes twice, or there
    are more points than fit.
    """
    rises = np.diff(step)
    backs = np.flatnonzero(rises < 0) + 1
    if not len(backs):
        return backs
    distinct = np.unique(step)
    spacing = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 1.0
    found: list[int] = []
    start = 0
    while len(found) <= MAX_CUTS:
        at = _next_cut(step, start, backs[backs > start], spacing)
        if at is None:
            break
        found.append(at)
        start = at
    lengths = np.diff([0, *found, len(step)])
    if len(found) > MAX_CUTS or (len(found) > 3 and np.median(lengths) <= 4):
        return np.empty(0, np.int64)  # interleaved writers, not restarts
    return np.array(found, np.int64)


def _next_cut(step: Ints, start: int, backs: Ints, spacing: float) -> int | None:
    if not len(backs):
        return None
    highest = np.maximum.accumulate(step[start:])
    at = backs - start
    to, top = step[backs], highest[at - 1]
    since = np.searchsorted(highest, to)
    before, again = at - since, np.searchsorted(highest, top, "right") - at
    room = (top - to) / spacing + 1
    repeated = (highest[since] == to) | (before + again > 1.05 * room + 0.5)
    from_start = (to < step[start]) & (before >= 3)
    hits = np.flatnonzero(repeated | from_start)
    return int(backs[hits[0]]) if len(hits) else None


# ---- one value a step ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """Which points stay, in order of step (None: all as they are); where each step begins among them; what goes."""

    kept: Ints | None = None
    begins: Ints | None = None  # None: one point a step
    replaced: Ints | None = None


def plan(step: Ints, attempt: Shorts | int) -> Plan:
    """How points in the order of the log become one a step. `attempt` numbers the restarts, one for all or each."""
    if isinstance(attempt, int) and increasing(step):
        return Plan()
    stage = _stages(step, attempt)
    stays = _stays(step, stage)
    kept = np.flatnonzero(stays)
    kept = kept[np.argsort(step[kept], kind="stable")]
    fresh = np.ones(len(kept), bool)
    fresh[1:] = step[kept][1:] != step[kept][:-1]
    sizes = np.diff(np.flatnonzero(fresh), append=len(kept))
    if 0 < (sizes > 1).sum() <= max(1, FEW_DOUBLES * len(sizes)) and sizes.max() == 2:
        last = np.append(fresh[1:], True)
        stays[kept[~last]] = False
        kept, fresh = kept[last], np.ones(len(sizes), bool)
    replaced = np.flatnonzero(~stays)
    return Plan(kept, None if fresh.all() else np.flatnonzero(fresh), replaced if len(replaced) else None)


def _stages(step: Ints, attempt: Shorts | int) -> Ints:
    """Attempts, and within them the cuts of this quantity alone."""
    edge = np.zeros(len(step), np.int64)
    bounds = [0, len(step)] if isinstance(attempt, int) else [0, *(np.flatnonzero(np.diff(attempt)) + 1), len(step)]
    for begin, end in itertools.pairwise(bounds):
        if begin:
            edge[begin] = 1
        edge[begin + cuts(step[begin:end])] = 1
    return np.cumsum(edge)


def _stays(step: Ints, stage: Ints) -> NDArray[np.bool_]:
    """What no later stage replaced: all that lies before the first step of each later one."""
    stays = np.ones(len(step), bool)
    limit: int | None = None
    begins = np.flatnonzero(np.diff(stage, prepend=-1))
    ends = [*begins[1:], len(step)]
    for begin, end in zip(begins[::-1], ends[::-1], strict=True):
        own = step[begin:end]
        if limit is not None:
            stays[begin:end] &= own < limit
        earlier = step[:begin]
        first = int(own.min())
        if begin and first <= earlier.min() and end - begin < SMALL_REPEAT * (earlier > own.max()).sum():
            stays[:begin] &= (earlier < first) | (earlier > own.max())
            continue
        limit = first if limit is None else min(limit, first)
    return stays


def picked(array: Any, way: Plan) -> Any:
    """The entries that stay: of several at one step the last."""
    if way.kept is None:
        return array
    return array[way.kept if way.begins is None else way.kept[np.append(way.begins[1:], len(way.kept)) - 1]]


def averaged(value: Floats, way: Plan) -> tuple[Floats, int]:
    """The values that stay, of several at one step their mean; and at how many steps they differed."""
    if way.begins is None or way.kept is None:
        return picked(value, way), 0
    in_order = value[way.kept]
    sizes = np.diff(way.begins, append=len(in_order))
    low = np.minimum.reduceat(in_order, way.begins)
    agree = low == np.maximum.reduceat(in_order, way.begins)
    with np.errstate(invalid="ignore"):
        mean = np.add.reduceat(in_order, way.begins) / sizes
    return np.where(agree, low, mean), int((~agree & (sizes > 1)).sum())


# ---- clocks ----------------------------------------------------------------------------------------------------------

JITTER = 5.0  # seconds that a clock may go back in the disorder of asynchronous writers
_EARLIEST, _LATEST = 1e8, 4.2e9  # Unix seconds: 1973 to 2103


def sane_clock(time: Floats) -> tuple[Floats, str]:
    """Unix seconds, and what had to be mended in words: another unit, a date that cannot be (NaN)."""
    finite = time[np.isfinite(time)]
    if not len(finite) or (finite.min() > _EARLIEST and finite.max() < _LATEST):
        return time, ""
    middle = float(np.median(finite))
    for factor, unit in (
        (1e-3, "milliseconds"),
        (1e-6, "microseconds"),
        (1e-9, "nanoseconds"),
        (1e3, "thousands of seconds"),
    ):
        if 1e9 <= middle * factor < _LATEST and not _EARLIEST < middle < _LATEST:
            return time * factor, f"wall times are in {unit}, not seconds; they are read as such"
    wrong = ~((time > _EARLIEST) & (time < _LATEST)) & np.isfinite(time)
    return np.where(wrong, np.nan, time), f"{int(wrong.sum()):,} wall times are no possible dates and set aside"


def forward_clock(time: Floats) -> tuple[Floats, int]:
    """Times of rising steps with every backward jump (summer time, another host) taken out, and how many there were."""
    known = np.flatnonzero(np.isfinite(time))
    if len(known) < 2:
        return time, 0
    passed = np.diff(time[known])
    jumps = np.flatnonzero(passed < -JITTER)
    if not len(jumps):
        return time, 0
    usual = float(np.median(passed[passed >= 0])) if (passed >= 0).any() else 0.0
    mended = time.copy()
    for jump in jumps:
        back = usual - passed[jump]
        mended[known[jump + 1] :] += 3600.0 if abs(back - 3600.0) < 60.0 + 2 * usual else back
    return mended, len(jumps)
