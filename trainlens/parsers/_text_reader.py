"""The trip through a text log: blocks of whole lines, each line to those who may know it, points and events out."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Batch, Checkpoint, Event, Fact, Ints, Points
from trainlens.parsers import _deepspeed_columns, _megatron_columns, _timer_columns
from trainlens.parsers._deepspeed_lines import DeepSpeedLines
from trainlens.parsers._lines import Block, BlockLines, blocks, decimal_commas, encoding, head_text, plain
from trainlens.parsers._marks import Rows
from trainlens.parsers._megatron_lines import MegatronLines
from trainlens.parsers._not_understood import NotUnderstood
from trainlens.parsers._pair_lines import PairLines
from trainlens.parsers._pattern_lines import PatternLines
from trainlens.parsers._reached import Reached
from trainlens.parsers._text_events import EventLines, marked
from trainlens.parsers._text_page import Columns, Page
from trainlens.sources import HEAD, Source

FIRST_STRETCH, STRETCH = 64, 1 << 13  # lines
LINES = 400  # of the head that are looked at
DULL = 1 << 12  # lines remembered: warnings come again and again

# What bars of Keras are drawn with: of those on one line the last one counts.
_KERAS = (b"=]", b"[=", b"/step", b"ETA", "━".encode())


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
    yield from reader.not_understood.notes(reader.understood)
    if not source.compressed and encoding(source.head(HEAD))[0] == "utf-8":
        stands = [reader.pairs.led, decimal_commas(source.head(HEAD))]
        state = {**(before or reader.state()), "torn": reader.torn, "line": following, "stands": stands}
        yield Checkpoint(end, state)


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
        self.pairs = PairLines(self.page, head_text(source.head(HEAD)).split("\n")[:LINES] if pairs else ())
        self.events = EventLines(self.page)
        self.patterns = PatternLines(self.page, source.patterns if pairs else ())
        self._with_pairs = pairs
        self.torn: dict[str, int] = {}  # how much was told of a line without an end
        self.understood = 0  # lines that gave something
        self.not_understood = NotUnderstood()
        self._dull: set[str] = set()  # lines that said nothing and would say nothing again

    def block(self, block: Block) -> Iterator[Points | Event | Fact]:
        """All that one block says: what has columns by column, all other lines one by one, told the step reached."""
        page = self.page
        self._lines = lines = BlockLines(block)
        self._reached = Reached(self.pairs)
        columns, rows = self._by_column(block, lines)
        self._reached.add(rows)
        if self._with_pairs and not self.megatron.records and not self.patterns and b"\r" in block.padded:
            lines = self._parts(block, lines)
        self._others(block, lines, columns is None)
        self._closing(block, columns)
        self.understood += len(self._reached.at)
        for one in self._reached.rows()[columns is not None :]:
            page.rows(one, lines.number[one.at] + block.line, one.at + block.line if lines is not self._lines else None)
        told: Counter[str] = Counter()
        last = block.line + block.count
        for found in page.flush(columns):
            if block.torn and isinstance(found, Points) and found.origin is not None:
                told[f"{found.tag}@{found.rank}"] += int(np.count_nonzero(found.origin == last))
            elif block.torn and isinstance(found, Event) and found.place and found.place.line == last:
                told[found.kind] += 1
            yield found
        self.torn = dict(+told)

    def _by_column(self, block: Block, lines: BlockLines) -> tuple[Columns | None, list[Rows]]:
        """Records of Megatron with their timers, and lines of DeepSpeed."""
        first = block.line
        self._records = self._tables = lines.taken[:0]
        if self.patterns:
            return None, []
        found = _megatron_columns.take(lines, first)
        columns = found[0] if found else None
        if found and columns is not None:
            self.megatron.records += len(columns.step)
            self.planned = found[1]
            self._records = lines.taken.copy()
            rows, self._tables = _timer_columns.take(lines, columns, first)
            for one in rows:
                self.page.rows(one, one.at + first)
            self._reached.columns(columns, first)
        return columns, _deepspeed_columns.take(
            lines, first, self.deepspeed
        ) if self.deepspeed.seen or first == 1 else []

    def _parts(self, block: Block, lines: BlockLines) -> BlockLines:
        """The parts of all lines, as carriage returns part them, those of lines that were read are taken.

        Bars of Keras need whole lines; they begin with a digit.
        """
        parts = BlockLines(block, parts=True)
        begin = parts.buffer[parts.starts]
        if ((begin <= 32) | ((begin >= 48) & (begin <= 57))).any() and any(sign in block.padded for sign in _KERAS):
            return lines
        inside = parts.number < len(lines.taken)
        parts.taken[inside] = lines.taken[parts.number[inside]]
        self._reached.move(parts.number)
        return parts

    def _others(self, block: Block, lines: BlockLines, shapes: bool) -> None:
        """Lines of known shapes by column, the others one by one; shapes learnt on the way serve for what follows."""
        page, known, begin, size = self.page, 0, 0, FIRST_STRETCH
        shapes = shapes and not self.patterns and self._with_pairs and not self.megatron.records
        while True:
            if shapes and len(page.shapes.known) > known:
                self._reached.add(page.shapes.take(lines, np.arange(begin, len(lines.ends)), known))
                known = len(page.shapes.known)
            text, places = lines.left(begin=begin)
            tail = lines.tail()
            left = plain((text + tail).decode("utf-8", "replace")).split("\n")
            if not left[-1]:
                left.pop()
            places = np.append(places, len(lines.ends))
            start = 0
            while start < len(left):
                end = start + (size if shapes and page.shapes.open else len(left))
                self._stretch(left[start:end], places[start:end], block, lines)
                start, size = end, min(4 * size, STRETCH)
                if shapes and len(page.shapes.known) > known and start < len(left):
                    begin = int(places[start])
                    break
            else:
                return

    def _stretch(self, some: list[str], places: Ints, block: Block, lines: BlockLines) -> None:
        """Lines that were not read by column."""
        places = places[: len(some)]
        torn = [some.pop()] if block.torn and int(places[-1]) == len(lines.ends) else []
        self._one_by_one(some, places[: len(some)], block, lines)
        for line in torn:
            self._reached.passed(len(self._reached.at))
            self.page.line = block.line + block.count
            self.page.shift = len(lines.ends) - block.count
            self._line(line, bool(marked(torn)), torn=True)

    def _one_by_one(self, some: list[str], places: Ints, block: Block, lines: BlockLines) -> None:
        page, reached = self.page, self._reached
        of_interest = self._marked(some)
        before = np.searchsorted(reached.at, places)
        follows, inside = (
            set(places[self._behind(places, taken)].tolist()) if len(taken) else ()
            for taken in (self._records, self._tables)
        )
        numbers = np.append(lines.number, block.count)[places] + block.line
        rows = zip(some, places.tolist(), numbers.tolist(), before.tolist(), strict=True)
        for number, (line, place, at, passed) in enumerate(rows):
            page.line = at
            dull = line in self._dull and number not in of_interest and place not in inside
            if dull and not self.events.busy and (place in follows or not self.megatron.waits):
                continue
            page.shift = block.line + place - at
            reached.passed(passed)
            if place in follows:
                self.megatron.behind_record()
            elif place in inside:
                self._behind_table(place)
            self._line(line, number in of_interest)

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

    def _closing(self, block: Block, columns: Columns | None) -> None:
        """The block ends, perhaps with lines read by column: the place in the run that the next block begins at."""
        page, reached = self.page, self._reached
        page.shift = 0
        self.deepspeed.catch_up()
        reached.passed(len(reached.at))
        if columns is None:
            return
        page.at_step(int(reached.step[-1]) if page.step is None else page.step, self.planned)
        page.line = block.line + block.count
        if self._records[-1]:
            self.megatron.behind_record()
        elif self._tables[-1]:
            self._behind_table(block.count)
        page.line -= 1

    def _line(self, line: str, of_interest: bool, *, torn: bool = False) -> None:
        events, megatron = self.events, self.megatron
        alone = not of_interest and not torn and megatron.records > 0 and not megatron.waits and not events.busy
        whole, told = line, len(events.page.events) + len(events.page.facts)
        if line.endswith("\r"):
            line = line[:-1]
        known = bool(self.patterns) and self.patterns.read(line, torn=torn)
        known = known or megatron.read(line, torn=torn) or self.deepspeed.read(line, torn=torn)
        if not known and self._with_pairs and not megatron.records:
            known = self.pairs.read(line, torn=torn)
        if of_interest or events.busy:
            for part in line.split("\r") if "\r" in line else (line,):
                events.read(part)
        if known or told < len(events.page.events) + len(events.page.facts):
            self.understood += 1
        elif not torn and not events.busy:
            self.not_understood.add(line, self.page.line)
        if alone and not known and len(self._dull) < DULL and "|" not in line:
            self._dull.add(whole)

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            **self.page.state(),
            "megatron": self.megatron.state(),
            "deepspeed": self.deepspeed.state(),
            "pairs": self.pairs.state(),
            "events": self.events.state(),
            "understood": self.understood,
            "not_understood": self.not_understood.state(),
        }

    def restore(self, state: Mapping[str, object]) -> int:
        """Takes up an earlier reading; the number of the line to go on with."""
        self.page.restore(state)
        self.understood = int(str(state["understood"]))
        for name in ("megatron", "deepspeed", "pairs", "events", "not_understood"):
            held = state[name]
            getattr(self, name).restore(held if isinstance(held, dict) else {})
        return self.page.line
