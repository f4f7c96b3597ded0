"""SQLite databases, opened so that nothing beside them is created, changed or locked."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainlens.model import Note
from trainlens.sources import Source

MAGIC = b"SQLite format 3\0"


@contextmanager
def connected(path: Path, immutable: bool = True) -> Iterator[sqlite3.Connection]:
    """A read-only connection; sqlite3.Error, perhaps only when it is used, where there is no such database.

    "immutable" keeps SQLite from making a lock or a shared-memory file; what waits in a write-ahead log is not seen.
    """
    database = sqlite3.connect(f"{path.resolve().as_uri()}?{'mode=ro&immutable=1' if immutable else ''}", uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield database
    finally:
        database.close()


@contextmanager
def copied(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of a small database, with what waits in its write-ahead log."""
    with tempfile.TemporaryDirectory() as folder:
        for one in (path, *logs(path)):
            shutil.copyfile(one, Path(folder, one.name))
        with connected(Path(folder, path.name), immutable=False) as database:
            yield database


def logs(path: Path) -> list[Path]:
    """The write-ahead log of a database, where there is one."""
    log = path.with_name(path.name + "-wal")
    return [log] if log.is_file() else []


def columns(path: Path) -> dict[str, frozenset[str]]:
    """The columns of each table; empty where the database cannot be read."""
    try:
        with connected(path) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                table: frozenset(
                    name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))
                )
                for table in tables
            }
    except (sqlite3.Error, OSError):
        return {}


def unmerged(source: Source) -> Iterator[Note]:
    """A note where a write-ahead log holds rows that are not in the database yet."""
    for log in logs(source.path):
        waiting = log.stat().st_size
        if waiting:
            message = f"{log.name} beside it holds {waiting:,} bytes that are not read: newer rows may wait there"
            yield Note("limit", message)
