"""Lines that agree in all but their numbers, read by column however many characters each number has.

One line tells what stands between its numbers: its skeleton. Of all other lines the same text is asked for, piece by
piece, behind a number as long as the way to the next piece. Polars makes doubles of the texts (fast_float, rounded
correctly: https://github.com/fastfloat/fast_float_rust), which it finds in the block by their places. Lines that do
not fit, or hold anything else than a number where one should stand, are left for another way of reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainlens.later import Later
from trainlens.model import NO_RANK, Floats, Ints
from trainlens.parsers._digit_columns import Bytes, Words, seconds_of_day
from trainlens.parsers._lines import SLACK, BlockLines, clock
from trainlens.parsers._shapes import IGNORED, STEP, Mark, Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl = Later("polars")
    pa = Later("pyarrow")

LONGEST = 32  # characters of a number: more has no double printed by anything
LONGEST_LINE = SLACK // 2

_CLOCK = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)(?:[.,](\d{1,8}))?(?!\d)")
_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)")
_OF_NUMBERS = frozenset(b"+-.0123456789eEnaifNAIF")
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_DATE = 11  # characters: "2026-06-26 "
_INLINE = 12  # bytes of a text that Arrow keeps in its view: https://arrow.apache.org/docs/format/Columnar.html
_SAMPLE = 16  # lines in which a number must be the same before all lines are looked at for it


@dataclass(frozen=True, slots=True)
class Skeleton:
    """`line` is the line it was made of; between `marks` everything else must stand again, but date and time."""

    line: bytes
    marks: tuple[Mark, ...]
    hour: int = -1  # where HH:MM:SS stands, behind YYYY-MM-DD
    second_digits: int = 0  # behind them

    @property
    def head(self) -> int:
        """Where the first number begins."""
        return self.marks[0].begin


def skeleton(line: bytes, marks: Sequence[Mark]) -> Skeleton | None:
    """The skeleton of a line; None where it cannot be told where a number ends, or a clock has another form."""
    if not line.isascii() or b"\x1b" in line or not marks or len(line) > LONGEST_LINE:
        return None
    text, ordered = line.decode("ascii"), tuple(sorted(marks, key=lambda mark: mark.begin))
    tags = [mark.tag for mark in ordered if mark.tag != IGNORED]
    if len(set(tags)) < len(tags):
        return None
    if not all(mark.tag == IGNORED or _NUMBER.fullmatch(text, mark.begin, mark.end) for mark in ordered):
        return None
    for mark, following in pairwise(ordered):
        if mark.end >= following.begin or line[mark.end] in _OF_NUMBERS:
            return None
    head = text[: ordered[0].begin]
    stamp = _CLOCK.search(head)
    if stamp and clock(head) is not None:
        return Skeleton(line, ordered, stamp.start(1), len(stamp[2] or ""))
    return None if clock(head) is not None else Skeleton(line, ordered)


def take(lines: BlockLines, rows: Ints, like: Skeleton) -> tuple[Ints, Rows] | None:
    """The lines among `rows` that fit: which, and what they say; None without any. They are marked as taken."""
    found = _Walk(lines, rows, like)
    if not found.all_pieces():
        return None
    values: dict[str, Floats] = {}
    step = np.zeros(len(found.rows), np.int64)
    good = np.ones(len(found.rows), np.bool_)
    time = _times(found, like, good)
    written = []
    for mark, (begin, width) in zip(like.marks, found.numbers, strict=True):
        if isinstance(width, float):
            values[mark.tag] = np.full(len(found.rows), width)
        elif mark.tag == STEP:
            numbers = _texts(lines, begin, width).cast(pl.Int64, strict=False).fill_null(-1)
            step = numbers.to_numpy()
            good &= step >= 0
        elif mark.tag != IGNORED:
            written.append((mark.tag, begin, width))
            values[mark.tag] = np.empty(0)  # in the order of the line
    if written:
        begins, widths = (np.concatenate([one[which] for one in written]) for which in (1, 2))
        numbers = _texts(lines, begins, widths).cast(pl.Float64, strict=False)
        if numbers.null_count():
            good &= numbers.is_not_null().to_numpy().reshape(len(written), -1).all(axis=0)
            numbers = numbers.fill_null(0.0)
        every = numbers.to_numpy().reshape(len(written), -1)
        for (tag, *_), value in zip(written, every, strict=True):
            values[tag] = value
    at = found.rows
    if not good.all():
        at, step, time = at[good], step[good], None if time is None else time[good]
        values = {tag: value[good] for tag, value in values.items()}
    if not len(at):
        return None
    lines.taken[at] = True
    return at, Rows(at, step, time, values, NO_RANK)


class _Walk:
    """Goes from piece to piece through many lines at once; lines that do not fit are dropped."""

    def __init__(self, lines: BlockLines, rows: Ints, like: Skeleton) -> None:
        self.lines, self.like = lines, like
        self.rows = rows
        # of each number: where its text begins and how long it is; or, where it is the same in all lines, its value
        self.numbers: list[tuple[Ints, Ints | float]] = []

    def all_pieces(self) -> bool:
        line, marks = self.like.line, self.like.marks
        last_step = max((place for place, mark in enumerate(marks) if mark.tag == STEP), default=-1)
        self.at = self.lines.starts[self.rows]
        self._expect(0, self.like.head)
        for place, mark in enumerate(marks):
            if not len(self.rows):
                return False
            if place > last_step and self._same_to_the_end(mark.begin):
                self.numbers += [(self.at, float(line[one.begin : one.end])) for one in marks[place:]]
                return bool(len(self.rows))
            following = marks[place + 1].begin if place + 1 < len(marks) else len(line)
            if place + 1 < len(marks):
                width = self._until(line[mark.end])
            else:
                width = self.lines.ends[self.rows] - self.at - (len(line) - mark.end)
            keep = (width > 0) & (width <= LONGEST)
            self.numbers.append((self.at, width))
            self.at = self.at + width
            if not keep.all():
                self._keep(keep)
            if following > mark.end:
                self._expect(mark.end, following)
        self._keep(self.at == self.lines.ends[self.rows])
        return bool(len(self.rows))

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        if keep.all():
            return
        self.rows, self.at = self.rows[keep], self.at[keep]
        self.numbers = [
            (begin[keep], width if isinstance(width, float) else width[keep]) for begin, width in self.numbers
        ]

    def _expect(self, begin: int, end: int) -> None:
        """Keeps the lines where the text from `begin` to `end` stands, and steps behind it."""
        if end > begin and len(self.rows):
            self._keep(self._stands(self.at, begin, end))
        self.at = self.at + (end - begin)

    def _stands(self, at: Ints, begin: int, end: int) -> NDArray[np.bool_]:
        size = end - begin
        width = -(-size // 8) * 8
        wanted, mask = np.zeros(width, np.uint8), np.zeros(width, np.uint8)
        wanted[:size] = np.frombuffer(self.like.line[begin:end], np.uint8)
        mask[:size] = 255
        hour = self.like.hour - begin
        if self.like.hour >= 0 and 0 <= hour < size:
            for digit in (*range(-11, -7), -6, -5, -3, -2, 0, 1, 3, 4, 6, 7):
                mask[hour + digit] = 0
            mask[hour + 9 : hour + 9 + self.like.second_digits] = 0
        wanted &= mask
        words = _windows(self.lines.buffer, at, width).view(np.uint64).reshape(len(at), -1)
        stands: NDArray[np.bool_] = (words[:, 0] & mask.view(np.uint64)[0]) == wanted.view(np.uint64)[0]
        for word in range(1, width // 8):
            stands &= (words[:, word] & mask.view(np.uint64)[word]) == wanted.view(np.uint64)[word]
        return stands

    def _same_to_the_end(self, begin: int) -> bool:
        """Whether everything from here on is the same in all lines, numbers and all."""
        line = self.like.line
        size = len(line) - begin
        sample = slice(None, None, max(1, len(self.rows) // _SAMPLE))
        some = self.at[sample]
        if (
            bool((self.lines.ends[self.rows[sample]] - some != size).any())
            or not self._stands(some, begin, len(line)).all()
        ):
            return False
        if bool((self.lines.ends[self.rows] - self.at != size).any()):
            return False
        return bool(self._stands(self.at, begin, len(line)).all())

    def _until(self, letter: int) -> Ints:
        """How far it is to the next `letter`; 0 where it is farther than a number is long."""
        pattern = np.uint64(letter) * _ONES
        width = np.zeros(len(self.at), np.int64)
        open_rows: Ints | None = None
        for far in range(0, LONGEST, 8):
            at = self.at if open_rows is None else self.at[open_rows]
            words = _windows(self.lines.buffer, at + far if far else at, 8).view(np.uint64)
            words ^= pattern
            hits = (words - _ONES) & ~words & _HIGHS  # the lowest bit set is that of the first such letter
            lowest = hits & (~hits + np.uint64(1))
            place = (lowest.astype(np.float64).view(np.int64) >> 55) - 128  # the exponent: 8 × place + 7
            hit = hits != 0
            if open_rows is None:
                if hit.all():
                    return place
                width = np.where(hit, place, 0)
                open_rows = np.flatnonzero(~hit)
            else:
                width[open_rows[hit]] = place[hit] + far
                open_rows = open_rows[~hit]
            if not len(open_rows):
                break
        return width


def _windows(buffer: Bytes, at: Ints, width: int) -> NDArray[np.void]:
    every = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, 0, (1,))
    return every[at]


_MASKS = np.array(
    [[(1 << 8 * min(max(width - 4 * word, 0), 4)) - 1 for word in range(3)] for width in range(_INLINE + 1)], np.uint32
)


def _texts(lines: BlockLines, begin: Ints, width: Ints) -> pl.Series:
    """The texts that stand there, as a column; they are not copied out of the block."""
    views = np.empty((len(begin), 4), np.uint32)
    views[:, 0] = width
    views[:, 1:] = _windows(lines.buffer, begin, 12).view(np.uint32).reshape(-1, 3)
    views[:, 1:] &= _MASKS[np.minimum(width, _INLINE)]
    long = np.flatnonzero(width > _INLINE)
    if len(long):
        views[long, 2] = 0
        views[long, 3] = begin[long]
    column = pa.Array.from_buffers(pa.string_view(), len(begin), [None, pa.py_buffer(views), pa.py_buffer(lines.text)])
    return pl.Series(column)


def _times(found: _Walk, like: Skeleton, good: NDArray[np.bool_]) -> Floats | None:
    """The clocks as Unix seconds. A date is looked up once for the lines that follow each other with it."""
    if like.hour < 0:
        return None
    width = -(-(_DATE + 9 + like.second_digits) // 8) * 8
    at = found.lines.starts[found.rows] + (like.hour - _DATE)
    table = _windows(found.lines.buffer, at, width).view(np.uint8).reshape(-1, width)
    bad: Words = np.zeros(len(found.rows), np.uint64)
    seconds, part = seconds_of_day(table, _DATE, like.second_digits, bad)
    good &= bad == 0
    words = table.view(np.uint64)
    late = words[:, 1] & np.uint64(0xFFFF)  # the last two characters of YYYY-MM-DD
    new = np.flatnonzero((words[1:, 0] != words[:-1, 0]) | (late[1:] != late[:-1])) + 1
    firsts = np.concatenate([np.zeros(1, np.int64), new])
    dates = [clock(table[row, :_DATE].tobytes().decode("latin-1") + "00:00:00") for row in firsts.tolist()]
    if len(dates) == 1 and dates[0] is not None:
        time = seconds + dates[0]
    else:
        midnight = np.array([np.nan if date is None else date for date in dates])
        days = np.repeat(midnight, np.diff(firsts, append=len(at)))
        good &= ~np.isnan(days)
        time = days + seconds
    return time if part is None else time + part
