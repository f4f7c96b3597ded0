"""Lines that agree in all but their numbers, read by column however many characters each number has.

One line tells what stands between its numbers: its skeleton. Of all other lines the same text is asked for, piece by
piece, behind a number as long as the way to the next piece. Polars makes doubles of the texts (fast_float, rounded
correctly: https://github.com/fastfloat/fast_float_rust), which it finds in the block by their places. Lines that do
not fit, or hold anything else than a number where one should stand, are left for another way of reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainlens.later import Later
from trainlens.model import Floats, Ints
from trainlens.parsers._digit_columns import Words, seconds_of_day
from trainlens.parsers._lines import BlockLines, clock
from trainlens.parsers._marks import EPOCH, FREE, IGNORED, INSIDE, PLACE, STEP, TOTAL, Rows, Skeleton
from trainlens.parsers._walk import Walk, windows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl = Later("polars")
    pa = Later("pyarrow")

MOST_STEPS = 10**15
_OF_IGNORED = np.isin(np.arange(256), np.frombuffer(b"+-.:?0123456789eEnaif", np.uint8))

_INLINE = 12  # bytes of a text that Arrow keeps in its view: https://arrow.apache.org/docs/format/Columnar.html


def take(lines: BlockLines, rows: Ints, like: Skeleton) -> Rows | None:
    """What the lines among `rows` say that fit; None without any. They are marked as taken."""
    found = Walk(lines, rows, like)
    if not found.all_pieces():
        return None
    good = np.ones(len(found.rows), np.bool_)
    time = _times(found, like, good)
    whole = {
        mark.tag: _whole(lines, *found.span(place), good)
        for place, mark in enumerate(like.marks)
        if mark.tag == STEP or mark.tag in PLACE
    }
    values = _values(found, like, good)
    place = None
    if INSIDE in whole:
        epoch = whole.get(EPOCH, np.full(len(good), -1, np.int64))
        place = epoch, whole[INSIDE], whole[TOTAL]
    for (begin, width), mark in zip(found.numbers, like.marks, strict=True):
        if mark.tag == IGNORED and not isinstance(width, float):
            _check(lines, begin, width, good)
    step = whole.get(STEP, np.zeros(len(good), np.int64))
    at = found.rows
    if not good.all():
        at, step, time = at[good], step[good], None if time is None else time[good]
        values = {tag: value[good] for tag, value in values.items()}
        place = None if place is None else (place[0][good], place[1][good], place[2][good])
    if not len(at):
        return None
    lines.taken[at] = True
    return Rows(at, step, time, values, like.rank, like.named, place, like.zero_based, like.bar)


def _whole(lines: BlockLines, begin: Ints, width: Ints, good: NDArray[np.bool_]) -> Ints:
    numbers = _texts(lines, begin, width).cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    good &= (numbers >= 0) & (numbers < MOST_STEPS)
    return numbers


def _values(found: Walk, like: Skeleton, good: NDArray[np.bool_]) -> dict[str, Floats]:
    """The numbers of each tag, in the order of the line; all are made at once."""
    values: dict[str, Floats] = {}
    written = []
    for mark, (begin, width) in zip(like.marks, found.numbers, strict=True):
        if mark.tag in (IGNORED, FREE, STEP) or mark.tag in PLACE:
            continue
        if isinstance(width, float):
            values[mark.tag] = np.full(len(found.rows), width)
        elif mark.power:
            texts = _texts(found.lines, begin, width) + mark.power  # rounded once, as the whole text is
            numbers = texts.cast(pl.Float64, strict=False)
            good &= numbers.is_not_null().to_numpy()
            values[mark.tag] = numbers.fill_null(0.0).to_numpy()
        else:
            written.append((mark.tag, begin, width))
            values[mark.tag] = np.empty(0)
    if written:
        begins, widths = (np.concatenate([one[which] for one in written]) for which in (1, 2))
        numbers = _texts(found.lines, begins, widths).cast(pl.Float64, strict=False)
        if numbers.null_count():
            good &= numbers.is_not_null().to_numpy().reshape(len(written), -1).all(axis=0)
            numbers = numbers.fill_null(0.0)
        every = numbers.to_numpy().reshape(len(written), -1)
        for (tag, *_), value in zip(written, every, strict=True):
            values[tag] = value
    return values


def _check(lines: BlockLines, begin: Ints, width: Ints, good: NDArray[np.bool_]) -> None:
    """Whether what is passed over looks like a number or a duration."""
    size = int(width.max(initial=1))
    letters = windows(lines.buffer, begin, size).view(np.uint8).reshape(-1, size)
    good &= (_OF_IGNORED[letters] | (np.arange(size) >= width[:, None])).all(axis=1)


_MASKS = np.array(
    [[(1 << 8 * min(max(width - 4 * word, 0), 4)) - 1 for word in range(3)] for width in range(_INLINE + 1)], np.uint32
)


def _texts(lines: BlockLines, begin: Ints, width: Ints) -> pl.Series:
    """The texts that stand there, as a column; they are not copied out of the block."""
    views = np.empty((len(begin), 4), np.uint32)
    views[:, 0] = width
    views[:, 1:] = windows(lines.buffer, begin, 12).view(np.uint32).reshape(-1, 3)
    views[:, 1:] &= _MASKS[np.minimum(width, _INLINE)]
    long = np.flatnonzero(width > _INLINE)
    if len(long):
        views[long, 2] = 0
        views[long, 3] = begin[long]
    column = pa.Array.from_buffers(pa.string_view(), len(begin), [None, pa.py_buffer(views), pa.py_buffer(lines.text)])
    return pl.Series(column)


def _times(found: Walk, like: Skeleton, good: NDArray[np.bool_]) -> Floats | None:
    """The clocks as Unix seconds. A date is looked up once for the lines that follow each other with it."""
    if like.hour < 0:
        return None
    date = like.hour - like.date
    size = date + 9 + like.second_digits
    width = -(-size // 8) * 8
    at = found.lines.starts[found.rows] + like.date
    table = windows(found.lines.buffer, at, width).view(np.uint8).reshape(-1, width)
    bad: Words = np.zeros(len(found.rows), np.uint64)
    seconds, part = seconds_of_day(table, date, like.second_digits, bad)
    good &= bad == 0
    new = np.flatnonzero((table[1:, :date] != table[:-1, :date]).any(axis=1)) + 1
    firsts = np.concatenate([np.zeros(1, np.int64), new])
    dates = [clock(table[row, :date].tobytes().decode("latin-1") + "00:00:00") for row in firsts.tolist()]
    if len(dates) == 1 and dates[0] is not None:
        time = seconds + dates[0]
    else:
        midnight = np.array([np.nan if date is None else date for date in dates])
        days = np.repeat(midnight, np.diff(firsts, append=len(at)))
        good &= ~np.isnan(days)
        time = days + seconds
    return time if part is None else time + part
