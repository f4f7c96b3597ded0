"""Blocks of cells as tables of numbers and texts: polars for even blocks, the csv module for the others."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trainlens import catalog
from trainlens.later import Later
from trainlens.model import Ints
from trainlens.parsers import _texts
from trainlens.parsers._dialect import Dialect, cells
from trainlens.parsers._tables import Table, add_series

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

_BLANKS = re.compile(rb"[ \t]+")
_EDGES = re.compile(rb"(?m)^ | (?=\r?$)")
_NOT_LOGGED = ["", "NA", "N/A", "n/a", "None", "none", "null", "NULL", "-", "--", "_"]
_RECENT = 50  # rows whose last cells show what a whole one looks like


class Reader:
    """Reads the blocks of one file in order; `line` counts the lines read by now."""

    def __init__(self, form: Dialect, line: int = 0) -> None:
        self.form = form
        self.line = line
        self.headers: list[int] = []  # lines that repeat the header
        self.uneven: list[int] = []  # lines with too few or too many cells
        self.latin = False
        self.ends: list[str] = []  # last cells of recent rows, digits as 0

    def read(self, block: bytes) -> Iterator[tuple[str, Table]]:
        """The run ("" where the file has one) and the table of each run's columns."""
        text = self._in_utf8(block).replace(b"\r\n", b"\n")
        if self.line == 0:
            drop = self.form.skip + self.form.header
            lines = text.split(b"\n", drop)
            text = lines[drop] if len(lines) > drop else b""
            self.line = min(drop, len(lines))
        first = self.line + 1
        self.line += text.count(b"\n") + bool(text and not text.endswith(b"\n"))
        if not text.strip():
            return
        if self.form.delimiter == " ":
            text = _EDGES.sub(b"", _BLANKS.sub(b" ", text))
        self._remember(text)
        frame, at = self._even(text, first) or self._each(text, first)
        frame, at = self._without_headers(frame, at)
        for run, columns in self.form.columns().items():
            table = Table(at)
            for name, place in columns.items():
                self._add(table, name, frame.to_series(place))
            yield run, table

    def is_whole(self, line: bytes) -> bool:
        """Whether a last line without its end looks complete: all cells there, the last one as long as others were."""
        row = cells(self._in_utf8(line).decode("utf-8", "replace").rstrip("\r\n"), self.form.delimiter)
        if len(row) != len(self.form.names):
            return False
        return not self.ends or _pattern(row[-1]) in self.ends

    # ---- cells ----------------------------------------------------------------------------------------------------

    def _even(self, text: bytes, first: int) -> tuple[pl.DataFrame, Ints] | None:
        """A block of rows that all have the header's number of cells, none of them quoted; None where it is not so."""
        width, delimiter = len(self.form.names), self.form.delimiter
        rows = text.count(b"\n") + (not text.endswith(b"\n"))
        codes = np.frombuffer(text, np.uint8)
        if b'"' in text or np.count_nonzero(codes == ord(delimiter)) != rows * (width - 1):
            return None
        try:
            frame = pl.read_csv(
                text, has_header=False, separator=delimiter, quote_char=None,
                schema={f"c{at}": pl.String for at in range(width)},
            )  # fmt: skip
        except pl.exceptions.PolarsError:
            return None
        return (frame, np.arange(first, first + rows, dtype=np.int64)) if frame.height == rows else None

    def _each(self, text: bytes, first: int) -> tuple[pl.DataFrame, Ints]:
        """The rows of a block one by one. Of a row with too few cells the last is left out, for it may be cut."""
        width = len(self.form.names)
        lines: list[int] = []
        rows: list[list[str | None]] = []
        # A NUL is no cell's text, and the csv module refuses it.
        content = io.StringIO(text.decode("utf-8", "replace").replace("\0", ""), newline="")
        reader = csv.reader(content, delimiter=self.form.delimiter, skipinitialspace=True)
        before = 0
        while True:
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error:
                self.uneven.append(first + before)
                before = reader.line_num
                continue
            line, before = first + before, reader.line_num
            if not any(cell.strip() for cell in row) or (row[0].startswith("#") and len(row) != width):
                continue
            if len(row) != width and any(row[width:]):
                self.uneven.append(line)
                continue
            if len(row) < width:
                self.uneven.append(line)
                row = row[:-1]
            lines.append(line)
            rows.append([cell.strip() or None for cell in row] + [None] * (width - len(row)))
        columns = zip(*(row[:width] for row in rows), strict=True) if rows else [()] * width
        frame = pl.DataFrame([pl.Series(f"c{at}", cells, pl.String) for at, cells in enumerate(columns)])
        return frame, np.array(lines, np.int64)

    def _without_headers(self, frame: pl.DataFrame, at: Ints) -> tuple[pl.DataFrame, Ints]:
        if not self.form.header:
            return frame, at
        same = (frame.to_series(0).str.strip_chars() == self.form.names[0]).fill_null(False)
        if not same.any():
            return frame, at
        self.headers += at[same.to_numpy()].tolist()
        return frame.filter(~same), at[~same.to_numpy()]

    def _add(self, table: Table, name: str, series: pl.Series) -> None:
        """Adds a column: numbers where all its cells are some, else texts."""
        found = series.cast(pl.Float64, strict=False)
        if found.null_count() > series.null_count():
            series = series.str.strip_chars()
            empty = series.is_in(_NOT_LOGGED)
            series = series.set(empty, None) if empty.any() else series
            if self.form.decimal_comma and catalog.axis(name) != "step":
                series = series.str.replace(r"^([-+]?\d+),(\d+)", "$1.$2")
            found = _texts.numbers(series)
        if series.null_count() == len(series):
            return
        if found.null_count() == series.null_count():
            add_series(table, name, found)
            return
        lower = series.str.to_lowercase()
        if lower.is_in(["true", "false"]).fill_null(True).all():
            add_series(table, name, lower == "true")
        else:
            add_series(table, name, series)

    # ---- bytes ----------------------------------------------------------------------------------------------------

    def _in_utf8(self, block: bytes) -> bytes:
        try:
            block.decode()
        except UnicodeDecodeError:
            self.latin = True
            return block.decode("latin-1").encode()
        return block

    def _remember(self, text: bytes) -> None:
        tail = text[-100 * _RECENT :].decode("utf-8", "replace").split("\n")[1 if len(text) > 100 * _RECENT else 0 :]
        rows = [cells(line, self.form.delimiter) for line in tail[-_RECENT - 1 :] if line.strip()]
        self.ends = [_pattern(row[-1]) for row in rows if len(row) == len(self.form.names)]


def _pattern(cell: str) -> str:
    return re.sub(r"\d", "0", cell)
