"""Trackio exports (`PROJECT.parquet`, `metrics.parquet` and those beside them): a row for each call of log.

A column is a metric, a missing cell was not logged; parts of nested objects are joined by "/". Rows of the hardware
samples bear no step. Of `configs.parquet` the settings become facts.

The format: https://github.com/gradio-app/trackio/blob/main/trackio/sqlite_storage.py (`export_to_parquet`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainlens.errors import InputError
from trainlens.later import Later
from trainlens.model import Batch, Checkpoint, Fact, Floats, Ints, Place, Points
from trainlens.parsers._json_documents import flat
from trainlens.parsers._scattered import NON_FINITE
from trainlens.parsers.trackio import called, hardware_unit, unix
from trainlens.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa = Later("pyarrow")
    pc = Later("pyarrow.compute")
    pq = Later("pyarrow.parquet")

MAGIC = b"PAR1"
ROWS = 1 << 16  # read at once
_OWN = frozenset(("id", "run_id", "run_name", "timestamp", "step", "log_id", "space_id", "created_at"))


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is such an export: the names of its columns are looked up."""
    if not head.startswith(MAGIC):
        return 0.0
    try:
        names = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return 0.3 if path.stem == "metrics" else 0.0
    return 0.95 if {"run_name", "id"} <= names and not names.isdisjoint(("timestamp", "created_at")) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """Points of all runs, or their settings; InputError when the file cannot be read."""
    try:
        with pq.ParquetFile(source.path) as file:
            names = called(_runs(file))
            for batch in file.iter_batches(ROWS):
                table = pa.Table.from_batches([batch])
                if "timestamp" in table.column_names:
                    yield from _points(table, names)
                else:
                    yield from _facts(table, names, Place(source.name))
    except (pa.ArrowException, OSError) as problem:
        what = f"a Parquet file that cannot be read ({problem})"
        raise InputError(what, where=source.name, hint="Export it again, or name the project's .db file") from problem


def _runs(file: pq.ParquetFile) -> list[tuple[str, str]]:
    wanted = [name for name in ("run_name", "run_id") if name in file.schema_arrow.names]
    table = file.read(columns=wanted)
    groups = table.group_by(wanted).aggregate([])
    return [_key(row) for row in groups.to_pylist()]


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return str(row.get("run_name") or ""), str(row.get("run_id") or "")


def _points(table: pa.Table, names: dict[tuple[str, str], str]) -> Iterator[Points]:
    wanted = [name for name in ("run_name", "run_id") if name in table.column_names]
    keys = [names[_key(row)] for row in table.select(wanted).to_pylist()]
    run_of, code = np.unique(np.array(keys, dtype=object).astype(str), return_inverse=True)
    time = np.array([unix(stamp) for stamp in table["timestamp"].to_pylist()], np.float64)
    step: Ints | None = None
    if "step" in table.column_names:
        step = pc.fill_null(table["step"], 0).to_numpy().astype(np.int64)
    cells = [one for name in table.column_names if name not in _OWN for one in _columns(name, table[name])]
    for number, run in enumerate(run_of.tolist()):
        mine = code.reshape(-1) == number
        for tag, value, present in cells:
            at = np.flatnonzero(mine & present)
            if len(at):
                own = None if step is None else step[at]
                unit = hardware_unit(tag) if step is None else ""
                yield Points(tag, own, value[at], time[at], run=run, unit=unit)


def _columns(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, Floats, Any]]:
    """Name, numbers and which rows have one, of a column of numbers or of each such part of an object."""
    kind = column.type
    if pa.types.is_struct(kind):
        if "_type" not in {kind.field(at).name for at in range(kind.num_fields)}:
            for at in range(kind.num_fields):
                yield from _columns(f"{name}/{kind.field(at).name}", pc.struct_field(column, [at]))
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind):
        present = pc.is_valid(column).to_numpy()
        yield name, pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0).to_numpy(), present
    elif pa.types.is_string(kind):
        found = [NON_FINITE.get(cell) if cell is not None else None for cell in column.to_pylist()]
        if any(cell is not None for cell in found):
            present = np.array([cell is not None for cell in found], np.bool_)
            yield name, np.array([0.0 if cell is None else cell for cell in found], np.float64), present


def _facts(table: pa.Table, names: dict[tuple[str, str], str], place: Place) -> Iterator[Fact]:
    for row in table.to_pylist():
        settings = {name: cell for name, cell in row.items() if name not in _OWN and not name.startswith("_")}
        yield from (Fact(name, value, place, names[_key(row)]) for name, value in flat(settings))
