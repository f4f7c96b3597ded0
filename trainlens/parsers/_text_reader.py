"""The trip through a text log: blocks of whole lines, each line to those who may know it, points and events out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Batch, Checkpoint, Event, Fact, Floats, Ints, Points
from trainlens.parsers import _deepspeed_columns, _megatron_columns, _timer_columns
from trainlens.parsers._deepspeed_lines import DeepSpeedLines
from trainlens.parsers._lines import Block, BlockLines, blocks, encoding, plain
from trainlens.parsers._megatron_lines import MegatronLines
from trainlens.parsers._pair_lines import PairLines
from trainlens.parsers._pattern_lines import PatternLines
from trainlens.parsers._shapes import Rows
from trainlens.parsers._text_events import EventLines, marked
from trainlens.parsers._text_page import Columns, Page
from trainlens.sources import Source

FIRST_STRETCH, STRETCH = 64, 1 << 13  # lines
DULL = 1 << 12  # lines remembered: warnings come again and again

Reached = tuple[Ints, Ints, Floats]  # lines that were read by column: their places, steps, and times (NaN: unknown)
NOWHERE: Reached = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def read(source: Source, since: Checkpoint | None, *, pairs: bool = True) -> Iterator[Batch]:
    """All that a text log says. `pairs`: also lines of trainers nobody knows."""
    reader = _Reader(source, pairs)
    start, line = 0, 1
    if since is not None:
        start = since.offset
        line = reader.restore(since.state)
    end, following = start, line
    before: dict[str, object] | None = None  # where a line without an end was begun, which is read again later
    for block in blocks(source, start, line):
        before = copy.deepcopy(reader.state()) if block.torn else None
        found = reader.block(block)
        yield from found if since is None or block.line != line else _fresh(found, line, since)
        if not block.torn:
            end, following = block.end, block.line + block.count
    yield from reader.page.notes()
    yield from reader.events.notes()
    if not source.compressed and encoding(source.head(4))[0] == "utf-8":
        yield Checkpoint(end, {**(before or reader.state()), "torn": reader.torn, "line": following})


def _fresh(found: Iterator[Points | Event | Fact], line: int, since: Checkpoint) -> Iterator[Batch]:
    """Without what an earlier reading has already told of this line, which then had no end."""
    held = since.state.get("torn")
    told: dict[str, int] = dict(held) if isinstance(held, dict) else {}
    for one in found:
        if isinstance(one, Points) and (count := told.get(f"{one.tag}@{one.rank}")) and one.origin is not None:
            keep = np.ones(len(one.value), np.bool_)
            keep[np.flatnonzero(one.origin == line)[:count]] = False
            step = None if one.step is None else one.step[keep]
            time = None if one.time is None else one.time[keep]
            if keep.any():
                yield replace(one, step=step, value=one.value[keep], time=time, origin=one.origin[keep])
        elif not (isinstance(one, Event) and one.place and one.place.line == line and one.kind in told):
            yield one


class _Reader:
    def __init__(self, source: Source, pairs: bool) -> None:
        self.page = Page(source.name, "loss" if "loss" in str(source.path).lower() else "value")
        self.megatron = MegatronLines(self.page)
        self.deepspeed = DeepSpeedLines(self.page)
        self.pairs = PairLines(self.page)
        self.events = EventLines(self.page)
        self.patterns = PatternLines(self.page, source.patterns if pairs else ())
        self._with_pairs = pairs
        self.torn: dict[str, int] = {}  # how much was told of a line without an end
        self._dull: set[str] = set()  # lines that said nothing and would say nothing again

    def block(self, block: Block) -> Iterator[Points | Event | Fact]:
        """All that one block says: what has columns by column, all other lines one by one, told the step reached."""
        page = self.page
        self._lines = lines = BlockLines(block)
        columns, reached = self._by_column(block, lines)
        if not lines.taken.any():
            text, places = block.text, np.arange(block.count + 1)
        else:
            text, places = lines.left()
            places = np.append(places, block.count)
        left = plain(text.decode("utf-8", "replace")).split("\n")
        if not left[-1]:
            left.pop()
        start, size = 0, STRETCH if page.shapes.known else FIRST_STRETCH
        while start < len(left):
            some, end = left[start : start + size], start + size
            until = int(places[end]) if end < len(left) else block.count + 1
            begin = int(places[start]) if start else 0
            self._stretch(some, places[start : start + len(some)], block, _between(reached, begin, until))
            start, size = end, min(4 * size, STRETCH)
        self._closing(block, columns, reached, int(places[len(left) - 1]) if left else -1)
        self.torn = page.told_at(block.line + block.count) if block.torn else {}
        yield from page.flush(columns)

    def _by_column(self, block: Block, lines: BlockLines) -> tuple[Columns | None, Reached]:
        page, first = self.page, block.line
        self._records = self._tables = lines.taken[:0]
        if self.patterns:
            return None, NOWHERE
        found = _megatron_columns.take(lines, first)
        columns = found[0] if found else None
        rows: list[Rows] = []
        if found and columns is not None:
            self.megatron.records += len(columns.step)
            self.planned = found[1]
            self._records = lines.taken.copy()
            rows, self._tables = _timer_columns.take(lines, columns, first)
        for one in rows:
            page.rows(one, first)
        parts = [] if columns is None else [(columns.line - first, columns.step, columns.time)]
        if self.deepspeed.seen or first == 1:
            for one in _deepspeed_columns.take(lines, first, self.deepspeed):
                page.rows(one, first)
                parts.append((one.at, one.step, one.time))
        return columns, _in_order(parts)

    def _stretch(self, lines: list[str], places: Ints, block: Block, reached: Reached) -> None:
        """Lines that were not read by column yet; shapes learnt in one stretch serve in the next."""
        page, last = self.page, block.count
        torn = [lines.pop()] if block.torn and int(places[len(lines) - 1]) == last else []
        taken = [] if self.patterns else page.shapes.take(lines, self.pairs.counter)
        if taken:
            for rows in taken:
                rows.at = places[rows.at]
                page.rows(rows, block.line)
            reached = _in_order([reached, *((rows.at, rows.step, rows.time) for rows in taken)])
            others = ~np.isin(places[: len(lines)], reached[0])
            lines = [lines[place] for place in np.flatnonzero(others).tolist()]
            places = places[: len(others)][others]
        self._one_by_one(lines, places[: len(lines)], block, reached)
        for line in torn:
            page.line = block.line + last
            self._line(line, bool(marked(torn)), torn=True)

    def _one_by_one(self, lines: list[str], places: Ints, block: Block, reached: Reached) -> None:
        page, at, step, time = self.page, *reached
        of_interest = self._marked(lines)
        before = np.searchsorted(at, places) - 1
        news = set(np.flatnonzero(np.diff(before, prepend=-1) != 0).tolist()) if len(at) else ()
        follows, inside = (
            set(places[self._behind(places, taken)].tolist()) if len(taken) else ()
            for taken in (self._records, self._tables)
        )
        for number, (line, place) in enumerate(zip(lines, places.tolist(), strict=True)):
            page.line = block.line + place
            if number in news:
                self._reach(int(step[before[number]]), float(time[before[number]]))
            if place in follows:
                self.megatron.behind_record()
            elif place in inside:
                self._behind_table(place)
            self._line(line, number in of_interest)
        if len(at) and (not len(places) or at[-1] > places[-1]):
            self._reach(int(step[-1]), float(time[-1]))

    def _marked(self, lines: list[str]) -> set[int]:
        """Which lines may tell of events; those that said nothing before are not searched again."""
        if not self._dull:
            return marked(lines)
        fresh = [place for place, line in enumerate(lines) if line not in self._dull]
        found = marked([lines[place] for place in fresh])
        return {fresh[place] for place in found}

    def _behind(self, places: Ints, taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the places stand right behind one that was taken."""
        behind: NDArray[np.bool_] = (places > 0) & taken[np.minimum(places, len(taken)) - 1]
        return behind

    def _behind_table(self, place: int) -> None:
        self.megatron.behind_table(self._lines.line(place - 1).decode("utf-8", "replace"))

    def _reach(self, step: int, time: float) -> None:
        self.page.step, self.page.stepless = step, False
        self.page.time = None if np.isnan(time) else time

    def _closing(self, block: Block, columns: Columns | None, reached: Reached, last: int) -> None:
        """The block ends, perhaps with lines read by column: the place in the run that the next block begins at."""
        page = self.page
        self.deepspeed.catch_up()
        if len(reached[0]) and int(reached[0][-1]) > last:
            self._reach(int(reached[1][-1]), float(reached[2][-1]))
        if columns is None:
            return
        page.at_step(int(reached[1][-1]) if page.step is None else page.step, self.planned)
        page.line = block.line + block.count
        if self._records[-1]:
            self.megatron.behind_record()
        elif self._tables[-1]:
            self._behind_table(block.count)
        page.line -= 1

    def _line(self, line: str, of_interest: bool, *, torn: bool = False) -> None:
        events, megatron = self.events, self.megatron
        alone = not of_interest and not torn and megatron.records > 0 and not megatron.waits and not events.busy
        if alone and line in self._dull:
            return
        whole = line
        if line.endswith("\r"):
            line = line[:-1]
        known = bool(self.patterns) and self.patterns.read(line, torn=torn)
        known = known or megatron.read(line, torn=torn) or self.deepspeed.read(line, torn=torn)
        if not known and self._with_pairs and not megatron.records:
            self.pairs.read(line, torn=torn)
        if of_interest or events.busy:
            for part in line.split("\r") if "\r" in line else (line,):
                events.read(part)
        elif alone and not known and len(self._dull) < DULL and "|" not in line:
            self._dull.add(whole)

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            **self.page.state(),
            "megatron": self.megatron.state(),
            "deepspeed": self.deepspeed.state(),
            "pairs": self.pairs.state(),
            "events": self.events.state(),
        }

    def restore(self, state: Mapping[str, object]) -> int:
        """Takes up an earlier reading; the number of the line to go on with."""
        self.page.restore(state)
        for name in ("megatron", "deepspeed", "pairs", "events"):
            held = state[name]
            getattr(self, name).restore(held if isinstance(held, dict) else {})
        return self.page.line


def _in_order(parts: Sequence[tuple[Ints, Ints, Floats | None]]) -> Reached:
    """Places, steps and times of lines that were read in several ways, in the order of the log."""
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return NOWHERE
    at, step = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    time = np.concatenate([np.full(len(at), np.nan) if time is None else time for at, _, time in parts])
    if len(parts) == 1:
        return at, step, time
    order = np.argsort(at, kind="stable")
    return at[order], step[order], time[order]


def _between(reached: Reached, start: int, end: int) -> Reached:
    """Those that stand from `start` on and before `end`."""
    low, high = np.searchsorted(reached[0], (start, end))
    return reached[0][low:high], reached[1][low:high], reached[2][low:high]
