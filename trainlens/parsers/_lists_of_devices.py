"""Lists of objects inside rows, one object a device: `{"timestamp": …, "gpus": [{"gpu_id": 0, "util_pct": 93}, …]}`.

Pollers of GPUs and trainers that gather what each rank measured write such rows. The number of the device is the rank,
each number beside it a measure of the row's step and time, named "gpus/util_pct". Other pollers write one row a device
(`{"timestamp": …, "hostname": "node1", "gpu": 0, "util": 93}`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trainlens import catalog
from trainlens.later import Later
from trainlens.model import Floats, Ints, Points
from trainlens.parsers import _columns
from trainlens.parsers._columns import Axes, Mask
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._tables import Table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

_NUMBERS = ("gpu_id", "gpu", "gpu_index", "index", "device_id", "device", "rank", "id", "idx")
_BEGINS = r'^\[\s*\{\s*"'


def points(table: Table, step: Ints | None, time: Floats | None, hosts: list[str]) -> Iterator[Points]:
    """The points of all lists of devices in a table, by list, measure and device; `hosts` as for `numbered`."""
    for name, texts in table.texts.items():
        rows = np.flatnonzero(texts.str.contains(_BEGINS).fill_null(value=False).to_numpy())
        if len(rows):
            behind = _behind(table.texts, hosts, 0)
            yield from _of_list(name, texts, rows.tolist(), table.lines, step, time, behind)


def _of_list(
    name: str,
    texts: pl.Series,
    rows: list[int],
    lines: Ints,
    step: Ints | None,
    time: Floats | None,
    behind: Floats | None,
) -> Iterator[Points]:
    found: dict[tuple[str, int], tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows:
        for device in _devices(decoded(texts[row].encode())):
            rank = next((device[key] for key in _NUMBERS if _is_device(device.get(key))), None)
            if rank is None:
                return  # a list of something else
            rank += 0 if behind is None else int(behind[row])
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


# ---- rows of devices -------------------------------------------------------------------------------------------------

_DEVICE = frozenset(("gpu", "gpuindex", "index", "idx", "device", "deviceindex", "gpuidx", "card", "gpunum"))
_HOSTS = frozenset(("host", "hostname", "node", "nodename", "machine", "server"))
_ROLES = frozenset(("utilization", "power", "temperature", "memory"))
_A_HOST, _MANY = 8, 64  # ranks that are kept for each host: they must not change while a file grows


def numbered(
    columns: dict[str, Floats],
    present: Mapping[str, Mask],
    texts: Mapping[str, pl.Series],
    chosen: Axes,
    hosts: list[str],
) -> Axes:
    """The axes of rows that are each one device's: its number is the rank, those of further hosts come behind.

    `hosts` are those seen by now; it grows. Rows of a training, which have steps, stay as they are.
    """
    if chosen.step is not None or chosen.time is None:
        return chosen
    roles = {about.role for about in catalog.resolve(columns).values()}
    name = chosen.rank or next((one for one in columns if _columns.plain(one) in _DEVICE), None)
    if name is None or name not in columns or not roles & _ROLES:
        return chosen
    known = columns[name][present.get(name, np.isfinite(columns[name]))]
    if not len(known) or not ((known == np.floor(known)) & (known >= 0) & (known < 1024)).all():
        return chosen
    behind = _behind(texts, hosts, float(known.max()))
    if behind is not None:
        columns[name] = columns[name] + behind
    return replace(chosen, rank=name)


def _behind(texts: Mapping[str, pl.Series], hosts: list[str], highest: float) -> Floats | None:
    """What the host of each row adds to its ranks; None where no column names hosts. `hosts` grows."""
    name = next((one for one in texts if _columns.plain(one) in _HOSTS), None)
    if name is None:
        return None
    for own in texts[name].drop_nulls().unique(maintain_order=True).to_list():
        if own not in hosts:
            hosts.append(own)
    place = {own: at * (_A_HOST if highest < _A_HOST else _MANY) for at, own in enumerate(hosts)}
    return np.array([place.get(own, 0) for own in texts[name].to_list()], np.float64)
