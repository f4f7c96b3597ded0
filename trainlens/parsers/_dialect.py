"""What a table of cells looks like: its delimiter, its header, and what its columns are named for."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from trainlens import catalog
from trainlens.model import Batch, Points
from trainlens.parsers._row_blocks import in_utf8
from trainlens.sources import HEAD

SAMPLE = 60  # lines that are looked at
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_FLAGS = ("true", "false")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")  # thousands, unless another cell tells that the comma is decimal
# A chart's download has three columns for each curve, "RUN - METRIC" and that with __MIN and __MAX:
# https://docs.wandb.ai/guides/app/features/panels/line-plot
_LOW, _HIGH = "__MIN", "__MAX"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a file are to be read. `skip` counts the lines before the first row or header."""

    delimiter: str
    names: Sequence[str]
    header: bool = True
    skip: int = 0
    decimal_comma: bool = False

    def columns(self) -> dict[str, dict[str, int]]:
        """Place of each column that is to be read, by run ("": all) and name."""
        plain = {name: at for at, name in enumerate(self.names) if not name.endswith((_LOW, _HIGH))}
        if not any(name + _LOW in self.names for name in plain):
            return {"": plain}
        shared = {name: at for name, at in plain.items() if " - " not in name}
        runs: dict[str, dict[str, int]] = {}
        for name, at in plain.items():
            run, _, tag = name.rpartition(" - ")
            if run and tag != "_step":
                runs.setdefault(run, dict(shared))[tag] = at
        return runs or {"": plain}

    @staticmethod
    def of_run(batch: Batch, run: str) -> Batch:
        return replace(batch, run=run) if run and isinstance(batch, Points) else batch


def decoded_head(head: bytes) -> list[str]:
    """The whole lines of a head; a head shorter than `HEAD` is the file, whose last line counts too."""
    whole = len(head) < HEAD
    text = in_utf8(head)
    try:
        lines = text.decode("utf-8", "strict" if whole else "ignore").split("\n")
    except UnicodeDecodeError:
        lines = text.decode("latin-1").split("\n")
    return [line.rstrip("\r") for line in (lines if whole else lines[:-1])]


def cells(line: str, delimiter: str) -> list[str]:
    """The cells of one line, without padding and quotes."""
    if delimiter == " ":
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]
    except csv.Error:
        return []


def _all_cells(lines: list[str], delimiter: str) -> list[list[str]]:
    """The cells of several lines; a quoted cell may go over more than one."""
    if delimiter == " ":
        return [line.split() for line in lines]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []
    return [[cell.strip() for cell in row] for row in rows]


def is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def dialect(head: bytes, path: Path) -> Dialect | None:
    """How a file that begins like this is to be read, None where it is no table of cells with numbers."""
    lines = decoded_head(head)
    skip = 0
    while skip < len(lines) and (not lines[skip].strip() or lines[skip].lstrip().startswith("#")):
        skip += 1
    sample = [line for line in lines[skip : skip + SAMPLE] if line.strip()]
    named = ".csv" in path.suffixes or ".tsv" in path.suffixes
    found = [one for mark in ",;\t " if (one := _with(mark, sample, skip, named)) is not None]
    return max(found, key=lambda one: (len(one.names), one.delimiter != " "), default=None)


def _with(mark: str, sample: list[str], skip: int, named: bool) -> Dialect | None:
    rows = _all_cells(sample, mark)
    if not rows or len(rows[0]) < 2:
        return None
    names, body = rows[0], rows[1:]
    width = len(names)
    even = [row for row in body if len(row) == width]
    if all(is_number(name) for name in names):
        return _headless(mark, rows, skip, named)
    if any(is_number(name) for name in names if name):
        return None
    if len(even) < (0.6 * (len(body) - 1) if named else max(0.6 * len(body), 2)):  # the last one may be cut
        return None
    numbers = [sum(is_number(row[at]) or row[at].lower() in _FLAGS for row in even) for at in range(width)]
    if even and not any(count for count, name in zip(numbers, names, strict=True) if catalog.axis(name) is None):
        return None
    if not body and not named:
        return None
    filled = sum(bool(cell) for row in even for cell in row)
    if mark == " " and (
        len(even) < len(body) or sum(numbers) * 2 < filled or any(":" in name or "=" in name for name in names)
    ):
        return None
    if not named and sum(numbers) * 3 < filled:
        return None
    comma = any(_DECIMAL_COMMA.fullmatch(cell) and not _GROUPED.fullmatch(cell) for row in even for cell in row)
    return Dialect(mark, _unlike(names), skip=skip, decimal_comma=comma)


def _headless(mark: str, rows: list[list[str]], skip: int, named: bool) -> Dialect | None:
    """Rows of numbers alone: a step that grows, and what was measured."""
    width = len(rows[0])
    if len(rows) < 3 or any(len(row) != width or not all(map(is_number, row)) for row in rows[:-1]):
        return None
    steps = [row[0] for row in rows[:-1]]
    if not all(step.isdecimal() for step in steps) or any(int(step) <= int(before) for before, step in pairwise(steps)):
        return None
    if width == 2:
        return Dialect(mark, ("step", "loss"), header=False, skip=skip)
    return (
        Dialect(mark, ("step", *(f"column {at}" for at in range(2, width + 1))), header=False, skip=skip)
        if named
        else None
    )


def _unlike(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which no two are alike; an empty one is the place of its column."""
    found: dict[str, None] = {}
    for at, name in enumerate(names, 1):
        name = name or f"column {at}"
        found[name if name not in found else f"{name} (column {at})"] = None
    return tuple(found)
