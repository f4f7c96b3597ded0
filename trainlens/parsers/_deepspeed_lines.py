"""Lines of DeepSpeed, one at a time: optimiser steps, throughput timers, the pipeline engine, memory, DeepSpeed-Chat.

Written by runtime/engine.py, utils/timer.py, runtime/pipe/engine.py and runtime/utils.py (see_memory_usage) of
https://github.com/deepspeedai/DeepSpeed and applications/DeepSpeed-Chat of
https://github.com/deepspeedai/DeepSpeedExamples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainlens.model import Event, Place
from trainlens.parsers._lines import clock
from trainlens.parsers._shapes import IGNORED, STEP, Mark
from trainlens.parsers._text_page import Page

OPTIMISER, THROUGHPUT, PIPE = "skipped=", "SamplesPerSec=", "steps: "
NEAR = 20  # lines: farther apart the same step tells of a new run, not of a second engine

_STEP = re.compile(r"\bstep=(\d+), skipped=(\d+), lr=\[([^\]]*)\](?:, mom=\[([-+\w.,()\[\] ]*)\]\s*\Z)?")
_TIMER = re.compile(r"(?:epoch=(\d+)/micro_step=(\d+)/global_step=(\d+)|\b(\d+)/(\d+)), (?=\w*SamplesPerSec=)(.*)\Z")
_GLUED = re.compile(r"(\w+)=([-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf)([GMK]?B|s|ms)?(?=,|\s*\Z)")
_PIPE = re.compile(r"\bsteps: (\d+) loss: ([-+\w.]+) iter time \(s\): ([\d.]+) samples/sec: ([\d.]+)(?:\s|\Z)")
_LISTED = re.compile(r"[^\s,()\[\]]+")
_MEMORY = re.compile(r"\b(MA|Max_MA|CA|Max_CA) ([\d.]+) (GB|MB|KB)\b")
_VIRTUAL = re.compile(r"CPU Virtual Memory:\s+used = ([\d.]+) (GB|MB|KB), percent = ([\d.]+)%")
_CHAT_LATENCY = re.compile(r"([A-Za-z0-9][\w ]*?)=([\d.]+)s?(?: \(([\d.]+)%\))?(?=\s*(?:\||\Z))")
_CHAT_MODEL = re.compile(r"([A-Za-z][\w/ ]*?):? ([\d.]+) ?(?:B|s)?(?=,|\s*\Z)")
_CHAT_EVAL = re.compile(r"(\w+) \((?:higher|lower) is better\) : ([-+\w.]+)(?=,|\s*\Z)")
_CHAT_SCALAR = re.compile(r"\s*(ppl|average reward score|ema reward score): ([-+\w.]+)\s*\Z")
_CHAT_EPOCH = re.compile(r"\s*Epoch \d+/\d+ with (loss) ([-+\w.]+)\s*\Z")


def marks(line: str) -> list[Mark] | None:
    """The numbers of a line that names its step: of the optimiser, the throughput timer or the pipeline engine."""
    if OPTIMISER in line and (found := _STEP.search(line)):
        return _optimiser(found)
    if THROUGHPUT in line and (found := _TIMER.search(line)):
        counters = [Mark(IGNORED, *found.span(group)) for group in (1, 2, 4) if found[group]]
        step = Mark(STEP, *found.span(3 if found[3] else 5))
        return [step, *counters, *(Mark(one[1], *one.span(2)) for one in _GLUED.finditer(line, found.start(6)))]
    if PIPE in line and (found := _PIPE.search(line)):
        tags = (STEP, "loss", "iter time (s)", "samples/sec")
        return [Mark(tag, *found.span(group)) for group, tag in enumerate(tags, 1)]
    return None


def _optimiser(found: re.Match[str]) -> list[Mark]:
    """`step=10, skipped=6, lr=[9.6e-06, 9.6e-06], mom=[(0.9, 0.95), (0.9, 0.95)]`: skipped counts from the start."""
    listed = [Mark(STEP, *found.span(1)), Mark("skipped", *found.span(2))]
    for group, tag in ((3, "lr"), (4, "mom")):
        for at, one in enumerate(_LISTED.finditer(found[group] or "")):
            try:
                float(one[0])
            except ValueError:
                break
            name = tag if tag == "lr" and not at else f"{tag}/{at}"
            listed.append(Mark(name, found.start(group) + one.start(), found.start(group) + one.end()))
    return listed


def _said(found: re.Match[str]) -> str:
    return f"{found[2]} {found[3]}"


class DeepSpeedLines:
    """Reads one line after another. Two engines (DeepSpeed-Chat trains an actor and a critic) print the same steps."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.seen = False  # any line that `marks` knows
        self.step = -1  # of the last line of an optimiser
        self.line = 0  # its number
        self.engine = 0  # which one printed it
        self._said = ""  # what it said
        self.ahead = (0, "")  # the last line of an optimiser that was read by column: its number, and the line

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line is one of DeepSpeed's. `torn`: it has no end yet, so its last number is not believed."""
        if "=" in line:
            if OPTIMISER in line and (found := _STEP.search(line)):
                return self._row(line, _optimiser(found), self._engine(int(found[1]), _said(found)))
            if torn:
                return False
            if THROUGHPUT in line:
                listed = marks(line)
                return self._row(line, listed) if listed else self._latency(line)
            return "Virtual Memory" in line and self._virtual(line)
        if torn:
            return False
        if PIPE in line and (listed := marks(line)):
            return self._row(line, listed)
        if "MA " in line and "Max_MA" in line:
            return self._memory(line)
        return self._chat(line)

    def _row(self, line: str, listed: Sequence[Mark], engine: str = "") -> bool:
        page = self.page
        self.seen = True
        page.time = clock(line)
        page.at_step(next(int(line[mark.begin : mark.end]) for mark in listed if mark.tag == STEP))
        for mark in listed:
            if mark.tag not in (STEP, IGNORED):
                try:
                    page.point(engine + mark.tag, float(line[mark.begin : mark.end]))
                except ValueError:
                    continue
        return True

    def _engine(self, step: int, said: str) -> str:
        """What stands before the tags of an optimiser: another one than before prints the same step once more."""
        if step != self.step or abs(self.page.line - self.line) > NEAR:
            self.engine = 0
        elif said != self._said:
            self.engine += 1
        self.step, self._said, self.line = step, said, self.page.line
        return f"engine{self.engine}/" if self.engine else ""

    def catch_up(self) -> None:
        """At the end of a block: where the optimiser is, if its last line was read by column."""
        number, line = self.ahead
        if number > self.line and (found := _STEP.search(line)):
            self.seen, self.engine, self.line = True, 0, number
            self.step, self._said = int(found[1]), _said(found)
        self.ahead = 0, ""

    # ---- memory --------------------------------------------------------------------------------------------------

    def _memory(self, line: str) -> bool:
        """`MA 3.96 GB  Max_MA 4.9 GB  CA 5.02 GB  Max_CA 5 GB`: allocated and cached on the GPU (see_memory_usage)."""
        found = _MEMORY.findall(line)
        self.page.time = clock(line)
        for tag, text, unit in found:
            self._sized(f"{tag} ({unit})", text)
        return bool(found)

    def _virtual(self, line: str) -> bool:
        found = _VIRTUAL.search(line)
        if not found:
            return False
        self.page.time = clock(line)
        self._sized(f"CPU virtual memory used ({found[2]})", found[1])
        self._sized("CPU virtual memory (%)", found[3])
        return True

    def _sized(self, tag: str, text: str) -> None:
        """A point at the last step; before the first step it is a fact of the start-up."""
        try:
            value = float(text)
        except ValueError:
            return
        if self.page.step is None:
            self.page.fact(tag, value)
        else:
            self.page.point(tag, value)

    # ---- DeepSpeed-Chat ------------------------------------------------------------------------------------------

    def _latency(self, line: str) -> bool:
        if "latency=" not in line:
            return False
        page = self.page
        page.time = clock(line)
        for tag, text, share in _CHAT_LATENCY.findall(line):
            page.point(tag, float(text), step=page.loop)
            if share:
                page.point(f"{tag} (%)", float(share), step=page.loop)
        return True

    def _chat(self, line: str) -> bool:
        page = self.page
        if "ppo_ep:" in line and "step: " in line:
            return self._loop(line)
        if "Evaluating" in line and line.lstrip().startswith("*****"):
            page.events.append(Event("evaluation", line.strip(), page.step, None, place=Place(page.name, page.line)))
            return True
        found: list[tuple[str, str]] = []
        if ": " in line and (scalar := _CHAT_SCALAR.match(line)):
            found = [(scalar[1], scalar[2])]
        elif "is better) :" in line:
            found = _CHAT_EVAL.findall(line)
        elif "odel Parameters: " in line and "Latency" in line:
            found = _CHAT_MODEL.findall(line)
        elif " with loss " in line and (scalar := _CHAT_EPOCH.match(line)):
            found = [(scalar[1], scalar[2])]
        if found:
            page.time = None
        for tag, text in found:
            try:
                page.point(tag, float(text), step=page.loop)
            except ValueError:
                continue
        return bool(found)

    def _loop(self, line: str) -> bool:
        """`epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.25|…`: the step of the loop over both optimisers."""
        page = self.page
        found = [(name.strip(), text) for name, _, text in (part.partition(": ") for part in line.split("|"))]
        step = dict(found).get("step", "").strip()
        if not step.isdecimal():
            return False
        page.time = None
        page.loop = int(step)
        page.at_step(page.loop)
        for tag, text in found:
            try:
                value = float(text)
            except ValueError:
                continue
            if tag and tag != "step":
                page.point(tag, value)
        return True

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {"seen": self.seen, "step": self.step, "engine": self.engine, "said": self._said, "line": self.line}

    def restore(self, state: Mapping[str, object]) -> None:
        self.seen, self._said = bool(state["seen"]), str(state["said"])
        self.step, self.engine, self.line = (int(str(state[name])) for name in ("step", "engine", "line"))
