"""Curves in JSON documents, whichever way round they are written: columns, pairs, values by step, rows by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trainlens import catalog
from trainlens.later import Later
from trainlens.model import Ints
from trainlens.parsers import _texts

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

Curve = tuple[str, Ints | None, list[Any], list[Any] | None]  # tag, steps, values, Unix seconds

# Megatron's golden values of old have a list for each metric: value i is that of step start_step + i × step_interval.
_GOLDEN = ("start_step", "step_interval", "values")
_NOT_RECORDED = "nan"
_SPLITS = ("train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev")
_WORDS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf, "inf": np.inf, "-inf": -np.inf}


def curves(whole: Any, name: str, above: str = "") -> Iterator[Curve]:
    """All curves of a document; `name` is that of a curve without one."""
    if isinstance(whole, list):
        rows = [row for row in whole if _is_row(row, 3)]
        yield name, _whole([row[1] for row in rows]), [row[2] for row in rows], [row[0] for row in rows]
        return
    if _are_steps(list(whole)) and any(isinstance(value, dict) for value in whole.values()):
        yield from _by_row(whole)
        return
    yield from _columns(whole, above)
    holders = [key for key, value in whole.items() if isinstance(value, dict) and _holds_curves(value)]
    for key, value in whole.items():
        tag = above + key
        if _are_pairs(value):
            yield tag, _whole([row[0] for row in value]), [row[1] for row in value], None
        elif key in holders:  # a lone one is a wrapper, unless it says of what the curves are
            yield from curves(value, tag, above if len(holders) == 1 and key.lower() not in _SPLITS else f"{tag}/")
        elif isinstance(value, dict):
            yield from _of_object(tag, value)


def _columns(whole: dict[str, Any], above: str) -> Iterator[Curve]:
    lists = {key: cells for key, cells in whole.items() if _are_numbers(cells)}
    steps = next(
        (key for key in lists if catalog.axis(key) == "step"), next((key for key in lists if key == "epoch"), None)
    )
    for key, cells in lists.items():
        own = lists[steps] if steps and len(lists[steps]) == len(cells) else None
        if key != steps:
            yield above + key, None if own is None else _whole(own), cells, None


def _of_object(tag: str, value: dict[str, Any]) -> Iterator[Curve]:
    """The curve that stands under one key, if one does."""
    values = value.get("values")
    inner = values if isinstance(values, dict) else value
    if _are_steps(list(inner)) and all(cell == _NOT_RECORDED or _is_cell(cell) for cell in inner.values()):
        cells = [None if cell == _NOT_RECORDED else cell for cell in inner.values()]
        yield tag, _whole([int(step) for step in inner]), cells, None
    elif isinstance(values, list) and _are_numbers(value.get("steps")):
        count = min(len(value["steps"]), len(values))
        cells = [cell.get("value") if isinstance(cell, dict) else cell for cell in values[:count]]
        yield tag, _whole(value["steps"][:count]), cells, _dates(value, count)
    elif isinstance(values, list) and all(isinstance(value.get(key), int) for key in _GOLDEN[:2]):
        steps = value["start_step"] + value["step_interval"] * np.arange(len(values), dtype=np.int64)
        yield tag, steps, [None if cell == _NOT_RECORDED else cell for cell in values], None


def grid_end(whole: dict[str, Any]) -> int | None:
    """The last step that golden values declare for all curves alike, recorded or not; None where they do not agree."""
    ends: set[int] = set()
    for value in whole.values():
        if isinstance(value, dict) and all(type(value.get(key)) is int for key in ("start_step", "end_step")):
            values = value.get("values")
            steps = [int(key) for key in values] if isinstance(values, dict) and _are_steps(list(values)) else []
            ends.add(max(steps, default=value["end_step"]))
    return ends.pop() if len(ends) == 1 else None


def _by_row(whole: dict[str, Any]) -> Iterator[Curve]:
    """Rows by step: {"1": {"loss": 2.3, "lr": 0.1}, …}."""
    found: dict[str, tuple[list[int], list[Any]]] = {}
    for step, row in whole.items():
        for key, cell in row.items() if isinstance(row, dict) else ():
            if _is_cell(cell):
                steps, cells = found.setdefault(key, ([], []))
                steps.append(int(step))
                cells.append(cell)
    yield from ((key, _whole(steps), cells, None) for key, (steps, cells) in found.items())


def number(cell: object) -> float | None:
    """The number of a cell, None where it holds none."""
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, (int, float)):
        return float(cell) if abs(cell) < 1 << 1000 or isinstance(cell, float) else None
    return (_WORDS | {_NOT_RECORDED: np.nan}).get(cell) if isinstance(cell, str) else None


def without_curves(whole: dict[str, Any]) -> dict[str, Any]:
    """What of a document is told as facts."""
    if _are_steps(list(whole)):
        return {}
    return {
        key: value
        for key, value in whole.items()
        if not (isinstance(value, dict) and (_are_steps(list(value)) or isinstance(value.get("values"), (dict, list))))
    }


# ---- what things are -------------------------------------------------------------------------------------------------


def _whole(steps: list[Any]) -> Ints | None:
    """Steps as whole numbers; None where one is none."""
    if set(map(type, steps)) == {int} and min(steps) >= -(2**62) and max(steps) <= 2**62:
        return np.array(steps, np.int64)
    if not all(isinstance(step, (int, float)) and abs(step) <= 2**62 for step in steps):
        return None
    found = np.array(steps, np.float64)
    return np.array([int(step) for step in steps], np.int64) if bool((found == np.floor(found)).all()) else None


def _is_cell(cell: object) -> bool:
    return cell is None or number(cell) is not None


def _is_row(row: object, width: int) -> bool:
    return isinstance(row, list) and len(row) == width and all(number(cell) is not None for cell in row[:-1])


def _are_numbers(cells: object) -> bool:
    """A list of numbers, of which some may be missing."""
    if not isinstance(cells, list) or not cells:
        return False
    if all_numbers(cells):
        return True
    return all(map(_is_cell, cells)) and any(cell is not None for cell in cells)


def all_numbers(cells: list[Any]) -> bool:
    """Whether all are numbers that a float can hold: a quick look, by their types."""
    kinds = set(map(type, cells))
    return kinds == {float} or (kinds <= {int, float} and max(map(abs, cells)) < 1 << 1000)


def _are_pairs(cells: object) -> bool:
    return isinstance(cells, list) and bool(cells) and all(_is_row(row, 2) and _is_cell(row[1]) for row in cells)


def _holds_curves(value: dict[str, Any]) -> bool:
    """Whether an object holds columns or pairs and nothing else; one of "values" and "steps" is a curve itself."""
    of_numbers = bool(value) and all(_are_numbers(cells) or _are_pairs(cells) for cells in value.values())
    return of_numbers and not ("values" in value and "steps" in value)


def _are_steps(keys: list[Any]) -> bool:
    return bool(keys) and all(isinstance(key, str) and key.isdecimal() and len(key) < 19 for key in keys)


def _dates(curve: dict[str, Any], count: int) -> list[float] | None:
    """Sacred's dates of the points as Unix seconds; None where it has not one for each."""
    dates = curve.get("timestamps")
    if not isinstance(dates, list) or len(dates) < count or not all(isinstance(date, str) for date in dates):
        return None
    found: list[float] = _texts.clock(pl.Series(dates[:count], dtype=pl.String)).tolist()
    return found
