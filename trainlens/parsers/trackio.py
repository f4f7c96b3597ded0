"""Trackio databases (`PROJECT.db`): a row of SQLite for each call of log, its metrics as a JSON object.

A file holds all runs of a project, told apart by their ids where they share a name; settings become facts. Numbers of
nested objects are joined by "/"; pictures and tables are left out. Samples of the hardware bear no step, so each gets
that of its moment. The file is opened read-only and locks nothing.

The schema: https://github.com/gradio-app/trackio/blob/main/trackio/sqlite_storage.py.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Floats, Ints, Note, Place
from trainlens.parsers import _sqlite
from trainlens.parsers._json_documents import flat
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._scattered import Scattered, moments, numbers
from trainlens.sources import Source

CELLS = 2 << 20  # cells of rows held before they become points
_NEEDED = frozenset(("timestamp", "run_name", "step", "metrics"))
_Run = tuple[str, str]  # name, id ("" before Trackio had ids)


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this database is one of Trackio: its tables are looked up."""
    if not head.startswith(_sqlite.MAGIC):
        return 0.0
    return 1.0 if _sqlite.columns(path).get("metrics", frozenset()) >= _NEEDED else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """Points of all runs, their settings as facts; InputError when the database cannot be read."""
    bad: list[int] = []
    tables = _sqlite.columns(source.path)
    try:
        with _sqlite.connected(source.path) as database:
            runs = [(str(row[0]), str(row[1])) for row in database.execute(_query("metrics", tables, "", "DISTINCT "))]
            names, clocks = called(runs), dict[str, _Clock]()
            for run, rows in _by_run(database, "metrics", tables, "id, step, timestamp, metrics"):
                name = names.get(run, run[0])
                yield from _points(name, rows, clocks.setdefault(name, _Clock()), bad)
            if "metrics" in tables.get("system_metrics", ()):
                for run, rows in _by_run(database, "system_metrics", tables, "id, NULL, timestamp, metrics"):
                    name = names.get(run, run[0])
                    yield from _samples(name, rows, clocks.get(name, _Clock()), bad)
            if "configs" in tables:
                for run, rows in _by_run(database, "configs", tables, "id, config"):
                    yield from _facts(names.get(run, run[0]), rows, Place(source.name))
    except sqlite3.Error as problem:
        what = f"a Trackio database that cannot be read ({problem})"
        hint = "Check it with `sqlite3 FILE 'PRAGMA integrity_check'`"
        raise InputError(what, where=source.name, hint=hint) from problem
    if bad:
        message = f"{len(bad):,} rows hold no JSON object and were left out, the first has the id {bad[0]:,}"
        yield Note("not-understood", message, count=len(bad))
    yield from _sqlite.unmerged(source)


def called(runs: list[_Run]) -> dict[_Run, str]:
    """What each run is called: its name, with the beginning of its id where several share one."""
    often = Counter(name for name, _ in set(runs))
    return {(name, own): f"{name}-{own[:8]}" if often[name] > 1 and own else name for name, own in runs}


def _query(table: str, tables: dict[str, frozenset[str]], more: str, distinct: str = "") -> str:
    own = "run_id" if "run_id" in tables.get(table, ()) else "''"
    order = "" if distinct else f" ORDER BY run_name, {own}, id"
    return f"SELECT {distinct}run_name, ifnull({own}, ''){more} FROM {table}{order}"


def _by_run(
    database: sqlite3.Connection, table: str, tables: dict[str, frozenset[str]], wanted: str
) -> Iterator[tuple[_Run, Iterator[Any]]]:
    rows = database.execute(_query(table, tables, f", {wanted}"))
    for run, some in groupby(rows, lambda row: (str(row[0]), str(row[1]))):
        yield run, (row[2:] for row in some)


@dataclass(slots=True)
class _Clock:
    """The steps of a run and when they were, in turn."""

    steps: list[Ints] = field(default_factory=list)
    times: list[Floats] = field(default_factory=list)


def _points(run: str, rows: Iterator[tuple[int, int, str, Any]], clock: _Clock, bad: list[int]) -> Iterator[Batch]:
    """The points of one run's rows."""
    for held in _rows(rows, bad):
        clock.steps.append(held.steps())
        clock.times.append(held.times())
        yield from held.points(clock.steps[-1], run=run)


def _samples(run: str, rows: Iterator[tuple[int, int, str, Any]], clock: _Clock, bad: list[int]) -> Iterator[Batch]:
    """The points of the samples of a run's hardware."""
    steps = np.concatenate([np.empty(0, np.int64), *clock.steps])
    times = np.concatenate([np.empty(0), *clock.times])
    for held in _rows(rows, bad):
        for one in held.points(moments(held.times(), steps, times), run=run):
            yield replace(one, unit=hardware_unit(one.tag))


def hardware_unit(tag: str) -> str:
    """The unit of a hardware sample where its name does not say it."""
    return "GiB" if tag.startswith("gpu/") and tag.endswith(("/allocated_memory", "/total_memory")) else ""


def _rows(rows: Iterator[tuple[int, int, str, Any]], bad: list[int]) -> Iterator[Scattered]:
    held = Scattered()
    for row, step, stamp, text in rows:
        metrics = decoded(as_bytes(text))
        if not isinstance(metrics, dict):
            bad.append(row)
            continue
        held.add(numbers(metrics), step if isinstance(step, int) else 0, unix(stamp), -1)
        if held.cells > CELLS:
            yield held
            held = Scattered()
    yield held


def _facts(run: str, rows: Iterator[tuple[int, Any]], place: Place) -> Iterator[Fact]:
    for _, text in rows:
        settings = decoded(as_bytes(text))
        if isinstance(settings, dict):
            shown = ((name, value) for name, value in flat(settings) if not name.startswith("_"))
            yield from (Fact(name, value, place, run) for name, value in shown)


def as_bytes(text: Any) -> bytes:
    """A cell of JSON, which older versions write as a text."""
    return text if isinstance(text, bytes) else str(text).encode()


def unix(stamp: object) -> float:
    """Unix seconds of a time in ISO form, which is UTC where it names no zone; NaN where it is none."""
    try:
        moment = datetime.fromisoformat(str(stamp))
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
