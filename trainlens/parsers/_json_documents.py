"""JSON documents (one value over many lines): arrays read row by row, so that a cut tail costs one row only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from trainlens.model import Ints, Value
from trainlens.parsers._json_rows import Rows, decoded
from trainlens.parsers._row_blocks import row_blocks
from trainlens.parsers._tables import Table
from trainlens.sources import Source

ROWS = 50_000  # of one table
_SPACE = " \t\r\n"


def document(source: Source) -> bytes:
    """The whole document in UTF-8, without a byte-order mark."""
    return b"".join(block.text for block in row_blocks(source))


def elements(content: bytes, at: int) -> tuple[list[int], list[int], bool]:
    """First and last byte (exclusive) of each element of the array that begins at byte `at`, and whether it ends."""
    if (raw := _at_once(content, at)) is not None:
        return raw
    text = content.decode("latin-1")  # bytes are counted, and the structure is ASCII
    scan = json.JSONDecoder().raw_decode
    starts: list[int] = []
    ends: list[int] = []
    at += 1
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if text[at : at + 1] == "]":
            return starts, ends, True
        if starts:
            if text[at : at + 1] != ",":
                return starts, ends, False
            at += 1
            while at < len(text) and text[at] in _SPACE:
                at += 1
        try:
            _, end = scan(text, at)
        except (ValueError, RecursionError):
            return starts, ends, False
        if end == len(text):  # a number may go on
            return starts, ends, False
        starts.append(at)
        ends.append(end)
        at = end


def _at_once(content: bytes, at: int) -> tuple[list[int], list[int], bool] | None:
    """The elements of an array in a document that is well-formed; None for one that msgspec refuses."""
    try:
        if not content[:at].strip():
            raw = msgspec.json.decode(content[at:], type=list[msgspec.Raw])
        else:
            parts = [bytes(part) for part in msgspec.json.decode(content, type=dict[str, msgspec.Raw]).values()]
            own = next((part for part in parts if part[:1] == b"[" and content.startswith(part, at)), None)
            if own is None:
                return None
            raw = msgspec.json.decode(own, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    starts: list[int] = []
    ends: list[int] = []
    end = at + 1
    for element in raw:  # between two of them stand blanks and a comma
        start = content.index(element, end)
        end = start + len(memoryview(element))
        starts.append(start)
        ends.append(end)
    return starts, ends, True


def sequence(content: bytes) -> tuple[list[int], list[int], bool]:
    """First and last byte (exclusive) of each of the objects that follow one another, and whether the last one ends."""
    text, scan, at = content.decode("latin-1"), json.JSONDecoder().raw_decode, 0
    starts: list[int] = []
    ends: list[int] = []
    while True:
        while at < len(text) and text[at] in _SPACE + ",":
            at += 1
        if at == len(text):
            return starts, ends, True
        try:
            _, end = scan(text, at)
        except (ValueError, RecursionError):
            return starts, ends, False
        if text[at] == "{":
            starts.append(at)
            ends.append(end)
        at = end


def tables(content: bytes, starts: list[int], ends: list[int]) -> Iterator[Table]:
    """The elements that are objects, as tables; their lines are those of the document."""
    breaks = np.flatnonzero(np.frombuffer(content, np.uint8) == 10)
    lines: Ints = np.searchsorted(breaks, np.array(starts, np.int64)).astype(np.int64) + 1
    rows = Rows()
    for first in range(0, len(starts), ROWS):
        pairs = list(zip(starts[first : first + ROWS], ends[first : first + ROWS], strict=True))
        table = rows.read(
            b"\n".join([content[start:end].replace(b"\n", b" ").replace(b"\r", b" ") for start, end in pairs])
        )
        table.lines = lines[table.lines - 1]
        yield table


def scalars(content: bytes, until: int | None = None) -> Iterator[tuple[str, Value]]:
    """The numbers, texts and flags of an object, those of nested objects joined by "."; nothing where it is none.

    Where the object is cut off behind byte `until`, what stands before is still read.
    """
    whole = decoded(content)
    if not isinstance(whole, dict) and until is not None:
        whole = decoded(content[:until].rstrip().rstrip(b",") + b"}")
    if isinstance(whole, dict):
        yield from flat(whole)


def flat(value: dict[str, Any], above: str = "") -> Iterator[tuple[str, Value]]:
    for name, cell in value.items():
        if isinstance(cell, dict):
            yield from flat(cell, f"{above}{name}.")
        elif isinstance(cell, (bool, int, str)) or (isinstance(cell, float) and np.isfinite(cell)):
            yield f"{above}{name}", cell
