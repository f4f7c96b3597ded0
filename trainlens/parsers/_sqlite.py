"""SQLite databases, opened so that nothing beside them is created, changed or locked."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from trainlens.model import Note
from trainlens.sources import Source

MAGIC = b"SQLite format 3\0"


LARGEST = 2 << 30  # bytes of a database that is copied, because a write-ahead log beside it holds newer rows


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection; sqlite3.Error, perhaps only when it is used, where there is no such database.

    With a write-ahead log beside it, as a running writer leaves it, a copy of both is read: to look into the log SQLite
    would make files beside the database. One that is too large to copy is read without (`unmerged` says so).
    """
    if waiting(path) and path.stat().st_size <= LARGEST:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "copy.db")
            _copy(path, copy)
            with _opened(f"{copy.as_uri()}") as database:
                yield database
    else:  # "immutable" keeps SQLite from making a lock or a shared-memory file
        with _opened(f"{path.resolve().as_uri()}?mode=ro&immutable=1") as database:
            yield database


@contextmanager
def _opened(address: str) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(address, uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield database
    finally:
        database.close()


def _copy(path: Path, copy: Path) -> None:
    """Copies a database and its log; again where a writer changed one of them meanwhile."""
    for _ in range(3):
        before = written(path)
        shutil.copyfile(path, copy)
        log = path.with_name(path.name + "-wal")
        if log.is_file():
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        if written(path) == before:
            return


def written(path: Path) -> tuple[int, ...]:
    """When the database and its log were written to and how large they are; OSError where there is none."""
    log = path.with_name(path.name + "-wal")
    states = [one.stat() for one in (path, *([log] if log.is_file() else []))]
    return tuple(number for state in states for number in (state.st_mtime_ns, state.st_size))


def waiting(path: Path) -> int:
    """How many bytes wait in the write-ahead log of a database."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0


def columns(path: Path) -> dict[str, frozenset[str]]:
    """The columns of each table; empty where the database cannot be read."""
    try:
        return _columns(path, written(path))
    except (sqlite3.Error, OSError):
        return {}


@lru_cache(maxsize=64)
def _columns(path: Path, written: tuple[int, ...]) -> dict[str, frozenset[str]]:  # noqa: ARG001  part of the key
    with connected(path) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        query = "SELECT name FROM pragma_table_info(?)"
        return {table: frozenset(name for (name,) in database.execute(query, (table,))) for table in tables}


def unmerged(source: Source) -> Iterator[Note]:
    """A note where a write-ahead log holds rows that were not read."""
    if (size := waiting(source.path)) and source.size > LARGEST:
        message = f"{source.path.name}-wal beside it holds {size:,} bytes that are not read: newer rows may wait there"
        yield Note("limit", message)
