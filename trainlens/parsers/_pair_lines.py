"""Lines of any trainer that says names and numbers: `key=value`, `key: value`, dictionaries behind progress bars.

The step is found by the catalogue's names ("step", "num_updates", …), in a word before the fields ("iter 250: …"
or "Step 0 | …"), or in the progress bar that a dictionary follows. Lines without a step belong to the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainlens.model import NO_RANK
from trainlens.parsers import _bars, _pairs
from trainlens.parsers._bars import BAR, KERAS, final, place, remembered, told
from trainlens.parsers._dictionaries import dictionary
from trainlens.parsers._line_ends import LineEnds
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._marks import STEP, Mark
from trainlens.parsers._numbers import NUMBER, THOUSANDS, scaled
from trainlens.parsers._pair_blocks import Blocks
from trainlens.parsers._pair_places import CODE, COUNTED, HELD_OUT, INSIDE, REACH, Place, Row, is_row, placed
from trainlens.parsers._pairs import Field, bare, is_metric, is_step, leads, message, outermost, pairs, spaced, split_of
from trainlens.parsers._positions import RUNNING_EVALUATION, Counter
from trainlens.parsers._text_page import UNKNOWN, Page

_AGAIN = re.compile(r"[\r\b]+")  # writes over what stands on the line
_TWO_COLUMNS = re.compile(rf"\s*(\d+)[ \t]+({NUMBER})\s*\Z")
_SHELL = re.compile(r"\++ ")  # what `set -x` prints
_KERAS_LINE = re.compile(r" ?- \d+m?s(?: \d+m?s/\w+)? - (?=\w)")  # the end of an epoch without a bar


class PairLines:
    """Reads one line after another; remembers progress bars and what the trainer's lines look like."""

    def __init__(self, page: Page, head: Sequence[str] = ()) -> None:
        self.page = page
        self.led = leads(head)  # rows begin with their step
        self.blocks = Blocks(page)
        self.counter = Counter()  # of positions in epochs
        self.bars: dict[int, int] = {}  # total → the last count
        self.bar = 0  # the total of the last bar
        self.main = 0  # the total of the bar that training rows follow
        self._line = ""
        self._with_step: set[str] = set()
        self._by_epoch = False
        self._ends = LineEnds()
        self._columns: bool | None = None  # a file of two columns of numbers
        self._known: set[tuple[str, ...]] = set()
        self._held: dict[tuple[str, ...], Row] = {}  # rows that say nothing of training, until they come again

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line gave points."""
        if self._columns is not False and self._two_columns(line, torn):
            return True
        if "\r" not in line and "\b" not in line:
            self._line = line
            return self._part(line, torn)
        self._line = ""
        parts = final(_AGAIN.split(line))
        found = [self._part(part, torn and at == len(parts) - 1) for at, part in enumerate(parts) if part]
        return any(found)

    def _part(self, text: str, torn: bool) -> bool:
        if text.startswith("+") and _SHELL.match(text):
            return False
        known = self.blocks.read(text, torn=torn)
        if known is not None:
            return known
        barred = False
        if "/" in text:
            if "[" in text and "<" in text:
                barred, text = self._bars(text)
            if (bar := KERAS.match(text)) is not None:
                return not torn and "ETA" not in text and bar[1] == bar[2] and self._epoch_end(text[bar.end() :])
        if text.startswith((" - ", "- ")) and self.blocks.epoch is not None and (end := _KERAS_LINE.match(text)):
            return not torn and self._epoch_end(text[end.end() - 3 :])
        return self._rest(text, torn) or barred

    def _rest(self, text: str, torn: bool) -> bool:
        if "{'" in text or '{"' in text or '{ "' in text:
            return self._dictionary(text)
        if self.led or ":" in text or "=" in text or COUNTED.search(text, 0, REACH) or HELD_OUT.match(text):
            return self._pairs(text, torn)
        return False

    # ---- dictionaries --------------------------------------------------------------------------------------------

    def _bars(self, text: str) -> tuple[bool, str]:
        """Whether the bars of the text told metrics, and what stands behind the last: its count is the step of that."""
        end, barred = 0, False
        for found in BAR.finditer(text):
            before = text[end : found.start()]
            count, self.bar, end = int(found[1]), 0 if found[2] == "?" else int(found[2]), found.end()
            self.bars[self.bar] = count
            if found[4] and (values := told(found[3], before)):
                step = self.counter.step(place(count, self.bar, before))
                rank = unprefixed(before)[0]
                for key, _ in values:
                    self.page.drawn(key, rank)
                known = self._when_repeated(Row(self.page.line, None, step, None, values, rank, "the progress bar"))
                barred = known or barred
                if known and self._line is text and end == len(text) and found.start() == len(before):
                    self.page.shapes.learn(text, _bars.marks(text, found), rank, "the progress bar", bar=True)
            if self.bar == self.main and self.page.step is not None:
                self.page.step = int(found[1])  # what is told next happened here
        self.bars = remembered(self.bars, self.bar, self.main)
        return barred, text[end:] if end else text

    def _epoch_end(self, text: str) -> bool:
        """The last state of a bar of Keras; running ones hold means of the epoch so far."""
        values = [(field.key, field.value) for field in pairs(text)]
        if values:
            step = self.blocks.epoch if self.page.step is None or self._by_epoch else None
            self._by_epoch = self._by_epoch or step is not None
            self._row(Row(self.page.line, None, step, None, values, NO_RANK, "the epoch"))
        return bool(values)

    def _dictionary(self, text: str) -> bool:
        found = dictionary(text)
        if found is None or not (found.values or found.closing):
            return False
        if found.closing:
            for key, number in found.values:
                self.page.fact(key, number)
            return True
        step, total, named = found.step, found.total, found.named
        if step is None and self.bars:
            (step, total), named = self._bar_step(found.values), "the progress bar"
        rank, _ = unprefixed(text[: found.begin])
        self._row(Row(self.page.line, clock(text), step, total, found.values, rank, named))
        if found.marks and self._line is text:
            self.page.shapes.learn(text, found.marks, rank, named)
        return True

    def _bar_step(self, values: list[tuple[str, float]]) -> tuple[int | None, int | None]:
        """Evaluation rows follow a bar of their own; their step is that of the training bar."""
        evaluation = any(key.startswith(("eval_", "test_", "val_")) for key, _ in values)
        if not evaluation:
            self.main = self.bar
        total = self.main or self.bar
        return self.bars.get(total), total

    # ---- pairs ---------------------------------------------------------------------------------------------------

    def _pairs(self, text: str, torn: bool) -> bool:
        if CODE.match(text) or ("[" in text and RUNNING_EVALUATION.match(text)):
            return False
        begin = message(text)
        found = list(pairs(text, begin))
        place = placed(text, begin, found, led=self.led)
        if place.at or place.own:
            found = [field for field in found if field.begin >= place.end]
        if begun := place.end or text.find("| num_updates ") + 1:
            more = [] if place.loose else list(bare(text, begun, found))
            found = [*found, *(more if more or found else spaced(text, begun))]
        elif found or HELD_OUT.match(text):
            found = [*found, *bare(text, found[0].end if found else 0, found, sure=False)]
        if torn and found and not self._ends.whole(text, max(field.end for field in found)):
            found = [field for field in found if field.end < len(text.rstrip())]
        if not found:
            return False
        row, marks, used = self._fields(text, found, place)
        values = row.values
        if row.step is None and not place.at:
            if self._counts_epochs(place.epoch, values):
                row, marks = replace(row, step=place.epoch, total=place.total, named="the epoch"), []
            else:
                fresh = [value for value in values if value[0] not in self._with_step]
                values = fresh if is_row(text[begin:], fresh, used) else []
        if not values:
            return False
        if not torn:
            self._ends.add(text)
        if row.step is None:
            self._row(replace(row, values=values))
            return True
        self._with_step.update(key for key, _ in values)
        known = self._when_repeated(row)
        if known and marks and not torn and self._line is text:
            self.page.shapes.learn(text, marks, row.rank, row.named, zero_based=place.zero_based)
        return known

    def _fields(self, text: str, found: Sequence[Field], place: Place) -> tuple[Row, list[Mark], int]:
        """The row of a line, the marks of its numbers, and how many characters its fields take."""
        step, total, named = place.step, place.total, place.named
        marks = [Mark(STEP, *place.mark)] if place.mark else []
        if place.at and not place.at.evaluation:
            step, named = self.counter.step(place.at), "the place in the epoch"
        values: list[tuple[str, float]] = []
        epoch, inside, used, split = place.epoch, False, place.end, split_of(text)
        results = text.find("[valid] ") if " results: [train] " in text else -1  # ESPnet at the end of an epoch
        outer = outermost(found)
        for field in found:
            used += field.end - field.begin
            whole = step is None and field.value == field.value // 1 and outer in ("", field.key)
            if whole and (is_step(field.key) or (field.key == "s" and field.begin <= 0)):
                step, total, named = int(field.value), field.total, f"'{field.key}'"
                inside = field.key.lower() in INSIDE
                marks.append(Mark(STEP, *field.number))
                continue
            if results >= 0:
                split = "train/" if field.begin < results else "valid/"
            marks.append(Mark(split + field.key, *field.number, THOUSANDS.get(field.unit, "")))
            if field.unit and field.unit not in THOUSANDS:
                self.page.unit(field.key, field.unit)
            if UNKNOWN.get(field.key) == field.value:
                self.page.dropped[field.key] += 1
                continue
            if field.key.lower().removeprefix("training ").removeprefix("train ") in ("epoch", "epochs"):
                epoch = int(field.value) if field.value == field.value // 1 and abs(field.value) < 1e9 else None
            values.append((split + field.key, field.value))
        if step is not None and inside and epoch is not None:
            step = self.counter.counted_on(epoch, step)
            if not self.counter.of_the_run:
                marks = []  # each line is counted by itself, until it is known that the counter goes on
        marks = place.marks(marks) if place.at else marks
        place.epoch = epoch
        rank = NO_RANK if place.own else unprefixed(text)[0]
        return Row(self.page.line, clock(text), step, total, values, rank, named), marks, used

    def _counts_epochs(self, epoch: int | None, values: list[tuple[str, float]]) -> bool:
        """Whether epochs are the steps of this log: whole ones, and no line has named any other step."""
        if epoch is None or not any(is_metric(key) for key, _ in values):
            return False
        self._by_epoch = self._by_epoch or self.page.step is None
        return self._by_epoch

    def _when_repeated(self, row: Row) -> bool:
        """Rows with a step but no name that tells of training may be settings; they count once they come again."""
        keys = tuple(key for key, _ in row.values)
        if any(map(_pairs.is_measured, keys)) or keys in self._known:
            self._row(row)
            return True
        held = self._held.pop(keys, None)
        if held is None or held.step == row.step:
            if len(self._held) < 1000:
                self._held[keys] = row
            return False
        self._known.add(keys)
        self._row(held)
        self._row(row)
        return True

    def _two_columns(self, line: str, torn: bool) -> bool:
        if not line.strip() or (torn and not (self._columns and self._ends.whole(line, len(line.rstrip())))):
            return False
        found = _TWO_COLUMNS.match(line)
        if found and not torn:
            self._ends.add(line)
        self._columns = found is not None
        if found:
            self.page.time = None
            self.page.at_step(int(found[1]))
            self.page.point(self.page.subject, scaled(found[2]))
        return self._columns

    def _row(self, row: Row) -> None:
        page, line = self.page, self.page.line
        page.line, page.time = row.line, row.time
        page.steps_from[row.named if row.step is not None else ""] += 1
        if row.step is not None:
            page.at_step(row.step, row.total)
        said: set[str] = set()
        for key, value in row.values:
            if key not in said:
                said.add(key)
                page.point(key, value, rank=row.rank)
        page.line = line

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "bars": [list(item) for item in self.bars.items()],
            "bar": self.bar,
            "main": self.main,
            "by_epoch": self._by_epoch,
            "blocks": self.blocks.state(),
            "counter": self.counter.state(),
            "with_step": sorted(self._with_step),
            "columns": self._columns,
            "known": [list(keys) for keys in sorted(self._known)],
            "held": [[list(keys), [getattr(row, name) for name in row.__slots__]] for keys, row in self._held.items()],
        }

    def restore(self, state: Mapping[str, object]) -> None:
        bars, with_step = state["bars"], state["with_step"]
        self.bars = dict(bars) if isinstance(bars, list) else {}
        self.bar, self.main = int(str(state["bar"])), int(str(state["main"]))
        self._by_epoch = bool(state["by_epoch"])
        self._with_step = set(with_step) if isinstance(with_step, list) else set()
        blocks, counter = state["blocks"], state["counter"]
        self.blocks.restore(blocks if isinstance(blocks, dict) else {})
        self.counter = Counter(*counter) if isinstance(counter, list) else Counter()
        self._columns = None if state["columns"] is None else bool(state["columns"])
        known, held = state["known"], state["held"]
        self._known = {tuple(keys) for keys in known} if isinstance(known, list) else set()
        self._held = {tuple(keys): Row(*row) for keys, row in held} if isinstance(held, list) else {}
