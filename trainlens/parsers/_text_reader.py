"""The trip through a text log: blocks of whole lines, each line to those who may know it, points and events out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from trainlens.model import Batch, Checkpoint, Event, Fact, Ints, Points
from trainlens.parsers import _deepspeed_lines
from trainlens.parsers._lines import Block, blocks, encoding, plain
from trainlens.parsers._megatron_lines import MegatronLines
from trainlens.parsers._pair_lines import PairLines
from trainlens.parsers._shapes import Rows
from trainlens.parsers._text_events import EventLines, marked
from trainlens.parsers._text_page import Columns, Page
from trainlens.sources import Source


@dataclass(slots=True)
class Rest:
    """What a fast reading left of a block: lines, their places in the block, the step reached there where it is new."""

    lines: list[str]
    at: Iterable[int]
    step: Iterable[int | None]
    time: Iterable[float | None]  # of that step, where it is new
    columns: Columns
    total: int | None = None  # how many steps are planned, when the fast reading learnt it
    follows: Container[int] = ()  # places right behind a record that was read fast: it may be wrapped and go on there
    closes: bool = False  # the last line of the block is such a record


FIRST_STRETCH, STRETCH = 64, 1 << 13  # lines

Fast = Callable[[Block], Rest | None]


def read(source: Source, since: Checkpoint | None, *, pairs: bool = True, fast: Fast | None = None) -> Iterator[Batch]:
    """All that a text log says. `pairs`: also lines of trainers nobody knows; `fast` takes the lines it can first."""
    reader = _Reader(source, pairs)
    start, line = 0, 1
    if since is not None:
        start = since.offset
        line = reader.restore(since.state)
    end, following = start, line
    for block in blocks(source, start, line):
        found = reader.block(block, fast)
        yield from found if since is None or block.line != line else _fresh(found, line, since)
        if not block.torn:
            end, following = block.end, block.line + block.count
    yield from reader.page.notes()
    yield from reader.events.notes()
    if not source.compressed and encoding(source.head(4))[0] == "utf-8":
        yield Checkpoint(end, {**reader.state(), "line": following})


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
        self.pairs = PairLines(self.page)
        self.events = EventLines(self.page)
        self._with_pairs = pairs
        self._torn: dict[str, int] = {}

    def block(self, block: Block, fast: Fast | None) -> Iterator[Points | Event | Fact]:
        """All that one block says. Where lines were taken by column, the other ones are told the step reached there."""
        page = self.page
        rest = fast(block) if fast is not None else None
        last = block.count if block.torn else -1
        if rest is None:
            self._all(block, last)
            columns = None
        else:
            columns = rest.columns
            self.megatron.records += len(columns.step)
            self._rest(block, rest, last)
        self._torn = page.told_at(block.line + last) if block.torn else {}
        yield from page.flush(columns)

    def _rest(self, block: Block, rest: Rest, last: int) -> None:
        page, of_interest = self.page, marked(rest.lines)
        lines = zip(rest.lines, rest.at, rest.step, rest.time, strict=True)
        for place, (line, at, step, time) in enumerate(lines):
            page.line = block.line + at
            if step is not None:
                page.step, page.time = step, time
            if at in rest.follows:
                self.megatron.open, self.megatron.dangling = page.line, ""
            self._line(line, place in of_interest, torn=at == last)
        if not rest.lines or int(rest.columns.line[-1]) > page.line:  # the block ends with records read by column
            page.at_step(int(rest.columns.step[-1]), rest.total)
            if rest.columns.time is not None:
                page.time = float(rest.columns.time[-1])
        else:
            page.at_step(int(rest.columns.step[-1]) if page.step is None else page.step, rest.total)
        if rest.closes:
            self.megatron.open, self.megatron.dangling = int(rest.columns.line[-1]) + 1, ""

    def _all(self, block: Block, last: int) -> None:
        """A block without records of Megatron: in stretches, so that shapes learnt in one serve in the next."""
        lines = plain(block.text.decode("utf-8", "replace")).split("\n")
        if not lines[-1]:
            lines.pop()
        start, size = 0, STRETCH if self.page.shapes.known else FIRST_STRETCH
        while start < len(lines):
            self._stretch(lines[start : start + size], block.line + start, last - start)
            start, size = start + size, min(4 * size, STRETCH)

    def _stretch(self, lines: list[str], first: int, last: int) -> None:
        page = self.page
        torn = [lines.pop()] if 0 <= last == len(lines) - 1 else []
        taken = page.shapes.take(lines)
        if taken:
            at, step = _in_order(taken)
            for rows in taken:
                page.rows(rows, first)
            others = np.ones(len(lines), np.bool_)
            others[at] = False
            places = np.flatnonzero(others)
            before = np.searchsorted(at, places) - 1
            news = np.diff(before, prepend=-1) != 0
            steps = [int(step[row]) if new else None for row, new in zip(before.tolist(), news.tolist(), strict=True)]
            slow = [lines[place] for place in places.tolist()]
        else:
            places, steps, slow = np.arange(len(lines)), [None] * len(lines), lines
        of_interest = marked(slow)
        for number, (line, place, reached) in enumerate(zip(slow, places.tolist(), steps, strict=True)):
            page.line = first + place
            if reached is not None:
                page.step = reached
            self._line(line, number in of_interest, torn=False)
        if taken and (not len(places) or at[-1] > places[-1]):
            page.at_step(int(step[-1]))
        for line in torn:
            page.line = first + len(lines)
            self._line(line, bool(marked(torn)), torn=True)

    def _line(self, line: str, of_interest: bool, *, torn: bool) -> None:
        if line.endswith("\r"):
            line = line[:-1]
        known = self.megatron.read(line, torn=torn) or _deepspeed_lines.read(line, self.page, torn=torn)
        if not known and self._with_pairs and not self.megatron.records:
            self.pairs.read(line, torn=torn)
        if of_interest or self.events.busy:
            for part in line.split("\r") if "\r" in line else (line,):
                self.events.read(part)

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            **self.page.state(),
            "megatron": self.megatron.state(),
            "pairs": self.pairs.state(),
            "events": self.events.state(),
            "torn": self._torn,
        }

    def restore(self, state: Mapping[str, object]) -> int:
        """Takes up an earlier reading; the number of the line to go on with."""
        self.page.restore(state)
        for name, part in (("megatron", self.megatron), ("pairs", self.pairs), ("events", self.events)):
            held = state[name]
            part.restore(held if isinstance(held, dict) else {})
        return self.page.line


def _in_order(taken: list[Rows]) -> tuple[Ints, Ints]:
    """Places and steps of the rows of several shapes, in the order of the log."""
    at, step = (np.concatenate([getattr(rows, name) for rows in taken]) for name in ("at", "step"))
    order = np.argsort(at, kind="stable")
    return at[order], step[order]
