"""Dictionaries as Python prints them on a line: `{'loss': 1.5, 'lr': tensor(3e-05), 'global_step': '7/2353'}`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainlens.parsers._numbers import loose
from trainlens.parsers._pairs import is_metric, is_step

_DICT = re.compile(r"\{\s*['\"][^{}]+\}")
_ENTRY = re.compile(r"""['"]([^'"]+)['"]\s*:\s*('[^']*'|"[^"]*"|[\w.]+\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\]|[^,}]+)""")
_OF_TOTAL = re.compile(r"['\"]?(\d+)\s*/\s*(\d+)['\"]?\s*\Z")


@dataclass(frozen=True, slots=True)
class Dictionary:
    begin: int  # in the line
    step: int | None
    total: int | None
    values: list[tuple[str, float]]
    closing: bool  # the summary that ends a run of the HF trainer
    named: str = ""  # the key that the step stood under


def dictionary(text: str) -> Dictionary | None:
    """The first dictionary of a line that measures something."""
    found = _DICT.search(text)
    if not found:
        return None
    entries = [(key, value.strip()) for key, value in _ENTRY.findall(found[0])]
    closing = any(key == "train_runtime" for key, _ in entries)
    if not closing and not any(is_metric(key) or key == "epoch" for key, _ in entries):
        return None
    step, total, named, values = None, None, "", []
    for key, value in entries:
        if of_total := _OF_TOTAL.match(value):
            if is_step(key):
                step, total, named = int(of_total[1]), int(of_total[2]), f"'{key}'"
        elif (number := loose(value)) is not None:
            if is_step(key) and step is None and number == number // 1:
                step, named = int(number), f"'{key}'"
            else:
                values.append((key, number))
    return Dictionary(found.start(), step, total, values, closing, named)
