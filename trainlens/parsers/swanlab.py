"""SwanLab curves (`swanlog/run-…/logs/FOLDER/1000.log`): lines of JSON with `index`, `data` and `create_time`.

A folder is a curve. Its name is the tag, or its number in the database `runs.swanlab` beside the runs, of which a copy
is read, because opening it changes it, or its number among the curves of the run file beside it (SwanLab since 0.10).
Pictures, sounds and texts are left out.

The format: https://github.com/SwanHubX/SwanLab-Dashboard.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from trainlens.model import Batch, Checkpoint, Points
from trainlens.parsers import _sqlite, _texts, swanlab_records
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._json_rows import Rows, decoded
from trainlens.parsers._row_blocks import row_blocks
from trainlens.parsers._tables import Table
from trainlens.parsers._teller import Teller
from trainlens.parsers.jsonl import notes
from trainlens.sources import Source

READS_BESIDE = True  # the names of the curves

_LINE = re.compile(rb'\s*\{"index": ?\d+, ?"data": ?.*"create_time": ?"[^"]+"')
_DATABASE = "runs.swanlab"


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a curve of SwanLab."""
    first = head.partition(b"\n")[0]
    return 0.95 if _LINE.match(first) and path.suffix == ".log" else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """The points of one curve."""
    tag = _tag(source.path.absolute())
    end, line = (since.offset, int(str(since.state["line"]))) if since else (0, 0)
    rows, torn = Rows(line=line), b""
    if since:
        rows.bad, rows.nul = restored(since.state.get("bad")), restored(since.state.get("nul"))
    for block in row_blocks(source, end):
        if block.torn and not isinstance(decoded(block.text), dict):
            torn = block.text
            break
        yield from _points(tag, rows.read(block.text))
        end = block.end
        if block.torn:
            rows.line -= 1  # what is appended to it ends this very line
    yield from notes(rows, Teller(source.name), torn)
    if not source.compressed:
        yield Checkpoint(end, {"line": rows.line, "bad": kept(rows.bad), "nul": kept(rows.nul)})


def _points(tag: str, table: Table) -> Iterator[Points]:
    """The points of rows that hold a number."""
    if "data" in table.columns:
        value, present = table.columns["data"], table.present["data"]
    elif "data" in table.texts:  # where one of them is no number, all are texts
        value, present, _ = _texts.column(table.texts["data"])
    else:
        return
    if "index" not in table.columns:
        return
    at = np.flatnonzero(present & table.present["index"])
    if len(at):
        stamps = table.texts.get("create_time")
        time = None if stamps is None else _texts.clock(stamps)[at]
        step = table.columns["index"][at].astype(np.int64)
        yield Points(tag, step, value[at], time, origin=table.lines[at])


def _tag(path: Path) -> str:
    """What a curve is called, from where its file lies: RUN/logs/FOLDER/FILE."""
    folder = path.parent.name
    if len(path.parents) < 4:
        return folder
    run, database = path.parents[2], path.parents[3] / _DATABASE
    try:
        written = _sqlite.written(database)
    except OSError:
        return (folder.isdigit() and _numbered(run).get(int(folder))) or unquote(folder)
    return _names(database, written).get((run.name, folder), unquote(folder))


def _numbered(run: Path) -> dict[int, str]:
    """The names of the curves by their number, as the run file of a directory has them; empty where there is none."""
    try:
        files = sorted(run.glob("run-*.swanlab"))[:1]
        return _columns(files[0], files[0].stat().st_mtime_ns) if files else {}
    except OSError:
        return {}


@lru_cache(maxsize=64)
def _columns(path: Path, written: int) -> dict[int, str]:  # noqa: ARG001  part of the key
    return dict(enumerate(swanlab_records.columns(Source.of(path)), 1))


@lru_cache(maxsize=64)
def _names(database: Path, written: tuple[int, ...]) -> dict[tuple[str, str], str]:  # noqa: ARG001  part of the key
    """Run and folder → the name of the curve; empty where the database cannot be read."""
    query = "SELECT run_id, folder, tag.name FROM tag JOIN experiment ON tag.experiment_id = experiment.id"
    try:
        with _sqlite.connected(database) as connection:
            return {(str(run), str(folder)): str(name) for run, folder, name in connection.execute(query)}
    except (sqlite3.Error, OSError):
        return {}
