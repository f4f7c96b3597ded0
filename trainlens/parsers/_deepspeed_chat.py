"""Lines of DeepSpeed-Chat, one at a time: its own loop over two optimisers, rewards, latencies, evaluations.

Most of them name no step; they belong to the last step of the loop. Written by
https://github.com/deepspeedai/DeepSpeedExamples (applications/DeepSpeed-Chat: main.py of the three steps, perf.py).
"""

from __future__ import annotations

import re

from trainlens.model import NO_RANK, Event, Place
from trainlens.parsers._lines import clock
from trainlens.parsers._text_page import Page

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_PARTS = re.compile(rf"([A-Za-z0-9][\w ]*?)=({_NUMBER})s?(?: \(({_NUMBER})%\))?(?=\s*(?:\||\Z))")
_MODEL = re.compile(rf"([A-Za-z][\w/ ]*?):? ({_NUMBER}) ?(?:B|s)?(?=,|\s*\Z)")
_PHASE = re.compile(r"\s*(End-to-End|Generation|Training)\s+=> (.*)\Z")
_OF_PHASE = re.compile(rf"([A-Za-z][\w/. -]*?):? ({_NUMBER}) ?(s|ms|GB/sec)?(?=,|\s*\Z)")
_EVALUATED = re.compile(rf"(\w+) \((?:higher|lower) is better\) : ({_NUMBER})(?=,|\s*\Z)")
_SCALARS = re.compile(
    rf"\s*(ppl|[Aa]verage reward score|ema reward score): ({_NUMBER})(?:(?:,| \|) ([A-Za-z][\w ]*): ({_NUMBER}))?\s*\Z"
)
_EPOCH = re.compile(rf"\s*Epoch \d+/\d+ with (loss) ({_NUMBER})\s*\Z")
_LOSS = re.compile(rf"\s*Epoch: (\d+), Step: (\d{{1,15}}), Rank: (\d{{1,6}}), (loss) = ({_NUMBER})\s*\Z")


def read(line: str, page: Page) -> bool:
    """Whether the line is one of DeepSpeed-Chat's."""
    if "|" in line and "tep: " in line and ("ppo_ep:" in line or "PPO Epoch:" in line):
        return _loop(line, page)
    if "Evaluating" in line and line.lstrip().startswith("*****"):
        page.events.append(Event("evaluation", line.strip(), page.step, None, place=Place(page.name, page.line)))
        return True
    if "=" in line:
        return _assigned(line, page)
    found: list[tuple[str, str]] = []
    if ": " in line and (scalar := _SCALARS.match(line)):
        held_out = "eval_" if scalar[1] == "ppl" else ""  # printed by evaluations only, with the loss it was made of
        found = [(held_out + scalar[1], scalar[2])]
        if scalar[3]:
            found.append((held_out + scalar[3], scalar[4]))
    elif "is better) :" in line:
        found = _EVALUATED.findall(line)
    elif "odel Parameters: " in line and "Latency" in line:
        found = _MODEL.findall(line)
    elif " with loss " in line and (scalar := _EPOCH.match(line)):
        found = [(scalar[1], scalar[2])]
    return _tell(found, page)


def _tell(found: list[tuple[str, str]], page: Page) -> bool:
    if found:
        page.time = None
    for tag, text in found:
        page.point(tag, float(text), step=page.loop)
    return bool(found)


def _assigned(line: str, page: Page) -> bool:
    """Latencies of two styles, and the loss that each rank prints."""
    if "Latency" in line and (phase := _PHASE.match(line)):
        found = [(f"{name} ({unit})" if unit else name, text) for name, text, unit in _OF_PHASE.findall(phase[2])]
        return _tell([(f"{phase[1]}/{name}", text) for name, text in found], page)
    if "Rank: " in line and (loss := _LOSS.match(line)):
        page.time = None
        page.at_step(int(loss[2]))
        page.point(loss[4], float(loss[5]), rank=int(loss[3]))
        return True
    if "latency=" not in line:
        return False
    page.time = clock(line)
    for tag, text, share in _PARTS.findall(line):
        page.point(tag, float(text), step=page.loop)
        if share:
            page.point(f"{tag} (%)", float(share), step=page.loop)
    return True


def _loop(line: str, page: Page) -> bool:
    """`epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.25|…`: the step of the loop over both optimisers."""
    found = [(name.strip(), text) for name, _, text in (part.partition(": ") for part in line.split("|"))]
    step = {name.lower(): text for name, text in found}.get("step", "").strip()
    if not re.fullmatch(r"\d{1,15}", step):
        return False
    page.time = None
    page.loop = int(step)
    page.at_step(page.loop)
    for tag, text in found:
        try:
            value = float(text)
        except ValueError:
            continue
        if tag and tag.lower() != "step":
            page.point(tag, value, NO_RANK)
    return True
