"""Scalars of an event file that repeats the same tags in the same order: one pass over a table of bytes.

As long as a period of records repeats, the file is a table whose row is one period. The OR and the AND of all rows must
be that of one row wherever bytes are constant, which proves every length, its checksum, every tag and key; clock, step
and value are columns. The first row that differs, or whose payload checksum fails, ends the table: the general way
goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints
from trainlens.parsers._crc32c import Bytes, Words, add_columns, unmasked
from trainlens.parsers._event_columns import Layout, Piece, numbers_at, steps_at, sums
from trainlens.parsers._event_frames import AROUND, HEADER

_BLOCK = 1 << 22  # bytes looked at together: fewer cost more calls, more leave the cache
_FEWEST_ROWS = 512  # but so many rows at least, so that numpy's calls are worth it
_FIRST_ROWS = 16  # looked at first: many tables end soon
_LONGEST = 4096  # records in a period
_AT_ONCE = 1 << 20  # records given out together


def period(layouts: NDArray[np.int32]) -> int:
    """The smallest number of records in which the end of `layouts` repeats twice; 0 when it does not."""
    count = len(layouts)
    if not count or layouts[-1] < 0:
        return 0
    backwards = layouts[::-1]
    longest = min(count // 2, _LONGEST)
    for length in (np.flatnonzero(backwards[1 : longest + 1] == backwards[0]) + 1).tolist():
        if np.array_equal(backwards[:length], backwards[length : 2 * length]):
            return length if (backwards[:length] >= 0).all() else 0
    return 0


def tiles(buffer: Bytes, base: int, layouts: Sequence[Layout]) -> tuple[list[Piece], int]:
    """Points of the records from `base` on that repeat the period of `layouts` just before it, and how many rows."""
    table = _Table(buffer, base, layouts)
    rows = min((len(buffer) - base) // table.size, max(1, _AT_ONCE // len(layouts)))
    if rows < 1:
        return [], 0
    columns_ = _Columns(layouts, rows)
    most = max(_FEWEST_ROWS, _BLOCK // table.size)
    at_once = min(_FIRST_ROWS, most)
    done = 0
    while done < rows:
        some = min(at_once, rows - done)
        good = table.read(done, some, columns_)
        done += good
        if good < some:
            break
        at_once = min(8 * at_once, most)
    return columns_.pieces(table, layouts, done), done


class _Columns:
    """What the rows of a table hold, filled block by block; one list entry a record of the period.

    Neighbouring records share one array of steps for as long as their steps are equal in every row.
    """

    def __init__(self, layouts: Sequence[Layout], rows: int) -> None:
        self.time = [np.empty(rows) for _ in layouts]
        self.numbers = [[np.empty(rows) for _ in layout.values] for layout in layouts]
        self.step: list[Ints] = [np.empty(rows, np.int64)] * len(layouts)

    def shares(self, record: int) -> bool:
        return record > 0 and self.step[record] is self.step[record - 1]

    def part(self, record: int) -> None:
        """Give `record` and those after it that shared its steps an array of their own."""
        common = self.step[record]
        own = common.copy()
        while record < len(self.step) and self.step[record] is common:
            self.step[record] = own
            record += 1

    def pieces(self, table: _Table, layouts: Sequence[Layout], rows: int) -> list[Piece]:
        if not rows:
            return []
        row_starts = table.base + table.size * np.arange(rows, dtype=np.int64)
        found = []
        for record, layout in enumerate(layouts):
            origin = row_starts + table.starts[record]
            step, time = self.step[record][:rows], self.time[record][:rows]
            for value, number in zip(layout.values, self.numbers[record], strict=True):
                found.append(Piece(value, origin, step, time, number[:rows]))
        return found


class _Table:
    """The file from `base` on as rows of `size` bytes."""

    def __init__(self, buffer: Bytes, base: int, layouts: Sequence[Layout]) -> None:
        self.buffer, self.base, self.layouts = buffer, base, layouts
        sizes = np.array([layout.shape[0] + AROUND for layout in layouts])
        self.size = int(sizes.sum())
        self.starts = (np.cumsum(sizes) - sizes).tolist()
        self.template = buffer[base - self.size : base].copy()
        self.mask = np.full(self.size, 0xFF, np.uint8)
        for start, layout in zip(self.starts, layouts, strict=True):
            end = start + HEADER + layout.shape[0]
            self.mask[start + HEADER : end] = layout.mask[: layout.shape[0]]
            self.mask[end : end + 4] = 0

    def read(self, first: int, count: int, out: _Columns) -> int:
        """Fill `out` from rows `first` to `first + count`; how many of them are good before the first that is not."""
        at = self.base + first * self.size
        rows = self.buffer[at : at + count * self.size].reshape(count, self.size)
        either, both = np.bitwise_or.reduce(rows, axis=0), np.bitwise_and.reduce(rows, axis=0)
        if (((either ^ self.template) | (both ^ self.template)) & self.mask).any():
            count = int(((rows ^ self.template) & self.mask).any(axis=1).argmax())
            rows = rows[:count]
            if not count:
                return 0
            either, both = np.bitwise_or.reduce(rows, axis=0), np.bitwise_and.reduce(rows, axis=0)
        good = self._checked(at, count, either, either == both)
        if good:
            self._fill(at, first, good, out)
        return good

    def _checked(self, at: int, count: int, row: Bytes, constant: NDArray[np.bool_]) -> int:
        """How many rows have all their payload checksums before the first that does not."""
        good = count
        for start, layout in zip(self.starts, self.layouts, strict=True):
            length = layout.shape[0]
            payload = start + HEADER
            still, parts = sums(layout, row[payload : payload + length], constant[payload : payload + length])
            total = unmasked(np.ndarray((count,), "<u4", self.buffer, at + payload + length, (self.size,)))
            add_columns(total, self.buffer, at + payload, self.size, length, parts)
            false = total != layout.constant ^ still
            if false.any():
                good = min(good, int(false.argmax()))
        return good

    def _fill(self, at: int, first: int, count: int, out: _Columns) -> None:
        rows = slice(first, first + count)
        before: Words | NDArray[np.uint64] | None = None
        for record, (start, layout) in enumerate(zip(self.starts, self.layouts, strict=True)):
            _, time_place, step_place, step_width, values = layout.shape
            payload = at + start + HEADER
            out.time[record][rows] = np.ndarray((count,), "<f8", self.buffer, payload + time_place, (self.size,))
            for into, (place, code) in zip(out.numbers[record], values, strict=True):
                into[rows] = numbers_at(code, self.buffer, payload + place, self.size, count)
            written = self._written_steps(payload + step_place, step_width, count)
            equal = before is not None and written is not None and np.array_equal(written, before)
            before = written
            if equal and out.shares(record):
                continue
            if out.shares(record):
                out.part(record)
            if equal:
                out.step[record][rows] = out.step[record - 1][rows]
            else:
                out.step[record][rows] = steps_at(layout.shape, self.buffer, payload, self.size, count)

    def _written_steps(self, at: int, width: int, count: int) -> Words | NDArray[np.uint64] | None:
        """The bytes of the steps as numbers that are equal when the steps are; None for steps of more than 7 bytes."""
        if width > 7:
            return None
        if not width:
            return np.zeros(count, np.uint64)
        written: Words | NDArray[np.uint64]
        if width <= 4:
            written = np.ndarray((count,), "<u4", self.buffer, at, (self.size,)) << np.uint32(32 - 8 * width)
        else:
            written = np.ndarray((count,), "<u8", self.buffer, at, (self.size,)) << np.uint64(64 - 8 * width)
        return written
