"""Rows as columns, whatever file they stood in: numbers, texts and flags, with the lines they came from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainlens.later import Later
from trainlens.model import Floats, Ints
from trainlens.parsers._columns import Mask

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")


@dataclass(slots=True)
class Table:
    """Rows as columns. `columns` hold numbers (NaN where `present` says no), `texts` strings, `flags` 0 and 1.

    `lines` has the line of each row, from 1. A list is a text that begins with a bracket.
    """

    lines: Ints
    columns: dict[str, Floats] = field(default_factory=dict)
    present: dict[str, Mask] = field(default_factory=dict)
    texts: dict[str, pl.Series] = field(default_factory=dict)
    flags: dict[str, pl.Series] = field(default_factory=dict)

    def keep(self, rows: Mask) -> Table:
        return Table(
            self.lines[rows],
            {name: column[rows] for name, column in self.columns.items()},
            {name: mask[rows] for name, mask in self.present.items()},
            {name: texts.filter(pl.Series(rows)) for name, texts in self.texts.items()},
            {name: flags.filter(pl.Series(rows)) for name, flags in self.flags.items()},
        )

    def row(self, at: int) -> dict[str, str | float | bool]:
        """The scalar cells of one row."""
        cells: dict[str, str | float | bool] = {
            name: float(column[at]) for name, column in self.columns.items() if self.present[name][at]
        }
        for name, texts in {**self.texts, **self.flags}.items():
            if texts[at] is not None:
                cells[name] = texts[at]
        return cells


def add_series(table: Table, name: str, series: pl.Series) -> None:
    if series.dtype == pl.Float64:
        present = series.is_not_null().to_numpy() if series.null_count() else np.ones(len(series), np.bool_)
        table.columns[name], table.present[name] = series.to_numpy(), present
    elif series.dtype == pl.Boolean:
        table.flags[name] = series
    else:
        table.texts[name] = series


def add_cells(table: Table, name: str, where: NDArray[np.intp], values: list[Any], rows: int) -> None:
    """Adds cells read one by one; where numbers and texts mix, the numbers are written out and all are texts."""
    flags = all(isinstance(value, bool) for value in values)
    if not flags and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        column, present = np.full(rows, np.nan), np.zeros(rows, np.bool_)
        column[where], present[where] = [_as_float(value) for value in values], True
        table.columns[name], table.present[name] = column, present
        return
    cells: list[Any] = [None] * rows
    for at, value in zip(where.tolist(), values, strict=True):
        cells[at] = value if flags else _as_text(value)
    if flags:
        table.flags[name] = pl.Series(cells, dtype=pl.Boolean)
    else:
        table.texts[name] = pl.Series(cells, dtype=pl.String)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return float("inf") if value > 0 else float("-inf")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(_as_float(value))
    few = value and (isinstance(value[0], dict) or all(isinstance(one, (int, float)) for one in value))
    return json.dumps(value) if few else "[]"


def merged(one: Table, other: Table) -> Table:
    """The rows of both tables in order of their lines."""
    order = np.argsort(np.concatenate([one.lines, other.lines]), kind="stable")
    table = Table(np.concatenate([one.lines, other.lines])[order])
    for name in dict.fromkeys([*_names(one), *_names(other)]):
        if all(name not in side.texts and name not in side.flags for side in (one, other)):
            cells, masks = zip(*(_numbers(side, name) for side in (one, other)), strict=True)
            table.columns[name] = np.concatenate(cells)[order]
            table.present[name] = np.concatenate(masks)[order]
            continue
        parts = [_column(one, name), _column(other, name)]
        kinds = {part.dtype for part in parts if part.dtype != pl.Null}
        kind = next(iter(kinds)) if len(kinds) == 1 else pl.String
        add_series(table, name, pl.concat([part.cast(kind) for part in parts]).gather(pl.Series(order)))
    return table


def _numbers(table: Table, name: str) -> tuple[Floats, Mask]:
    if name in table.columns:
        return table.columns[name], table.present[name]
    return np.full(len(table.lines), np.nan), np.zeros(len(table.lines), np.bool_)


def _names(table: Table) -> list[str]:
    return [*table.columns, *table.texts, *table.flags]


def _column(table: Table, name: str) -> pl.Series:
    if name in table.columns:
        cells = pl.Series(table.columns[name])
        return cells if table.present[name].all() else cells.set(pl.Series(~table.present[name]), None)
    found = table.texts.get(name, table.flags.get(name))
    return pl.Series([None] * len(table.lines)) if found is None else found
