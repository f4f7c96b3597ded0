"""Lists inside rows.

A list of objects, one a device, `{"timestamp": …, "gpus": [{"gpu_id": 0, "util_pct": 93}, …]}`, as pollers of GPUs and
trainers write it that gather what each rank measured: the number of the device is the rank, each number beside it a
measure of the row's step and time, named "gpus/util_pct".

A short list of numbers, `{"lr": [1e-4, 1e-5]}`, is a column for each place: "lr/0", "lr/1". All must be as long as the
first one of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from trainlens.model import Floats, Ints, Points
from trainlens.parsers._columns import Mask
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._tables import Table

_NUMBERS = ("gpu_id", "gpu", "gpu_index", "index", "device_id", "device", "rank", "id", "idx")
_BEGINS = r'^\[\s*\{\s*"'
_NUMERIC = r"^\[\s*(?:[-+]?[\d.]|NaN|Infinity|-Infinity|null)"
SHORT = 16  # numbers: groups of parameters, devices of a node, heads; longer ones are data
_LONGEST = 600  # characters of a short list


def spread(
    columns: dict[str, Floats], present: dict[str, Mask], texts: Mapping[str, pl.Series], widths: dict[str, int],
    left_out: dict[str, int],
) -> tuple[dict[str, Floats], dict[str, Mask]]:  # fmt: skip
    """The columns with those of lists of numbers; `widths` are learnt, `left_out` counts the lists without columns."""
    found, masks = dict(columns), dict(present)
    for name, cells in texts.items():
        lists = cells.str.contains(_NUMERIC).fill_null(value=False).to_numpy() if len(cells) else np.empty(0, np.bool_)
        rows = [
            (at, row if len(cells[at]) <= _LONGEST and isinstance(row := decoded(cells[at].encode()), list) else None)
            for at in np.flatnonzero(lists).tolist()
        ]
        for _, row in rows[:1]:
            widths.setdefault(name, 0 if row is None or len(row) > SHORT else len(row))
        fitting = [(at, row) for at, row in rows if row and len(row) == widths[name]]
        if len(fitting) < len(rows):
            left_out[name] = left_out.get(name, 0) + len(rows) - len(fitting)
        places = np.array([at for at, _ in fitting], np.int64)
        for part in range(widths[name] if fitting else 0):
            column, mask = np.full(len(cells), np.nan), np.zeros(len(cells), np.bool_)
            numbers = [row[part] for _, row in fitting]
            good = np.array([_is_number(one) for one in numbers], np.bool_)
            column[places[good]] = [float(one) for one, is_one in zip(numbers, good, strict=True) if is_one]
            mask[places[good]] = True
            if good.any():
                found[f"{name}/{part}"], masks[f"{name}/{part}"] = column, mask
    return found, masks


def of_devices(table: Table, step: Ints | None, time: Floats | None) -> Iterator[Points]:
    """The points of all lists of devices in a table, by list, measure and device."""
    for name, texts in table.texts.items():
        rows = np.flatnonzero(texts.str.contains(_BEGINS).fill_null(value=False).to_numpy())
        if len(rows):
            yield from _of_list(name, texts, rows.tolist(), table.lines, step, time)


def _of_list(
    name: str, texts: pl.Series, rows: list[int], lines: Ints, step: Ints | None, time: Floats | None
) -> Iterator[Points]:
    found: dict[tuple[str, int], tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows:
        for device in _devices(decoded(texts[row].encode())):
            rank = next((device[key] for key in _NUMBERS if _is_device(device.get(key))), None)
            if rank is None:
                return  # a list of something else
            for key, value in device.items():
                if key not in _NUMBERS and isinstance(value, (int, float)) and not isinstance(value, bool):
                    places, values = found[key, rank]
                    places.append(row)
                    values.append(value)
    for (key, rank), (places, values) in found.items():
        at = np.array(places)
        own_step, own_time = (None if axis is None else axis[at] for axis in (step, time))
        yield Points(f"{name}/{key}", own_step, np.array(values, np.float64), own_time, rank, lines[at])


def _devices(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_device(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1000)
