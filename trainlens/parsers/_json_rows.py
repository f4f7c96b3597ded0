"""Lines of JSON objects as columns: polars for the many, the standard library for the odd ones.

A block of whole lines is read by polars with the keys that are known by now. polars leaves out keys it was not told
of, and of a key written twice in an object it keeps the first (Python's json, whose rule is followed, the last). So the
colons of the block, but those before a null, are counted against the cells that came out: a key more and a key twice
both show. Where they differ or polars refuses, the lines that do not fit are taken out, read one by one, teach new
keys, and are put back in their places. So no good line is lost to a bad neighbour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from trainlens.later import Later
from trainlens.model import Ints
from trainlens.parsers._json_frames import Kind, Shape, all_colons, colons, flatten, misfits, twice
from trainlens.parsers._tables import Table, add_cells, merged

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

SAMPLES = 512  # lines of the first block from which keys are learnt beforehand
MOST_KEYS = 5000  # a file with more names its keys after something that is no metric; its lines are read one by one
_DEEPEST, _UNFIT = 32, re.compile(r'["\\\x00-\x1f\ud800-\udfff]')  # keys that are no field: as with too many
_BARE = re.compile(rb"(?<=[:,\[\s])([+-]?)(nan|NAN|inf|Inf|INF|infinity|INFINITY)(?=\s*[,}\]])")

_NEXT, _SCAN = re.compile(rb"\}[\s,]*\{"), json.JSONDecoder().raw_decode


class Rows:
    """Reads the blocks of one file in order.

    `shape` are the keys known by now, `bad` the lines that were no objects, `nul` those that were NUL bytes.
    """

    def __init__(self, shape: Shape | None = None, line: int = 0) -> None:
        self.shape: Shape = shape or {}
        self.line = line  # lines read by now
        self.bad: list[int] = []
        self.nul: list[int] = []
        self._way = 0
        self._made: tuple[str, dict[str, Any], Any] | None = None

    def read(self, block: bytes) -> Table:
        """The rows of a block of whole lines (the last may lack its line end)."""
        count = int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10)) + (not block.endswith(b"\n"))
        first, self.line = self.line + 1, self.line + count
        if not self.shape:
            self._sample(block)
        ways = (self._at_once, self._without_misfits, self._line_by_line)
        while True:
            table, odd = ways[self._way](block, np.arange(first, first + count, dtype=np.int64))
            if table is not None:
                self._way -= self._way > 0 and not odd  # the next block may be clean again
                return table
            self._way += 1

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

    # ---- three ways to read a block, each slower than the one before and bearing more: the table (None: no way) and
    # how many lines had to be read one by one ---------------------------------------------------------------------

    def _at_once(self, block: bytes, lines: Ints) -> tuple[Table | None, int]:
        return self._proven(block, lines), 0

    def _without_misfits(self, block: bytes, lines: Ints) -> tuple[Table | None, int]:
        """Takes out the lines that cannot be plain JSON objects: other first or last letters, NaN, Infinity."""
        starts, ends, odd = misfits(block)
        at = np.flatnonzero(odd)
        edges = [0, *(edge for one in at.tolist() for edge in (int(starts[one]), int(ends[one]) + 1)), len(block)]
        rest = b"".join([block[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True)])
        many = self._proven(rest, lines[~odd]) if rest else None
        if many is None:
            return None, len(at)
        texts = [block[starts[one] : ends[one]] for one in at.tolist()]
        return self._joined(many, texts, lines[odd]), len(at)

    def _line_by_line(self, block: bytes, lines: Ints) -> tuple[Table, int]:
        """msgspec says of each line whether it fits the known keys."""
        texts = block.split(b"\n")[: len(lines)]
        fits = self._made_for_shape()[1].decode
        odd = np.zeros(len(texts), np.bool_)
        for at, text in enumerate(texts):
            try:
                fits(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                odd[at] = True
        plain = [texts[at] for at in np.flatnonzero(~odd).tolist()]
        frame = self._frame(b"\n".join(plain)) if plain else None
        if frame is None or frame.height != len(plain):  # the two readers differ over some line: trust neither
            odd[:] = True
            return self._joined(Table(lines[:0]), texts, lines), len(texts)
        again = twice(frame, self.shape, plain)
        many = flatten(frame, self.shape, lines[~odd])[0]
        if again.any():
            many = many.keep(~again)
            odd[np.flatnonzero(~odd)[again]] = True
        return self._joined(many, [texts[at] for at in np.flatnonzero(odd).tolist()], lines[odd]), int(odd.sum())

    def _proven(self, block: bytes, lines: Ints) -> Table | None:
        """The rows of a block that polars reads, if it is sure that no key was left out."""
        frame = self._frame(block)
        if frame is None or frame.height != len(lines):
            return None
        table, count, doubtful = flatten(frame, self.shape, lines)
        if count != all_colons(block) and count != colons(block):
            return None
        if doubtful:
            try:
                self._made_for_shape()[1].decode_lines(block)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return None
        return table

    def _joined(self, many: Table, texts: list[bytes], lines: Ints) -> Table:
        """The table with the rows of further lines in their places."""
        rows: list[Any] = []
        kept: list[int] = []
        for text, line in zip(texts, lines.tolist(), strict=True):
            if found := rows_of(text):
                rows += found
                kept += [line] * len(found)
            elif text.strip():
                (self.bad if text.strip(b"\0 \r\t") else self.nul).append(line)
        return merged(many, self.one_by_one(rows, np.array(kept, np.int64))) if rows else many

    def _frame(self, block: bytes) -> pl.DataFrame | None:
        try:
            return pl.read_ndjson(block, schema=self._made_for_shape()[0]) if self.shape else None
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

    def _learn(self, shape: Shape, row: Mapping[str, Any], depth: int = 0) -> None:
        for name, value in row.items():
            if value is None or _UNFIT.search(name) or depth > _DEEPEST:
                continue
            known = shape.get(name)
            if isinstance(value, dict):
                if known is None and len(shape) < MOST_KEYS:
                    known = shape[name] = {}
                if isinstance(known, dict):
                    self._learn(known, value, depth + 1)
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
            self._made = (stamp, _schema(self.shape), msgspec.json.Decoder(_struct(self.shape)))
        return self._made[1], self._made[2]


def decoded(line: bytes) -> Any:
    """The value a line states, None where it is no JSON. NaN, Infinity and their short forms count as numbers."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:  # nested a thousand deep: no row of metrics
        return None
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


def rows_of(line: bytes) -> list[dict[str, Any]]:
    """The object of a line; several where a logger forgot the line end between them; none where it holds aught else."""
    row = decoded(line)
    if row is not None or not _NEXT.search(line):
        return [row] if isinstance(row, dict) else []
    text, at, found = line.decode("utf-8-sig", "replace").strip(), 0, []
    while at < len(text):
        try:
            row, at = _SCAN(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(row, dict):
            return []
        found.append(row)
        at += len(text[at : at + 64]) - len(text[at : at + 64].lstrip(" \t,"))
    return found


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
    return msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=True, gc=False)


def _leaves(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}/")
        elif value is not None:
            yield f"{above}{key}", value
