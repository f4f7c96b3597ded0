"""Files of rows as blocks of whole lines in UTF-8, however long a row is.

A byte-order mark is taken off, UTF-16 (with or without a mark) is turned into UTF-8, lone carriage returns end lines
where a file has no others, and a file may be read on from any line's first byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from trainlens.sources import HEAD, Source

BLOCK = 4 << 20  # bytes; polars reads twice as much no faster

_SEEN = 512  # bytes looked at for UTF-16 without a mark
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Whole lines; `end` is the byte of the file behind them. `torn`: the file's last line, which lacks its end."""

    text: bytes
    end: int
    torn: bool = False


def encoding(head: bytes) -> str:
    """The encoding that the first bytes tell: utf-8 unless a mark, or a NUL in every other byte, says UTF-16."""
    if name := _UTF16.get(head[:2]):
        return name
    first = head[:_SEEN]
    if len(first) >= 8 and b"\0" in first:
        even, odd = first[0::2], first[1::2]
        if not odd.strip(b"\0") and b"\0" not in even:
            return "utf-16-le"
        if not even.strip(b"\0") and b"\0" not in odd:
            return "utf-16-be"
    return "utf-8"


def in_utf8(head: bytes) -> bytes:
    """The head of a file as `row_blocks` would give it."""
    name = encoding(head)
    text = head if name == "utf-8" else head.decode(name, "ignore").encode()
    text = text.removeprefix(codecs.BOM_UTF8)
    return text.replace(b"\r", b"\n") if _lone_returns(text) else text


def row_blocks(source: Source, start: int = 0, size: int = BLOCK) -> Iterator[RowBlock]:
    """The file from byte `start` on. A UTF-16 file cannot be read on: its `end` is always 0."""
    head = source.head(HEAD)
    name = encoding(head)
    returns = _lone_returns(head if name == "utf-8" else head.decode(name, "ignore").encode())
    decoder = None if name == "utf-8" else codecs.getincrementaldecoder(name)("replace")
    skip = 0 if start else 3 if head.startswith(codecs.BOM_UTF8) else 2 if head[:2] in _UTF16 else 0
    left: list[bytes] = []  # pieces of a line that is not yet whole
    end = start
    for piece in source.blocks(size, start):
        end += len(piece)
        fresh = piece[skip:] if decoder is None else decoder.decode(piece[skip:]).encode()
        fresh = fresh.replace(b"\r", b"\n") if returns else fresh
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


def _lone_returns(text: bytes) -> bool:
    """Whether lines end in carriage returns alone; one at the very end may be half of a line end."""
    return b"\n" not in text and b"\r" in text[:-1]
