"""From what the user names to the files there: files, directories, archives, addresses, pipes. Part of `sources`."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from trainlens.errors import InputError
from trainlens.model import SourceReport
from trainlens.sources import archives
from trainlens.sources.holding import Stretch, spooled
from trainlens.sources.source import BLOCK, Source

MAX_FILES = 20_000  # that are opened
MOST_LISTED = 200_000  # files, before it is left open what else there is
ARCHIVE_MET = 256 << 20  # bytes of an archive that is opened where it is met; a larger one must be named

STDIN = "-"
_SKIPPED = frozenset(("venv", "env", "node_modules", "__pycache__", "site-packages", "trainlens-report", "artifacts"))
_STORES = {".aim": "an Aim repository", ".neptune": "offline runs of Neptune"}  # hidden, and full of numbers
_HYDRA = ".hydra"  # the settings of a run: https://hydra.cc/docs/configure_hydra/workdir
# What the clients of trackers write about themselves and of what the run file beside it holds: no curves.
_OF_TRACKERS = re.compile(
    r"/wandb-summary\.json$|/(wandb|(offline-)?run-\d{8}_\d{6}-[^/]+(/logs|/debug)?)/debug(-[\w.]+)?\.log$"
)
_REMOTE = re.compile(r"^(s3|gs|gcs|hf|https?|abfss?|az|hdfs|ssh|sftp|memory):/{1,2}(?=[^/])", re.I)
_USER = re.compile(r"(?<=://)[^/@\s]*@")
_DIGITS = re.compile(r"\d+")
_QUERY = re.compile(r"(?<=\S)[?#]\S*")


@dataclass(frozen=True)
class Found:
    """The files under one path, named from `root`, which may be the file itself. `unread` could not be looked at."""

    root: Path
    sources: tuple[Source, ...]
    unread: tuple[SourceReport, ...] = ()


_once: dict[str, Found] = {}  # what came through a pipe, was unpacked or listed far away: not a second time


def find(path: str | Path) -> Found:
    """All files of a directory, an archive or an address, or the one file, in order of name; InputError when there is
    nothing.

    Links to directories are followed and keep their names; each real file is taken once, where it lies least deep.
    Hidden directories and those of tools are left out. "-" is the standard input.
    """
    given = str(path)
    if given in _once:
        return _once[given]
    if _REMOTE.match(given):
        from trainlens.sources import remote

        found = Found(Path(shown(given)), *remote.listed(_REMOTE.sub(r"\1://", given), shown(given), MAX_FILES))
        return _once.setdefault(given, found)
    if given == STDIN:
        return _once.setdefault(given, _piped(Path("stdin")))
    if not given.strip():
        raise InputError("is no path: an empty name", where=repr(given), hint="Name a log file or a run's directory")
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as problem:
        hint = "Name a log file or the directory a run wrote to"
        reason = getattr(problem, "strerror", None) or problem
        raise InputError(f"cannot be read ({reason})", where=given, hint=hint) from problem
    if stat.S_ISFIFO(mode):
        return _once.setdefault(given, _piped(path))
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # reading one might never end
        hint = "Save what it carries to a file first, then name that file"
        raise InputError("is a socket or a device, not a file", where=given, hint=hint)
    if stat.S_ISREG(mode):
        return _within(path, Source.of(path))
    sources, unread = _walk(path)
    if not sources and not unread:
        raise InputError("is empty: no file in it or below", where=given, hint="Name where the run wrote its logs")
    return Found(path, tuple(sorted(sources, key=lambda source: source.name)), tuple(unread))


def shown(path: str | Path) -> str:
    """A path or address as it may be printed: without user, password, token and signature."""
    text = str(path)
    if not _REMOTE.match(text):
        return text
    return _QUERY.sub("", _USER.sub("", _REMOTE.sub(r"\1://", text)))


def _within(path: Path, source: Source) -> Found:
    """The files in an archive, else the file itself."""
    known = f"{path}\0{source.size}\0{source.modified}"
    if known in _once:
        return _once[known]
    opened = archives.members(source)
    if opened is None:
        return Found(path, (source,))
    members, unread = opened
    if not members and not unread:
        raise InputError("is an empty archive", where=source.name, hint="Name where the run wrote its logs")
    return _once.setdefault(known, Found(path, tuple(sorted(members, key=lambda one: one.name)), tuple(unread)))


def _piped(path: Path) -> Found:
    """All that comes through a pipe, kept for as long as the program runs."""
    stdin = path == Path("stdin")
    if stdin and sys.stdin.isatty():
        hint = "Pipe a log into it (cat train.log | trainlens analyze -) or name a file"
        raise InputError("is the keyboard, not a log", where="standard input", hint=hint)
    name = "stdin" if stdin else path.name
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0) if stdin else path.open("rb", buffering=0) as stream:
        kept: Stretch = spooled(iter(lambda: stream.read(BLOCK), b""), name)
    path = Path(name)
    return _within(path, Source(path, name, kept.size, held=kept))


# ---- directories -----------------------------------------------------------------------------------------------------


def _walk(root: Path) -> tuple[list[Source], list[SourceReport]]:
    """Level by level, so that what lies near wins against a long way round to the same file."""
    sources: list[Source] = []
    unread: list[SourceReport] = []
    top = real_path(root)
    seen: set[str] = set()
    level = [(root, str(top))]
    while level:
        below: list[tuple[bool, Path, str]] = []
        for directory, real in level:
            if real in seen or (directory != root and top.is_relative_to(real)):  # a loop
                continue
            seen.add(real)
            try:
                with os.scandir(directory) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as problem:
                unread.append(_unlooked(directory, root, f"cannot be read: {problem.strerror or problem}"))
                continue
            for entry in entries:
                path = directory / entry.name
                link = entry.is_symlink()
                inner = str(real_path(path)) if link else os.path.join(real, entry.name)  # noqa: PTH118  many files
                if _is_directory(entry):
                    if entry.name in _STORES:
                        reason = f"{_STORES[entry.name]}, which only its own tools open: name it to learn the way out"
                        unread.append(_unlooked(path, root, reason, "ignored"))
                    elif not _skipped(entry.name):
                        below.append((link, path, inner))
                elif not entry.name.startswith(".") and inner not in seen:
                    seen.add(inner)
                    found, report = _taken(entry, path, inner, root)
                    sources += found
                    unread += report
            if len(sources) > MOST_LISTED:
                reason = (
                    f"it holds more than {MOST_LISTED:,} files, not all were looked for: name a directory further down"
                )
                return _fewest_alike(sources), [*unread, _unlooked(root, root, reason)]
        level = [(path, inner) for _, path, inner in sorted(below)]
    if len(sources) > MAX_FILES:
        reason = f"of {len(sources):,} files only {MAX_FILES:,} are read: name a directory further down"
        unread.append(_unlooked(root, root, reason))
    return _fewest_alike(sources), unread


def _fewest_alike(sources: list[Source]) -> list[Source]:
    """At most MAX_FILES, those first that few are like: a run writes few logs, a data set has many files of a kind."""
    if len(sources) <= MAX_FILES:
        return sources
    kinds = [_kind(source) for source in sources]
    often = Counter(kinds)
    order = sorted(range(len(sources)), key=lambda at: often[kinds[at]])
    return [sources[at] for at in order[:MAX_FILES]]


def _kind(source: Source) -> tuple[str, str]:
    """The directory whatever its numbers, and how the name ends."""
    directory, _, name = source.name.rpartition("/")
    return _DIGITS.sub("#", directory), name.rpartition(".")[2]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _taken(entry: os.DirEntry[str], path: Path, real: str, root: Path) -> tuple[list[Source], list[SourceReport]]:
    """What one entry of a directory gives: itself, its members, or why it gives nothing."""
    try:
        status = entry.stat()
    except OSError as problem:
        if entry.is_symlink() and problem.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return [], [_unlooked(path, root, "is a link that leads nowhere", "ignored")]
        if problem.errno == errno.ENOENT:
            return [], [_unlooked(path, root, "went away while the directory was looked through", "ignored")]
        return [], [_unlooked(path, root, f"cannot be read: {problem.strerror or problem}")]
    if entry.name.startswith(("wandb-", "debug")) and any(
        _OF_TRACKERS.search(one) for one in (path.absolute().as_posix(), real)
    ):
        return [], [_unlooked(path, root, "what the tracker's client writes about itself", "ignored")]
    if not stat.S_ISREG(status.st_mode):  # no pipes, no sockets
        return [], []
    source = Source(path, path.relative_to(root).as_posix(), status.st_size, status.st_mtime)
    if not archives.NAMED.search(entry.name):
        return [source], []
    return _opened(source)


def _opened(source: Source) -> tuple[list[Source], list[SourceReport]]:
    """The members of an archive that was met in a directory, named below it."""
    try:
        if source.size > ARCHIVE_MET and archives.is_archive(source):
            reason = f"an archive larger than {ARCHIVE_MET >> 20} MiB: name it to have it read"
            return [], [SourceReport(source.name, "", bytes=source.size, state="ignored", reason=reason)]
        opened = archives.members(source)
    except (OSError, InputError) as problem:
        return [], [SourceReport(source.name, "", bytes=source.size, state="not-read", reason=str(problem))]
    if opened is None:
        return [source], []
    members = [replace(member, name=f"{source.name}/{member.name}") for member in opened[0]]
    return members, [
        replace(report, path=source.name if report.path == source.path.name else f"{source.name}/{report.path}")
        for report in opened[1]
    ]


def inner_last(paths: Sequence[str | Path]) -> list[str | Path]:
    """The paths in their order, each once, those within another of them behind all that are not."""
    whole: dict[Path, str | Path] = {}
    for path in paths:
        whole.setdefault(real_path(Path(path)) if str(path).strip() else Path(), path)
    return [whole[real] for real in sorted(whole, key=lambda real: sum(other in whole for other in real.parents))]


def real_path(path: Path) -> Path:
    """Where links lead; the path itself where they lead round in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # Python 3.12 and older raise RuntimeError; a NUL is no path
        return path.absolute()


def _skipped(name: str) -> bool:
    return (name.startswith(".") and name != _HYDRA) or name in _SKIPPED


def _unlooked(path: Path, root: Path, reason: str, state: Literal["not-read", "ignored"] = "not-read") -> SourceReport:
    name = root.name if path == root else path.relative_to(root).as_posix()
    return SourceReport(name, "", state=state, reason=reason)
