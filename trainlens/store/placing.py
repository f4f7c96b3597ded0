"""Samples that have a clock but no steps, placed at the steps of training by time. Part of `store`.

Pollers of GPUs, the system metrics of trackers and kernel logs know when and not at which step. The training's own
points know both. A sample is of the step that was under way then, between two logged steps in proportion to the time;
what comes before the first is of the first. What lies far outside keeps its position under a name of its own.

Clocks without a time zone are those of another place at times: where a file and the training never meet, the one shift
by whole hours (else half hours) that makes them meet is taken, and none where several would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trainlens import catalog
from trainlens.model import Event, Floats, Ints, Note
from trainlens.store import machines
from trainlens.store.attempts import Numbers
from trainlens.store.relate import File, Key
from trainlens.store.stitch import Column, Shorts, sane_clock, stands_still, unwrapped

OUTSIDE = "outside the run: "  # before the tags of samples that no step can be given
LEAD = 3600.0  # seconds before its first point in which a training may be starting up
LATE = 3600.0  # seconds after its last point in which an event may still be its end
TAIL = 2.0  # usual gaps between points that pass until a training counts as stopped
MEETS = 0.2  # part of the shorter of two recordings that they share, so that their clocks are the same
FITS = 0.95  # the same when one has been shifted
LEAST = 0.3  # part of the longer recording that the shorter must be, so that one shift alone proves something
ZONES = 14  # hours that a time zone may be away
NEVER = "no part was taken while the training ran"
SEVERAL = "several time zones would bring its clock and that of the training together"

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Clock:
    """When a training reached its steps: rows in order of time."""

    time: Floats
    step: Ints
    attempt: Shorts

    @property
    def tail(self) -> float:
        passed = np.diff(self.time)
        return max(5.0, TAIL * float(np.median(passed))) if len(passed) else 5.0

    def under_way(self, time: Floats) -> tuple[Ints, Shorts, Mask]:
        """Step and attempt at each time, and whether any was under way."""
        after = np.searchsorted(self.time, time)
        last = len(self.time) - 1
        low, high = np.clip(after - 1, 0, last), np.clip(after, 0, last)
        inside = np.isfinite(time) & np.where(after == 0, self.time[0] - time <= LEAD, True)
        stopped = (self.attempt[low] != self.attempt[high]) | (after > last)
        stays = stopped & (time - self.time[low] <= self.tail)
        inside &= ~stopped | stays | ((after <= last) & (self.time[high] - time <= LEAD))
        spent = np.maximum(self.time[high] - self.time[low], 1e-9)
        part = self.step[low] + (time - self.time[low]) / spent * (self.step[high] - self.step[low])
        between = (after > 0) & ~stopped
        step = np.where(between, np.ceil(np.where(between, part, 0.0)), 0).astype(np.int64)
        step = np.where(between, np.clip(step, self.step[low], self.step[high]), self.step[high])
        step = np.where(stays, self.step[low], step)
        return step, np.where(stays, self.attempt[low], self.attempt[high]).astype(np.int16), inside

    def reached(self, time: float) -> int | None:
        """The last step that was done by then; None before the first and long after the end."""
        at = int(np.searchsorted(self.time, time, "right")) - 1
        if at < 0 or (at == len(self.time) - 1 and time - self.time[at] > LATE):
            return None
        step = int(self.step[at])
        if at + 1 < len(self.time) and self.attempt[at] == self.attempt[at + 1]:
            part = (time - self.time[at]) / max(self.time[at + 1] - self.time[at], 1e-9)
            step += int(part * (self.step[at + 1] - self.step[at]))
        return step


@dataclass
class Placing:
    """Places what has no steps in the files of one run; says what it did."""

    files: Sequence[File]
    numbers: Mapping[int, Numbers]
    clocks: dict[str, Clock] = field(default_factory=dict)  # of each format that tells of the training
    shifts: dict[str, float] = field(default_factory=dict)  # by format of the samples, seconds
    told: list[Note] = field(default_factory=list)
    held: list[object] = field(default_factory=list)  # keeps arrays whose identities are remembered

    def __post_init__(self) -> None:
        formats = {file.format for file in self.files if not file.aside and file.same_as is None}
        for name in sorted(formats):
            own = [file for file in self.files if file.format == name and not file.aside and file.same_as is None]
            if (clock := _clock(own, self.numbers)) is not None:
                self.clocks[name] = clock

    def columns(self) -> None:
        """Give steps to the samples in all files; their attempts are kept in `numbers`."""
        if not self.clocks:
            return
        for file in self.files:
            if not file.aside and (clock := self.clocks.get(file.format)) is not None:
                loose = {key: one for key, one in file.columns.items() if one.step is None and one.time is not None}
                self._place(file, clock, 0.0, {key for key, one in loose.items() if _of_machine(one.tag)})
        aside = [file for file in self.files if file.aside and machines.watches(file)]
        for name in sorted({file.format for file in aside}):
            self._samples(name, [file for file in aside if file.format == name])

    def events(self, events: Sequence[Event]) -> list[Event]:
        """The events, those without a step at the one that was done by then."""
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        if event.step is not None or event.time is None or not self.clocks:
            return event
        shifts = {0.0, *self.shifts.values()} if len(set(self.shifts.values())) == 1 else {0.0}
        for shift in sorted(shifts, key=abs):
            for clock in self._by_size():
                if (step := clock.reached(event.time + shift)) is not None:
                    return replace(event, step=step)
        return event

    def _by_size(self) -> list[Clock]:
        return sorted(self.clocks.values(), key=lambda clock: -len(clock.time))

    def _samples(self, name: str, files: Sequence[File]) -> None:
        times = [one for file in files for one in _times(file)]
        if not times:
            return
        found = _shift(np.concatenate(times), self._by_size())
        some = ", ".join(file.name for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        if isinstance(found, str):
            text = f"{found}: the samples of {some} keep their positions"
            text += "" if found is SEVERAL else " and are not judged"
            self.told.append(Note("clock", text, count=len(files)))
            if found is not SEVERAL:
                for file in files:
                    file.columns = {(f"{OUTSIDE}{tag}", rank): _apart(one) for (tag, rank), one in file.columns.items()}
            return
        clock, shift = found
        self.shifts[name] = shift
        outside = sum(self._place(file, clock, shift, set(file.columns)) for file in files)
        hours = f"{abs(shift) / 3600:g} h {'later' if shift > 0 else 'earlier'} than written (a time zone)"
        text = f"the samples of {some} are placed at the training's steps by their clock"
        text += f", read as {hours}" if shift else ""
        text += f"; {outside:,} values lie outside the run and are kept apart" if outside else ""
        self.told.append(Note("clock", text, count=max(1, outside)))

    def _place(self, file: File, clock: Clock, shift: float, keys: set[Key]) -> int:
        """Give steps to some columns of a file. Returns how many points lie outside the run."""
        ways: dict[int, _Way] = {}  # by the identity of times, which many columns share
        outside, placed = 0, self.numbers[file.index].placed
        for key in sorted(keys):
            column = file.columns[key]
            if column.step is not None or column.time is None:
                continue
            if id(column.time) not in ways:
                way = ways[id(column.time)] = _way(column.time, clock, shift)
                placed[id(way.step)] = way.attempt
                self.held.append(way)
            way = ways[id(column.time)]
            if not way.inside.any():
                continue
            if not way.inside.all():
                outside += int((~way.inside).sum())
                file.columns[f"{OUTSIDE}{key[0]}", key[1]] = _apart(_some(column, ~way.inside, None, way.apart))
                file.columns[key] = _some(column, way.inside, way.step, way.time)
            else:
                file.columns[key] = replace(column, step=way.step, time=way.time if shift else column.time)
        return outside


@dataclass(frozen=True)
class _Way:
    """How rows of one clock are placed: times, steps and attempts of those inside, times of the others."""

    inside: Mask
    time: Floats
    step: Ints
    attempt: Shorts
    apart: Floats


def _way(time: Floats, clock: Clock, shift: float) -> _Way:
    shifted = sane_clock(time)[0] + shift
    step, attempt, inside = clock.under_way(shifted)
    return _Way(inside, shifted[inside], step[inside], attempt[inside], shifted[~inside])


def _some(column: Column, rows: Mask, step: Ints | None, time: Floats) -> Column:
    origin = None if column.origin is None else column.origin[rows]
    return Column(column.tag, step, column.value[rows], time, origin, column.unit)


def _apart(column: Column) -> Column:
    return replace(column, tag=f"{OUTSIDE}{column.tag}")


def _of_machine(tag: str) -> bool:
    return tag.startswith("system") or catalog.resolve([tag])[tag].role in machines.ROLES


def _times(file: File) -> list[Floats]:
    """The clocks of what has no steps, in Unix seconds."""
    own = {id(one.time): one.time for one in file.columns.values() if one.step is None and one.time is not None}
    return [known for time in own.values() if len(known := _known(time))]


def _known(time: Floats) -> Floats:
    sane = sane_clock(time)[0]
    return sane[np.isfinite(sane)]


def _clock(files: Sequence[File], numbers: Mapping[int, Numbers]) -> Clock | None:
    """The clock of the points of files of one format: of each session the fullest column that has steps and times."""
    fullest: dict[int, tuple[File, Column]] = {}
    for file in files:
        for column in file.columns.values():
            known = fullest.get(file.session)
            if column.step is None or column.time is None or stands_still(column.step):
                continue
            if known is None or len(column.value) > len(known[1].value):
                fullest[file.session] = file, column
    rows: list[tuple[Floats, Ints, Shorts]] = []
    for file, column in fullest.values():
        if column.time is not None:
            number = numbers[file.index].of(column)
            attempt = np.broadcast_to(np.int16(number), len(column.value)) if isinstance(number, int) else number
            counted = unwrapped(column.steps())
            rows += _forward(sane_clock(column.time)[0], column.steps() if counted is None else counted, attempt)
    if sum(len(time) for time, _, _ in rows) < 2:
        return None
    rows.sort(key=lambda row: float(row[0][0]))
    time, step, attempt = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Clock(np.maximum.accumulate(time), step, attempt)


def _forward(time: Floats, step: Ints, attempt: Shorts) -> Iterator[tuple[Floats, Ints, Shorts]]:
    """The rows of each attempt whose time is known, neither time nor step going back."""
    known = np.isfinite(time)
    time, step, attempt = time[known], step[known], attempt[known]
    for number in np.unique(attempt):
        own = attempt == number
        yield np.maximum.accumulate(time[own]), np.maximum.accumulate(step[own]), attempt[own]


def _shift(times: Floats, clocks: Sequence[Clock]) -> tuple[Clock, float] | str:
    """The clock that samples were taken beside, and by how much theirs is shifted; in words why that cannot be told."""
    first, last = float(times.min()), float(times.max())
    meets = [_share(first, last, clock) for clock in clocks]
    best, clock = int(np.argmax(meets)), clocks[0]
    if meets[best] >= MEETS:
        return clocks[best], 0.0
    for step in (3600.0, 1800.0):
        shifts = np.arange(-ZONES * 3600.0, ZONES * 3600.0 + 1, step)
        fits = [one for one in shifts.tolist() if _share(first + one, last + one, clock) >= FITS]
        if fits:
            lengths = last - first, float(clock.time[-1] - clock.time[0])
            if len(fits) == 1 and not meets[best] and min(lengths) >= LEAST * max(lengths):
                return clock, fits[0]
            return (clocks[best], 0.0) if meets[best] else SEVERAL
    return (clocks[best], 0.0) if meets[best] else NEVER


def _share(first: float, last: float, clock: Clock) -> float:
    """The part of the shorter of two recordings that they share; one moment counts as a second."""
    begin, end = float(clock.time[0]), float(clock.time[-1])
    shorter = min(last - first, end - begin)
    return max(0.0, (min(last, end) - max(first, begin) + 1.0) / (shorter + 1.0))
