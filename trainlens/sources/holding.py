"""Sources that are no files of their own: a stretch of a file, a member of a ZIP, a file far away. Part of `sources`.

What must lie on a disk to be read lies in one temporary directory, which goes when the process that made it ends. Its
files bear numbers: no name from an archive or a server ever names a file here.
"""

from __future__ import annotations

import atexit
import io
import itertools
import mmap
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from trainlens.errors import InputError

LARGEST = 64 << 30  # bytes that are put on the disk for one source, and never more than half of what is free
_COUNT = itertools.count(1)


class Held(Protocol):
    """Where the bytes of a source are. `whole`: open all of them; else the first 64 KiB will do."""

    def open(self, *, whole: bool = True) -> BinaryIO: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """`size` bytes of a file on disk, from `start` on."""

    file: Path
    start: int
    size: int

    def open(self, *, whole: bool = True) -> BinaryIO:  # noqa: ARG002  it costs nothing
        raw = self.file.open("rb", buffering=0)
        return cast(BinaryIO, _Window(raw, self.start, self.size))

    @contextmanager
    def mapped(self, *, growing: bool = False) -> Iterator[memoryview]:
        """The bytes as read-only memory; those of a `growing` file up to its present end."""
        before = self.start % mmap.ALLOCATIONGRANULARITY
        size = 0 if growing else before + self.size
        with (
            self.file.open("rb") as raw,
            mmap.mmap(raw.fileno(), size, access=mmap.ACCESS_READ, offset=self.start - before) as mapping,
            memoryview(mapping) as whole,
            whole[before:] as view,
        ):
            yield view


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A member of a ZIP archive, by its number in the table of contents."""

    file: Path
    number: int

    def open(self, *, whole: bool = True) -> BinaryIO:  # noqa: ARG002  only what is read is unpacked
        archive = zipfile.ZipFile(self.file)
        try:
            return cast(BinaryIO, archive.open(archive.infolist()[self.number]))
        finally:
            archive.close()  # the member keeps the file open for as long as it needs it


@dataclass(frozen=True, slots=True)
class Far:
    """A file at an address. Its head is fetched alone; when it is read it is fetched once, into `copy`."""

    address: str = field(repr=False)  # may hold a password or a token
    copy: Path
    head: Callable[[str], bytes]
    fetch: Callable[[str, Path], None]

    def open(self, *, whole: bool = True) -> BinaryIO:
        if not whole and not self.copy.exists():
            return io.BytesIO(self.head(self.address))
        if not self.copy.exists():
            part = self.copy.with_suffix(f".{os.getpid()}")
            self.fetch(self.address, part)
            part.replace(self.copy)
        return self.copy.open("rb", buffering=0)


class _Window(io.RawIOBase):
    """A part of an open file as a file."""

    def __init__(self, raw: io.FileIO, start: int, size: int) -> None:
        self.raw, self.start, self.size, self.at = raw, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self.at, 2: self.size}[whence]
        self.at = max(0, base + offset)
        return self.at

    def readinto(self, into: object) -> int:
        view = memoryview(into).cast("B")  # type: ignore[arg-type]
        self.raw.seek(self.start + self.at)
        count = self.raw.readinto(view[: max(0, min(len(view), self.size - self.at))]) or 0
        self.at += count
        return count

    def close(self) -> None:
        self.raw.close()
        super().close()


# ---- the temporary directory -----------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    folder, maker = Path(tempfile.mkdtemp(prefix="trainlens-")), os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # not where a copy of the process ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def fresh(ending: str = "") -> Path:
    """The path of a new file in the temporary directory."""
    return _folder() / f"{next(_COUNT)}{ending}"


def room() -> int:
    """How many bytes one source may take on the disk."""
    return min(LARGEST, shutil.disk_usage(_folder()).free // 2)


def spooled(pieces: Iterable[bytes], name: str, ending: str = "") -> Stretch:
    """The pieces as a file in the temporary directory; InputError where they are too many."""
    path, size, most = fresh(ending), 0, room()
    with path.open("wb", buffering=0) as file:
        for piece in pieces:
            size += len(piece)
            if size > most:
                file.close()
                path.unlink()
                what = f"holds more than the {most >> 30:,} GiB that may be put on the temporary disk"
                raise InputError(what, where=name, hint="Unpack it yourself, or set TMPDIR to a larger disk")
            file.write(piece)
    return Stretch(path, 0, size)
