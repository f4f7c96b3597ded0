"""MLflow SQLite store (`mlflow.db`): the metrics, parameters and ends of all runs that are not deleted.

The run is the one that MLflow names; where two share a name, the first eight letters of the id tell them apart. NaN
and infinities, which MLflow writes as marks, become themselves again. The file is opened read-only and locks nothing.

The schema: https://github.com/mlflow/mlflow/blob/master/mlflow/store/tracking/dbmodels/models.py.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, EventKind, Fact, Place, Points
from trainlens.parsers import _sqlite
from trainlens.parsers.mlflow_files import parameter
from trainlens.sources import Source

TELLS_END = True

ROWS = 1 << 18  # rows of the metrics table held at once
_INFINITE = 1.7976931348623157e308  # how MLflow writes an infinity
_NEEDED = frozenset(("run_uuid", "key", "value", "step", "is_nan"))
_METRICS = """
    SELECT run_uuid, key, step, value, timestamp, is_nan FROM metrics
    WHERE run_uuid IN (SELECT run_uuid FROM runs WHERE lifecycle_stage IS NOT 'deleted')
    ORDER BY run_uuid, key, timestamp, step
"""
_RUNS = "SELECT run_uuid, name, status, end_time FROM runs WHERE lifecycle_stage IS NOT 'deleted' ORDER BY start_time"
_ENDS: dict[str, tuple[EventKind, str]] = {
    "FINISHED": ("run-end", "MLflow: the run is FINISHED"),
    "FAILED": ("exit-code", "MLflow: the run FAILED"),
    "KILLED": ("killed", "MLflow: the run was KILLED"),
}


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this database is a tracking store: its tables are looked up."""
    if not head.startswith(_sqlite.MAGIC):
        return 0.0
    tables = _sqlite.columns(path)
    return 1.0 if "runs" in tables and tables.get("metrics", frozenset()) >= _NEEDED else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """Points by run and key, parameters as facts, ends as events; InputError when the database cannot be read."""
    place = Place(source.name)
    try:
        with _sqlite.connected(source.path) as database:
            runs = database.execute(_RUNS).fetchall()
            names = _names(runs)
            yield from _points(database.execute(_METRICS), names)
            for run, key, text in database.execute("SELECT run_uuid, key, value FROM params ORDER BY run_uuid, key"):
                if run in names:
                    yield Fact(str(key), parameter(str(text)), place, names[run])
            for run, _, status, end in runs:
                if found := _ENDS.get(str(status)):
                    time = end / 1000 if isinstance(end, int) else None
                    yield Event(found[0], found[1], time=time, place=place, run=names[run])
    except sqlite3.Error as problem:
        what = f"an MLflow database that cannot be read ({problem})"
        hint = "Check it with `sqlite3 FILE 'PRAGMA integrity_check'`, or export the runs with `mlflow runs export-csv`"
        raise InputError(what, where=source.name, hint=hint) from problem
    yield from _sqlite.unmerged(source)


def _names(runs: Sequence[Sequence[Any]]) -> dict[str, str]:
    """What each run is called, by its id."""
    often = Counter(name for _, name, *_ in runs)
    return {run: f"{name}-{run[:8]}" if name and often[name] > 1 else name or run for run, name, *_ in runs}


def _points(rows: sqlite3.Cursor, names: dict[str, str]) -> Iterator[Points]:
    """The points of rows that are sorted by run and key."""
    while some := rows.fetchmany(ROWS):
        begin = 0
        for at in range(1, len(some) + 1):
            if at == len(some) or some[at][:2] != some[begin][:2]:
                run, key = some[begin][:2]
                yield _curve(str(key), names.get(run, str(run)), some[begin:at])
                begin = at


def _curve(key: str, run: str, rows: Sequence[Sequence[Any]]) -> Points:
    value = np.array([row[3] if isinstance(row[3], int | float) else np.nan for row in rows], np.float64)
    value[[bool(row[5]) for row in rows]] = np.nan
    endless = np.abs(value) >= _INFINITE
    value[endless] = np.copysign(np.inf, value[endless])
    step = np.array([row[2] if isinstance(row[2], int) else 0 for row in rows], np.int64)
    time = np.array([row[4] / 1000 if isinstance(row[4], int) else np.nan for row in rows], np.float64)
    return Points(key, step, value, time, run=run)
