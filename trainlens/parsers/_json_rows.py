"""Lines of JSON objects as columns: polars for the many, the standard library for the odd ones.

A block of whole lines is read by polars with the keys that are known by now. polars leaves out keys it was not told
of, so the colons of the block are counted against the cells that came out: a key more, a null, a key written twice
all show. Where they differ, or polars refuses, msgspec picks the lines that do not fit the known keys; those are read
one by one, teach new keys, and are put back in their places. So no good line is lost to a bad neighbour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec
import numpy as np
import polars as pl

from trainlens.model import Ints
from trainlens.parsers._tables import Table, add_cells, add_series, merged

Kind = Literal["number", "flag", "text", "list", "mixed"]
Shape = dict[str, "Kind | Shape"]

SAMPLES = 64  # lines of the first block from which keys are learnt beforehand
MOST_KEYS = 5000  # a file with more names its keys after something that is no metric; its lines are read one by one
_BARE = re.compile(rb"(?<=[:,\[\s])([+-]?)(nan|NAN|inf|Inf|INF|infinity|INFINITY)(?=\s*[,}\]])")


class Rows:
    """Reads the blocks of one file in order.

    `shape` are the keys known by now, `bad` the lines that were no objects, `nul` those that were NUL bytes.
    """

    def __init__(self, shape: Shape | None = None, line: int = 0) -> None:
        self.shape: Shape = shape or {}
        self.line = line  # lines read by now
        self.bad: list[int] = []
        self.nul: list[int] = []
        self._failures = 0  # blocks in a row that polars alone could not read
        self._made: tuple[str, dict[str, Any], Any] | None = None

    def read(self, block: bytes) -> Table:
        """The rows of a block of whole lines (the last may lack its line end)."""
        count = int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10)) + (not block.endswith(b"\n"))
        first, self.line = self.line + 1, self.line + count
        if not self.shape:
            self._sample(block)
        if self._failures < 2 and self.shape:
            frame = self._frame(block)
            if frame is not None and frame.height == count:
                table, cells = _flatten(frame, self.shape, np.arange(first, first + count))
                if cells is not None and cells == _colons(block):
                    self._failures = 0
                    return table
        return self._sorted_out(block, first)

    def one_by_one(self, rows: list[Any], lines: Ints) -> Table:
        """A table of decoded objects; what is no object must have been left out."""
        cells: dict[str, tuple[list[int], list[Any]]] = {}
        for at, row in enumerate(rows):
            self._learn(self.shape, row)
            for name, value in _leaves(row):
                where, values = cells.setdefault(name, ([], []))
                where.append(at)
                values.append(value)
        table = Table(lines)
        for name, (where, values) in cells.items():
            add_cells(table, name, np.array(where), values, len(rows))
        return table

    # ---- the two ways ---------------------------------------------------------------------------------------------

    def _sorted_out(self, block: bytes, first: int) -> Table:
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        fits = self._made_for_shape()[1] if self.shape else None
        plain: list[int] = []
        odd: list[int] = []
        rows: list[Any] = []
        for at, line in enumerate(lines):
            try:
                if fits is None:
                    raise msgspec.ValidationError
                fits(line)
                plain.append(at)
            except (msgspec.DecodeError, UnicodeDecodeError):
                row = decoded(line)
                if isinstance(row, dict):
                    odd.append(at)
                    rows.append(row)
                elif line.strip():
                    (self.bad if line.strip(b"\0 \r\t") else self.nul).append(first + at)
        self._failures += 1
        rest = b"\n".join([lines[at] for at in plain])
        frame = self._frame(rest) if plain else None
        if frame is None or frame.height != len(plain):  # the two readers differ over some line: trust neither
            every = sorted([*plain, *odd])
            kept = [(at, row) for at in every if isinstance(row := decoded(lines[at]), dict)]
            return self.one_by_one([row for _, row in kept], np.array([first + at for at, _ in kept], np.int64))
        many, cells = _flatten(frame, self.shape, np.array(plain, np.int64) + first)
        if not odd:
            self._failures *= int(cells is None or cells != _colons(rest))
            return many
        return merged(many, self.one_by_one(rows, np.array(odd, np.int64) + first))

    def _frame(self, block: bytes) -> pl.DataFrame | None:
        try:
            return pl.read_ndjson(block, schema=self._made_for_shape()[0])
        except (pl.exceptions.PolarsError, UnicodeDecodeError):
            return None

    # ---- the keys -------------------------------------------------------------------------------------------------

    def _sample(self, block: bytes) -> None:
        """Learns keys from a few lines, so that the first block too is read at once."""
        at = 0
        for place in range(0, len(block), max(len(block) // SAMPLES, 1)):
            at = block.rfind(b"\n", 0, place) + 1 if place else 0
            row = decoded(block[at : block.find(b"\n", at) if block.find(b"\n", at) >= 0 else len(block)])
            if isinstance(row, dict):
                self._learn(self.shape, row)

    def _learn(self, shape: Shape, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if value is None:
                continue
            known = shape.get(name)
            if isinstance(value, dict):
                if known is None and len(shape) < MOST_KEYS:
                    known = shape[name] = {}
                if isinstance(known, dict):
                    self._learn(known, value)
                    continue
                kind: Kind = "mixed"
            else:
                kind = _kind(value)
            if known is None:
                if len(shape) < MOST_KEYS:
                    shape[name] = kind
            elif known != kind:
                scalar = isinstance(known, str) and {known, kind} <= {"number", "flag", "text"}
                shape[name] = "text" if scalar else "mixed"

    def _made_for_shape(self) -> tuple[dict[str, Any], Any]:
        stamp = json.dumps(self.shape)
        if self._made is None or self._made[0] != stamp:
            decoder = msgspec.json.Decoder(_struct(self.shape))
            self._made = (stamp, _schema(self.shape), decoder.decode)
        return self._made[1], self._made[2]


def decoded(line: bytes) -> Any:
    """The value a line states, None where it is no JSON. NaN, Infinity and their short forms count as numbers."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    text = line.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if not _BARE.search(line):
        return None
    words = {b"n": b"NaN", b"i": b"Infinity"}
    mended = _BARE.sub(lambda found: found[1].replace(b"+", b"") + words[found[2][:1].lower()], line)
    try:
        return json.loads(mended.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _kind(value: object) -> Kind:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "list"


def _schema(shape: Shape) -> dict[str, Any]:
    plain = {"number": pl.Float64, "flag": pl.Boolean, "text": pl.String, "list": pl.String, "mixed": pl.Float64}
    return {
        name: pl.Struct(_schema(kind)) if isinstance(kind, dict) and kind else plain[cast(str, kind or "mixed")]
        for name, kind in shape.items()
    }


def _struct(shape: Shape) -> Any:
    """A type that accepts a line of exactly these keys and kinds; no line that has a mixed key."""
    plain: dict[str, Any] = {
        "number": float | None, "flag": bool | None, "text": str | float | bool | None, "list": list[Any] | None,
        "mixed": None,
    }  # fmt: skip
    fields = [
        (
            f"f{at}",
            (_struct(kind) | None) if isinstance(kind, dict) and kind else plain[cast(str, kind or "mixed")],
            None,
        )
        for at, kind in enumerate(shape.values())
    ]
    rename = {f"f{at}": name for at, name in enumerate(shape)}
    return msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=True)


def _colons(block: bytes) -> int:
    """The colons of a block; −1 where some are written as an escape and so cannot be counted."""
    if b"\\u003" in block:
        return -1
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == 58))


def _flatten(frame: pl.DataFrame, shape: Shape, lines: Ints) -> tuple[Table, int | None]:
    """The table of a frame, and how many colons its cells stand for; None where a text may hide an object."""
    table = Table(lines)
    colons = 0
    doubtful = False
    for name, key, series, kind in _branches(frame.to_dict(), shape, ""):
        logged = len(series) - series.null_count()
        colons += logged * (1 + key.count(":"))
        if isinstance(kind, dict) or not logged:
            continue
        if kind in ("text", "list"):
            colons += int(series.str.count_matches(":", literal=True).sum())
            wrong = series.str.contains(r"^[\[{]" if kind == "text" else r"^[^\[]|^$")
            doubtful |= bool(wrong.any())
        add_series(table, name, series)
    return table, None if doubtful else colons


def _branches(
    columns: Mapping[str, pl.Series], shape: Shape, above: str
) -> Iterator[tuple[str, str, pl.Series, Kind | Shape]]:
    """Path, key, cells and kind of every key, an object before its parts."""
    for key, kind in shape.items():
        series, path = columns[key], f"{above}{key}"
        yield path, key, series, kind
        if isinstance(kind, dict) and kind:
            parts = {part: series.struct.field(part) for part in kind}
            yield from _branches(parts, kind, path + "/")


def _leaves(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}/")
        elif value is not None:
            yield f"{above}{key}", value
