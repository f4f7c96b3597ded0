"""Lines that were read by column, in the order of the log: what place in the run each of them leaves it at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainlens.model import Ints
from trainlens.parsers._bars import remembered
from trainlens.parsers._marks import Rows
from trainlens.parsers._pair_lines import PairLines
from trainlens.parsers._text_page import Columns


class Reached:
    """`at`, `step`, `time` (NaN: unknown) of all lines read by column so far.

    Steps that are counted of places in epochs are counted when the reading comes by, for lines read one by one count
    with them.
    """

    def __init__(self, pairs: PairLines) -> None:
        self.pairs = pairs
        self.at, self.step, self.time = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        self._rows: list[Rows] = []
        self._back = np.empty(0, np.int64)  # where in the order of the log each row of `_rows` is
        self._counted: tuple[Ints, Ints, Ints] | None = None  # epoch, count, total (−1: it names its step)
        self._done = 0  # rows passed by

    def columns(self, columns: Columns, first: int) -> None:
        """Records of Megatron; `first` is the number of the block's first line."""
        self.add([Rows(columns.line - first, columns.step, columns.time, {})])

    def add(self, rows: Sequence[Rows]) -> None:
        """Lines behind those that were passed by."""
        if not rows:
            return
        self._tell()
        self._rows += rows
        every = self._rows
        at, step = np.concatenate([one.at for one in every]), np.concatenate([one.step for one in every])
        time = np.concatenate([np.full(len(one.at), np.nan) if one.time is None else one.time for one in every])
        order = np.argsort(at, kind="stable")
        self.at, self.step, self.time = at[order], step[order], time[order]
        self._back = np.empty_like(order)
        self._back[order] = np.arange(len(order))
        if any(one.place is not None for one in every):
            places = [np.full((3, len(one.at)), -1) if one.place is None else np.stack(one.place) for one in every]
            epoch, count, total = np.concatenate(places, axis=1)[:, order]
            self._counted = epoch, count, total
            self._zero = np.concatenate([np.full(len(one.at), one.zero_based) for one in every])[order]
            self._bar = np.concatenate([np.full(len(one.at), one.bar) for one in every])[order]

    def move(self, number: Ints) -> None:
        """Lines are looked at in parts from now on: `number` is the line of each part."""
        for one in self._rows:
            one.at = np.searchsorted(number, one.at)
        self.at = np.searchsorted(number, self.at)

    def rows(self) -> list[Rows]:
        """All of them, their steps counted."""
        self.passed(len(self.at))
        self._tell()
        return self._rows

    def _tell(self) -> None:
        """Gives the steps counted so far back to the rows."""
        if self._counted is not None:
            steps, begin = self.step[self._back], 0
            for one in self._rows:
                one.step = steps[begin : begin + len(one.at)]
                begin += len(one.at)

    def passed(self, upto: int) -> None:
        """The reading has come by the first `upto` lines: the place in the run is that behind the last of them."""
        some, self._done = slice(self._done, upto), upto
        if upto <= some.start:
            return
        page = self.pairs.page
        drawn = None
        if self._counted is not None:
            drawn = self._count(np.flatnonzero(self._counted[2][some] >= 0) + some.start, upto - 1)
        page.step = int(self.step[upto - 1]) if drawn is None else drawn
        page.stepless = False
        time = float(self.time[upto - 1])
        page.time = None if np.isnan(time) else time

    def _count(self, places: Ints, last: int) -> int | None:
        """Counts places in epochs; what the last line says of the run's own bar, if it is that."""
        assert self._counted is not None
        if not len(places):
            return None
        epoch, count, total = (part[places] for part in self._counted)
        self.step[places] = self.pairs.counter.many(epoch, count, total, self._zero[places])
        bars = self._bar[places]
        if not bars.any():
            return None
        self._draw(count[bars], total[bars])
        return int(count[-1]) if places[-1] == last and bars[-1] and self.pairs.bar == self.pairs.main else None

    def _draw(self, count: Ints, total: Ints) -> None:
        """Bars in the order of the log: where they are, as if each had been read by itself."""
        pairs = self.pairs
        lasts = len(total) - 1 - np.unique(total[::-1], return_index=True)[1]
        for at in sorted(lasts.tolist()):
            pairs.bars[int(total[at])] = int(count[at])
        pairs.bar = int(total[-1])
        pairs.bars = remembered(pairs.bars, pairs.bar, pairs.main)
