"""Files of rows as blocks of whole lines in UTF-8, however long a row is.

A byte-order mark is taken off, UTF-16 is turned into UTF-8, and a file may be read on from any line's first byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from trainlens.sources import Source

BLOCK = 4 << 20  # bytes; polars reads twice as much no faster

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Whole lines; `end` is the byte of the file behind them. `torn`: the file's last line, which lacks its end."""

    text: bytes
    end: int
    torn: bool = False


def encoding(head: bytes) -> str:
    """The encoding that the first bytes tell: utf-8 unless a byte-order mark says otherwise."""
    return _UTF16.get(head[:2], "utf-8")


def row_blocks(source: Source, start: int = 0, size: int = BLOCK) -> Iterator[RowBlock]:
    """The file from byte `start` on. A UTF-16 file cannot be read on: its `end` is always 0."""
    mark = source.head(4)
    name = encoding(mark)
    decoder = None if name == "utf-8" else codecs.getincrementaldecoder(name)("replace")
    skip = 0 if start else 3 if mark.startswith(codecs.BOM_UTF8) else 2 if decoder else 0
    left: list[bytes] = []  # pieces of a line that is not yet whole
    end = start
    for piece in source.blocks(size, start):
        end += len(piece)
        fresh = piece[skip:] if decoder is None else decoder.decode(piece[skip:]).encode()
        skip = 0
        cut = fresh.rfind(b"\n") + 1
        if cut:
            rest = fresh[cut:]
            yield RowBlock(b"".join([*left, fresh[:cut]]) if left else fresh[:cut], 0 if decoder else end - len(rest))
            left = [rest] if rest else []
        elif fresh:
            left.append(fresh)
    if left:
        yield RowBlock(b"".join(left), 0 if decoder else end, torn=True)
