"""Lines of DeepSpeed, one at a time: optimiser steps, throughput timers, the pipeline engine, DeepSpeed-Chat.

Written by runtime/engine.py, utils/timer.py and runtime/pipe/engine.py of https://github.com/deepspeedai/DeepSpeed and
applications/DeepSpeed-Chat of https://github.com/deepspeedai/DeepSpeedExamples.
"""

from __future__ import annotations

import re

from trainlens.model import NO_RANK, Event, Place
from trainlens.parsers._lines import clock
from trainlens.parsers._shapes import IGNORED, STEP, Mark
from trainlens.parsers._text_page import Page

_STEP = re.compile(r"\bstep=(\d+), skipped=(\d+), lr=\[([^\]]*)\]")
_TIMER = re.compile(r"(?:epoch=(\d+)/micro_step=(\d+)/global_step=(\d+)|\b(\d+)/(\d+)), (?=\w*SamplesPerSec=)(.*)\Z")
_GLUED = re.compile(r"(\w+)=([-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf)(?:[GMK]?B|s|ms)?(?=,|\s*\Z)")
_PIPE = re.compile(r"\bsteps: (\d+) loss: ([-+\w.]+) iter time \(s\): ([\d.]+) samples/sec: ([\d.]+)(?:\s|\Z)")
_RATE = re.compile(r"[^\s,]+")
_CHAT_LATENCY = re.compile(r"([A-Za-z0-9][\w ]*?)=([\d.]+)s?(?: \(([\d.]+)%\))?(?=\s*(?:\||\Z))")
_CHAT_MODEL = re.compile(r"([A-Za-z][\w/ ]*?):? ([\d.]+) ?(?:B|s)?(?=,|\s*\Z)")
_CHAT_EVAL = re.compile(r"(\w+) \((?:higher|lower) is better\) : ([-+\w.]+)(?=,|\s*\Z)")
_CHAT_SCALAR = re.compile(r"\s*(ppl|average reward score): ([-+\w.]+)\s*\Z")


def read(line: str, page: Page, *, torn: bool = False) -> bool:
    """Whether the line is one of DeepSpeed's. `torn`: it has no end yet, so its last number is not believed."""
    if "=" in line:
        if "skipped=" in line and (found := _STEP.search(line)):
            _optimiser_step(line, found, page)
            return True
        if torn:
            return False
        if "SamplesPerSec=" in line:
            return _throughput(line, page)
        return False
    if torn:
        return False
    if "steps: " in line and (found := _PIPE.search(line)):
        page.time = clock(line)
        page.at_step(int(found[1]))
        marks = [Mark(STEP, *found.span(1))]
        for group, tag in enumerate(("loss", "iter time (s)", "samples/sec"), 2):
            page.point(tag, float(found[group]))
            marks.append(Mark(tag, *found.span(group)))
        _learn(line, marks, page)
        return True
    return _chat(line, page)


def _optimiser_step(line: str, found: re.Match[str], page: Page) -> None:
    """`step=10, skipped=6, lr=[9.6e-06, 9.6e-06]`: skipped counts from the start of the run."""
    page.time = clock(line)
    page.at_step(int(found[1]))
    page.point("skipped", float(found[2]))
    marks = [Mark(STEP, *found.span(1)), Mark("skipped", *found.span(2))]
    for at, rate in enumerate(_RATE.finditer(found[3])):
        tag = f"lr/{at}" if at else "lr"
        try:
            page.point(tag, float(rate[0]))
        except ValueError:
            return
        marks.append(Mark(tag, found.start(3) + rate.start(), found.start(3) + rate.end()))
    _learn(line, marks, page)


def _learn(line: str, marks: list[Mark], page: Page) -> None:
    if page.shapes.open and "\r" not in line:
        page.shapes.learn(line, marks, NO_RANK)


def _throughput(line: str, page: Page) -> bool:
    if found := _TIMER.search(line):
        page.time = clock(line)
        page.at_step(int(found[3] or found[5]))
        marks = [Mark(STEP, *found.span(3 if found[3] else 5))]
        marks += [Mark(IGNORED, *found.span(group)) for group in (1, 2, 4) if found[group]]
        for pair in _GLUED.finditer(line, found.start(6)):
            page.point(pair[1], float(pair[2]))
            marks.append(Mark(pair[1], *pair.span(2)))
        _learn(line, marks, page)
        return True
    if "latency=" not in line:
        return False
    page.time = clock(line)
    for tag, text, share in _CHAT_LATENCY.findall(line):
        page.point(tag, float(text), step=page.loop)
        if share:
            page.point(f"{tag} (%)", float(share), step=page.loop)
    return True


def _chat(line: str, page: Page) -> bool:
    if "ppo_ep:" in line and "step: " in line:
        pairs = [part.partition(": ") for part in line.split("|")]
        values = {name.strip(): text for name, _, text in pairs}
        page.time = None
        page.loop = int(values.pop("step"))
        page.at_step(page.loop)
        for tag, text in values.items():
            page.point(tag, float(text))
        return True
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
    page.time = None
    for tag, text in found:
        try:
            page.point(tag, float(text), step=page.loop)
        except ValueError:
            continue
    return bool(found)
