"""Dictionaries as Python prints them on a line: `{'loss': 1.5, 'lr': tensor(3e-05), 'global_step': '7/2353'}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.parsers._marks import STEP, Mark
from trainlens.parsers._numbers import loose
from trainlens.parsers._pairs import is_metric, is_step

_DICT = re.compile(r"\{\s*['\"][^{}]+\}")
_ENTRY = re.compile(r"""['"]([^'"]+)['"]\s*:\s*('[^']*'|"[^"]*"|[\w.]+\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\]|[^,}]+)""")
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)")
_OF_TOTAL = re.compile(r"['\"]?(\d+)\s*/\s*(\d+)['\"]?\s*\Z")
# Composer's file logger: "[metric][batch=10]: { "loss/train/total": 2.5, }"
_BEFORE = re.compile(r"\[(?:global_step|step|batch|iter|iteration)=(\d{1,15})\]:?\s*\Z")


@dataclass(frozen=True, slots=True)
class Dictionary:
    begin: int  # in the line
    step: int | None
    total: int | None
    values: list[tuple[str, float]]
    closing: bool  # the summary that ends a run of the HF trainer
    named: str = ""  # the key that the step stood under
    marks: Sequence[Mark] = ()  # its numbers, when all are written plainly


def dictionary(text: str) -> Dictionary | None:
    """The first dictionary of a line that measures something."""
    found = _DICT.search(text)
    if not found:
        return None
    spans = {one[1]: (found.start() + one.start(2), one[2].strip()) for one in _ENTRY.finditer(found[0])}
    entries = [(key, value) for key, (_, value) in spans.items()]
    closing = any(key == "train_runtime" for key, _ in entries)
    if not closing and not any(is_metric(key) or key == "epoch" for key, _ in entries):
        return None
    step, total, named, values = None, None, "", []
    marks: list[Mark] | None = []
    for key, value in entries:
        if of_total := _OF_TOTAL.match(value):
            if is_step(key):
                step, total, named = int(of_total[1]), int(of_total[2]), f"'{key}'"
        elif (number := loose(value)) is not None:
            if is_step(key) and step is None and number == number // 1:
                step, named = int(number), f"'{key}'"
                marks = _marked(marks, STEP, *spans[key])
            else:
                values.append((key, number))
                marks = _marked(marks, key, *spans[key])
    if step is None and (before := _BEFORE.search(text, max(found.start() - 60, 0), found.start())):
        step, named, marks = int(before[1]), "the brackets before it", None
    return Dictionary(found.start(), step, total, values, closing, named, marks or [])


def _marked(marks: list[Mark] | None, tag: str, begin: int, value: str) -> list[Mark] | None:
    """The marks and that of one more number; None once a number is written in a way of its own."""
    plain = value.strip("'\"")
    if marks is None or not _PLAIN.fullmatch(plain):
        return None
    at = begin + value.index(plain)
    return [*marks, Mark(tag, at, at + len(plain))]
