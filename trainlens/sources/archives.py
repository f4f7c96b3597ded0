"""TAR and ZIP archives of logs, read as the directories they hold. Part of `sources`.

Members are read where they stand: within the archive, or, where it is compressed as a whole, within one temporary file.
Nothing is ever written to a path that an archive names. Links, devices and members with names that lead outside are
left out. A ZIP that is something else (weights, a wheel, a document) is known by its table of contents and left alone.

Formats: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html (ustar, pax),
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

from __future__ import annotations

import re
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO, Literal, cast

from trainlens.errors import InputError
from trainlens.model import SourceReport
from trainlens.sources.holding import Held, Stretch, ZipMember, fresh, room, spooled
from trainlens.sources.source import Source
from trainlens.sources.unpacking import FREE, RATIO

NAMED = re.compile(r"\.(tar|tgz|tbz2?|txz|tzst|zip|tar\.\w{2,4})$", re.I)
MEMBERS = 20_000

_BLOCK = 1 << 20
_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
_SQLITE = b"SQLite format 3\0"
_ARCHIVE = re.compile(rb"PK\x03\x04|PK\x05\x06|.{257}ustar", re.S)
# Weights and arrays: what a log never is, and what is often large.
_WEIGHTS = re.compile(r"\.(pt|pth|ckpt|bin|safetensors|distcp|npz|npy|gguf|onnx|h5|pkl|msgpack|arrow|parquet)$", re.I)
_OTHERS = (
    (re.compile(r"\.dist-info/WHEEL$"), "a Python wheel"),
    (re.compile(r"(^|/)data\.pkl$"), "a checkpoint of PyTorch"),
    (re.compile(r"^\[Content_Types\]\.xml$"), "an office document"),
    (re.compile(r"^META-INF/MANIFEST\.MF$"), "a Java archive"),
    (re.compile(r"^(model\.weights\.h5|AndroidManifest\.xml)$"), "a packed model or program"),
    (re.compile(r"^(mimetype|META-INF/container\.xml)$"), "a document"),
)


def is_archive(source: Source) -> bool:
    return _is_tar(head := source.head(512)) or head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def members(source: Source) -> tuple[list[Source], list[SourceReport]] | None:
    """The files in an archive and what of it is not read, named from within; None for any other file."""
    head = source.head(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _of_zip(source)
    if _is_tar(head):
        return _of_tar(source)
    return None


def _is_tar(head: bytes) -> bool:
    if len(head) < 512 or not head[:100].strip(b"\0"):
        return False
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")  # the checksum of the header
    except tarfile.HeaderError:
        return False
    return True


@dataclass
class _Contents:
    """What was found in one archive."""

    archive: Source
    taken: dict[str, Source] = field(default_factory=dict)  # of two members of one name the later is the file
    unread: list[SourceReport] = field(default_factory=list)
    count: int = 0
    odd: int = 0  # links, devices, names that lead outside

    def add(self, name: str, size: int, modified: float, held: Held) -> None:
        source = Source(self.archive.path / name, name, size, modified, held)
        head = source.head(512)
        if head.startswith(_SQLITE):  # a library of its own reads it, and wants a file
            copy = spooled(source.blocks(), name, ".db").file
            source = Source(copy, name, size, modified)
        elif _ARCHIVE.match(head):
            self.left_out(name, "an archive within the archive, or weights: unpack it first", size)
            return
        self.taken[name] = source

    def left_out(self, name: str, reason: str, size: int = 0, *, missing: bool = False) -> None:
        state: Literal["not-read", "ignored"] = "not-read" if missing else "ignored"
        self.unread.append(SourceReport(name, "", bytes=size, state=state, reason=reason))

    def result(self) -> tuple[list[Source], list[SourceReport]]:
        if self.odd:
            reason = f"{self.odd:,} links, devices or names that lead outside of the archive were left out"
            self.left_out(self.archive.path.name, reason)
        for note in self.archive.faults.values():
            self.left_out(self.archive.path.name, note.message, self.archive.size, missing=True)
        return list(self.taken.values()), self.unread

    def full(self) -> bool:
        self.count += 1
        if self.count <= MEMBERS:
            return False
        self.left_out(self.archive.path.name, f"only the first {MEMBERS:,} members are read", missing=True)
        return True


def _inside(name: str) -> str:
    """A member's name as a path below the archive; "" where it would lead outside or is hidden."""
    path = PurePosixPath(name.replace("\\", "/").removeprefix("./"))
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts or "\0" in name or not parts or re.match(r"[A-Za-z]:", parts[0]):
        return ""
    return "/".join(parts)


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


# ---- TAR -------------------------------------------------------------------------------------------------------------


def _of_tar(source: Source) -> tuple[list[Source], list[SourceReport]]:
    found = _Contents(source)
    if source.compressed:
        _streamed(source, found)
        return found.result()
    stretch = source.held if isinstance(source.held, Stretch) else Stretch(source.path, 0, source.size)
    try:
        with tarfile.open(fileobj=stretch.open(), mode="r:", ignore_zeros=True, errorlevel=0) as archive:
            for member, name in _files(archive, found):
                start = stretch.start + member.offset_data
                whole = max(0, min(member.size, source.size - member.offset_data))
                if whole < member.size:
                    reason = f"the archive is cut off: {member.size - whole:,} bytes of its last member are missing"
                    found.left_out(source.path.name, reason, missing=True)
                found.add(name, whole, float(member.mtime), Stretch(stretch.file, start, whole))
    except (tarfile.TarError, EOFError, ValueError) as problem:
        if not any(report.path == source.path.name for report in found.unread):
            reason = f"the archive is damaged ({problem}): what came before is read"
            found.left_out(source.path.name, reason, missing=True)
    return found.result()


def _streamed(source: Source, found: _Contents) -> None:
    """The members of a compressed archive in one go, put one behind the other into a temporary file."""
    path, at, most = fresh(".tar"), 0, room()
    with path.open("wb") as file:
        stream = _Stream(source.blocks(_BLOCK))
        held: list[tuple[str, int, int, float]] = []
        try:
            with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", bufsize=_BLOCK) as archive:
                for member, name in _files(archive, found):
                    if _WEIGHTS.search(name):
                        found.left_out(name, "weights or a table of its own, no log", member.size)
                        continue
                    begin, left = at, member.size
                    held.append((name, begin, 0, float(member.mtime)))
                    # Not by extractfile(): of a member that is cut off it would give nothing.
                    while at < most and (piece := cast(BinaryIO, archive.fileobj).read(min(left, _BLOCK))):
                        file.write(piece)
                        at += len(piece)
                        left -= len(piece)
                        held[-1] = (name, begin, at - begin, float(member.mtime))
                    if at >= most:
                        reason = f"holds more than the {most >> 30:,} GiB that may be put on the temporary disk"
                        found.left_out(source.path.name, reason, missing=True)
                        break
        except (tarfile.TarError, EOFError, ValueError) as problem:
            if not source.faults:
                reason = f"the archive is damaged or cut off ({problem}): what came before is read"
                found.left_out(source.path.name, reason, missing=True)
    for name, begin, size, modified in held:
        found.add(name, size, modified, Stretch(path, begin, size))


def _files(archive: tarfile.TarFile, found: _Contents) -> Iterator[tuple[tarfile.TarInfo, str]]:
    for member in archive:
        name = _inside(member.name)
        if member.isdir() or (name and _hidden(name)):
            continue
        if not name or not member.isreg() or member.issparse():
            found.odd += 1
        elif found.full():
            return
        else:
            yield member, name


class _Stream:
    """Blocks as something to read from, piece by piece."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._left = iter(blocks), b""

    def read(self, size: int) -> bytes:
        while len(self._left) < size and (block := next(self._blocks, b"")):
            self._left += block
        piece, self._left = self._left[:size], self._left[size:]
        return piece


# ---- ZIP -------------------------------------------------------------------------------------------------------------


def _of_zip(source: Source) -> tuple[list[Source], list[SourceReport]] | None:
    on_disk = source.held is None or (isinstance(source.held, Stretch) and not source.held.start)
    if not on_disk or source.compressed:
        return None
    file = source.held.file if isinstance(source.held, Stretch) else source.path
    try:
        with zipfile.ZipFile(file) as archive:
            contents = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as problem:
        hint = "`zip -FF broken.zip --out mended.zip` saves what can be saved"
        what = f"is a ZIP archive that is damaged or cut off ({problem})"
        raise InputError(what, where=source.name, hint=hint) from problem
    if what := _no_logs(contents):
        return [], [SourceReport(source.path.name, "", bytes=source.size, state="ignored", reason=f"is {what}, no log")]
    found = _Contents(source)
    left = max(FREE, RATIO * source.size)
    for number, member in enumerate(contents):
        name = _inside(member.filename)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if member.is_dir() or (name and _hidden(name)):
            continue
        if not name or kind not in (0, stat.S_IFREG):
            found.odd += 1
        elif found.full():
            break
        elif _WEIGHTS.search(name):
            found.left_out(name, "weights or a table of its own, no log", member.file_size)
        elif member.flag_bits & 1:
            found.left_out(name, "is encrypted: unpack it with its password first", member.file_size, missing=True)
        elif member.compress_type not in _METHODS:
            method = f"is compressed by method {member.compress_type}, which is not read: unpack it first"
            found.left_out(name, method, member.file_size, missing=True)
        elif (left := left - member.file_size) < 0:
            reason = f"the archive unpacks to more than {RATIO} times its size: the rest is left out"
            found.left_out(source.path.name, reason, source.size, missing=True)
            break
        else:
            try:
                found.add(name, member.file_size, _clock(member), ZipMember(file, number))
            except (zipfile.BadZipFile, OSError, ValueError) as problem:
                found.left_out(name, f"is damaged in the archive ({problem})", member.file_size, missing=True)
    return found.result()


def _no_logs(contents: list[zipfile.ZipInfo]) -> str:
    """What else a ZIP is, by the names in it; "" where it may hold logs."""
    names = [member.filename for member in contents[:1000]]
    if names and all(name.endswith(".npy") for name in names):
        return "arrays of numpy"
    return next((what for pattern, what in _OTHERS if any(pattern.search(name) for name in names)), "")


def _clock(member: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*member.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0
