"""Lines of the Megatron family, one at a time: iteration records, validation, timers, memory, the list of arguments.

Written by training_log, evaluate_and_print_results and timers.py of
https://github.com/NVIDIA/Megatron-LM (megatron/training/training.py, megatron/core/timers.py) and its many forks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainlens.model import Event, Place, Value
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._text_page import Page

RECORD = re.compile(r"(?<!, )\biteration +(\d+)/ *(\d+) +\|")
_UNIT = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([A-Za-z][\w/]*)\s*\Z")
_VALIDATION = re.compile(r"\b(validation|test) loss at (?:iteration\s+(\d+)|the end of training)([^|]*)\|")
TIMER = re.compile(r"\s+([\w/-]+(?: [\w/-]+)*) \.{2,}: \(?([\d.]+)(?:, ([\d.]+)\))?\s*\Z")
_TIMER_OF_RANKS = re.compile(r"\s+([\w/-]+):\s*\Z")
_TIMER_OF_RANK = re.compile(r"\s+rank\s+(\d+): ([\d.]+)\s*\Z")
_MEMORY = re.compile(r"\[Rank (\d+)\] \(after (\d+) iterations\) memory \(MB\) \|([^\[]*)")
_ARGUMENT = re.compile(r"\s*([A-Za-z_][\w.-]*) \.+ (\S.*?)\s*\Z")
_PHASE = re.compile(r"\[(before the start of training step|after training is done|exiting program[^\]]*)\] datetime:")
_SIZES = re.compile(
    r"(using world size|data-parallel size|tensor-model-parallel size|pipeline-model-parallel size"
    r"|[Nn]umber of parameters in [\w ]+ in billions|Total number of parameters in billions): +([\d.]+)"
)

Field = tuple[str, int, int]  # tag, and where its value stands in the line


def fields(line: str, start: int) -> tuple[list[Field], int]:
    """The `key: value |` fields from `start` on, and where what is left begins: a field that was cut off or wrapped."""
    found = []
    while (bar := line.find("|", start)) >= 0:
        colon = line.rfind(":", start, bar)
        if colon >= 0:
            found.append((" ".join(line[start:colon].split()), colon + 1, bar))
        start = bar + 1
    return found, start


class MegatronLines:
    """Reads one line after another. Records may be wrapped over several lines, timers come in paragraphs."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.records = 0
        self.open = 0  # the number of the line that a wrapped record may go on in
        self.dangling = ""  # what the line before left of a field
        self._arguments = False
        self._timers = 0  # the line that the paragraph of timers may go on in
        self._timer = ""

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line is one of Megatron's. `torn`: it has no end yet, what no bar closes is not believed."""
        page = self.page
        if "|" in line:
            if "iteration" in line and (found := RECORD.search(line)):
                self._record(line, found)
                return True
            if "(ms) |" in line and self._timer_line(line, torn):
                return True
            if "(MB) |" in line and self._memory(line, torn):
                return True
            if " loss at " in line and self._validation(line):
                return True
            if self.open == page.line and self._goes_on(line):
                return True
        if not torn and (self._timers == page.line or " ." in line or "..." in line):
            return self._dotted(line)
        if line.endswith(("(ms):", "(ms): ")):
            self._timers = page.line + 1
            return True
        return self._phase(line)

    @property
    def waits(self) -> bool:
        """Whether the line to be read, even without a bar, may belong to what stands before it."""
        return self.page.line == self._timers

    def behind_record(self) -> None:
        """The line to be read stands right behind a record that was read by column: it may go on there."""
        self.open, self.dangling = self.page.line, ""

    def behind_table(self) -> None:
        """The line to be read stands right behind a paragraph of timers, or inside of it."""
        self._timers = self.page.line

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
        self.open = self.page.line + 1

    def _fields(self, line: str, start: int) -> None:
        found, rest = fields(line, start)
        said: set[str] = set()
        for tag, begin, end in found:
            text = line[begin:end]
            try:
                value = float(text)
            except ValueError:
                unit = _UNIT.match(text)
                if not unit:
                    continue
                tag, value = f"{tag} ({unit[2]})", float(unit[1])
            if tag and tag not in said:
                said.add(tag)
                self.page.point(tag, value)
        self.dangling = line[rest:].strip()

    def _goes_on(self, line: str) -> bool:
        """The rest of a wrapped record: the line right behind it, with a field left open or closed by a bar itself."""
        _, rest = unprefixed(line)
        if not self.dangling and not rest.rstrip().endswith("|"):
            return False
        self._fields(f"{self.dangling} {rest.lstrip()}", 0)
        self.open = self.page.line + 1
        return True

    def _validation(self, line: str) -> bool:
        found = _VALIDATION.search(line)
        if not found:
            return False
        page = self.page
        page.time = clock(line)
        split = "test" if found[1] == "test" or "test" in found[3] else "validation"
        step = int(found[2]) if found[2] else page.step
        pairs, _ = fields(line, found.end())
        for key, begin, end in pairs:
            try:
                value = float(line[begin:end])
            except ValueError:
                continue
            page.point(f"{split} {key.removesuffix(' value')}", value, step=step)
        if pairs:
            page.events.append(Event("evaluation", line.strip(), step, page.time, place=Place(page.name, page.line)))
        return True

    # ---- timers, memory ------------------------------------------------------------------------------------------

    def _timer_line(self, line: str, torn: bool) -> bool:
        """`time (ms) | forward: 0.00 | backward: 0.00`: before the first iteration they time the start-up."""
        head, _, rest = line.partition("(ms) |")
        if not head.rstrip().endswith("time"):
            return False
        page = self.page
        page.time = clock(head)
        for part in _closed(rest, torn):
            name, colon, text = part.rpartition(":")
            try:
                value = float(text)
            except ValueError:
                continue
            if colon and page.step is not None:
                page.point(f"timers/{name.strip()}", value)
            elif colon:
                page.fact(f"timers/{name.strip()} (ms)", value)
        return True

    def _memory(self, line: str, torn: bool) -> bool:
        found = list(_MEMORY.finditer(line))
        for at, record in enumerate(found):
            for part in _closed(record[3], torn and at == len(found) - 1):
                name, _, text = part.rpartition(":")
                try:
                    value = float(text)
                except ValueError:
                    continue
                self.page.point(f"memory/{name.strip()} (MB)", value, rank=int(record[1]), step=int(record[2]))
        return bool(found)

    def _dotted(self, line: str) -> bool:
        """Lines with leaders: one timer of a paragraph, or one argument of the list that a run begins with."""
        page = self.page
        _, rest = unprefixed(line)
        if self._timers == page.line:
            self._timers += 1
            if found := TIMER.match(rest):
                self._timer_values(found[1], found[2], found[3])
                return True
            if found := _TIMER_OF_RANKS.match(rest):
                self._timer = found[1]
                return True
            if self._timer and (found := _TIMER_OF_RANK.match(rest)) and page.step is not None:
                page.point(f"timers/{self._timer}", float(found[2]), rank=int(found[1]))
                return True
            self._timers, self._timer = 0, ""
        if "---" in rest and "arguments ---" in rest:
            self._arguments = "end of" not in rest
            return True
        if found := _ARGUMENT.match(rest):
            name, text = found.groups()
            if (self._arguments or f"{name} ..." in rest) and " ..." not in text and text[0] != "[":
                page.fact(name, typed(text))
            return True
        return self._phase(line)

    def _timer_values(self, name: str, low: str, high: str | None) -> None:
        page = self.page
        if page.step is None:
            page.fact(f"timers/{name} (ms)", float(high or low))
        elif high is None:
            page.point(f"timers/{name}", float(low))
        else:
            page.point(f"timers/{name}/min", float(low))
            page.point(f"timers/{name}/max", float(high))

    # ---- the rest ------------------------------------------------------------------------------------------------

    def _phase(self, line: str) -> bool:
        if "arguments ---" in line:
            self._arguments = "end of" not in line
            return True
        if "] datetime:" in line and (found := _PHASE.search(line)):
            page = self.page
            kind = "run-start" if found[1].startswith("before") else "run-end"
            said = Event(
                "run-start" if kind == "run-start" else "run-end",
                line.strip(),
                page.step,
                clock(line, 200),
                place=Place(page.name, page.line),
            )
            page.events.append(said)
            return True
        if " in billions" in line or "world size:" in line:
            sizes = _SIZES.findall(line)
            for name, text in sizes:
                self.page.fact(name.removeprefix("using ").replace("-", "_").replace(" ", "_"), typed(text))
            return bool(sizes)
        return False

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "records": self.records,
            "open": self.open,
            "dangling": self.dangling,
            "arguments": self._arguments,
            "timers": self._timers,
            "timer": self._timer,
        }

    def restore(self, state: Mapping[str, object]) -> None:
        self.records = int(str(state["records"]))
        self.open, self._timers = int(str(state["open"])), int(str(state["timers"]))
        self.dangling, self._timer = str(state["dangling"]), str(state["timer"])
        self._arguments = bool(state["arguments"])


def _closed(text: str, torn: bool) -> list[str]:
    """The parts between bars; the last one of a torn line may be cut off and is left out."""
    parts = text.split("|")
    return parts[:-1] if torn else parts


def typed(text: str) -> Value:
    """The value that a printed argument has: a bool or a number where it looks like one."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
