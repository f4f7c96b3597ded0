"""Lines of any trainer that says names and numbers: `key=value`, `key: value`, dictionaries behind progress bars.

The step is found by the catalogue's names ("step", "num_updates", …), in a word before the fields ("iter 250: …"
or "Step 0 | …"), or in the progress bar that a dictionary follows. Lines without a step belong to the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainlens.model import NO_RANK
from trainlens.parsers._bars import BAR, KERAS, final, place, told
from trainlens.parsers._dictionaries import dictionary
from trainlens.parsers._line_ends import LineEnds
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._numbers import NUMBER, THOUSANDS, scaled
from trainlens.parsers._pair_blocks import Blocks
from trainlens.parsers._pairs import MAY_STEP, STEP_WORD, bare, is_metric, is_step, pairs, split_of
from trainlens.parsers._positions import RUNNING_EVALUATION, Counter, position
from trainlens.parsers._shapes import STEP, Mark
from trainlens.parsers._text_page import UNKNOWN, Page

_AGAIN = re.compile(r"[\r\b]+")  # writes over what stands on the line
_TWO_COLUMNS = re.compile(rf"\s*(\d+)[ \t]+({NUMBER})\s*\Z")
_COUNTED = re.compile(r"(?:\W*epoch|step|iter|iteration)\s+\d", re.I)
_SHELL = re.compile(r"\++ ")  # what `set -x` prints


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    time: float | None
    step: int | None
    total: int | None
    values: list[tuple[str, float]]
    rank: int


class PairLines:
    """Reads one line after another; remembers progress bars and what the trainer's lines look like."""

    def __init__(self, page: Page) -> None:
        self.page = page
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
        # rows of names that say nothing of training, until they come again
        self._held: dict[tuple[str, ...], _Row] = {}
        self._drawn: tuple[int | None, list[tuple[str, float]]] = (None, [])

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line gave points."""
        if self._columns is not False and self._two_columns(line, torn):
            return True
        self._line = line
        if "\r" not in line and "\b" not in line:
            return self._part(line, torn)
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
        return self._rest(text, torn) or barred

    def _rest(self, text: str, torn: bool) -> bool:
        if "{'" in text or '{"' in text:
            return self._dictionary(text)
        if ":" in text or "=" in text or ("|" in text and _COUNTED.match(text)):
            return self._pairs(text, torn)
        return False

    # ---- dictionaries --------------------------------------------------------------------------------------------

    def _bars(self, text: str) -> tuple[bool, str]:
        """Whether the bars of the text told metrics, and what stands behind the last: its count is the step of that."""
        end, barred = 0, False
        for found in BAR.finditer(text):
            before = text[end : found.start()]
            count, self.bar, end = int(found[1]), int(found[2]), found.end()
            self.bars[self.bar] = count
            if found[4] and (values := told(found[3], before)):
                step = self.counter.step(place(count, self.bar, before))
                row = _Row(self.page.line, None, step, None, values, unprefixed(before)[0])
                barred = self._fresh(row) or barred
            if self.bar == self.main and self.page.step is not None:
                self.page.step = int(found[1])  # what is told next happened here
        if len(self.bars) > 1000:
            self.bars = {total: self.bars[total] for total in (self.bar, self.main) if total in self.bars}
        return barred, text[end:] if end else text

    def _fresh(self, row: _Row) -> bool:
        """Takes the row of a bar, unless the bar has only been drawn again."""
        again = self._drawn == (row.step, row.values)
        self._drawn = (row.step, row.values)
        return not again and self._when_repeated(row)

    def _epoch_end(self, text: str) -> bool:
        """The last state of a bar of Keras; running ones hold means of the epoch so far."""
        values = [(field.key, field.value) for field in pairs(text)]
        if values:
            step = self.blocks.epoch if self.page.step is None or self._by_epoch else None
            self._by_epoch = self._by_epoch or step is not None
            self._row(_Row(self.page.line, None, step, None, values, NO_RANK))
        return bool(values)

    def _dictionary(self, text: str) -> bool:
        found = dictionary(text)
        if found is None:
            return False
        if found.closing:
            for key, number in found.values:
                self.page.fact(key, number)
            return True
        if not found.values:
            return False
        step, total = found.step, found.total
        if step is None and self.bars:
            step, total = self._bar_step(found.values)
        rank, _ = unprefixed(text[: found.begin])
        self._row(_Row(self.page.line, clock(text), step, total, found.values, rank))
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
        if "[" in text and RUNNING_EVALUATION.match(text):
            return False
        found = list(pairs(text))
        word, at = None, None
        if not any(is_step(field.key) for field in found) and MAY_STEP.search(text):
            at = position(text)
            word = None if at else STEP_WORD.search(text)
            if begun := at.end if at else word.end() if word else text.find("| num_updates ") + 1:
                found = [*found, *bare(text, begun if at or word else 0, found)]
        if torn and found and not self._ends.whole(text, found[-1].end):
            found = [field for field in found if field.end < len(text.rstrip())]
        if not found:
            return False
        step, total = (int(word[1]), int(word[2] or 0)) if word else (None, 0)
        marks = [Mark(STEP, *word.span(1))] if word else []
        if at and at.total and not at.evaluation:
            step = self.counter.step(at)
        epoch, values, used, restarts = None, [], 0, False
        split = split_of(text)
        for field in found:
            used += field.end - field.begin
            whole = step is None and field.value == field.value // 1
            if whole and (is_step(field.key) or (field.key == "s" and field.begin <= 0)):
                step, total, restarts = int(field.value), field.total, field.key == "iters"
                marks.append(Mark(STEP, *field.number))
                continue
            marks.append(Mark(field.key, *field.number, THOUSANDS.get(field.unit, "")))
            if field.unit and field.unit not in THOUSANDS:
                self.page.unit(field.key, field.unit)
            if UNKNOWN.get(field.key) == field.value:
                self.page.dropped[field.key] += 1
                continue
            epoch = field.value if field.key.lower() in ("epoch", "epochs") else epoch
            values.append((split + field.key, field.value))
        if restarts and epoch is not None:
            step = None  # the counter begins again with each epoch
        elif step is None and not at:
            if self._counts_epochs(text, epoch, values):
                step, marks = int(epoch or 0), []
            else:
                values = self._stepless_row(text, values, used)
        if not values:
            return False
        if not torn:
            self._ends.add(text)
        row = _Row(self.page.line, clock(text), step, total, values, unprefixed(text)[0])
        if step is None:
            self._row(row)
            return True
        self._with_step.update(key for key, _ in values)
        known = self._when_repeated(row)
        if known and not at and not torn and self.page.shapes.open and self._line is text:
            self.page.shapes.learn(text, marks, row.rank)
        return known

    def _counts_epochs(self, text: str, epoch: float | None, values: list[tuple[str, float]]) -> bool:
        """Whether epochs are the steps of this log: whole ones, and no line has named any other step."""
        if epoch is None or epoch != epoch // 1 or _BRACKETED.search(text):
            return False
        if not any(is_metric(key) for key, _ in values):
            return False
        self._by_epoch = self._by_epoch or self.page.step is None
        return self._by_epoch

    def _when_repeated(self, row: _Row) -> bool:
        """Rows with a step but no name that tells of training may be settings; they count once they come again."""
        keys = tuple(key for key, _ in row.values)
        if any(is_metric(key) for key in keys) or keys in self._known:
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

    def _stepless_row(self, text: str, values: list[tuple[str, float]], used: int) -> list[tuple[str, float]]:
        """The values of a line without a step, none unless it is a row of metrics and little else."""
        values = [(key, value) for key, value in values if key not in self._with_step]
        if not any(is_metric(key) for key, _ in values) or 2 * used < len(text.strip()):
            return []
        return [] if any(mark in text for mark in (" = ", "self.", "'", '"', "#")) else values

    def _two_columns(self, line: str, torn: bool) -> bool:
        if not line.strip() or torn:
            return False
        found = _TWO_COLUMNS.match(line)
        self._columns = found is not None
        if found:
            self.page.time = None
            self.page.at_step(int(found[1]))
            self.page.point(self.page.subject, scaled(found[2]))
        return self._columns

    def _row(self, row: _Row) -> None:
        page, line = self.page, self.page.line
        page.line, page.time = row.line, row.time
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
        self._held = {tuple(keys): _Row(*row) for keys, row in held} if isinstance(held, list) else {}


_BRACKETED = re.compile(r"[Ee]poch:?\s*\[")
