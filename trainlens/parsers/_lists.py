"""Lists of numbers inside rows: a short one, `{"lr": [1e-4, 1e-5]}`, is a column for each place, "lr/0", "lr/1".

All must be as long as the first one of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainlens.later import Later
from trainlens.model import Floats
from trainlens.parsers._columns import Mask
from trainlens.parsers._json_rows import decoded

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

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


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1000)
