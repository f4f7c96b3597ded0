"""One file, whatever holds or compresses it. Part of `sources`."""

from __future__ import annotations

import mmap
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from trainlens.errors import InputError
from trainlens.model import Note
from trainlens.sources.holding import Far, Held, Stretch, ZipMember, room
from trainlens.sources.unpacking import MAGIC, compression, unpacked

HEAD = 64 << 10  # bytes that parsers see before they are chosen
BLOCK = 8 << 20
_IN_MEMORY = 64 << 20  # bytes; what is larger when it is unpacked goes to a temporary file
_ZIP_PIECE = 64 << 10
_OF_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)  # how its reader fails


@dataclass(frozen=True)
class Source:
    """One file: `path` is where it lies or would lie if it were unpacked, `name` is how it is shown (relative to what
    the user named), `size` is that of its bytes before any decompression. `held` says where the bytes are when `path`
    is no file. `faults` gathers, by kind, what was wrong with the bytes themselves, as far as they were read.
    """

    path: Path
    name: str
    size: int
    modified: float = 0.0  # Unix seconds
    held: Held | None = None
    patterns: tuple[str, ...] = ()  # of the user, for lines that no parser knows
    faults: dict[str, Note] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, path: Path, name: str = "") -> Source:
        """The source of an existing file; InputError when it is not there."""
        try:
            status = path.stat()
        except OSError as problem:
            raise InputError(f"cannot be read ({problem.strerror})", where=str(path)) from problem
        return cls(path, name or path.name, status.st_size, status.st_mtime)

    def head(self, size: int = HEAD) -> bytes:
        """The first decompressed bytes, fewer where the file is short or damaged."""
        with self._open(whole=False) as raw:
            # A head that was fetched alone ends early: no fault of the file.
            return next(self._blocks(raw, size, 0, self._fault if self.held is None else lambda _: None), b"")

    def blocks(self, size: int = BLOCK, start: int = 0) -> Iterator[bytes]:
        """Decompressed bytes from `start` in blocks of `size`, up to where a compressed file is cut off or damaged."""
        with self._open() as raw:
            yield from self._blocks(raw, size, start, self._fault)

    @property
    def compressed(self) -> bool:
        """Whether its bytes must be unpacked: then a reading cannot go on later from some byte."""
        if self._stretch() is None:
            return True
        with self._open() as raw:
            return compression(raw.read(MAGIC)) != ""

    @contextmanager
    def mapped(self) -> Iterator[memoryview]:
        """All decompressed bytes as read-only memory: the file mapped; a copy of it when it must be unpacked."""
        stretch = self._stretch()
        if stretch is not None and stretch.size and not self.compressed:
            with stretch.mapped(growing=self.held is None) as view:
                yield view
            return
        with tempfile.TemporaryFile() as copy:
            whole = self._copied(cast(BinaryIO, copy))
            if whole is not None:
                yield memoryview(whole)
                return
            with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as mapping, memoryview(mapping) as view:
                yield view

    # ---- bytes as they are ---------------------------------------------------------------------------------------

    def _open(self, *, whole: bool = True) -> BinaryIO:
        if self.held is not None:
            return self.held.open(whole=whole)
        return self.path.open("rb", buffering=0)

    def _stretch(self) -> Stretch | None:
        """Where on a disk its bytes stand as they are; None within a ZIP."""
        if isinstance(self.held, Far):
            self.held.open().close()
            return Stretch(self.held.copy, 0, self.held.copy.stat().st_size)
        if self.held is None:
            return Stretch(self.path, 0, self.size)
        return self.held if isinstance(self.held, Stretch) else None

    def _blocks(self, raw: BinaryIO, size: int, start: int, tell: Callable[[Note], None]) -> Iterator[bytes]:
        try:
            kind = compression(raw.read(MAGIC))
            raw.seek(0)
            if not kind and start:
                raw.seek(start)
                start = 0
            pieces = unpacked(raw, kind, tell) if kind else self._plain(raw, size)
            yield from _joined(pieces, size, start)
        except _OF_ZIP as problem:
            tell(Note("damaged", f"is damaged in its archive ({problem}): what came before is read"))

    def _plain(self, raw: BinaryIO, size: int) -> Iterator[bytes]:
        if not isinstance(self.held, ZipMember):
            yield from iter(lambda: raw.read(size), b"")
            return
        at = raw.tell()
        try:
            while piece := raw.read(_ZIP_PIECE):
                at += len(piece)
                yield piece
        except _OF_ZIP:
            with self._open() as again:  # what its reader kept back of the last piece
                again.seek(at)
                yield from iter(lambda: again.read(1), b"")
            raise

    def _copied(self, copy: BinaryIO) -> bytes | None:
        """All bytes; None when they are so many that they were written to `copy`."""
        kept: list[bytes] = []
        size, most = 0, room()
        for block in self.blocks():
            size += len(block)
            if size > most:
                self._fault(Note("limit", f"only the first {most:,} bytes are read: the temporary disk is too small"))
                break
            kept.append(block)
            if size > _IN_MEMORY:
                copy.writelines(kept)
                kept.clear()
        if size <= _IN_MEMORY:
            return b"".join(kept)
        copy.writelines(kept)
        copy.flush()
        return None

    def _fault(self, note: Note) -> None:
        self.faults.setdefault(note.kind, note)


def _joined(pieces: Iterator[bytes], size: int, skip: int) -> Iterator[bytes]:
    """Blocks of `size` bytes; what is yielded before damage is not lost with it."""
    kept: list[bytes] = []
    have = 0
    problem: Exception | None = None
    while True:
        try:
            piece = next(pieces, b"")
        except (*_OF_ZIP, OSError) as found:
            problem, piece = found, b""
        if not piece:
            break
        if skip:
            piece, skip = piece[skip:], max(0, skip - len(piece))
        while have + len(piece) >= size:
            cut = size - have
            yield b"".join([*kept, piece[:cut]]) if kept else piece[:cut]
            kept, have, piece = [], 0, piece[cut:]
        if piece:
            kept.append(piece)
            have += len(piece)
    if kept:
        yield b"".join(kept)
    if problem is not None:
        raise problem
