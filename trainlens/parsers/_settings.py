"""Nested settings as names and plain values, for files of settings of any format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from trainlens.model import Value

_DEEPEST, _LONGEST = 24, 400  # levels, characters of a value
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")  # YAML 1.1 takes 1e-4 for a text
_OPEN = ("auto", "???", "none", "null", "")


def flat(value: dict[Any, Any], above: str = "", depth: int = 0) -> Iterator[tuple[str, Value]]:
    """The scalars of nested mappings and lists, their names joined by "."."""
    for key, cell in value.items():
        name = f"{above}{key}"
        if isinstance(cell, dict) and set(cell) <= {"value", "desc"} and "value" in cell:  # as W&B writes its config
            cell = cell["value"]
        if isinstance(cell, dict) and depth < _DEEPEST:
            if isinstance(switch := cell.get("enabled"), bool):
                yield name, switch
            yield from flat(cell, f"{name}.", depth + 1)
        elif isinstance(cell, (list, tuple)):
            yield from _of_list(name, list(cell), depth)
        elif _is_told(cell := scalar(cell)):
            yield name, cell


def _of_list(name: str, cells: list[Any], depth: int) -> Iterator[tuple[str, Value]]:
    if any(isinstance(cell, dict) for cell in cells):
        if depth < _DEEPEST:
            yield from flat(dict(enumerate(cells)), f"{name}.", depth + 1)
    elif cells and not any(isinstance(cell, (list, tuple)) for cell in cells):
        text = ", ".join(str(cell) for cell in cells[:100])
        if len(text) <= _LONGEST:
            yield name, text


def scalar(cell: Any) -> Any:
    """A text that is a number or a truth as one."""
    if isinstance(cell, str):
        if _NUMBER.fullmatch(cell):
            return float(cell) if re.search(r"[.eE]", cell) else int(cell)
        return {"true": True, "false": False}.get(cell.lower(), cell)
    return cell


def _is_told(cell: Any) -> bool:
    if isinstance(cell, str):
        return len(cell) <= _LONGEST and cell.lower() not in _OPEN
    return isinstance(cell, (bool, int)) or (isinstance(cell, float) and math.isfinite(cell))
