"""Records over several lines: boxed tables, blocks under a headline, columns under a header, and summaries.

Tables of https://github.com/DLR-RM/stable-baselines3 (common/logger.py), blocks of
https://github.com/leggedrobotics/rsl_rl, columns of https://github.com/ultralytics/yolov5 (train.py, val.py), tables
`***** train metrics *****` of the Hugging Face trainer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainlens.model import Event, EventKind, Place
from trainlens.parsers._dictionaries import dictionary
from trainlens.parsers._lines import clock
from trainlens.parsers._numbers import COUNT, NUMBER, counted, scaled
from trainlens.parsers._pair_tables import HeadedTable
from trainlens.parsers._pairs import is_metric, is_step
from trainlens.parsers._text_page import Page

_WIDEST = 300  # characters of a row in a boxed table
_RULE = re.compile(r"\s*[-=+\u2500-\u257f]{10,}\s*\Z")  # box drawing too, as rich prints it
_CELLS = re.compile(rf"[|│┃]\s+([^|│┃]*?[^|│┃\s])\s*[|│┃]\s*(?:({NUMBER})%?\s*)?[|│┃]\s*\Z")
_HEADLINE = re.compile(rf"\W*(?:Learning )?(?:iteration|step)\s*#?:?\s*({COUNT})(?:\s*/\s*({COUNT}))?\W*\Z", re.I)
# OLMo and Composer: "[step=10/1000,epoch=0]" or "[batch=1/100]:", the values on the lines below
_STEP_LINE = re.compile(r"\[(?:step|batch|iter|iteration|global_step)=(\d+)(?:/(\d+))?(?:,[^\[\]]*)?\]:?\s*\Z")
_LINE = re.compile(
    rf"(?:\s{{2,}}|\s*[-*•]\s|\t)([^\W\d][^:=]{{0,59}})(?::\s+|=)({NUMBER})\s?([A-Za-z%/]*)\s*(?:\(.*\)\s*)?\Z"
)
_EPOCH = re.compile(r"\W*Epoch:?\s*#?(\d+)(?:\s*/\s*\d+)?\W*\Z")
_COLUMNS = re.compile(r"\s*Epoch\s+(?:GPU_mem|gpu_mem)\s+(\S.*?)\s*\Z")
_ROW = re.compile(r"\s*(\d+)/(\d+)\s+[\d.]+[KMGT]?((?:\s+[-\w.]+)+):\s+\d+%\|[^|]*\|\s*(\d+)/(\d+) \[")
_CLASSES = re.compile(r"\s*Class\s+Images\s+\w+\s+(\S.*?):\s+\d+%\|")
_ALL = re.compile(r"\s*all\s+\d+\s+\d+((?:\s+[\d.]+(?:e-\d+)?)+)\s*\Z")
_METRICS = re.compile(r"\*{3,} (?:train|eval|predict|test) metrics \*{3,}\s*\Z")
_METRIC = re.compile(rf"\s+(\w+)\s+=\s+({NUMBER})\s*\Z")
# The nets of https://github.com/BVLC/caffe (src/caffe/solver.cpp)
_TESTING = re.compile(r"\] Iteration (\d+), Testing net")
_OUTPUT = re.compile(rf"\]\s+(Train|Test) net output #\d+: (\w+) = ({NUMBER})")
_AVERAGE = re.compile(rf"\[(\d+)/(\d+)\] : \(avg \(std\), med\) = \(\s*({NUMBER}).*#\s+(\S+)\s*\Z")
_DICTIONARY = re.compile(r"\{['\"][^{}]+,\s*\Z")  # what pprint breaks into lines, as EasyLM prints its rows
_ENTRIES = re.compile(r"\s['\"][^{}]+(?:,|(\}))\s*\Z")
_LONGEST = 20_000  # characters of such a dictionary
_SESSION = re.compile(r"=+ Training Loss \(.+\) =+\s*\Z")  # CycleGAN and pix2pix append to one file


class Blocks:
    """Looks at one line after another; says of each whether it is its own, and whether it gave points."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.epoch: int | None = None  # of the last headline "Epoch 3/30"
        self.sessions = 0
        self.table = HeadedTable(page)
        self._open = ""  # what is open: "table", "lines", "metrics", "entries"
        self._entries = ""  # lines of a dictionary
        self._by_epoch = False  # tables without a step belong to the epoch of the headline above
        self._section = ""
        self._cells: dict[str, float] = {}
        self._begun: list[int] = []  # step and total of a headline under which nothing was measured yet
        self._waiting: list[list[Any]] = []  # line, name and value of what stands under it
        self._columns: list[str] = []
        self._classes: list[str] = []

    def read(self, text: str, *, torn: bool) -> bool | None:
        """Whether the line gave points; None when it belongs to no block. `torn`: it has no end, so it must wait."""
        if torn:
            return False if self._open else None
        if self._open:
            ways = {"table": self._cell, "lines": self._value, "metrics": self._metric, "entries": self._entry}
            known = ways[self._open](text)
            if known is not None:
                return known
        start = text[:1]
        if text and (start in "-=+" or "\u2500" <= start <= "\u257f") and _RULE.match(text):
            self._open, self._section, self._cells = "table", "", {}
            return False
        if start == "{" and _DICTIONARY.match(text):
            self._open, self._entries = "entries", text.strip()
            return False
        if ("ter" in text or "tep" in text or "STEP" in text) and (found := _HEADLINE.match(text)):
            self.page.time = None
            self._open, self._begun, self._waiting = "lines", [counted(found[1]), counted(found[2] or "0")], []
            if found[2]:
                self._told()
            return False
        if "poch" in text and (known := self._under_epochs(text)) is not None:
            return known
        if (known := self.table.read(text)) is not None:
            return known
        if text.rstrip().endswith(("]", "]:")) and "=" in text and (found := _step_line(text)):
            self.page.at_step(int(found[1]), int(found[2] or 0))
            self.page.time = clock(text)
            self._open, self._begun, self._waiting = "lines", [], []
            return False
        if start == "=" and _SESSION.match(text):
            self.sessions += 1
            kind: EventKind = "run-start" if self.sessions == 1 else "restart"
            self.page.events.append(Event(kind, text.strip(" ="), place=Place(self.page.name, self.page.line)))
            return False
        if "net" in text and (known := self._caffe(text)) is not None:
            return known
        if "(avg (std), med)" in text and (found := _AVERAGE.search(text)):
            return self._average(found)
        if text.rstrip().endswith("metrics *****") and _METRICS.search(text):
            self._open = "metrics"
            return False
        return self._detections(text) if start == " " and ("%|" in text or self._columns or self._classes) else None

    # ---- single lines of their own form ----------------------------------------------------------------------------

    def _caffe(self, text: str) -> bool | None:
        if found := _TESTING.search(text):
            self.page.at_step(int(found[1]))
            return False
        if found := _OUTPUT.search(text):
            self.page.time = None
            self.page.point(f"{found[1]} {found[2]}", scaled(found[3]))
            return True
        return None

    def _average(self, found: re.Match[str]) -> bool:
        self.page.time = None
        self.page.at_step(int(found[1]), int(found[2]))
        self.page.point(found[4], scaled(found[3]))
        return True

    # ---- tables, blocks, summaries ---------------------------------------------------------------------------------

    def _cell(self, text: str) -> bool | None:
        if len(text) < _WIDEST and (found := _CELLS.match(text)):
            name = found[1].strip()
            if found[2] is None and name.endswith("/"):
                self._section = name
            elif found[2] is not None:
                self._cells[name if "/" in name else self._section + name] = scaled(found[2])
            return False
        if _RULE.match(text):
            cells, self._cells, self._section = self._cells, {}, ""
            return self._table(cells)
        self._open = ""
        return None

    def _table(self, cells: dict[str, float]) -> bool:
        """A whole table, unless it is one of settings: without sections, and without a name that measures."""
        if not any("/" in name or is_metric(name) for name in cells):
            return False
        counts = [name for name in cells if "timesteps" in name or is_step(name.rpartition("/")[2])]
        step = cells.pop(max(counts, key=lambda name: "timesteps" in name)) if counts else None
        self._by_epoch = self._by_epoch or (step is None and self.page.step is None and self.epoch is not None)
        if step is not None or (self._by_epoch and self.epoch is not None):
            self.page.at_step(int(step if step is not None else self.epoch or 0))
        self.page.time = None
        for tag, value in cells.items():
            self.page.point(tag, value)
        return bool(cells)

    def _value(self, text: str) -> bool | None:
        if found := _LINE.match(text):
            if not is_step(found[1]):
                self._waiting.append([self.page.line, found[1], scaled(found[2])])
                self.page.unit(found[1], found[3])
            return self._told() if any(is_metric(name) for _, name, _ in self._waiting) or not self._begun else False
        if not text.strip() or _RULE.match(text):
            return False
        self._open = ""
        return None

    def _told(self) -> bool:
        """The values under a headline, once one of them measures: a numbered step may be one of anything."""
        if self._begun:
            self.page.at_step(*self._begun)
        last = self.page.line
        for line, name, value in self._waiting:
            self.page.line = line
            self.page.point(name, value)
        self.page.line, self._begun, self._waiting = last, [], []
        return True

    def _entry(self, text: str) -> bool | None:
        """One more line of a dictionary; the last one gives the points, at the step that it names."""
        found = _ENTRIES.match(text)
        if not found or len(self._entries) > _LONGEST:
            self._open = ""
            return None
        self._entries += text.strip()
        if not found[1]:
            return False
        row, self._open = dictionary(self._entries), ""
        if row is None or row.closing or row.step is None:
            return False
        self.page.time = None
        self.page.at_step(row.step, row.total)
        for tag, value in row.values:
            self.page.point(tag, value)
        return bool(row.values)

    def _metric(self, text: str) -> bool | None:
        if found := _METRIC.match(text):
            self.page.fact(found[1], scaled(found[2]))
            return False
        if " = " in text:
            return False
        self._open = ""
        return None

    # ---- epochs and columns ----------------------------------------------------------------------------------------

    def _under_epochs(self, text: str) -> bool | None:
        if found := _EPOCH.match(text):
            self.epoch = int(found[1])
            return False
        if found := _COLUMNS.match(text):
            self._columns = found[1].split()
            return False
        return None

    def _detections(self, text: str) -> bool | None:
        """Columns of a detector's training, whole epochs only, and the scores of all classes after each."""
        if found := _CLASSES.match(text):
            self._classes = [name.removeprefix("Box(").rstrip(")") for name in found[1].split()]
            return False
        if self._columns and (found := _ROW.match(text)):
            numbers = found[3].split()
            if found[4] != found[5] or len(numbers) != len(self._columns):
                return False
            self.page.at_step(int(found[1]))
            return self._row(self._columns, numbers)
        if self._classes and (found := _ALL.match(text)):
            return self._row(self._classes, found[1].split())
        return None

    def _row(self, names: list[str], numbers: list[str]) -> bool:
        self.page.time = None
        for name, number in zip(names, numbers, strict=False):
            if name not in ("labels", "img_size", "Instances", "Size"):
                self.page.point(name, float(number))
        return True

    # ---- going on later --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {**{name: getattr(self, name) for name in _KEPT}, "table": self.table.state()}

    def restore(self, state: Mapping[str, object]) -> None:
        for name in _KEPT:
            setattr(self, name, state[name])
        self.table.restore(state["table"])


def _step_line(text: str) -> re.Match[str] | None:
    """A step in brackets that ends a line."""
    begin = text.rfind("[")
    return _STEP_LINE.match(text, begin) if 0 <= begin < 300 else None


_KEPT = (
    "epoch", "sessions", "_open", "_entries", "_section", "_cells", "_columns", "_classes",
    "_begun", "_waiting", "_by_epoch",
)  # fmt: skip
