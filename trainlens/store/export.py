"""The store as a long table, one row a point, in the order of run, tag, rank, step. Part of `store`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from trainlens.model import NO_RANK, Run, Series

if TYPE_CHECKING:
    import polars as pl

Format = Literal["parquet", "arrow", "csv", "jsonl"]
FORMATS: tuple[Format, ...] = ("parquet", "arrow", "csv", "jsonl")
COLUMNS = ("run", "metric", "tag", "rank", "step", "time", "value", "source", "attempt")


def export(runs: Sequence[Run], stream: BinaryIO, kind: Format, all_attempts: bool = False) -> None:
    """Write the table in one of `FORMATS`, series by series: memory is bounded by the longest.

    Values are those of the log, to the bit. CSV writes nan, inf and -inf, JSON lines write them as texts. Where a rank
    or time is unknown the cell is empty. Points that a later attempt replaced are left out, unless `all_attempts`.
    """
    tables = (
        _table(run, series, all_attempts) for run in sorted(runs, key=lambda run: run.name) for series in _in_order(run)
    )
    if kind == "csv":
        stream.write((",".join(COLUMNS) + "\n").encode())
        for table in tables:
            stream.write(_csv_lines(table))
    elif kind == "jsonl":
        for table in tables:
            stream.write(_json_lines(table))
    else:
        _arrow(tables, kind, stream)


def _in_order(run: Run) -> list[Series]:
    return sorted(run.series, key=lambda series: (series.tag, series.rank))


def _table(run: Run, series: Series, all_attempts: bool) -> pl.DataFrame:
    import polars as pl

    parts = [series]
    if all_attempts and series.replaced is not None:
        parts.append(series.replaced)
    step, value, time, source, attempt = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("step", "raw", "time", "source", "attempt")
    )
    if len(parts) > 1:
        order = np.lexsort((attempt, step))
        step, value, time, source, attempt = (array[order] for array in (step, value, time, source, attempt))
    names = pl.Series([_text(one.path) for one in run.sources], dtype=pl.String)
    size = len(step)
    rank = None if series.rank == NO_RANK else series.rank
    return pl.DataFrame(
        {
            "run": pl.repeat(_text(run.name), size, eager=True, dtype=pl.String),
            "metric": pl.repeat(_text(series.metric), size, eager=True, dtype=pl.String),
            "tag": pl.repeat(_text(series.tag), size, eager=True, dtype=pl.String),
            "rank": pl.repeat(rank, size, eager=True, dtype=pl.Int32),
            "step": pl.Series(step, dtype=pl.Int64),
            "time": pl.Series(np.asarray(time, np.float64)).fill_nan(None),
            "value": pl.Series(np.asarray(value, np.float64)),
            "source": names.gather(source.astype(np.int64)) if len(names) else pl.repeat("", size, eager=True),
            "attempt": pl.Series(attempt, dtype=pl.Int32),
        }
    )


def _text(name: str) -> str:
    """A name as UTF-8 can hold it: bytes of a file's name that are no text are shown as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _csv_lines(table: pl.DataFrame) -> bytes:
    """Rows with shortest numbers that read back to the bit; not a number is nan."""
    import polars as pl

    value = pl.col("value")
    if table["value"].is_nan().any():
        value = pl.when(value.is_nan()).then(pl.lit("nan")).otherwise(value.cast(pl.String))
    return table.with_columns(value.alias("value")).write_csv(include_header=False).encode()


def _json_lines(table: pl.DataFrame) -> bytes:
    import polars as pl

    if table["value"].is_finite().all():
        return table.write_ndjson().encode()
    value = pl.col("value")
    infinite = pl.when(value > 0).then(pl.lit("Infinity")).otherwise(pl.lit("-Infinity"))
    word = pl.when(value.is_nan()).then(pl.lit("NaN")).otherwise(infinite)
    finite = pl.col("value").is_finite()
    # A column has one type: rows of numbers and rows of words are written apart and put together again in order.
    numbers = iter(table.filter(finite).write_ndjson().splitlines())
    words = iter(table.filter(~finite).with_columns(word.alias("value")).write_ndjson().splitlines())
    return "".join(next(numbers if one else words) + "\n" for one in table["value"].is_finite()).encode()


def _arrow(tables: Iterable[pl.DataFrame], kind: Format, stream: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import ipc, parquet

    words, short = pa.large_string(), pa.int32()
    types = (words, words, words, short, pa.int64(), pa.float64(), pa.float64(), words, short)
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    sink = pa.PythonFile(_Counting(stream), mode="w")
    writer: Any
    if kind == "parquet":
        writer = parquet.ParquetWriter(sink, schema, compression="zstd")
    else:
        writer = ipc.new_file(sink, schema)
    with writer:
        for table in tables:
            writer.write_table(table.to_arrow().cast(schema))


class _Counting:
    """A stream that knows how much went through it: a pipe cannot tell, and the formats store offsets."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._at = 0

    def write(self, piece: bytes) -> int:
        self._at += len(piece)
        self._stream.write(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.flush()
