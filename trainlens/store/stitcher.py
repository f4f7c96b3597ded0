"""Each tag and rank of a run, from all its files, as one line: one value a step. Part of `store`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainlens import catalog
from trainlens.figures import counted
from trainlens.model import Floats, Ints, Note
from trainlens.store.attempts import BYTES, Numbers
from trainlens.store.placing import OUTSIDE
from trainlens.store.relate import File
from trainlens.store.stitch import (
    Column,
    Plan,
    Shorts,
    averaged,
    forward_clock,
    picked,
    plan,
    sane_clock,
    stands_still,
    unwrapped,
)

# ---- what stitching has to say ---------------------------------------------------------------------------------------


@dataclass
class Told:
    """Tags, or texts with their count, for one Note a kind."""

    stepless: list[str] = field(default_factory=list)
    wrapped: list[str] = field(default_factory=list)
    doubled: dict[str, int] = field(default_factory=dict)
    again: dict[int, _Again] = field(default_factory=dict)  # by the file whose rows gave way
    clocks: dict[str, int] = field(default_factory=dict)

    def notes(self) -> Iterable[Note]:
        """What is true of the run."""
        if self.stepless:
            text = f"no step numbers for {names(self.stepless)}: the position in the log counts as the step"
            yield Note("no-steps", text, count=len(self.stepless))
        if self.wrapped:
            text = f"the step of {names(self.wrapped)} overflows 32 bits and turns negative: counted on past 2^31"
            yield Note("damaged", text, count=len(self.wrapped))
        if self.doubled:
            steps = max(self.doubled.values())
            text = (
                f"several values at one step for {names(self.doubled)}: their mean is kept ({counted(steps, 'step')})"
            )
            yield Note("duplicate-steps", text, count=steps)
        for text, count in self.clocks.items():
            yield Note("clock", text, count=count)

    def notes_of(self, file: File) -> Iterable[Note]:
        """What is true of one file."""
        if again := self.again.get(file.index):
            steps = max(again.tags.values())
            text = f"{counted(steps, 'step')} logged twice, as after a restart there, the first at {again.step:,}: "
            text += f"the later value is kept ({names(again.tags)})"
            byte = file.format in BYTES
            place = None if again.origin < 0 else again.origin
            yield Note("duplicate-steps", text, None if byte else place, place if byte else None, steps)


@dataclass
class _Again:
    """Steps that a file logs twice: the first of them, where it stands first, how many of each tag."""

    step: int
    origin: int
    tags: dict[str, int] = field(default_factory=dict)


def names(tags: Iterable[str]) -> str:
    some = sorted(set(tags))
    return ", ".join(some[:3]) + (f" and {len(some) - 3} more" if len(some) > 3 else "")


# ---- one value a step ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One tag and rank of the whole run, one value a step."""

    tag: str
    step: Ints
    value: Floats
    time: Floats
    attempt: Shorts
    source: Shorts
    origin: Ints
    replaced: Line | None = None
    positional: bool = False
    unit: str = ""

    def column(self) -> Column:
        return Column(self.tag, self.step, self.value, None, None)


Part = tuple[File, Column]


@dataclass(frozen=True)
class _Way:
    """How the points of some tags are stitched: the same for all tags that share their arrays of steps."""

    plan: Plan
    all_steps: Ints
    all_attempts: Shorts
    all_sources: Shorts
    step: Ints
    attempt: Shorts
    source: Shorts
    positional: bool
    wrapped: bool


@dataclass
class Stitcher:
    """Stitches tag by tag; what depends on shared arrays alone is done once, found by their identity."""

    numbers: Mapping[int, Numbers]
    told: Told
    ways: dict[Any, _Way] = field(default_factory=dict)
    times: dict[Any, Floats] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)  # keeps the arrays, so that their identities stay theirs

    def line(self, parts: Sequence[Part]) -> Line:
        columns = [column for _, column in parts]
        tag = columns[0].tag
        key = tuple((file.index, id(column.step), len(column.value)) for file, column in parts)
        if key not in self.ways:
            self.ways[key] = self._way(parts)
            self.held.append([column.step for column in columns])
        way = self.ways[key]
        value = _joined([column.value for column in columns])
        time, all_times = self._time(columns, way, key)
        origin = _joined([_or_unknown(column.origin, len(column.value)) for column in columns])
        if way.positional and not tag.startswith(OUTSIDE):  # those were told of when they were set apart
            self.told.stepless.append(tag)
        if way.wrapped:
            self.told.wrapped.append(tag)
        kept, doubled = averaged(value, way.plan)
        if doubled and catalog.runs_on(tag):
            kept = picked(value, way.plan)
        elif doubled:
            self.told.doubled[tag] = doubled
        replaced = None
        if way.plan.replaced is not None:
            if not np.ptp(way.all_attempts) and not catalog.runs_on(tag):
                self._tell_again(tag, way, way.plan.replaced, value, kept, origin)
            gone = way.plan.replaced[np.argsort(way.all_steps[way.plan.replaced], kind="stable")]
            attempt, source = way.all_attempts[gone], way.all_sources[gone]
            replaced = Line(tag, way.all_steps[gone], value[gone], all_times[gone], attempt, source, origin[gone])
        unit = columns[0].unit if len({column.unit for column in columns}) == 1 else ""
        origin = picked(origin, way.plan)
        return Line(tag, way.step, kept, time, way.attempt, way.source, origin, replaced, way.positional, unit)

    def _tell_again(self, tag: str, way: _Way, gone: Ints, value: Floats, kept: Floats, origin: Ints) -> None:
        at = np.searchsorted(way.step, way.all_steps[gone]).clip(max=len(way.step) - 1)
        differ = gone[value[gone] != kept[at]]
        for file in np.unique(way.all_sources[differ]).tolist():
            own = differ[way.all_sources[differ] == file]
            first = own[np.argmin(way.all_steps[own])]
            again = self.told.again.setdefault(file, _Again(int(way.all_steps[first]), int(origin[first])))
            again.tags[tag] = len(own)

    def _way(self, parts: Sequence[Part]) -> _Way:
        number = [self.numbers[file.index].of(column) for file, column in parts]
        steps = _joined([column.steps() for _, column in parts])
        counted = unwrapped(steps)
        positional = any(column.step is None for _, column in parts) or stands_still(steps)
        if positional:
            steps = np.arange(len(steps), dtype=np.int64)
        elif counted is not None:
            steps = counted
        sizes = [len(column.value) for _, column in parts]
        attempt = _joined([_spread(one, size) for one, size in zip(number, sizes, strict=True)])
        source = _joined([_spread(file.index, size) for (file, _), size in zip(parts, sizes, strict=True)])
        single = number[0] if len(number) == 1 else attempt
        found = Plan() if positional else plan(steps, single)
        chosen = picked(steps, found), picked(attempt, found), picked(source, found)
        return _Way(found, steps, attempt, source, *chosen, positional, counted is not None and not positional)

    def _time(self, columns: Sequence[Column], way: _Way, key: Any) -> tuple[Floats, Floats]:
        """The clock of the points that stay, mended, and of all points as logged."""
        size = sum(len(column.value) for column in columns)
        if all(column.time is None for column in columns):
            return np.broadcast_to(np.float64(np.nan), len(way.step)), np.broadcast_to(np.float64(np.nan), size)
        all_times = _joined([self._sane(column) for column in columns])
        key = key, tuple(id(column.time) for column in columns)
        if key not in self.times:
            time = picked(all_times, way.plan)
            if len(way.attempt) < 2 or way.attempt.strides == (0,) or (np.diff(way.attempt) >= 0).all():
                time, jumps = forward_clock(time)
                if jumps:
                    text = "the clock goes back while the steps go on; the jumps are taken out of the times"
                    self.told.clocks[text] = max(jumps, self.told.clocks.get(text, 0))
            self.times[key] = time
            self.held.append([column.time for column in columns])
        return self.times[key], all_times

    def _sane(self, column: Column) -> Floats:
        if column.time is None:
            return _or_unknown(None, len(column.value), np.nan)  # type: ignore[no-any-return]
        if id(column.time) not in self.times:
            self.times[id(column.time)], text = sane_clock(column.time)
            self.held.append(column.time)
            if text:
                self.told.clocks[text] = self.told.clocks.get(text, 0) + 1
        return self.times[id(column.time)]


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _spread(number: Shorts | int, size: int) -> Shorts:
    return np.broadcast_to(np.int16(number), size) if isinstance(number, int) else number


def _or_unknown(array: Any, size: int, unknown: float = -1) -> Any:
    if array is not None:
        return array
    return np.broadcast_to(np.float64(unknown) if np.isnan(unknown) else np.int64(unknown), size)
