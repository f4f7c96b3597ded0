"""Iteration records of Megatron read by column: lines of one layout at once, digits as 64-bit words.

Lines of equal length whose text agrees everywhere but in the digits of their fields have one layout, found by reading one
of them as `_megatron_lines` does. The others follow by arithmetic on eight characters at a time
(https://johnnylee-sde.github.io/Fast-numeric-string-to-int/). A value is digits ÷ or × a power of ten, both exact, so it
is rounded once and equals `float(text)` (Clinger 1990, How to read floating point numbers accurately). Whatever does not
fit, down to a single row with an odd character, is left for the reading line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints
from trainlens.parsers._lines import Block, clock, plain
from trainlens.parsers._megatron_lines import RECORD, fields
from trainlens.parsers._text_page import Columns
from trainlens.parsers._text_reader import Rest

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

SHORTEST = 64  # bytes of a line worth a look
FEWEST = 8  # rows of one layout worth the arithmetic
LAYOUTS = 64  # tried for lines of one length in one block
DIGITS = 15  # a number with more may not fit a double exactly

_FORM = re.compile(r" *(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-])(\d\d))? *\Z")
_CONSTANT = re.compile(r" *[-+]?(?:nan|inf) *\Z")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)(?:\.(\d{1,8}))?(?!\d)")

_POWERS = 10.0 ** np.arange(23)
_TENS = np.uint64(0x1010101010101010)
_HIGH = np.uint64(0xF0F0F0F0F0F0F0F0)
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)


@dataclass(frozen=True, slots=True)
class _Number:
    """Where a number stands: `whole` digits (and blanks before them) end at `dot`, `part` digits end at `end`."""

    tag: str
    begin: int
    dot: int
    end: int
    exponent: int = -1  # where its sign stands, −1: none
    negative: bool = False
    constant: float | None = None  # nan and inf: the same on all rows


@dataclass(frozen=True, slots=True)
class _Layout:
    numbers: tuple[_Number, ...]  # the first one is the step
    fixed: Words  # bits of the line that all rows share
    total: int
    date: float | None = None  # Unix seconds at midnight
    hour: int = -1  # where HH:MM:SS stands
    second_digits: int = 0  # after the point


def take(block: Block) -> Rest | None:
    """The records that have a layout as columns, all other lines for reading one by one; None when there are no records."""
    text = block.text
    if text.find(b"iteration ") < 0:
        return None
    buffer = np.frombuffer(text, np.uint8)
    ends = _newlines(buffer)
    if not len(ends):
        return None
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    found = _Found(np.zeros(len(ends), np.bool_))
    for length, rows in _by_length(buffer, starts, ends):
        found.add_length(buffer, starts, rows, length)
    if not found.parts:
        return None
    columns, total = found.columns(block.line)
    return _rest(block, starts, ends, found.taken, columns, total)


def _rest(block: Block, starts: Ints, ends: Ints, taken: NDArray[np.bool_], columns: Columns, total: int) -> Rest:
    at = np.flatnonzero(~taken)
    pieces = [block.text[start:end] for start, end in zip(starts[at].tolist(), ends[at].tolist(), strict=True)]
    places: list[int] = at.tolist()
    if block.torn:
        pieces.append(block.text[int(ends[-1]) + 1 :])
        places.append(len(ends))
    lines = plain(b"\n".join(pieces).decode("utf-8", "replace")).split("\n") if pieces else []
    rows = columns.line - block.line
    before = np.searchsorted(rows, np.array(places, np.int64)) - 1
    news = np.flatnonzero(np.diff(before, prepend=-1))
    step: list[int | None] = [None] * len(places)
    for place, row in zip(news.tolist(), before[news].tolist(), strict=True):
        step[place] = int(columns.step[row])
    follows = {place for place in places if place and place <= len(taken) and taken[place - 1]}
    return Rest(lines, places, step, columns, total, follows, bool(taken[-1]) and not block.torn)


def _newlines(buffer: Bytes) -> Ints:
    """The places of all newlines; eight bytes at a time are passed over."""
    hits = buffer == 10
    whole = len(hits) // 8 * 8
    words = np.flatnonzero(hits[:whole].view(np.uint64))
    inside, bit = np.nonzero(hits[:whole].reshape(-1, 8)[words])
    ends: Ints = words[inside] * 8 + bit
    return np.concatenate([ends, np.flatnonzero(hits[whole:]) + whole]).astype(np.int64)


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
        if int(starts[rows[-1]]) + width > len(buffer):
            rows = rows[:-1]
        if len(rows) < FEWEST:
            return
        windows = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, 0, (1,))
        table = windows[starts[rows]].view(np.uint8).reshape(-1, width)
        for _ in range(LAYOUTS):
            if len(rows) < FEWEST:
                return
            layout = _layout(table[0, :length].tobytes())
            if layout is None:  # not a record: neither are the lines that begin alike
                alike = (table[:, :24] == table[0, :24]).all(axis=1)
            else:
                alike = _alike(table, layout)
            mine, at = (table, rows) if alike is None else (table[alike], rows[alike])
            if layout is not None and len(at) >= FEWEST:
                self._add(mine, at, layout)
            if alike is None:
                return
            table, rows = table[~alike], rows[~alike]

    def _add(self, table: Bytes, rows: Ints, layout: _Layout) -> None:
        bad = np.zeros(len(rows), np.uint64)
        values = [_values(table, number, bad) for number in layout.numbers]
        time = _times(table, layout, bad)
        if bad.any():
            good = bad == 0
            rows, values = rows[good], [value[good] for value in values]
            time = None if time is None else time[good]
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
        total = max(self.parts, key=lambda part: int(part[1][-1]) if len(part[1]) else -1)[0].total
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
        number = _number(tag, begin, text[begin:end])
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


def _number(tag: str, begin: int, text: str) -> _Number | None:
    if _CONSTANT.match(text):
        return _Number(tag, begin, begin, begin, constant=float(text))
    form = _FORM.match(text)
    if not form:
        return None
    blanks = form.start(1)
    whole, part = form.end(2), len(form[3] or "")
    start = begin + (form.start(2) if form[1] else 0)
    dot = begin + whole
    end = dot + 1 + part if part else dot
    if blanks + (whole - form.start(2)) + part > DIGITS and (whole - form.start(2)) + part > DIGITS:
        return None
    if dot - start > 16 or part > 8 or dot < 16:
        start = max(start, dot - 16)
        if part > 8 or dot < 16 or text[: start - begin].strip():
            return None
    exponent = begin + form.start(4) if form[4] else -1
    return _Number(tag, start, dot, end, exponent, bool(form[1]))


def _alike(table: Bytes, layout: _Layout) -> NDArray[np.bool_] | None:
    """Which rows agree with the first in all fixed bits; None: all of them."""
    words = table.view(np.uint64)
    ones, zeros = _fold(np.bitwise_or, words), _fold(np.bitwise_and, words)
    if not ((ones ^ zeros) & layout.fixed).any():
        return None
    equal: NDArray[np.bool_] = (((words ^ words[0]) & layout.fixed) == 0).all(axis=1)
    return equal


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


# ---- digits ----------------------------------------------------------------------------------------------------------


def _values(table: Bytes, number: _Number, bad: Words) -> Floats:
    """The numbers of a column. Rows where something else than digits stands are marked in `bad`."""
    if number.constant is not None:
        return np.full(len(table), number.constant)
    part = max(number.end - number.dot - 1, 0)
    whole = number.dot - number.begin
    if part and whole + part < 8:
        found = _around_dot(table, number.end, whole, part, bad)
    else:
        found = _whole(table, number.dot, whole, bad)
        if part:
            found = found * np.uint64(10**part) + _word(table, number.end, part, 0, bad)[0]
    value = found.astype(np.float64)
    if number.exponent >= 0:
        value = _powered(value, table[:, number.exponent : number.exponent + 3], part, bad)
    elif part:
        value /= _POWERS[part]
    return -value if number.negative else value


def _whole(table: Bytes, end: int, width: int, bad: Words) -> Words:
    """Up to 16 digits, blanks before them."""
    if width <= 8:
        return _word(table, end, width, width - 1, bad)[0]
    low, low_blank = _word(table, end, 8, 7, bad)
    high, high_blank = _word(table, end - 8, width - 8, width - 8, bad)
    if low_blank is not None:  # a blank at the head of the lower eight: the upper ones must be blank too
        last = np.uint64(0) if high_blank is None else high_blank >> np.uint64(56)
        bad |= low_blank & np.uint64(0x10) & ~last
    return high * np.uint64(10**8) + low


def _bytes(width: int, value: int) -> np.uint64:
    """`value` in the upper `width` bytes of a word: they are the last characters."""
    return np.uint64(sum(value << (8 * (7 - at)) for at in range(width)))


def _load(table: Bytes, end: int, width: int) -> Words:
    """The `width` characters before `end` in the upper bytes of a word, zeros (as digits) below them."""
    words = np.ndarray((len(table),), "<u8", table, end - 8, (table.shape[1],)).copy()
    if width < 8:
        words &= _bytes(width, 0xFF)
        words |= _ZEROS & ~_bytes(width, 0xFF)
    return words


def _word(table: Bytes, end: int, width: int, blanks: int, bad: Words) -> tuple[Words, Words | None]:
    """Up to eight digits; the first `blanks` characters of them may be blank. Also where they are blank."""
    return _decimal(_load(table, end, width), width, blanks, bad)


def _around_dot(table: Bytes, end: int, whole: int, part: int, bad: Words) -> Words:
    """Up to seven digits with a dot among them: the dot is pushed out of the word."""
    words = _load(table, end, whole + 1 + part)
    behind = _bytes(part, 0xFF)
    before = ~(_bytes(part + 1, 0xFF))
    words = (words & behind) | ((words & before) << np.uint64(8)) | np.uint64(0x30)
    return _decimal(words, whole + part, whole, bad)[0]


def _decimal(words: Words, width: int, blanks: int, bad: Words) -> tuple[Words, Words | None]:
    blank = ~words & _TENS  # a blank is 0x20, a digit 0x3…
    blank_or_none: Words | None = None
    if blank.any():
        allowed = _bytes(width, 0x10) & ~_bytes(width - blanks, 0x10)
        first = np.uint64(0x10 << (8 * (8 - width)))
        bad |= blank & ~allowed
        bad |= blank & ~((blank << np.uint64(8)) | first)
        bad |= words & ((blank >> np.uint64(4)) * np.uint64(15))
        words |= blank
        blank_or_none = blank
    bad |= (words & _HIGH) ^ _ZEROS
    bad |= ((words + _SIXES) & _HIGH) ^ _ZEROS
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    words *= np.uint64(2561)
    words >>= np.uint64(8)
    words &= np.uint64(0x00FF00FF00FF00FF)
    words *= np.uint64(6553601)
    words >>= np.uint64(16)
    words &= np.uint64(0x0000FFFF0000FFFF)
    words *= np.uint64(42949672960001)
    words >>= np.uint64(32)
    return words, blank_or_none


def _powered(value: Floats, exponent: Bytes, part: int, bad: Words) -> Floats:
    """digits × 10^(exponent − digits behind the dot), rounded once."""
    sign, tens, units = exponent[:, 0], exponent[:, 1] - np.uint8(48), exponent[:, 2] - np.uint8(48)
    bad |= ((sign != 43) & (sign != 45)) | (tens > 9) | (units > 9)
    power = tens.astype(np.int64) * 10 + units
    power = np.where(sign == 45, -power, power) - part
    low, high = int(power.min()), int(power.max())
    if low < -22 or high > 22:
        bad |= np.abs(power) > 22
        power = np.clip(power, -22, 22)
        low, high = max(low, -22), min(high, 22)
    if high <= 0:
        return value / (_POWERS[-high] if low == high else _POWERS[-power])
    return np.where(power > 0, value * _POWERS[np.maximum(power, 0)], value / _POWERS[np.maximum(-power, 0)])


def _times(table: Bytes, layout: _Layout, bad: Words) -> Floats | None:
    """The time stamps, Unix seconds: the date is one for the whole layout."""
    if layout.date is None:
        return None
    words = np.ndarray((len(table),), "<u8", table, layout.hour, (table.shape[1],)).copy()
    digits = np.uint64(0xFFFF00FFFF00FFFF)
    checked = (words & digits) | (_ZEROS & ~digits)
    bad |= (checked & _HIGH) ^ _ZEROS
    bad |= ((checked + _SIXES) & _HIGH) ^ _ZEROS
    words = checked & np.uint64(0x0F0F0F0F0F0F0F0F)
    pairs = words * np.uint64(10) + (words >> np.uint64(8))
    byte = np.uint64(0xFF)
    seconds = (pairs & byte) * np.uint64(3600) + ((pairs >> np.uint64(24)) & byte) * np.uint64(60)
    seconds += (pairs >> np.uint64(48)) & byte
    time = layout.date + seconds.astype(np.float64)
    if layout.second_digits:
        part = _word(table, layout.hour + 9 + layout.second_digits, layout.second_digits, 0, bad)[0]
        time += part.astype(np.float64) / _POWERS[layout.second_digits]
    return time
