"""Iteration records of Megatron read by column: all lines of one layout at once.

Lines of equal length whose text agrees everywhere but in the digits of their fields have one layout, found by reading
one of them as `_megatron_lines` does; the numbers of the others are taken from the same columns (`_digit_columns`).
Whatever does not fit, down to a single row with an odd character, is left for the reading line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints
from trainlens.parsers._digit_columns import Bytes, Number, Words, number_at, seconds_of_day, values_of
from trainlens.parsers._lines import BlockLines, clock
from trainlens.parsers._megatron_lines import RECORD, fields
from trainlens.parsers._text_page import Columns

SHORTEST = 64  # bytes of a line worth a look
FEWEST = 8  # rows of one layout worth the arithmetic
LAYOUTS = 64  # tried for lines of one length in one block

_CLOCK = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)(?:\.(\d{1,8}))?(?!\d)")


@dataclass(frozen=True, slots=True)
class _Layout:
    numbers: tuple[Number, ...]  # the first one is the step
    fixed: Words  # bits of the line that all rows share
    total: int
    date: float | None = None  # Unix seconds at midnight
    hour: int = -1  # where HH:MM:SS stands
    second_digits: int = 0  # after the point


def take(lines: BlockLines, first: int) -> tuple[Columns, int] | None:
    """The records that have a layout, as columns, and how many steps are planned; None without any such record.

    `first` is the number of the block's first line.
    """
    if lines.text.find(b"iteration ") < 0 or not len(lines.ends):
        return None
    found = _Found(lines.taken)
    for length, rows in _by_length(lines.buffer, lines.starts, lines.ends):
        found.add_length(lines.buffer, lines.starts, rows, length)
    return found.columns(first) if found.parts else None


def _by_length(buffer: Bytes, starts: Ints, ends: Ints) -> list[tuple[int, Ints]]:
    """Lines that may be records (long enough, closed by a bar), grouped by their length."""
    length = ends - starts
    closing = buffer[np.maximum(ends - 1, 0)]
    at = np.flatnonzero((length >= SHORTEST) & (length < 4096) & np.isin(closing, np.frombuffer(b"| \r", np.uint8)))
    if not len(at):
        return []
    sizes = length[at].astype(np.uint16)
    order = np.argsort(sizes, kind="stable")
    sizes = sizes[order]
    cuts = np.flatnonzero(np.diff(sizes)) + 1
    return [(int(length[rows[0]]), rows) for rows in np.split(at[order], cuts)]


class _Found:
    """The rows read by column so far."""

    def __init__(self, taken: NDArray[np.bool_]) -> None:
        self.taken = taken
        self.parts: list[tuple[_Layout, Ints, list[Floats], Floats | None]] = []

    def add_length(self, buffer: Bytes, starts: Ints, rows: Ints, length: int) -> None:
        width = -(-length // 8) * 8
        if len(rows) < FEWEST:
            return
        windows = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, 0, (1,))
        table = windows[starts[rows]].view(np.uint8).reshape(-1, width)
        for _ in range(LAYOUTS):
            if len(rows) < FEWEST:
                return
            layout = _layout(table[0, :length].tobytes())
            # a line that is no record: neither are those that begin alike
            alike, differs = _beginning_alike(table) if layout is None else _alike(table, layout)
            mine, at = (table, rows) if alike is None else (table[alike], rows[alike])
            if layout is not None and len(at) >= FEWEST:
                self._add(mine, at, layout, _differing(mine) if differs is None else differs)
            if alike is None:
                return
            table, rows = table[~alike], rows[~alike]

    def _add(self, table: Bytes, rows: Ints, layout: _Layout, differs: Bytes) -> None:
        bad = np.zeros(len(rows), np.uint64)
        values = [
            values_of(table, number if differs[number.begin : number.last].any() else _same(table, number), bad)
            for number in layout.numbers
        ]
        time = _times(table, layout, bad)
        if bad.any():
            good = bad == 0
            rows, values = rows[good], [value[good] for value in values]
            time = None if time is None else time[good]
        if not len(rows):
            return
        self.taken[rows] = True
        self.parts.append((layout, rows, values, time))

    def columns(self, line: int) -> tuple[Columns, int]:
        """The rows of all layouts in the order of the log."""
        rows = np.flatnonzero(self.taken)
        place = np.empty(len(self.taken), np.int64)
        place[rows] = np.arange(len(rows))
        step, time = np.empty(len(rows), np.int64), np.full(len(rows), np.nan)
        clocked = False
        of_tag: dict[str, list[tuple[Ints, Floats]]] = {}
        for layout, at, values, times in self.parts:
            where = place[at]
            step[where] = values[0].astype(np.int64)
            if times is not None:
                time[where], clocked = times, True
            for number, value in zip(layout.numbers[1:], values[1:], strict=True):
                of_tag.setdefault(number.tag, []).append((where, value))
        value_of: dict[str, tuple[Floats, Ints | None]] = {}
        for tag, parts in of_tag.items():
            column = np.empty(len(rows))
            for where, value in parts:
                column[where] = value
            if sum(len(where) for where, _ in parts) == len(rows):
                value_of[tag] = column, None
            else:
                known = np.sort(np.concatenate([where for where, _ in parts]))
                value_of[tag] = column[known], known
        total = max(self.parts, key=lambda part: int(part[1][-1]))[0].total
        return Columns(step, time if clocked else None, rows + line, value_of), total


# ---- layouts ---------------------------------------------------------------------------------------------------------


def _layout(line: bytes) -> _Layout | None:
    """What a record looks like; None where the line is none, or one that must be read by itself."""
    if not line.isascii() or b"\x1b" in line:
        return None
    text = line.decode("ascii")
    record = RECORD.search(text)
    if not record or RECORD.search(text, record.end()):
        return None
    pairs, rest = fields(text, record.end())
    if text[rest:].strip() or len({tag for tag, *_ in pairs}) < len(pairs) or any(not tag for tag, *_ in pairs):
        return None
    numbers = []
    for tag, begin, end in [("", record.start() + len("iteration "), record.end(1)), *pairs]:
        number = number_at(tag, begin, text[begin:end])
        if number is None:
            return None
        numbers.append(number)
    fixed = np.full(-(-len(line) // 8) * 8, 255, np.uint8)
    fixed[len(line) :] = 0
    for number in numbers:
        if number.constant is None:
            fixed[number.begin : number.dot] = 0
            fixed[number.dot + 1 : number.end] = 0
        if number.exponent >= 0:
            fixed[number.exponent : number.exponent + 3] = 0
    date, hour, digits = None, -1, 0
    stamp = _CLOCK.search(text, 0, record.start())
    if stamp and stamp.end() <= record.start() and clock(text[: record.start()]) is not None:
        hour, digits = stamp.start(1), len(stamp[2] or "")
        midnight = f"{text[:hour]}00:00:00"
        date = clock(midnight, len(midnight))
        fixed[hour : hour + 8] &= np.where(np.frombuffer(stamp[1].encode(), np.uint8) == ord(":"), 255, 0).astype(
            np.uint8
        )
        fixed[hour + 9 : hour + 9 + digits] = 0
    elif clock(text, record.start()) is not None:
        return None  # a clock of another form
    return _Layout(tuple(numbers), fixed.view(np.uint64), int(record[2]), date, hour, digits)


def _beginning_alike(table: Bytes) -> tuple[NDArray[np.bool_], None]:
    return (table[:, :24] == table[0, :24]).all(axis=1), None


def _alike(table: Bytes, layout: _Layout) -> tuple[NDArray[np.bool_] | None, Bytes | None]:
    """Which rows agree with the first in all fixed bits (None: all of them), and then which bits of them differ."""
    differs = _differing(table)
    words = table.view(np.uint64)
    if not (differs.view(np.uint64) & layout.fixed).any():
        return None, differs
    equal: NDArray[np.bool_] = (((words ^ words[0]) & layout.fixed) == 0).all(axis=1)
    return equal, None


def _differing(table: Bytes) -> Bytes:
    """The bits in which the rows differ from each other."""
    words = table.view(np.uint64)
    found: Words = _fold(np.bitwise_or, words) ^ _fold(np.bitwise_and, words)
    return found.view(np.uint8)


def _same(table: Bytes, number: Number) -> Number:
    """A number that is the same in all rows."""
    text = table[0, number.begin : number.last].tobytes()
    if number.constant is not None or not text.strip():
        return number
    value = float(text)
    return replace(number, constant=-value if number.negative else value)


def _fold(together: np.ufunc, words: Words) -> Words:
    """All rows joined to one; halves are laid on each other, which runs at the speed of memory."""
    while len(words) > 64:
        half = len(words) // 2
        joined = together(words[:half], words[half : 2 * half])
        if len(words) & 1:
            joined[0] = together(joined[0], words[-1])
        words = joined
    result: Words = together.reduce(words, axis=0)
    return result


def _times(table: Bytes, layout: _Layout, bad: Words) -> Floats | None:
    """The time stamps, Unix seconds: the date is one for the whole layout."""
    if layout.date is None:
        return None
    seconds, part = seconds_of_day(table, layout.hour, layout.second_digits, bad)
    time = layout.date + seconds
    return time if part is None else time + part
