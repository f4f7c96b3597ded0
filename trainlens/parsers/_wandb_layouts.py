"""Rows of W&B that repeat the layout of one before, read by a pattern made from it: a tenth of the time of the parts.

Training loops log the same numbers row by row, so of the next record only lengths, counters and numbers differ. What
does not fit, such as a NaN, a text or a new metric, is left to the reader of single fields.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trainlens.later import Later
from trainlens.model import Floats, Ints
from trainlens.parsers._event_record import fields

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

MOST = 8  # patterns kept for a file; the one that fitted last is tried first
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_NUMBER = rb"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_HISTORY, _ITEM, _STEP, _KEY, _NESTED, _VALUE = 2, 1, 2, 1, 2, 16


@dataclass(frozen=True, slots=True)
class Layout:
    """The pattern of a record, the names of its numbers in order, and whether its last group is the step."""

    pattern: re.Pattern[bytes]
    names: tuple[str, ...]
    stepped: bool


@dataclass(slots=True)
class Block:
    """Rows of one layout, one behind the other, that wait to be turned into columns together."""

    layout: Layout
    rows: list[bytes] = field(default_factory=list)
    steps: list[bytes] = field(default_factory=list)
    origin: array[int] = field(default_factory=lambda: array("q"))

    def add(self, groups: tuple[bytes, ...], at: int) -> None:
        if self.layout.stepped:
            self.steps.append(groups[-1])
            groups = groups[:-1]
        self.rows.append(b",".join(groups))
        self.origin.append(at)

    def columns(self) -> dict[str, Floats]:
        """The numbers by name, in the order of the rows."""
        names = self.layout.names
        try:
            form = {f"c{at}": pl.Float64 for at in range(len(names))}
            frame = pl.read_csv(b"\n".join(self.rows), has_header=False, schema=form)
        except pl.exceptions.PolarsError:
            frame = pl.DataFrame()
        if frame.height == len(self.rows) and not any(column.null_count() for column in frame):
            return {name: frame[f"c{at}"].to_numpy() for at, name in enumerate(names)}
        cells = [[_as_number(one) for one in row.split(b",")] for row in self.rows]
        return {name: np.array([row[at] for row in cells], np.float64) for at, name in enumerate(names)}

    def own_steps(self) -> Ints:
        """The steps beside the numbers; protobuf leaves a step of 0 out."""
        if not self.layout.stepped:
            return np.zeros(len(self.rows), np.int64)
        return np.array([_varint(raw) for raw in self.steps], np.int64)


def _as_number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:  # such as "1-2", which no writer writes
        return float("nan")


@dataclass(slots=True)
class Layouts:
    """The layouts of a file."""

    known: list[Layout] = field(default_factory=list)
    made: int = 0

    def fit(self, payload: bytes) -> tuple[Layout, tuple[bytes, ...]] | None:
        """The layout of a row and the texts of its numbers, behind them the bytes of its step; None where none fits."""
        for at, layout in enumerate(self.known):
            if found := layout.pattern.fullmatch(payload):
                if at:
                    self.known.insert(0, self.known.pop(at))
                return layout, found.groups()
        return None

    def learn(self, payload: bytes, names: dict[bytes, tuple[str, ...]]) -> None:
        """Takes the layout of a row that was read; `names` are those known by the bytes of their keys."""
        if self.made >= 4 * MOST:
            return
        self.made += 1
        if layout := _layout(payload, names):
            self.known = [layout, *self.known[: MOST - 1]]


def _layout(payload: bytes, known: dict[bytes, tuple[str, ...]]) -> Layout | None:
    pattern, names, stepped = b"", list[str](), False
    at = 0
    for number, wire, start, end in fields(payload, 0, len(payload)):
        if number == _HISTORY and wire == 2:
            pattern += rb"\x12" + _VARINT
            inner = start
            for part, kind, begin, stop in fields(payload, start, end):
                if part == _ITEM and kind == 2:
                    if stepped:  # the groups are told apart by their order: the step comes last
                        return None
                    found = _item(payload[begin:stop], known)
                    if found is None or stop - begin > 127:
                        return None
                    pattern += rb"\n[\x00-\x7f]" + found[1]
                    names.append(found[0])
                elif part == _STEP and kind == 2 and not stepped:
                    stepped = stop - begin > 1 and payload[begin] == 8
                    pattern += rb"\x12[\x00-\x7f]\x08(" + _VARINT + rb")" if stepped else re.escape(payload[inner:stop])
                else:
                    pattern += re.escape(payload[inner:stop])
                inner = stop
        elif wire == 0:
            key = 1 if number < 16 else 2
            pattern += re.escape(payload[at : at + key]) + _VARINT
        else:
            pattern += re.escape(payload[at:end])
        at = end
    if not names or len(set(names)) < len(names) or len(pattern) > 1 << 16:
        return None
    return Layout(re.compile(pattern, re.DOTALL), tuple(names), stepped)


def _item(item: bytes, known: dict[bytes, tuple[str, ...]]) -> tuple[str, bytes] | None:
    """Name and pattern of an item that is a number in JSON; None for any other."""
    key, value = b"", b""
    at = 0
    for number, wire, start, end in fields(item, 0, len(item)):
        if number in (_KEY, _NESTED) and wire == 2 and not value:
            key += item[at:end]
        elif number == _VALUE and wire == 2 and not value:
            value = item[start:end]
        else:
            return None
        at = end
    parts = known.get(key)
    if not parts or not re.fullmatch(_NUMBER, value) or len(value) > 127:
        return None
    return "/".join(parts), re.escape(key) + rb"\x82\x01[\x00-\x7f]" + _NUMBER


def _varint(raw: bytes) -> int:
    value = 0
    for place, byte in enumerate(raw):
        value |= (byte & 127) << 7 * place
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value
