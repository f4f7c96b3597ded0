"""What a source gave when it was last read, kept in the user's cache directory. Part of `store`.

Only sources that are dear to read are kept, under a key of their path, size, time, head, parser and version, so that a
file that changed is read again. A damaged or unwritable cache costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainlens import __version__
from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Place, Points
from trainlens.sources import Source

DEAR = 0.3  # CPU seconds of reading; what costs less is not worth the writing
LIMIT = 2 << 30  # bytes of all kept sources; the longest unused go first
_LAYOUT = 2
_ARRAYS = ("step", "value", "time", "origin")

Read = Callable[[Source], Iterator[Batch]]


def cached(source: Source, parser: str, read: Read) -> Iterator[Batch]:
    """The batches of `read(source)`, from the cache when the source is unchanged, and kept when reading was dear."""
    place = _place(source, parser)
    if place is not None:
        kept = _load(place)
        if kept is not None:
            yield from kept
            return
    batches: list[Batch] = []
    spent = 0.0
    stream = read(source)
    while True:
        begin = time.process_time()
        batch = next(stream, None)
        spent += time.process_time() - begin
        if batch is None:
            break
        batches.append(batch)
        yield batch
    if place is not None and spent > DEAR:
        _keep(place, batches)


def _place(source: Source, parser: str) -> Path | None:
    """Where the source would be kept; None when it cannot be told apart from a later state."""
    import platformdirs

    try:
        head = source.head(4096)
        folder = Path(platformdirs.user_cache_dir("trainlens"))
    except (OSError, RuntimeError):
        return None
    state = (str(source.path.resolve()), source.size, source.modified, parser, __version__, _LAYOUT, *_log(source.path))
    return folder / f"{hashlib.sha256(repr(state).encode() + head).hexdigest()[:32]}.parquet"


# ---- writing ---------------------------------------------------------------------------------------------------------


def _log(path: Path) -> tuple[int, ...]:
    """The state of the write-ahead log beside a database, where newer rows wait; nothing for other files."""
    try:
        state = path.with_name(path.name + "-wal").stat()
    except OSError:
        return ()
    return state.st_size, state.st_mtime_ns


def _keep(place: Path, batches: list[Batch]) -> None:
    """Write the batches; quietly nothing where the directory cannot be written."""
    import pyarrow as pa

    part = place.with_suffix(f".{os.getpid()}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(part, batches)
        part.replace(place)
        _trim(place.parent)
    except (OSError, pa.ArrowException, TypeError):  # TypeError: a Checkpoint that JSON cannot hold
        with contextlib.suppress(OSError):
            part.unlink()


def _write(path: Path, batches: list[Batch]) -> None:
    """A row group for each array, once however many batches share it; all else as JSON in the footer."""
    import pyarrow as pa
    from pyarrow import parquet

    arrays: dict[int, tuple[int, Any]] = {}
    rest = [{"batch": type(batch).__name__, **_fields(batch, arrays)} for batch in batches]
    types = pa.schema([("float", pa.float64()), ("int", pa.int64())], {"batches": json.dumps(rest)})
    with parquet.ParquetWriter(path, types, compression="zstd", compression_level=1, use_dictionary=False) as writer:
        for _, array in arrays.values():
            floats = array.dtype.kind == "f"
            empty = pa.nulls(len(array), pa.int64() if floats else pa.float64())
            columns = [pa.array(array), empty] if floats else [empty, pa.array(array)]
            writer.write_table(pa.table(columns, types), row_group_size=len(array))


def _fields(batch: Batch, arrays: dict[int, tuple[int, Any]]) -> dict[str, Any]:
    """The fields of a batch as JSON has them; arrays that are not empty by their number."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, np.ndarray):
            value = arrays.setdefault(id(value), (len(arrays), value))[0] if len(value) else None
        elif isinstance(value, Place):
            value = dataclasses.astuple(value)
        fields[field.name] = dict(value) if isinstance(batch, Checkpoint) and field.name == "state" else value
    return fields


def _trim(folder: Path) -> None:
    """Remove what was longest unused until the rest is within the limit."""
    kept = sorted(
        ((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob("*.parquet")), reverse=True
    )
    total = 0
    for _, size, path in kept:
        total += size
        if total > LIMIT:
            path.unlink(missing_ok=True)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _load(place: Path) -> list[Batch] | None:
    """The batches that were kept; None where there are none or the file is damaged."""
    import pyarrow as pa
    from pyarrow import parquet

    if not place.exists():
        return None
    try:
        with parquet.ParquetFile(place, memory_map=True) as file:
            rest = json.loads(file.schema_arrow.metadata[b"batches"])
            arrays = [_array(file.read_row_group(number)) for number in range(file.num_row_groups)]
        batches = [_batch(fields, arrays) for fields in rest]
        os.utime(place)
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError):
        return None
    return batches


def _array(table: Any) -> Any:
    column = table["float"] if table["int"].null_count else table["int"]
    return column.to_numpy()


def _batch(fields: dict[str, Any], arrays: list[Any]) -> Batch:
    kind = {one.__name__: one for one in (Points, Event, Fact, Note, Checkpoint)}[fields.pop("batch")]
    if kind is Points:
        fields |= {name: arrays[fields[name]] for name in _ARRAYS if fields[name] is not None}
        if fields["value"] is None:
            fields["value"] = np.empty(0)
    if fields.get("place") is not None:
        fields["place"] = Place(*fields["place"])
    return kind(**fields)
