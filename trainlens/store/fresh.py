"""Several runs written one after another into one file: each that began anew becomes a run of its own.

A restart goes on from a checkpoint; a fresh start begins at or before the first step the file ever had, or after one of
its own intervals: that is where a counter stands at the first row of a run that logs every so many steps. What a later
attempt of one run did again replaces the earlier points, but runs that stand side by side must not replace each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.model import Event, Fact, Ints, Place
from trainlens.store.attempts import BYTES, numbered
from trainlens.store.relate import File
from trainlens.store.stitch import Column

LEAST_STEPS = 3  # different ones, of a stretch that counts as a run; shorter ones are taken for a restart
_OF_THE_NEXT = frozenset(("run-start", "restart", "checkpoint-load"))  # what a run says before its first row


@dataclass(frozen=True)
class Stretch:
    """One of the runs in a file: its columns, and what the file says of it."""

    file: File
    events: tuple[Event, ...]
    facts: tuple[Fact, ...]


def stretches(file: File, events: Sequence[Event], facts: Sequence[Fact]) -> list[Stretch]:
    """The runs in a file, in turn; a list of one where none began anew."""
    densest = file.densest() if file.columns else None
    if densest is None or densest.step is None or densest.origin is None or file.format in BYTES:
        return [Stretch(file, tuple(events), tuple(facts))]
    bounds = _fresh_starts(densest.step, numbered([file], events)[file.index].at)
    if len(bounds) == 2:
        return [Stretch(file, tuple(events), tuple(facts))]
    begins, lasts = densest.origin[bounds[:-1]], np.array(bounds[1:]) - 1
    ends, tops = densest.origin[lasts], densest.step[lasts]
    cuts = {key: _own_cuts(column, begins, ends, tops) for key, column in file.columns.items()}
    found = []
    for number, at in enumerate(bounds[:-1]):
        columns = {key: column.rows(slice(*cuts[key][number : number + 2])) for key, column in file.columns.items()}
        kept = {key: column for key, column in columns.items() if len(column.value)}
        said = _between(events, begins, ends, number)
        if number:
            start = f"restarted from step {densest.step[at]:,}: run {number + 1} of {len(begins)} in this file"
            said.insert(0, Event("run-start", start, place=Place(file.name, line=int(begins[number]))))
        # A log states its settings once and later only what changed.
        until = np.inf if number == len(begins) - 1 else int(ends[number])
        stated = {fact.name: fact for fact in facts if _line(fact) <= until}
        found.append(Stretch(File(file.index, file.name, file.format, kept), tuple(said), tuple(stated.values())))
    return found


def _fresh_starts(step: Ints, cuts: Ints) -> list[int]:
    """Positions where a run begins, 0 and the end included."""
    bounds = [0]
    for at, following in itertools.pairwise([*cuts.tolist(), len(step)]):
        both = step[bounds[-1] : at], step[at:following]
        old, new = (np.unique(one[:1000]) for one in both)
        if min(len(old), len(new)) < LEAST_STEPS:
            continue
        after_one = step[0] >= np.diff(old).min()  # so the first run began
        if step[at] <= max(step[0], np.diff(new).min() if after_one else 0):
            bounds.append(at)
    return [*bounds, len(step)]


def _own_cuts(column: Column, begins: Ints, ends: Ints, tops: Ints) -> list[int]:
    """Where each stretch begins in a column, and its end. Between two stretches a lower step is of the next one."""
    if column.origin is None:
        return [0, *[len(column.value)] * len(begins)]
    cuts = [0]
    for begin, end, top in zip(begins[1:], ends, tops, strict=False):
        low, high = (int(at) for at in np.searchsorted(column.origin, [end + 1, begin]))
        back = np.flatnonzero(column.steps()[low:high] < top)
        cuts.append(low + int(back[0]) if len(back) else high)
    return [*cuts, len(column.value)]


def _between(events: Iterable[Event], begins: Ints, ends: Ints, number: int) -> list[Event]:
    """Events of one stretch: how it ended comes after its last row, how the next began before its first."""
    kept = []
    for event in events:
        line = _line(event)
        of = int(np.searchsorted(begins, line, "right")) - 1
        if event.kind in _OF_THE_NEXT and of + 1 < len(begins) and line > ends[max(of, 0)]:
            of += 1
        if max(of, 0) == number:
            kept.append(event)
    return kept


def _line(said: Event | Fact) -> int:
    return said.place.line or 0 if said.place is not None else 0
