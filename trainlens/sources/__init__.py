"""Files: how they are found under a path, opened whatever their compression, and sorted into runs.

A Source is one file. Its bytes are read through it alone, so that parsers need not care for compression, and nothing
but this room touches the file system while a run is read.
"""

from __future__ import annotations

import gzip
import lzma
import mmap
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from trainlens.errors import InputError
from trainlens.model import SourceReport
from trainlens.sources.grouping import RunFile, RunFiles, group

__all__ = [
    "BLOCK",
    "HEAD",
    "Found",
    "RunFile",
    "RunFiles",
    "Source",
    "compression",
    "find",
    "group",
    "inner_last",
    "real_path",
]

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
        return next(self.blocks(size), b"")

    def blocks(self, size: int = BLOCK, start: int = 0) -> Iterator[bytes]:
        """Decompressed bytes from `start` in blocks of `size`; ends quietly where a compressed file is cut off."""
        with self.open() as stream:
            try:
                stream.seek(start)
            except (EOFError, lzma.LZMAError, OSError):
                return
            while block := _up_to(stream, size):
                yield block

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


def _up_to(stream: BinaryIO, size: int) -> bytes:
    """Bytes of a stream, piece by piece: what comes before damage is not lost with it."""
    pieces, missing = [], size
    while missing:
        try:
            piece = stream.read1(missing)  # type: ignore[attr-defined]
        except (EOFError, lzma.LZMAError, OSError):
            break
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def compression(head: bytes) -> str:
    """ "gz", "zst", "xz" or "" from the first six bytes of a file."""
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")


# ---- finding ---------------------------------------------------------------------------------------------------------

MAX_FILES = 20_000
_SKIPPED = frozenset(("venv", "env", "node_modules", "__pycache__", "site-packages", "trainlens-report", "artifacts"))
_HYDRA = ".hydra"  # the settings of a run: https://hydra.cc/docs/configure_hydra/workdir
# What the W&B client writes about itself and of what the run file beside it holds: its numbers are no curves.
_OF_WANDB = re.compile(
    r"/wandb-(metadata|summary)\.json$|/(wandb|(offline-)?run-\d{8}_\d{6}-[^/]+(/logs)?)/debug(-[\w.]+)?\.log$"
)
_REMOTE = re.compile(r"^(s3|gs|gcs|hf|https?|abfss?|az|hdfs|ssh|sftp)://?(?=[^/])", re.I)


@dataclass(frozen=True)
class Found:
    """The files under one path, named from `root`, which may be the file itself. `unread` could not be looked at."""

    root: Path
    sources: tuple[Source, ...]
    unread: tuple[SourceReport, ...] = ()


def find(path: str | Path) -> Found:
    """All files under a directory, or the one file, in order of name; InputError when there is nothing.

    Links to directories are followed and keep their names; each real file is taken once, where it lies least deep.
    Hidden directories and those of tools are left out.
    """
    if remote := _REMOTE.match(str(path)):
        kind = remote[1].lower()
        hint = f"Copy the directory to a disk first, then name the copy ({kind} addresses are not read yet)"
        raise InputError("is a remote address, which is not read", where=str(path), hint=hint)
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except OSError as problem:
        hint = "Name a log file or the directory a run wrote to"
        raise InputError(f"cannot be read ({problem.strerror or problem})", where=str(path), hint=hint) from problem
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # reading one might never end
        hint = "Save what it carries to a file first, then name that file"
        raise InputError("is a pipe, a socket or a device, not a file", where=str(path), hint=hint)
    if stat.S_ISREG(mode):
        return Found(path, (Source.of(path),))
    sources, unread = _walk(path)
    if not sources and not unread:
        raise InputError("is empty: no file in it or below", where=str(path), hint="Name where the run wrote its logs")
    return Found(path, tuple(sorted(sources, key=lambda source: source.name)), tuple(unread))


def _walk(root: Path) -> tuple[list[Source], list[SourceReport]]:
    """Level by level, so that what lies near wins against a long way round to the same file."""
    sources: list[Source] = []
    unread: list[SourceReport] = []
    top = root.resolve()
    seen: set[Path] = set()
    level = [root]
    while level:
        below: list[Path] = []
        for directory in level:
            real = directory.resolve()
            if real in seen or (directory != root and top.is_relative_to(real)):  # a loop
                continue
            seen.add(real)
            try:
                entries = sorted(directory.iterdir())
            except OSError as problem:
                unread.append(_unlooked(directory, root, f"cannot be read: {problem.strerror or problem}"))
                continue
            below += [entry for entry in entries if entry.is_dir() and not _skipped(entry.name)]
            for entry in entries:
                if (
                    not entry.is_dir()
                    and not entry.name.startswith(".")
                    and (real_file := real_path(entry)) not in seen
                ):
                    seen.add(real_file)
                    _take(entry, root, sources, unread)
            if len(sources) > MAX_FILES:
                reason = f"only the first {MAX_FILES:,} files are read: name a directory further down"
                return sources[:MAX_FILES], [*unread, _unlooked(root, root, reason)]
        level = sorted(below, key=lambda path: (path.is_symlink(), path))
    return sources, unread


def _take(path: Path, root: Path, sources: list[Source], unread: list[SourceReport]) -> None:
    try:
        status = path.stat()
    except OSError as problem:
        unread.append(_unlooked(path, root, f"cannot be read: {problem.strerror or problem}"))
        return
    if any(_OF_WANDB.search(one.as_posix()) for one in (path.absolute(), real_path(path))):
        unread.append(_unlooked(path, root, "what the W&B client writes about itself", "ignored"))
    elif stat.S_ISREG(status.st_mode):  # no pipes, no sockets
        sources.append(Source(path, path.relative_to(root).as_posix(), status.st_size, status.st_mtime))


def inner_last(paths: Sequence[str | Path]) -> list[str | Path]:
    """The paths in their order, each once, those within another of them behind all that are not."""
    whole: dict[Path, str | Path] = {}
    for path in paths:
        whole.setdefault(real_path(Path(path)), path)
    return [whole[real] for real in sorted(whole, key=lambda real: sum(other in whole for other in real.parents))]


def real_path(path: Path) -> Path:
    """Where links lead; the path itself where they lead round in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.12 and older raise RuntimeError
        return path.absolute()


def _skipped(name: str) -> bool:
    return (name.startswith(".") and name != _HYDRA) or name in _SKIPPED


def _unlooked(path: Path, root: Path, reason: str, state: Literal["not-read", "ignored"] = "not-read") -> SourceReport:
    name = root.name if path == root else path.relative_to(root).as_posix()
    return SourceReport(name, "", state=state, reason=reason)
