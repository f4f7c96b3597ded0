"""The attempts of a run: where it was restarted, in every file, and what each restart did again. Part of `store`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trainlens.model import Attempt, Event, Ints, Note, Place
from trainlens.store.relate import File
from trainlens.store.stitch import JITTER, Column, Shorts, cuts, forward_clock, sane_clock, stands_still, unwrapped

# In event files and other binary formats the origin of a point is a byte, elsewhere a line.
BYTES = frozenset(("tfevents", "tensorboard", "wandb", "swanlab-records", "nsys"))


@dataclass(frozen=True)
class Numbers:
    """The attempts of one file: the number of its first, and where the next ones begin."""

    first: int
    at: Ints  # positions in the densest column
    origin: Ints | None  # of these positions
    step: Ints | None  # the densest column's own
    placed: dict[int, Shorts] = field(default_factory=dict)  # by the identity of steps that a clock gave

    def of(self, column: Column) -> Shorts | int:
        """The attempt of each point of a column of that file."""
        if (given := self.placed.get(id(column.step))) is not None:
            return given
        if not len(self.at):
            return self.first
        if column.step is self.step:
            passed = np.searchsorted(self.at, np.arange(len(column.value)), "right")
        elif self.origin is not None and column.origin is not None:
            passed = np.searchsorted(self.origin, column.origin, "right")
        else:
            own = cuts(column.steps())
            passed = np.searchsorted(own, np.arange(len(column.value)), "right")
        return (self.first + passed).astype(np.int16)


def numbered(files: Sequence[File], events: Sequence[Event]) -> dict[int, Numbers]:
    """For each file (by index) how its points are numbered by attempts; sessions count on from each other."""
    known: dict[int, tuple[Ints, Column]] = {}
    for file in files:
        densest = file.densest()
        at = np.empty(0, np.int64) if densest.step is None or stands_still(densest.step) else cuts(_counted(densest))
        known[file.index] = np.union1d(at, _stated(densest, file, events)).astype(np.int64), densest
    offset, numbers = 0, dict[int, Numbers]()
    for file in files:
        if file.aside:
            numbers[file.index] = Numbers(0, np.empty(0, np.int64), None, known[file.index][1].step)
    training = [file for file in files if not file.aside]
    for session in sorted({file.session for file in training}):
        members = [file for file in training if file.session == session]
        for file in members:
            at, densest = known[file.index]
            origin = None if densest.origin is None else densest.origin[at]
            numbers[file.index] = Numbers(offset, at, origin, densest.step)
        offset += 1 + max(len(known[file.index][0]) for file in members)
    return numbers


def _counted(column: Column) -> Ints:
    steps = unwrapped(column.steps())
    return column.steps() if steps is None else steps


def _stated(column: Column, file: File, events: Sequence[Event]) -> Ints:
    """Positions of a column before which the log itself says that the run was restarted."""
    lines = [
        event.place.line
        for event in events
        if event.kind == "restart" and event.place and event.place.line and event.place.path == file.name
    ]
    if column.origin is None or not lines or file.format in BYTES:
        return np.empty(0, np.int64)
    at = np.unique(np.searchsorted(column.origin, lines))
    return at[(at > 0) & (at < len(column.value))]


def attempts(files: Sequence[File], numbers: dict[int, Numbers]) -> tuple[list[Attempt], list[Event], list[Note]]:
    """The attempts in turn, and what each did again."""
    best: dict[int, tuple[int, Attempt]] = {}
    for file in files:
        if file.same_as is not None or file.aside:
            continue
        densest, number = file.densest(), numbers[file.index]
        steps = _counted(densest)
        bounds = [0, *number.at.tolist(), len(steps)]
        for k, (begin, end) in enumerate(itertools.pairwise(bounds)):
            attempt = _attempt(file, densest, steps, begin, end)
            known = best.get(number.first + k)
            if known is None or end - begin > known[0]:
                best[number.first + k] = end - begin, attempt
    found = _forward([best[number][1] for number in sorted(best)])
    events: list[Event] = []
    top = found[0].last_step if found else 0
    for attempt in found[1:]:
        if attempt.first_step <= top:
            text = f"resumed at step {attempt.first_step:,} after step {top:,} had been logged"
            events.append(Event("rollback", text, attempt.first_step, attempt.first_time, place=attempt.place))
        top = attempt.last_step
    if not events:
        return found, [], []
    more = f" (and {len(events) - 1:,} times more)" if len(events) > 1 else ""
    text = f"{events[0].text}{more}: what was logged twice is replaced by the later attempt"
    return found, events, [Note("duplicate-steps", text, count=len(events))]


def _forward(found: Sequence[Attempt]) -> list[Attempt]:
    """The attempts with clocks that go on where the last one stopped, as those of the series do (`forward_clock`)."""
    shift = 0.0
    mended: list[Attempt] = []
    for attempt in found:
        before = mended[-1].last_time if mended else None
        if attempt.first_time is not None and attempt.last_time is not None:
            if before is not None and attempt.first_time + shift < before - JITTER:
                shift = before - attempt.first_time
            attempt = replace(attempt, first_time=attempt.first_time + shift, last_time=attempt.last_time + shift)
        mended.append(attempt)
    return mended


def _attempt(file: File, column: Column, steps: Ints, begin: int, end: int) -> Attempt:
    times = None if column.time is None else forward_clock(sane_clock(column.time[begin:end])[0])[0]
    known = np.empty(0) if times is None else times[np.isfinite(times)]
    place = None
    if column.origin is not None:
        origin = int(column.origin[begin])
        place = Place(file.name, byte=origin) if file.format in BYTES else Place(file.name, line=origin)
    return Attempt(
        int(steps[begin:end].min()),
        int(steps[begin:end].max()),
        float(known[0]) if len(known) else None,
        float(known[-1]) if len(known) else None,
        place,
    )
