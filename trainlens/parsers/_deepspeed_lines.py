"""Lines of DeepSpeed, one at a time: optimiser steps, throughput timers, the pipeline engine, memory, flops.

Written by runtime/engine.py, utils/timer.py, runtime/pipe/engine.py, runtime/utils.py (see_memory_usage) and
profiling/flops_profiler/profiler.py of https://github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainlens.parsers import _deepspeed_chat
from trainlens.parsers._lines import clock
from trainlens.parsers._marks import IGNORED, STEP, Mark
from trainlens.parsers._text_page import Page

OPTIMISER, THROUGHPUT, PIPE = "skipped=", "SamplesPerSec=", "steps: "
_CUT = (
    OPTIMISER,
    THROUGHPUT,
    PIPE,
    "micro_step=",
    "step=",
    "ppo_ep: ",
    "PPO Epoch: ",
    "atency",
    "reward score: ",
    "ppl: ",
)
PROFILE = 200  # lines: a table of the flops profiler is shorter before its tree of modules
NEAR = 20  # lines: farther apart the same step tells of a new run, not of a second engine

_STEP = re.compile(r"\bstep=(\d{1,15}), skipped=(\d{1,15}), lr=\[([^\]]*)\](?:, mom=\[([-+\w.,()\[\] ]*)\]\s*\Z)?")
_TIMER = re.compile(
    r"(?:epoch=(\d{1,15})/micro_step=(\d{1,15})/global_step=(\d{1,15})|\b(\d{1,15})/(\d{1,15})), "
    r"(?=\w*SamplesPerSec=)(.*)\Z"
)
_GLUED = re.compile(r"(\w+)=([-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf)([GMK]?B|s|ms)?(?=,|\s*\Z)")
_PIPE = re.compile(r"\bsteps: (\d{1,15}) loss: ([-+\w.]+) iter time \(s\): ([\d.]+) samples/sec: ([\d.]+)(?:\s|\Z)")
_LISTED = re.compile(r"[^\s,()\[\]]+")
_MEMORY = re.compile(r"\b(MA|Max_MA|CA|Max_CA) ([\d.]+) (GB|MB|KB)\b")
_PROFILED = re.compile(
    r"\s*([A-Za-z][\w/ =*()]*?):\s+([\d,]+(?:\.\d+)?(?:e[-+]?\d+)?)(?: ([KMGTPE]?(?:FLOPS|MACs)?|m?s|us))?\s*\Z"
)
_VIRTUAL = re.compile(r"CPU Virtual Memory:\s+used = ([\d.]+) (GB|MB|KB), percent = ([\d.]+)%")


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
        self._profile = 0  # the line where a table of the flops profiler begins
        self.ahead = (0, "")  # the last line of an optimiser that was read by column: its number, and the line

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether the line is one of DeepSpeed's. `torn`: it has no end yet, so its last number is not believed."""
        if "=" in line:
            if OPTIMISER in line and (found := _STEP.search(line)):
                return self._row(line, _optimiser(found), self._engine(int(found[1]), _said(found)))
            if torn:
                return self._cut(line)
            if THROUGHPUT in line and (listed := marks(line)):
                return self._row(line, listed)
            if "Virtual Memory" in line and self._virtual(line):
                return True
        elif torn:
            return self._cut(line)
        if "DeepSpeed Flops Profiler ---" in line:
            self._profile = self.page.line
            return True
        if self._profile and self._profile_line(line):
            return True
        if PIPE in line and (listed := marks(line)):
            return self._row(line, listed)
        if "MA " in line and "Max_MA" in line:
            return self._memory(line)
        return _deepspeed_chat.read(line, self.page)

    def _cut(self, line: str) -> bool:
        """Whether a line without an end will be one of DeepSpeed's: then nobody else shall read it."""
        return self.seen and any(key in line for key in _CUT)

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

    # ---- the flops profiler --------------------------------------------------------------------------------------

    def _profile_line(self, line: str) -> bool:
        """`fwd latency:      76.67 ms` of its summary; the tree of modules that follows is left alone."""
        if self._profile + PROFILE < self.page.line or "Detailed Profile" in line or "Aggregated Profile" in line:
            self._profile = 0
        elif found := _PROFILED.match(line):
            unit = f" ({found[3]})" if found[3] else ""
            self.page.fact(f"flops profiler/{' '.join(found[1].split())}{unit}", float(found[2].replace(",", "")))
            return True
        return False

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "seen": self.seen,
            "step": self.step,
            "engine": self.engine,
            "said": self._said,
            "line": self.line,
            "profile": self._profile,
        }

    def restore(self, state: Mapping[str, object]) -> None:
        self.seen, self._said = bool(state["seen"]), str(state["said"])
        self.step, self.engine, self.line, self._profile = (
            int(str(state[name])) for name in ("step", "engine", "line", "profile")
        )
