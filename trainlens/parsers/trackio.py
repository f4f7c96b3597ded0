"""Trackio databases (`PROJECT.db`): a row of SQLite for each call of log, its metrics as a JSON object.

A file holds all runs of a project; settings become facts. Numbers of nested objects are joined by "/"; pictures and
tables are left out. The file is opened read-only and locks nothing.

The schema: https://github.com/gradio-app/trackio/blob/main/trackio/sqlite_storage.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Note, Place
from trainlens.parsers import _sqlite
from trainlens.parsers._json_documents import flat
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._scattered import Scattered, numbers
from trainlens.sources import Source

CELLS = 2 << 20  # cells of rows held before they become points
_NEEDED = frozenset(("timestamp", "run_name", "step", "metrics"))


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this database is one of Trackio: its tables are looked up."""
    if not head.startswith(_sqlite.MAGIC):
        return 0.0
    return 1.0 if _sqlite.columns(path).get("metrics", frozenset()) >= _NEEDED else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """Points of all runs, their settings as facts; InputError when the database cannot be read."""
    bad: list[int] = []
    try:
        with _sqlite.connected(source.path) as database:
            query = "SELECT run_name, id, step, timestamp, metrics FROM metrics ORDER BY run_name, id"
            for run, rows in groupby(database.execute(query), lambda row: str(row[0])):
                yield from _points(run, rows, bad)
            if "configs" in _sqlite.columns(source.path):
                for run, text in database.execute("SELECT run_name, config FROM configs ORDER BY id"):
                    settings = decoded(str(text).encode())
                    if isinstance(settings, dict):
                        shown = ((name, value) for name, value in flat(settings) if not name.startswith("_"))
                        yield from (Fact(name, value, Place(source.name), str(run)) for name, value in shown)
    except sqlite3.Error as problem:
        what = f"a Trackio database that cannot be read ({problem})"
        hint = "Check it with `sqlite3 FILE 'PRAGMA integrity_check'`"
        raise InputError(what, where=source.name, hint=hint) from problem
    if bad:
        message = f"{len(bad):,} rows hold no JSON object and were left out, the first has the id {bad[0]:,}"
        yield Note("not-understood", message, count=len(bad))
    yield from _sqlite.unmerged(source)


def _points(run: str, rows: Iterator[tuple[str, int, int, str, str]], bad: list[int]) -> Iterator[Batch]:
    """The points of one run's rows."""
    held = Scattered()
    for _, row, step, stamp, text in rows:
        metrics = decoded(str(text).encode())
        if not isinstance(metrics, dict):
            bad.append(row)
            continue
        held.add(numbers(metrics), step if isinstance(step, int) else 0, unix(stamp), -1)
        if held.cells > CELLS:
            yield from held.points(held.steps(), run=run)
            held = Scattered()
    yield from held.points(held.steps(), run=run)


def unix(stamp: object) -> float:
    """Unix seconds of a time in ISO form, which is UTC where it names no zone; NaN where it is none."""
    try:
        moment = datetime.fromisoformat(str(stamp))
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
