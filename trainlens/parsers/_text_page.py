"""What a text log has said so far: the points of the current block, and the place in the run that lines belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trainlens.model import NO_RANK, Event, Fact, Floats, Ints, Note, Place, Points, Value
from trainlens.parsers._marks import Rows
from trainlens.parsers._shapes import Shapes

Key = tuple[str, int]  # tag and rank

# What stands for unknown: nanoGPT before it has measured, https://github.com/karpathy/nanoGPT (train.py)
UNKNOWN = {"mfu": -100.0}
# A figure that was never measured is printed as a constant; the point stays, a Note tells of it.
_TIMER = "train_time"  # since the start, https://github.com/KellerJordan/modded-nanogpt (train_gpt.py)
_PLAIN_STEPS = frozenset(("step", "steps", "iteration", "iterations", "step/max steps"))
_PLACEHOLDERS = {"loss scale": -1.0, "grad norm": 0.0, "grad_norm": 0.0}


@dataclass(slots=True)
class _Column:
    step: list[int | None] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    time: list[float | None] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


Part = tuple[Points, Ints]  # and where each point stands in the order of the log


@dataclass(slots=True)
class Columns:
    """Points of one block read by column: `value[tag]` belongs to rows of `step`, `time`, `line` (None: to all)."""

    step: Ints
    time: Floats | None
    line: Ints
    value: dict[str, tuple[Floats, Ints | None]]


class Page:
    """Collects what the lines of a block say, and remembers between blocks where in the run the log stands."""

    def __init__(self, name: str, subject: str = "value") -> None:
        self.name = name
        self.subject = subject  # what a column of numbers without a name is
        self.line = 1  # of the line being read
        self.shift = 0  # by which parts of lines (as carriage returns part them) are ahead of the number of their line
        self.step: int | None = None  # the last step logged
        self.loop: int | None = None  # the step of DeepSpeed-Chat's own loop: its two optimisers count for themselves
        self.time: float | None = None  # of the line being read
        self.events: list[Event] = []
        self.facts: list[Fact] = []
        self.points = 0
        self.stepless = True
        self.dropped: Counter[str] = Counter()
        self.units: dict[str, str] = {}  # of tags, as written behind their values; "" where they differ
        self.steps_from: Counter[str] = Counter()  # rows, by what their step was taken from; "" for those without
        self.shapes = Shapes()
        self._columns: dict[Key, _Column] = {}
        self._parts: dict[Key, list[Part]] = {}
        self._known_facts: dict[str, Value] = {}
        self._constant: dict[str, float] = dict(_PLACEHOLDERS)
        self._seen: set[str] = set()
        self._reset: int | None = None  # the step at which a timer began again
        self._drawn: dict[Key, tuple[int, float] | None] = {}  # the last points of tags of progress bars

    # ---- what the lines say --------------------------------------------------------------------------------------

    def point(self, tag: str, value: float, rank: int = NO_RANK, step: int | None = None) -> None:
        """A point at `step`, at the last step logged where the line names none."""
        column = self._columns.get((tag, rank))
        if column is None:
            column = self._columns[tag, rank] = _Column()
        column.step.append(self.step if step is None else step)
        column.value.append(value)
        column.time.append(self.time)
        column.line.append(self.line)
        column.order.append(self.line + self.shift)

    def drawn(self, tag: str, rank: int) -> None:
        """The tag is one of a progress bar: a point that comes again at once has only been drawn again."""
        self._drawn.setdefault((tag, rank), None)

    def rows(self, rows: Rows, origin: Ints, order: Ints | None = None) -> None:
        """Points of many lines of one shape; `origin` has the numbers of the lines, `order` those of their parts."""
        order = origin if order is None else order
        self.steps_from[rows.named] += len(origin)
        for tag, value in rows.values.items():
            if rows.bar:
                self.drawn(tag, rows.rank)
            step, time, lines, places = rows.step, rows.time, origin, order
            if tag in UNKNOWN and bool((value == UNKNOWN[tag]).any()):
                keep = value != UNKNOWN[tag]
                self.dropped[tag] += int((~keep).sum())
                step, value, lines, places = step[keep], value[keep], lines[keep], places[keep]
                time = None if time is None else time[keep]
            part = Points(tag, step, value, time, rows.rank, lines), places
            self._parts.setdefault((tag, rows.rank), []).append(part)

    def unit(self, tag: str, written: str) -> None:
        if self.units.setdefault(tag, written) != written:
            self.units[tag] = ""

    def fact(self, name: str, value: Value) -> None:
        if self._known_facts.get(name) != value:
            self._known_facts[name] = value
            self.facts.append(Fact(name, value, Place(self.name, self.line)))

    def at_step(self, step: int, total: int | None = None) -> None:
        self.step = step
        self.stepless = False
        if total:
            self.fact("train_iters", total)

    # ---- what a block gives --------------------------------------------------------------------------------------

    def flush(self, columns: Columns | None = None) -> Iterator[Points | Event | Fact]:
        """All since the last flush; `columns` are points of the same block that were read another way."""
        yield from self.facts
        fast = dict(self._fast(columns)) if columns is not None else {}
        orders: Orders = {}
        for key in dict.fromkeys((*fast, *self._parts, *self._columns)):
            parts = [*fast.get(key, ()), *self._parts.get(key, ())]
            if key in self._columns:
                parts.append(_points(*key, self._columns[key]))
            points = parts[0][0] if len(parts) == 1 else _merged(parts, orders)
            if key in self._drawn:
                points = self._once(key, points)
            if len(points.value):
                yield self._counted(points)
        yield from self.events
        self._columns, self._parts, self.facts, self.events = {}, {}, [], []

    def _fast(self, columns: Columns) -> Iterator[tuple[Key, list[Part]]]:
        subsets: dict[int, tuple[Ints, Floats | None, Ints]] = {}
        for tag, (value, rows) in columns.value.items():
            step, time, line = columns.step, columns.time, columns.line
            if rows is not None:
                if id(rows) not in subsets:
                    subsets[id(rows)] = step[rows], None if time is None else time[rows], line[rows]
                step, time, line = subsets[id(rows)]
            yield (tag, NO_RANK), [(Points(tag, step, value, time, NO_RANK, line), line)]

    def _once(self, key: Key, points: Points) -> Points:
        """Without the points that equal the one before them, step and all."""
        step, value = points.step, points.value
        if step is None or points.origin is None:
            return points
        last = self._drawn[key] or (-1, 0.0)
        before_step, before = np.concatenate([[last[0]], step[:-1]]), np.concatenate([[last[1]], value[:-1]])
        keep = (step != before_step) | ((value != before) & ~(np.isnan(value) & np.isnan(before)))
        self._drawn[key] = int(step[-1]), float(value[-1])
        if keep.all():
            return points
        time = None if points.time is None else points.time[keep]
        return replace(points, step=step[keep], value=value[keep], time=time, origin=points.origin[keep])

    def _counted(self, points: Points) -> Points:
        self.points += len(points.value)
        self._seen.add(points.tag)
        if points.tag == _TIMER and points.step is not None:
            back = np.flatnonzero((np.diff(points.value) < 0) & (np.diff(points.step) > 0))
            self._reset = int(points.step[back[0] + 1]) if len(back) and self._reset is None else self._reset
        usual = self._constant.get(points.tag)
        if usual is not None and not bool((points.value == usual).all()):
            del self._constant[points.tag]
        unit = self.units.get(points.tag)
        return replace(points, unit=unit) if unit else points

    def notes(self) -> Iterator[Note]:
        """The remarks on the whole file, to be told at its end."""
        if not self.points:
            yield Note("no-points", "no metrics in this text; only what it says of events was kept")
        elif self.stepless:
            yield Note("no-steps", "no line names a step; the position in the log counts instead")
        elif (share := self._step_share()) is not None:
            yield Note("steps", "the step is taken from {} (in {:.0%} of rows)".format(*share))
        for tag, value in self._constant.items():
            if tag in self._seen:
                yield Note("placeholder", f"{tag!r} is {value:g} on every line: not measured")
        if self._reset is not None:
            yield Note("clock", f"{_TIMER!r} begins again at step {self._reset:,}: its timer was reset")
        for tag, count in sorted(self.dropped.items()):
            yield Note("placeholder", f"{count} values of {tag!r} stand for unknown and were left out", count=count)

    def _step_share(self) -> tuple[str, float] | None:
        """What most steps were taken from, and the share of rows; None when the log names it by a word for it."""
        rows = sum(self.steps_from.values())
        named = [(count, name) for name, count in self.steps_from.items() if name]
        if not named:
            return None
        count, name = max(named)
        plain = name.strip("'").lower().replace("_", " ").rpartition(" ")[2] in _PLAIN_STEPS
        return None if plain else (name, count / rows)

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "line": self.line,
            "step": self.step,
            "loop": self.loop,
            "points": self.points,
            "stepless": self.stepless,
            "constant": dict(self._constant),
            "seen": sorted(self._seen),
            "dropped": dict(self.dropped),
            "units": dict(self.units),
            "facts": dict(self._known_facts),
            "reset": self._reset,
            "drawn": [[*key, last] for key, last in self._drawn.items()],
            "steps_from": dict(self.steps_from),
        }

    def restore(self, state: Mapping[str, object]) -> None:
        self.line = int(str(state["line"]))
        self.step = None if state["step"] is None else int(str(state["step"]))
        self.loop = None if state["loop"] is None else int(str(state["loop"]))
        self.points = int(str(state["points"]))
        self.stepless = bool(state["stepless"])
        counts = (("dropped", self.dropped), ("units", self.units), ("steps_from", self.steps_from))
        for name, into in (("constant", self._constant), ("facts", self._known_facts), *counts):
            held = state[name]
            into.clear()
            into.update(held if isinstance(held, dict) else {})
        self._reset = None if state["reset"] is None else int(str(state["reset"]))
        seen, drawn = state["seen"], state["drawn"]
        if isinstance(drawn, list):
            self._drawn = {(tag, rank): None if last is None else tuple(last) for tag, rank, last in drawn}
        self._seen = {str(tag) for tag in seen} if isinstance(seen, list) else set()


def _points(tag: str, rank: int, column: _Column) -> Part:
    steps = None
    if any(step is not None for step in column.step):  # rows before the first step of the log belong to its beginning
        steps = np.array([0 if step is None else step for step in column.step], np.int64)
    time = None
    if any(moment is not None for moment in column.time):
        time = np.array([np.nan if moment is None else moment for moment in column.time], np.float64)
    line, order = np.array(column.line, np.int64), np.array(column.order, np.int64)
    return Points(tag, steps, np.array(column.value, np.float64), time, rank, line), order


Orders = dict[tuple[int | bytes, ...], tuple[Ints | None, Ints, Floats | None, Ints]]


def _merged(parts: Sequence[Part], orders: Orders) -> Points:
    """Points of one tag that were read in several ways, in the order of the log; tags of the same rows share arrays."""
    key = tuple(_same(order) for _, order in parts)
    if key not in orders:
        orders[key] = _order(parts)
    order, step, time, line = orders[key]
    value = np.concatenate([part.value for part, _ in parts])
    first = parts[0][0]
    return Points(first.tag, step, value if order is None else value[order], time, first.rank, line)


def _same(places: Ints) -> int | bytes:
    """What tells lines from others within a flush; arrays of columns are shared, those of single lines are short."""
    return id(places) if len(places) > 64 else places.tobytes()


def _order(parts: Sequence[Part]) -> tuple[Ints | None, Ints, Floats | None, Ints]:
    """How to sort parts by their places (None: they are sorted), and their steps, times and lines in that order."""
    every, place = [part for part, _ in parts], np.concatenate([place for _, place in parts])
    line = np.concatenate([part.origin for part in every if part.origin is not None])
    step = np.concatenate([np.zeros(len(part.value), np.int64) if part.step is None else part.step for part in every])
    time = None
    if any(part.time is not None for part in every):
        time = np.concatenate([np.full(len(part.value), np.nan) if part.time is None else part.time for part in every])
    if not bool((np.diff(place) < 0).any()):
        return None, step, time, line
    order = np.argsort(place, kind="stable")
    return order, step[order], None if time is None else time[order], line[order]
