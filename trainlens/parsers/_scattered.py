"""Rows that come one by one, each with a few cells of many columns, kept as columns: 16 bytes a cell."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainlens.model import Floats, Ints, Points

Cells = dict[str, float]
MEDIA = "_type"  # the key that trackers put into a picture, a table or a histogram
NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def numbers(row: Mapping[str, Any], above: str = "") -> Cells:
    """The numbers of a logged object, those of inner objects under names joined by "/"; none of a picture or table."""
    found: Cells = {}
    if MEDIA in row:
        return found
    for name, value in row.items():
        if isinstance(value, dict):
            found |= numbers(value, f"{above}{name}/")
        elif isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1000):
            found[above + name] = float(value)
        elif isinstance(value, str) and value in NON_FINITE:
            found[above + name] = NON_FINITE[value]
    return found


@dataclass(slots=True)
class Column:
    """The cells of one name: in which row each stands, and its number."""

    row: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class Scattered:
    """Rows with their steps, times (Unix seconds, NaN unknown) and places (-1 none), and the columns of their cells."""

    step: array[int] = field(default_factory=lambda: array("q"))
    time: array[float] = field(default_factory=lambda: array("d"))
    origin: array[int] = field(default_factory=lambda: array("q"))
    cells: int = 0
    _columns: dict[str, Column] = field(default_factory=dict)
    _names: tuple[str, ...] = ()  # of the rows that wait to become columns
    _waiting: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name, in the order in which they first came."""
        if self._waiting:
            end = len(self.step)
            rows = range(end - len(self._waiting), end)
            for name, cells in zip(self._names, zip(*self._waiting, strict=True), strict=True):
                column = self._columns.setdefault(name, Column())
                column.row.extend(rows)
                column.value.extend(cells)
            self._waiting = []
        return self._columns

    def __len__(self) -> int:
        return len(self.step)

    def add(self, cells: Mapping[str, float], step: int, time: float, origin: int) -> None:
        names = tuple(cells)
        if names != self._names:
            _ = self.columns  # those that wait have other names
            self._names = names
        self.step.append(step)
        self.time.append(time)
        self.origin.append(origin)
        self.cells += len(cells)
        self._waiting.append(tuple(cells.values()))

    def add_block(self, columns: Mapping[str, Floats], step: Ints, time: Floats, origin: array[int]) -> None:
        """Rows that all have the same cells."""
        known, begin = self.columns, len(self.step)
        rows = array("q", range(begin, begin + len(step)))
        self.step.frombytes(step.tobytes())
        self.time.frombytes(time.tobytes())
        self.origin.extend(origin)
        self.cells += len(columns) * len(step)
        for name, cells in columns.items():
            column = known.setdefault(name, Column())
            column.row.extend(rows)
            column.value.frombytes(cells.tobytes())

    def steps(self) -> Ints:
        return np.array(self.step, np.int64)

    def times(self) -> Floats:
        return np.array(self.time, np.float64)

    def full(self, name: str) -> Floats:
        """A cell for each row, NaN where the column has none."""
        cells = np.full(len(self.step), np.nan)
        cells[np.array(self.columns[name].row, np.int64)] = self.columns[name].value
        return cells

    def points(self, step: Ints | None, without: Collection[str] = (), run: str = "") -> Iterator[Points]:
        """The points of all columns but some, at these steps; columns of the same rows share their arrays."""
        times, places = self.times(), np.array(self.origin, np.int64)
        origin = places if (places >= 0).any() else None
        clock = times if np.isfinite(times).any() else None
        shared: dict[bytes, tuple[Ints | None, Floats | None, Ints | None]] = {}
        for name, column in self.columns.items():
            if name in without:
                continue
            key = column.row.tobytes() if len(column.row) < len(self.step) else b""
            if key not in shared:
                at = np.array(column.row, np.int64) if key else slice(None)
                shared[key] = (
                    None if step is None else step[at],
                    None if clock is None else clock[at],
                    None if origin is None else origin[at],
                )
            own_step, own_time, own_origin = shared[key]
            yield Points(name, own_step, np.array(column.value, np.float64), own_time, origin=own_origin, run=run)


def moments(samples: Floats, step: Ints, time: Floats) -> Ints | None:
    """The step of each sample, by its time; None where there is no history to tell it. `step` and `time` are in order.

    All times are Unix seconds.
    """
    known = np.isfinite(time)
    if not known.any():
        return None
    clock = np.maximum.accumulate(time[known])
    found: Ints = np.floor(np.interp(samples, clock, step[known])).astype(np.int64)
    return found
