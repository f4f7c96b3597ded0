"""Lines of DeepSpeed read by column: optimiser steps, throughput timers and the pipeline engine.

Their numbers are printed as Python prints doubles, each with as many digits as it needs: see `_skeletons`.
"""

from __future__ import annotations

import re

import numpy as np

from trainlens.model import Ints
from trainlens.parsers import _skeletons
from trainlens.parsers._deepspeed_lines import NEAR, OPTIMISER, PIPE, THROUGHPUT, DeepSpeedLines, marks
from trainlens.parsers._lines import BlockLines
from trainlens.parsers._marks import Rows, skeleton

_OPTIMISER = re.compile(rb"\bstep=(\d{1,15}), skipped=")
ROUNDS = 12  # each looks for one more skeleton of each kind
_KEYS = tuple(key.encode() for key in (OPTIMISER, THROUGHPUT, PIPE))


def take(lines: BlockLines, first: int, deepspeed: DeepSpeedLines) -> list[Rows]:
    """What the lines with a skeleton say; `first` numbers the first line. `deepspeed` learns of the last one."""
    found: list[tuple[bytes, Rows]] = []
    tried: list[int] = []
    text, ends, rows = lines.text, lines.ends, np.arange(len(lines.ends))
    for _ in range(ROUNDS):
        looked = len(tried)
        for key in _KEYS:
            place = text.find(key)
            at = int(np.searchsorted(ends, place)) if place >= 0 else len(rows)
            if at >= len(rows) or lines.taken[rows[at]]:
                continue
            row = int(rows[at])
            tried.append(row)
            written = lines.line(row)
            numbers = marks(written.decode("utf-8", "replace").removesuffix("\r")) if written.isascii() else None
            like = skeleton(written, numbers) if numbers else None
            taken = _skeletons.take(lines, rows[at:][~lines.taken[rows[at:]]], like) if like else None
            if taken:
                found.append((key, taken))
        if len(tried) == looked:
            break
        text, rows = lines.left(np.array(tried, np.int64))
        ends = np.cumsum(lines.ends[rows] + 1 - lines.starts[rows]) - 1
    return _of_one_optimiser(lines, first, found, deepspeed)


def _of_one_optimiser(
    lines: BlockLines, first: int, found: list[tuple[bytes, Rows]], deepspeed: DeepSpeedLines
) -> list[Rows]:
    """The same, without the optimiser's lines where several optimisers print each step: they are read one by one."""
    own = [rows for key, rows in found if key == _KEYS[0]]
    if own:
        at, step = (np.concatenate([getattr(rows, name) for rows in own]) for name in ("at", "step"))
        odd = _odd(lines)
        order = np.argsort(np.concatenate([at, odd[0]]), kind="stable")
        every, steps = (np.concatenate(pair)[order] for pair in ((at, odd[0]), (step, odd[1])))
        near = np.diff(every + first, prepend=deepspeed.line) <= NEAR
        if (near & (np.diff(steps, prepend=deepspeed.step) == 0)).any():
            lines.taken[at] = False
            found = [(key, rows) for key, rows in found if key != _KEYS[0]]
        else:
            last = int(at.max())
            deepspeed.ahead = first + last, lines.line(last).decode("ascii")
    return [rows for _, rows in found]


def _odd(lines: BlockLines) -> tuple[Ints, Ints]:
    """The optimiser's lines that were not taken: where they are, and their steps."""
    text, rows = lines.left()
    if _KEYS[0] not in text:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ends = np.cumsum(lines.ends[rows] + 1 - lines.starts[rows])
    found = [(one.start(), int(one[1])) for one in _OPTIMISER.finditer(text)]
    places, steps = np.array(found, np.int64).reshape(-1, 2).T
    return rows[np.searchsorted(ends, places, side="right")], steps
