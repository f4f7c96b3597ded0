"""Lines of the Megatron family, one at a time: iteration records and validation; the rest is in `_megatron_tables`.

Written by training_log and evaluate_and_print_results of https://github.com/NVIDIA/Megatron-LM
(megatron/training/training.py) and its many forks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainlens.model import Event, Place
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._megatron_tables import FOREIGN, MegatronTables, prefix
from trainlens.parsers._text_page import Page

RECORD = re.compile(r"(?<!, )\biteration +(\d{1,15})/ *(\d{1,15}) +\|")
_VALIDATION = re.compile(
    r"\b(validation|valid|test|evaluation)([-_/.\w]*) loss at (?:iteration\s+(\d{1,15})|the end of training)([^|]*)\|"
)
_ON = re.compile(r"\bon (?:the )?([\w./-]+)(?: (?:data)?set)?\s*\Z")
_SPACED = re.compile(r"\s*([A-Za-z](?:[\w./()-]| (?! ))*?)\s+(?=(?:[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)\s*\Z)")
_VALUE_WITH_UNIT = re.compile(
    r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%][\w/%]*)?\s*\Z"
)

Field = tuple[str, int, int]  # tag, and where its value stands in the line


def fields(line: str, start: int) -> tuple[list[Field], int]:
    """The `key: value |` fields from `start` on, and where what is left begins: a field that was cut off or wrapped."""
    found = []
    while (bar := line.find("|", start)) >= 0:
        if (field := _field(line, start, bar)) is not None:
            found.append(field)
        start = bar + 1
    return found, start


def _field(line: str, start: int, end: int) -> Field | None:
    """`key: value`; the first Megatron wrote `key value`. None where neither stands."""
    colon = line.rfind(":", start, end)
    if colon >= 0:
        return " ".join(line[start:colon].split()), colon + 1, end
    spaced = _SPACED.match(line[start:end]) if end - start < 200 else None
    return (" ".join(spaced[1].split()), start + spaced.end(), end) if spaced else None


def number(text: str) -> tuple[float, str] | None:
    """A value and the unit behind it: "1.5E+00", "212.5 ms", "12,345", "45.3%"; None for anything else."""
    try:
        return float(text), ""
    except ValueError:
        found = _VALUE_WITH_UNIT.match(text)
    return (float(found[1].replace(",", "")), found[2] or "") if found else None


def _begins_with_field(text: str) -> bool:
    end = text.find("|")
    field = _field(text, 0, end) if end >= 0 else None
    return field is not None and number(text[field[1] : end]) is not None


class MegatronLines:
    """Reads one line after another. Records may be wrapped over several lines, timers come in paragraphs."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.records = 0
        self.open = 0  # the number of the line that a wrapped record may go on in
        self.dangling = ""  # what the line before left of a field
        self.tables = MegatronTables(page)
        self._of = ""  # the prefix of the rank that printed the last record
        self._passed = 0  # lines of other ranks behind it
        self._wrapped = False  # it went on in a second line

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line is one of Megatron's. `torn`: it has no end yet, what no bar closes is not believed."""
        page = self.page
        if "|" in line:
            if "iteration" in line and (found := RECORD.search(line)):
                if self.open == page.line and self.dangling:
                    self._apart(line)
                self._record(line, found)
                return True
            if self.tables.barred(line, torn):
                return True
            if " loss at " in line and self._validation(line, torn):
                return True
            if self.open == page.line and self._goes_on(line):
                return True
        if self.open == page.line and self.dangling:
            self._apart(line)
        return self.tables.read(line, torn)

    @property
    def waits(self) -> bool:
        """Whether the line to be read, even without a bar, may belong to what stands before it."""
        return self.page.line == self.tables.next or (self.page.line == self.open and bool(self.dangling))

    def behind_record(self) -> None:
        """The line to be read stands right behind a record that was read by column: it may go on there."""
        self.open, self.dangling, self._of, self._wrapped = self.page.line, "", "", False

    def behind_table(self, before: str) -> None:
        """The line to be read stands right behind a paragraph of timers, or inside of it: `before` is its last line."""
        self.tables.goes_on(before)

    # ---- records -------------------------------------------------------------------------------------------------

    def _record(self, line: str, found: re.Match[str]) -> None:
        self.records += 1
        self.page.time = clock(line, found.start())
        while found:  # a torn log may hold two records on one line
            following = RECORD.search(line, found.end())
            until = following.start() if following else len(line)
            self.page.at_step(int(found[1]), int(found[2]))
            self._fields(line[:until], found.end())
            if not following:
                break
            found = following
        self.open, self._of, self._passed, self._wrapped = self.page.line + 1, prefix(line), 0, False

    def _fields(self, line: str, start: int) -> None:
        found, rest = fields(line, start)
        said: set[str] = set()
        for tag, begin, end in found:
            if (value := number(line[begin:end])) is None:
                continue
            tag = f"{tag} ({value[1]})" if value[1] else tag
            if tag and tag not in said:
                said.add(tag)
                self.page.point(tag, value[0])
        self.dangling = line[rest:].strip()

    def _goes_on(self, line: str) -> bool:
        """The rest of a wrapped record: the line right behind it, with a field left open or closed by a bar itself."""
        _, rest = unprefixed(line)
        if self.dangling and prefix(line) not in ("", self._of):
            return False
        if not self.dangling and not rest.rstrip().endswith("|") and not (self._wrapped and _begins_with_field(rest)):
            return False
        self._fields(f"{self.dangling} {rest.lstrip()}", 0)
        self.open, self._wrapped = self.page.line + 1, True
        return True

    def _apart(self, line: str) -> None:
        """A line that does not go on with the record behind which it stands: of another rank, or the record has ended.

        Its last field then had no bar behind it.
        """
        if self._passed < FOREIGN and prefix(line) != self._of and prefix(line):
            self.open, self._passed = self.open + 1, self._passed + 1
            return
        page, (dangling, self.dangling) = self.page, (self.dangling, "")
        field = _field(dangling, 0, len(dangling))
        value = number(dangling[field[1] :]) if field else None
        if field and value and field[0]:
            line_of_page, page.line = page.line, page.line - 1 - self._passed
            page.point(f"{field[0]} ({value[1]})" if value[1] else field[0], value[0])
            page.line = line_of_page

    def _validation(self, line: str, torn: bool) -> bool:
        """Of one data set or several: `validation loss at iteration 100 on NAME | …`, `validation-NAME loss at …`."""
        found = _VALIDATION.search(line)
        if not found:
            return False
        page = self.page
        page.time = clock(line)
        split = "test" if found[1] == "test" or re.search(r"\btest\b", found[4]) else "validation"
        named = _ON.search(found[4])
        if named and named[1] not in ("test", "validation", "valid"):
            split = f"{split}-{named[1]}"
        elif found[2]:
            split += found[2]
        step = int(found[3]) if found[3] else page.step
        pairs, rest = fields(line, found.end())
        if not torn and (last := _field(line, rest, len(line))) is not None:
            pairs.append(last)
        values = [(key, number(line[begin:end])) for key, begin, end in pairs]
        for key, value in values:
            if value is not None:
                page.point(f"{split} {key.removesuffix(' value')}", value[0], step=step)
        if pairs:
            page.events.append(Event("evaluation", line.strip(), step, page.time, place=Place(page.name, page.line)))
        return True

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "records": self.records,
            "open": self.open,
            "dangling": self.dangling,
            "of": self._of,
            "passed": self._passed,
            "wrapped": self._wrapped,
            "tables": self.tables.state(),
        }

    def restore(self, state: Mapping[str, object]) -> None:
        self.records, self.open, self._passed = (int(str(state[name])) for name in ("records", "open", "passed"))
        self.dangling, self._of, self._wrapped = str(state["dangling"]), str(state["of"]), bool(state["wrapped"])
        tables = state["tables"]
        self.tables.restore(tables if isinstance(tables, dict) else {})
