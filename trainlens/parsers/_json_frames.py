"""Frames that polars made of lines of JSON: as tables, and held against the bytes they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainlens.later import Later
from trainlens.model import Ints
from trainlens.parsers._columns import Mask
from trainlens.parsers._tables import Table, add_series

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

Kind = Literal["number", "flag", "text", "list", "mixed"]
Shape = dict[str, "Kind | Shape"]


def colons(block: bytes) -> int:
    """The colons of a block but those before a null; one too many where one is written as an escape."""
    codes = np.frombuffer(block, np.uint8)
    count = all_colons(block)
    if b"n" in block:
        at = np.flatnonzero(codes == ord(":"))
        ends = np.minimum(at + 1, len(codes) - 1), np.minimum(at + 2, len(codes) - 1)
        null = (codes[ends[0]] == ord("n")) | ((codes[ends[0]] == ord(" ")) & (codes[ends[1]] == ord("n")))
        count -= int(np.count_nonzero(null))
    return count


def all_colons(block: bytes) -> int:
    """All of them."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord(":"))) + (b"\\u003" in block)


def _told(text: str) -> int:
    """How many of the colons of a key or text `colons` counts."""
    return text.count(":") - text.count(":n") - text.count(": n")


def misfits(block: bytes) -> tuple[Ints, Ints, Mask]:
    """First and last byte (exclusive) of each line, and which lines cannot be plain JSON objects."""
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(codes == 10)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    starts = np.append(0, ends[:-1] + 1)
    last = np.maximum(ends - 1, 0)
    last = np.where(codes[last] == 13, np.maximum(ends - 2, 0), last)
    odd = (codes[np.minimum(starts, len(codes) - 1)] != ord("{")) | (codes[last] != ord("}")) | (ends - starts < 2)
    capital = np.flatnonzero((codes == ord("N")) | (codes == ord("I")))
    capital = capital[capital < len(codes) - 2]
    second, third = codes[capital + 1], codes[capital + 2]
    words = ((second == ord("a")) & (third == ord("N"))) | ((second == ord("n")) & (third == ord("f")))
    odd[np.searchsorted(ends, capital[words])] = True
    return starts, ends, odd


def flatten(frame: pl.DataFrame, shape: Shape, lines: Ints) -> tuple[Table, int, bool]:
    """The table of a frame, how many colons its cells stand for, and whether a text may hide an object."""
    table = Table(lines)
    count = 0
    doubtful = False
    for name, key, series, kind in _branches(frame.to_dict(), shape, ""):
        logged = len(series) - series.null_count()
        count += logged * (1 + _told(key))
        if isinstance(kind, dict) or not logged:
            doubtful |= bool(logged and not kind)  # was an empty object when it was learnt
            continue
        if kind in ("text", "list"):
            count += int(_told_in(series).sum())
            wrong = series.str.contains(r"^[\[{]" if kind == "text" else r"^[^\[]|^$")
            doubtful |= bool(wrong.any())
        add_series(table, name, series)
    return table, count, doubtful


def _told_in(texts: pl.Series) -> pl.Series:
    counts = texts.str.count_matches(":", literal=True)
    if not counts.sum():
        return counts
    return counts - texts.str.count_matches(":n", literal=True) - texts.str.count_matches(": n", literal=True)


def twice(frame: pl.DataFrame, shape: Shape, texts: list[bytes]) -> Mask:
    """Which of the lines hold more than the rows that were made of them: a key that is written twice."""
    count = np.zeros(frame.height, np.int64)
    for _, key, series, kind in _branches(frame.to_dict(), shape, ""):
        count += series.is_not_null().to_numpy() * (1 + _told(key))
        if kind in ("text", "list"):
            count += _told_in(series).fill_null(0).to_numpy().astype(np.int64)
    again: Mask = np.array([colons(text) for text in texts], np.int64) != count
    return again


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
