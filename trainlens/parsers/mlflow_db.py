"""MLflow SQLite store (`mlflow.db`): the metrics, parameters and ends of all runs that are not deleted.

The run is the one that MLflow names; where two share a name, the first eight letters of the id tell them apart. NaN
and infinities, which MLflow writes as marks, become themselves again. The file is opened read-only and locks nothing.

The schema: https://github.com/mlflow/mlflow/blob/master/mlflow/store/tracking/dbmodels/models.py.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Place, Points
from trainlens.parsers import _sqlite
from trainlens.parsers.mlflow_files import parameter
from trainlens.parsers.mlflow_run import ENDS
from trainlens.sources import Source

TELLS_END = True

ROWS = 1 << 20  # rows of the metrics table held at once
_INFINITE = 1.7976931348623157e308  # how MLflow writes an infinity
_NEEDED = frozenset(("run_uuid", "key", "value", "step", "is_nan"))
_ROW = np.dtype([("run", "i8"), ("step", "i8"), ("value", "f8"), ("time", "i8")])
_NO_TIME = -1
# The primary key has the rows of one metric together and in order of time: nothing is sorted.
_METRIC = "SELECT {run}, {step}, {value}, {time} FROM metrics WHERE key = ? ORDER BY timestamp, step"
_RUN_NUMBER = "(SELECT rowid FROM runs WHERE runs.run_uuid = metrics.run_uuid)"
_AS_WRITTEN = {"step": "step", "value": "CASE is_nan WHEN 0 THEN value ELSE 'nan' END", "time": "timestamp"}
# SQLite keeps what it is given, whatever the type of the column.
_GUARDED = {
    "step": "CASE typeof(step) WHEN 'integer' THEN step ELSE 0 END",
    "value": "CASE WHEN NOT is_nan AND typeof(value) IN ('real', 'integer') THEN value ELSE 'nan' END",
    "time": f"CASE typeof(timestamp) WHEN 'integer' THEN timestamp ELSE {_NO_TIME} END",
}
_RUNS = "SELECT rowid, run_uuid, name, status, end_time, lifecycle_stage FROM runs ORDER BY start_time, rowid"


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
            every = database.execute(_RUNS).fetchall()
            runs = [run for run in every if run[5] != "deleted"]
            names = _names(runs)
            yield from _points(database, {run[0]: names[run[1]] for run in runs})
            for run, key, text in database.execute("SELECT run_uuid, key, value FROM params ORDER BY run_uuid, key"):
                if run in names:
                    yield Fact(str(key), parameter(str(text)), place, names[run])
            for _, run, _, status, end, _ in runs:
                if found := ENDS.get(str(status)):
                    time = end / 1000 if isinstance(end, int) else None
                    yield Event(found[0], found[1], time=time, place=place, run=names[run])
    except sqlite3.Error as problem:
        what = f"an MLflow database that cannot be read ({problem})"
        hint = "Check it with `sqlite3 FILE 'PRAGMA integrity_check'`, or export the runs with `mlflow runs export-csv`"
        raise InputError(what, where=source.name, hint=hint) from problem
    if deleted := len(every) - len(runs):
        word = "runs are" if deleted > 1 else "run is"
        yield Note("limit", f"{deleted:,} {word} deleted in MLflow and left out", count=deleted)
    yield from _sqlite.unmerged(source)


def _names(runs: Sequence[Sequence[Any]]) -> dict[str, str]:
    """What each run is called, by its id."""
    often = Counter(name for _, _, name, *_ in runs)
    return {run: f"{name}-{run[:8]}" if name and often[name] > 1 else name or run for _, run, name, *_ in runs}


def _points(database: sqlite3.Connection, names: dict[int, str]) -> Iterator[Points]:
    """The points of each metric; `names` are those of the runs by their number."""
    of_key: dict[str, list[int]] = defaultdict(list)
    numbers = dict(database.execute("SELECT run_uuid, rowid FROM runs"))
    for key, run in database.execute("SELECT DISTINCT key, run_uuid FROM metrics"):
        of_key[key].append(numbers.get(run, -1))
    for key, runs in sorted(of_key.items(), key=lambda one: str(one[0])):
        number = str(runs[0]) if len(runs) == 1 else f"ifnull({_RUN_NUMBER}, -1)"
        if not names.keys().isdisjoint(runs):
            for rows in _rows(database, key, number):
                yield from _curves(str(key), rows, names)


def _rows(database: sqlite3.Connection, key: str, run: str) -> Iterator[Any]:
    """All rows of a metric in blocks, as arrays of `_ROW`."""
    told = 0
    try:
        cursor = database.execute(_METRIC.format(run=run, **_AS_WRITTEN), (key,))
        while len(block := np.fromiter(islice(cursor, ROWS), _ROW)):
            yield block
            told += len(block)
    except (TypeError, ValueError, OverflowError):  # a cell of another type
        cursor = database.execute(_METRIC.format(run=run, **_GUARDED), (key,))
        for _ in islice(cursor, told):
            pass
        while len(block := np.fromiter(islice(cursor, ROWS), _ROW)):
            yield block


def _curves(key: str, rows: Any, names: dict[int, str]) -> Iterator[Points]:
    """The rows of one metric by run."""
    if (rows["run"] != rows["run"][0]).any():
        rows = rows[np.argsort(rows["run"], kind="stable")]
    cuts = [0, *(np.flatnonzero(np.diff(rows["run"])) + 1).tolist(), len(rows)]
    for begin, end in pairwise(cuts):
        some = rows[begin:end]
        name = names.get(int(some["run"][0]))
        if name is None:
            continue
        value, stamp = some["value"].copy(), some["time"]
        endless = np.abs(value) >= _INFINITE
        value[endless] = np.copysign(np.inf, value[endless])
        time = np.where(stamp == _NO_TIME, np.nan, stamp / 1000)
        yield Points(key, some["step"].copy(), value, time, run=name)
