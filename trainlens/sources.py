"""Files: how they are found under a path, opened whatever their compression, and sorted into runs.

A Source is one file. Its bytes are read through it alone, so that parsers need not care for compression, and nothing
but this room touches the file system while a run is read.
"""

from __future__ import annotations

import gzip
import io
import lzma
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from trainlens.errors import InputError

HEAD = 64 << 10  # bytes that parsers see before they are chosen
BLOCK = 8 << 20

_MAGIC = ((b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"\xfd7zXZ\x00", "xz"))


@dataclass(frozen=True)
class Source:
    """One file: `path` opens it, `name` is how it is shown (relative to what the user named), `size` is on disk."""

    path: Path
    name: str
    size: int
    modified: float = 0.0  # Unix seconds

    @classmethod
    def of(cls, path: Path, name: str = "") -> Source:
        """The source of an existing file; InputError when it is not there."""
        try:
            status = path.stat()
        except OSError as problem:
            raise InputError(f"cannot be read ({problem.strerror})", where=str(path)) from problem
        return cls(path, name or path.name, status.st_size, status.st_mtime)

    def open(self) -> BinaryIO:
        """The decompressed bytes as a stream. Damage in a compressed file shows as EOFError, OSError, or LZMAError."""
        raw = self.path.open("rb")
        kind = compression(raw.read(6))
        raw.seek(0)
        if kind == "gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        if kind == "xz":
            return cast(BinaryIO, lzma.LZMAFile(raw))
        if kind == "zst":
            import zstandard

            return cast(
                BinaryIO, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
            )
        return raw

    def head(self, size: int = HEAD) -> bytes:
        """The first decompressed bytes, fewer where the file is short or damaged."""
        with self.open() as stream:
            try:
                return stream.read(size)
            except (OSError, EOFError, lzma.LZMAError):
                return b""

    def blocks(self, size: int = BLOCK, start: int = 0) -> Iterator[bytes]:
        """Decompressed bytes from `start` in blocks of `size`; ends quietly where a compressed file is cut off."""
        with self.open() as stream:
            try:
                stream.seek(start)
                while block := stream.read(size):
                    yield block
            except (EOFError, lzma.LZMAError, OSError):
                return

    @property
    def compressed(self) -> bool:
        with self.path.open("rb") as raw:
            return compression(raw.read(6)) != ""

    @contextmanager
    def mapped(self) -> Iterator[memoryview]:
        """All decompressed bytes as read-only memory: the file mapped; a copy only when it is compressed or empty."""
        if self.size == 0 or self.compressed:
            yield memoryview(b"".join(self.blocks()))
            return
        with self.path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            view = memoryview(mapping)
            try:
                yield view
            finally:
                view.release()


def compression(head: bytes) -> str:
    """ "gz", "zst", "xz" or "" from the first six bytes of a file."""
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")
