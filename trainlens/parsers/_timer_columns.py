"""Tables of Megatron's timers read by column: those right behind iteration records that were read by column.

`(min, max) time across ranks (ms):`, then one indented line a timer: `    optimizer .......: (11.50, 12.75)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints
from trainlens.parsers import _skeletons
from trainlens.parsers._lines import BlockLines, unprefixed
from trainlens.parsers._marks import Mark, Rows, skeleton
from trainlens.parsers._megatron_tables import TIMER
from trainlens.parsers._text_page import Columns

LONGEST_TABLE = 256  # timers
_HEAD = b"(ms):"
_HEAD_WORD = np.uint64(int.from_bytes(_HEAD, "little"))
NAMES = 8  # that may stand at the same place of a table


def take(lines: BlockLines, columns: Columns, first: int) -> tuple[list[Rows], NDArray[np.bool_]]:
    """What the tables say, and which lines belong to them; `first` is the number of the block's first line."""
    inside = np.zeros(len(lines.ends), np.bool_)
    records = columns.line - first
    behind = records[records + 1 < len(lines.ends)] + 1
    place = np.flatnonzero(_heads(lines, behind) & ~lines.taken[behind])
    heads = behind[place]
    if not len(heads):
        return [], inside
    inside[heads] = lines.taken[heads] = True
    which = np.full(len(lines.ends), -1, np.int64)  # the record that a line of a table belongs to
    which[heads] = place
    found, level = [], heads
    for _ in range(LONGEST_TABLE):
        level = level[level + 1 < len(lines.ends)]
        level = level[~lines.taken[level + 1]]
        if not len(level):
            break
        which[level + 1] = which[level]
        parts = _level(lines, level + 1)
        for at, rows in parts:
            rows.step = columns.step[which[at]]
            rows.time = None if columns.time is None else columns.time[which[at]]
            found.append(rows)
        level = np.sort(np.concatenate([at for at, _ in parts])) if parts else level[:0]
        inside[level] = True
    return found, inside


def _heads(lines: BlockLines, rows: Ints) -> NDArray[np.bool_]:
    """Which of the lines end in "(ms):"."""
    begin = np.maximum(lines.ends[rows] - len(_HEAD), 0)
    every = np.ndarray((len(lines.buffer) - 7,), "<u8", lines.buffer, 0, (1,))
    heads: NDArray[np.bool_] = every[begin] & np.uint64((1 << 8 * len(_HEAD)) - 1) == _HEAD_WORD
    return heads


def _level(lines: BlockLines, rows: Ints) -> list[tuple[Ints, Rows]]:
    """The lines at one place of all tables: mostly they name one timer."""
    found = []
    for _ in range(NAMES):
        if not len(rows):
            break
        line = lines.line(int(rows[0]))
        marks = _marks(line)
        like = skeleton(line, marks) if marks else None
        taken = _skeletons.take(lines, rows, like) if like else None
        if taken:
            found.append((taken.at, taken))
        rows = rows[1:]
        rows = rows[~lines.taken[rows]]
    return found


def _marks(line: bytes) -> list[Mark] | None:
    if not line.isascii():
        return None
    text = line.decode("ascii")
    rest = unprefixed(text)[1]
    found = TIMER.match(rest)
    if not found:
        return None
    before = len(text) - len(rest)
    tag = f"timers/{found[1]}"
    low, high = (found.span(group) for group in (2, 3))
    if not found[3]:
        return [Mark(tag, before + low[0], before + low[1])]
    return [
        Mark(f"{tag}/min", before + low[0], before + low[1]),
        Mark(f"{tag}/max", before + high[0], before + high[1]),
    ]
