"""Lists of objects inside rows, one object a device: `{"timestamp": …, "gpus": [{"gpu_id": 0, "util_pct": 93}, …]}`.

Pollers of GPUs and trainers that gather what each rank measured write such rows. The number of the device is the rank,
each number beside it a measure of the row's step and time, named "gpus/util_pct".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from trainlens.model import Floats, Ints, Points
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._tables import Table

_NUMBERS = ("gpu_id", "gpu", "gpu_index", "index", "device_id", "device", "rank", "id", "idx")
_BEGINS = r'^\[\s*\{\s*"'


def points(table: Table, step: Ints | None, time: Floats | None) -> Iterator[Points]:
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
