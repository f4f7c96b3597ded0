"""Lines that repeat one shape, read many at once by one expression that was made from the first of them.

A line that gave points (it names its step itself) is turned into an expression: its numbers become groups, all else
must stand there again, letter by letter. Three lines of a shape and the expression is used: over thousands of lines at
a time, one match a line, with an alternative that matches any other line. Those others are read one by one.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainlens.model import NO_RANK, Floats, Ints
from trainlens.parsers._lines import CLOCK, clock

STEP = "\0step"
# The parts of a place in an epoch, of which the step is counted.
EPOCH, INSIDE, TOTAL = "\0epoch", "\0inside", "\0total"
_PLACE = frozenset((EPOCH, INSIDE, TOTAL))
IGNORED = ""

MOST = 12  # shapes of one file
ATTEMPTS = 3000  # lines looked at for shapes
REPEATS = 3

# Whatever could be a number: what is none after all shows when it is converted, and the lines are read one by one.
_NUMBER = r"([-+.\deEnaif]++)"
_WHOLE = r"(\d{1,15}+)"
_DIGITS = re.compile(r"\d+")
# What may differ between the fields of lines of one shape: durations, and means in brackets, of which nothing is read.
_MAY_DIFFER = re.compile(r"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?![\d:])|\(\s*[-+.\deE]+\s*\)")
_DIFFERING = {"(": r"\(\s*+[-+.\deE]++\s*+\)", "": r"(?:\d++ days?, )?+\d++:\d\d(?::\d\d)?+"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A number in a line: what it is (a tag, STEP or IGNORED), where it stands, the power of ten that its unit adds."""

    tag: str
    begin: int
    end: int
    power: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    pattern: str
    columns: tuple[tuple[str, str], ...]  # tag and power of ten of each group but the clock's; one of them is STEP
    clock: int  # the number of characters of the clock, which is the first group; 0: none
    rank: int
    named: str = ""  # what the step is taken from
    zero_based: bool = False  # of a place in an epoch: the first epoch is 0


class Counting(Protocol):
    """What makes steps of places in epochs (`_positions.Counter`)."""

    def many(self, epoch: Ints, inside: Ints, total: Ints, zero_based: NDArray[np.bool_]) -> Ints: ...


@dataclass(slots=True)
class Rows:
    """What one shape gave: the places of its lines, their steps, and the values of each tag."""

    at: Ints
    step: Ints
    time: Floats | None
    values: dict[str, Floats]
    rank: int
    named: str = ""


def shape(
    line: str, marks: Sequence[Mark], rank: int = NO_RANK, named: str = "", zero_based: bool = False
) -> Shape | None:
    """The shape of a line; None when a number is written in a way of its own, or the line names no step."""
    marks = sorted(marks, key=lambda mark: mark.begin)
    steps = sorted(mark.tag for mark in marks if mark.tag == STEP or mark.tag in _PLACE)
    if steps not in ([STEP], sorted(_PLACE)) or len({mark.tag for mark in marks}) < len(marks) - _ignored(marks):
        return None
    stamp = CLOCK.search(line, 0, min(marks[0].begin, 80))
    pieces, columns, at = [], [], 0
    if stamp:
        pieces += [_head(line[: stamp.start()]), "(", re.sub(r"\d", r"\\d", re.escape(stamp[0])), ")"]
        at = stamp.end()
    for number, mark in enumerate(marks):
        between, text = line[at : mark.begin], line[mark.begin : mark.end]
        form = _WHOLE if mark.tag == STEP or mark.tag in _PLACE else _NUMBER
        if mark.begin < at or not re.fullmatch(form, text):
            return None
        pieces += [_between(between, head=not number), form if mark.tag else f"(?:{form[1:]}"]
        if mark.tag:
            columns.append((mark.tag, mark.power))
        at = mark.end
    pieces.append(_between(line[at:]))
    return Shape("".join(pieces), tuple(columns), len(stamp[0]) if stamp else 0, rank, named, zero_based)


def _ignored(marks: Sequence[Mark]) -> int:
    return max(sum(mark.tag == IGNORED for mark in marks) - 1, 0)


def _head(text: str) -> str:
    """What stands before the fields: its numbers (process ids, clocks without a year) may change, not their length."""
    rank, at, pieces = re.match(r"\s*(?:\d{1,6}: |\[[\w .-]*\d+\]:?)?", text), 0, []
    at = rank.end() if rank else 0
    pieces.append(re.escape(text[:at]))
    for digits in _DIGITS.finditer(text, at):
        pieces += [re.escape(text[at : digits.start()]), r"\d" * len(digits[0])]
        at = digits.end()
    return "".join(pieces) + re.escape(text[at:])


def _between(text: str, *, head: bool = False) -> str:
    """What stands between two numbers: letter by letter, but for what may differ and the blanks before a number."""
    bare = text.rstrip(" ")
    if head:
        return _head(bare) + (" ++" if len(bare) < len(text) else "")
    at, pieces = 0, []
    for found in _MAY_DIFFER.finditer(bare):
        pieces += [re.escape(bare[at : found.start()]), _DIFFERING["(" if found[0][0] == "(" else ""]]
        at = found.end()
    return "".join(pieces) + re.escape(bare[at:]) + (" ++" if len(bare) < len(text) else "")


class Shapes:
    """The shapes of one file: learnt from lines that were read one by one, used on all that follow."""

    def __init__(self) -> None:
        self.known: list[Shape] = []
        self._wanted: Counter[Shape] = Counter()
        self._attempts = 0
        self._expression: re.Pattern[str] | None = None

    @property
    def open(self) -> bool:
        """Whether there is something left to learn."""
        return len(self.known) < MOST and self._attempts < ATTEMPTS

    def learn(
        self, line: str, marks: Sequence[Mark], rank: int, named: str = "'step'", *, zero_based: bool = False
    ) -> None:
        if not self.open:
            return
        self._attempts += 1
        found = shape(line, marks, rank, named, zero_based)
        if found is None or found in self.known:
            return
        self._wanted[found] += 1
        if self._wanted[found] == REPEATS:
            self.known.append(found)
            self._expression = None
            self._attempts = 0

    def take(self, lines: Sequence[str], counter: Counting) -> list[Rows]:
        """The rows among the lines that have a known shape; `counter` counts on over epochs."""
        if not self.known or not lines:
            return []
        if self._expression is None:
            alternatives = "|".join(one.pattern for one in self.known)
            self._expression = re.compile(rf"^(?:{alternatives}|.*)()$", re.MULTILINE)
        with _no_collection():
            try:
                return self._found(self._expression.findall("\n".join(lines)), counter)
            except ValueError:
                return []

    def _found(self, matches: Sequence[tuple[str, ...]], counter: Counting) -> list[Rows]:
        columns = list(zip(*matches, strict=True))
        found, group = [], 0
        places: list[tuple[Rows, Shape]] = []
        for one in self.known:
            size = len(one.columns) + (one.clock > 0)
            rows = _rows(one, columns[group : group + size])
            group += size
            if rows is not None:
                found.append(rows)
                if EPOCH in rows.values:
                    places.append((rows, one))
        if places:
            _count_on(places, counter)
        return found


def _count_on(places: Sequence[tuple[Rows, Shape]], counter: Counting) -> None:
    """Makes steps of places in epochs, in the order of the log; ValueError where a counter is not one of its epoch."""
    at = np.concatenate([rows.at for rows, _ in places])
    order = np.argsort(at, kind="stable")
    epoch, inside, total = (
        np.concatenate([rows.values.pop(part) for rows, _ in places]).astype(np.int64)[order]
        for part in (EPOCH, INSIDE, TOTAL)
    )
    from_zero = np.concatenate([np.full(len(rows.at), one.zero_based) for rows, one in places])[order]
    step = np.empty(len(at), np.int64)
    step[order] = counter.many(epoch, inside, total, from_zero)
    begin = 0
    for rows, _ in places:
        rows.step = step[begin : begin + len(rows.at)]
        begin += len(rows.at)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector: it would search tens of thousands of short-lived tuples for cycles, in vain."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _rows(one: Shape, columns: Sequence[Sequence[str]]) -> Rows | None:
    first = columns[0]
    at = list(compress(range(len(first)), first))
    if not at:
        return None
    if len(at) < len(first):
        columns = [list(compress(column, first)) for column in columns]
    time = _times(columns[0]) if one.clock else None
    step, values = np.empty(0, np.int64), {}
    before: Sequence[str] = ()
    numbers = np.empty(0)
    for (tag, power), texts in zip(one.columns, columns[1 if one.clock else 0 :], strict=True):
        if tag == STEP:
            step = np.array(list(map(int, texts)), np.int64)
            continue
        if texts != before:  # learning rates of several groups are often the same
            numbers = _floats(texts, power)
        before, values[tag] = texts if not power else (), numbers
    return Rows(np.array(at, np.int64), step, time, values, one.rank, one.named)


def _floats(texts: Sequence[str], power: str) -> Floats:
    if texts.count(texts[0]) == len(texts):
        return np.full(len(texts), float(texts[0] + power))
    return np.array([float(text + power) for text in texts] if power else list(map(float, texts)))


def _times(stamps: Sequence[str]) -> Floats | None:
    """Clocks of one form as Unix seconds: each date is looked up once, the time of day is read by column."""
    days = {day: clock(f"{day} 00:00:00") for day in {stamp[:10] for stamp in stamps}}
    if any(day is None for day in days.values()):
        found = [clock(stamp) for stamp in stamps]
        return np.array([np.nan if moment is None else moment for moment in found])
    digits = np.frombuffer("".join(stamps).encode("ascii"), np.uint8).reshape(len(stamps), -1).astype(np.float64) - 48
    start = len(stamps[0]) - len(stamps[0][10:].lstrip(" T_"))
    hour, minute, second = (10 * digits[:, at] + digits[:, at + 1] for at in (start, start + 3, start + 6))
    date: NDArray[np.float64] = np.array([days[stamp[:10]] for stamp in stamps], np.float64)
    time: Floats = date + (hour * 3600 + minute * 60 + second)
    part = digits[:, start + 9 :]
    if part.shape[1]:
        weights = 10.0 ** np.arange(part.shape[1] - 1, -1, -1)
        time += part @ weights / 10.0 ** part.shape[1]
    return time
