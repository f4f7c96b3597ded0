"""The framing of the run files of W&B and SwanLab: records cut into chunks that never cross a page of 32 KiB, each with
a checksum.

It is the log format of LevelDB with two changes: seven bytes stand before it, and the checksum is the plain CRC-32 of
a chunk's kind and content, not masked.

- https://github.com/google/leveldb/blob/main/doc/log_format.md
- https://github.com/wandb/wandb/blob/main/core/pkg/leveldb/record.go
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from trainlens.model import Note
from trainlens.sources import BLOCK, Source

MAGIC = b":W&B"
HEADER = MAGIC + b"\xe1\xbe\x00"  # and the version of the framing
PAGE = 32 << 10
_CHUNK = struct.Struct("<IHB")  # CRC-32, length, kind
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(slots=True)
class Frames:
    """Gives the records of one file; afterwards it knows what was wrong with them.

    `end` is the byte behind the last whole record: where reading goes on when the file has grown.
    """

    source: Source
    end: int = len(HEADER)
    bad: int = 0  # chunks with a wrong checksum
    damaged: int = 0  # pages left because no chunk could be told, and records that lack a part
    first_bad: int = -1  # byte of the first of either
    cut: bool = False  # the file ends inside a record

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """The first byte of each record, and its content."""
        parts: list[bytes] = []
        first = -1  # where the record that `parts` belong to begins; -1: none is open
        for at, kind, content in self._chunks():
            if kind in (_FULL, _FIRST):
                if first >= 0:
                    self._damage(first)
                first, parts = at, []
            elif first < 0:
                if kind:  # the rest of a record whose beginning is lost
                    self._damage(at)
                continue
            if not kind:  # a hole
                first = -1
                continue
            parts.append(content)
            if kind in (_FULL, _LAST):
                self.end = at + _CHUNK.size + len(content)
                yield first, b"".join(parts)
                first = -1
        self.cut |= first >= 0

    def _chunks(self) -> Iterator[tuple[int, int, bytes]]:
        """Byte, kind and content of each chunk; kind 0 stands for a place that could not be read."""
        start = self.end - self.end % PAGE
        inside = self.end - start
        for block in self.source.blocks(BLOCK, start):
            for page in range(0, len(block), PAGE):
                yield from self._page(block[page : page + PAGE], start + page, inside)
                inside = 0
            start += len(block)

    def _page(self, page: bytes, base: int, at: int) -> Iterator[tuple[int, int, bytes]]:
        while PAGE - at >= _CHUNK.size:
            if len(page) - at < _CHUNK.size:  # the last page, which is shorter
                self.cut |= at < len(page)
                return
            stored, length, kind = _CHUNK.unpack_from(page, at)
            begin = at + _CHUNK.size
            if not _FULL <= kind <= _LAST or begin + length > PAGE:
                self._damage(base + at)
                yield base + at, 0, b""
                return
            content = page[begin : begin + length]
            if len(content) < length:
                self.cut = True
                return
            if zlib.crc32(content, zlib.crc32(bytes((kind,)))) == stored:
                yield base + at, kind, content
            else:
                self.bad += 1
                self._first(base + at)
                yield base + at, 0, b""
            at = begin + length

    def _damage(self, at: int) -> None:
        self.damaged += 1
        self._first(at)

    def _first(self, at: int) -> None:
        if self.first_bad < 0:
            self.first_bad = at


def remarks(frames: Frames, malformed: list[int], ended: bool) -> Iterator[Note]:
    """What was wrong with the records; `malformed` begin at these bytes, `ended`: one of them was that of the exit."""
    if frames.bad:
        message = f"{frames.bad:,} pieces with a wrong checksum were left out"
        yield Note("checksum", message, byte=frames.first_bad, count=frames.bad)
    if count := frames.damaged + len(malformed):
        first = min([*malformed, frames.first_bad] if frames.first_bad >= 0 else malformed)
        message = f"{count:,} damaged places, whose records were left out; the first is byte {first:,}"
        yield Note("damaged", message, byte=first, count=count)
    if not ended:
        where = "ends inside a record" if frames.cut else "ends"
        message = f"the file {where} without a record of the exit: the run goes on, was killed, or was copied early"
        yield Note("cut-off", message, byte=frames.end)
    elif frames.cut:
        yield Note("cut-off", "the file ends inside a record, behind that of the exit", byte=frames.end)
