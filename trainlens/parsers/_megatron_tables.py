"""Tables and paragraphs of the Megatron family: timers, memory, the list of arguments, sizes of the model, phases.

https://github.com/NVIDIA/Megatron-LM (megatron/core/timers.py, megatron/training/arguments.py, training.py,
theoretical_memory_usage.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainlens.model import NO_RANK, Event, Place, Value
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._text_page import Page

FOREIGN = 64  # lines of other ranks that may stand between those of a paragraph

TIMER = re.compile(r"\s+([\w/-]+(?: [\w/-]+)*) \.{2,}: \(?([\d.]+)(?:, ([\d.]+)\))?\s*\Z")
_TIMER_OF_RANKS = re.compile(r"\s+([\w/-]+):\s*\Z")
_TIMER_OF_RANK = re.compile(r"\s+rank\s+(\d{1,6}): ([\d.]+)\s*\Z")
_MEMORY = re.compile(r"(?:\[Rank (\d{1,6})\] )?\(?((?:after|before)\b[\w ]{0,80}?)\)? memory \(([MG]B)\) \|([^\[]*)")
_ITERATION = re.compile(r" ?(?:for iteration )?\b(\d{1,15})\b(?: iterations?)?")
_ARGUMENT = re.compile(r"\s*([A-Za-z_][\w.-]*) \.+ (\S.*?)\s*\Z")
_PHASE = re.compile(r"\[(before the start of training step|after training is done|exiting program[^\]]*)\] datetime:")
_SIZES = re.compile(
    r"(using world size|data-parallel size|tensor-model-parallel size|pipeline-model-parallel size"
    r"|[Nn]umber of parameters in [\w ]+ in billions|Total number of parameters in billions"
    r"|number of parameters on (?:\([\w, ]+\) )?model parallel rank (?:\(\d+(?:, \d+)*\)|\d+)): +([\d.]+)(?=[\s,]|\Z)"
)
_FOOTPRINT = re.compile(r"([a-z][a-z ]*?)=([\d.]+) (MB|GB)(?=[,\s]|\Z)")


class MegatronTables:
    """Reads one line after another; remembers the paragraph that the next line may belong to."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.next = 0  # the line that the paragraph of timers may go on in
        self._of = ""  # the prefix of the rank that prints it
        self._passed = 0  # lines of other ranks since its last one
        self._arguments = False
        self._timer = ""

    def barred(self, line: str, torn: bool) -> bool:
        """A line with bars: timers of the old style, or memory."""
        return ("(ms) |" in line and self._timer_line(line, torn)) or ("B) |" in line and self._memory(line, torn))

    def read(self, line: str, torn: bool) -> bool:
        """Any other line."""
        if not torn and (self.next == self.page.line or " ." in line or "..." in line):
            return self._dotted(line)
        if line.endswith(("(ms):", "(ms): ")):
            self._begins(line)
            return True
        return self._phase(line)

    def _begins(self, line: str) -> None:
        self.next, self._passed, self._timer = self.page.line + 1, 0, ""
        self._of = prefix(line)

    def goes_on(self, before: str) -> None:
        """The line to be read stands behind `before`, which belongs to a paragraph of timers."""
        self.next, self._passed, self._of = self.page.line, 0, prefix(before)

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
        """`[Rank 1] (after 20 iterations) memory (MB) | …`, also "(before save_checkpoint for iteration 20)"."""
        found = list(_MEMORY.finditer(line))
        for at, record in enumerate(found):
            iteration = _ITERATION.search(record[2])
            when = _ITERATION.sub("", record[2], count=1).strip()
            under = f"memory/{when}/" if when not in ("after", "before") else "memory/"
            for part in _closed(record[4], torn and at == len(found) - 1):
                name, _, text = part.rpartition(":")
                try:
                    value = float(text)
                except ValueError:
                    continue
                rank, step = int(record[1] or NO_RANK), int(iteration[1]) if iteration else None
                self.page.point(f"{under}{name.strip()} ({record[3]})", value, rank=rank, step=step)
        return bool(found)

    def _dotted(self, line: str) -> bool:
        """Lines with leaders: one timer of a paragraph, or one argument of the list that a run begins with."""
        page = self.page
        _, rest = unprefixed(line)
        if self.next == page.line:
            if line.endswith(("(ms):", "(ms): ")):
                self._begins(line)
                return True
            self.next += 1
            if found := TIMER.match(rest):
                self._timer_values(found[1], found[2], found[3])
                return True
            if found := _TIMER_OF_RANKS.match(rest):
                self._timer = found[1]
                return True
            if self._timer and (found := _TIMER_OF_RANK.match(rest)) and page.step is not None:
                page.point(f"timers/{self._timer}", float(found[2]), rank=int(found[1]))
                return True
            if self._passed >= FOREIGN or prefix(line) == self._of:
                self.next, self._timer = 0, ""
            else:
                self._passed += 1
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
        if "heoretical memory footprints:" in line and (found_sizes := _FOOTPRINT.findall(line)):
            for name, text, unit in found_sizes:
                self.page.fact(f"theoretical memory/{name.strip()} ({unit})", typed(text))
            return True
        if " in billions" in line or "world size:" in line or "umber of parameters on" in line:
            sizes = _SIZES.findall(line)
            for name, text in sizes:
                self.page.fact(name.removeprefix("using ").replace("-", "_").replace(" ", "_"), typed(text.rstrip(".")))
            return bool(sizes)
        return False

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "arguments": self._arguments,
            "next": self.next,
            "of": self._of,
            "passed": self._passed,
            "timer": self._timer,
        }

    def restore(self, state: Mapping[str, object]) -> None:
        self.next, self._passed = int(str(state["next"])), int(str(state["passed"]))
        self._of, self._timer = str(state["of"]), str(state["timer"])
        self._arguments = bool(state["arguments"])


def prefix(line: str) -> str:
    """What the launcher put before a line."""
    return line[: len(line) - len(unprefixed(line)[1])].strip()


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
