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
from trainlens.parsers._chart_names import renamed
from trainlens.parsers._row_blocks import in_utf8
from trainlens.sources import HEAD

SAMPLE = 60  # lines that are looked at
_COMMENT = "#"
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
    run: str = ""  # named by the file
    guessed: str = ""  # what columns without a header were taken for

    def columns(self) -> dict[str, dict[str, int]]:
        """Place of each column that is to be read, by run ("": all) and name."""
        plain = {name: at for at, name in enumerate(self.names) if not name.endswith((_LOW, _HIGH))}
        if not any(name + _LOW in self.names for name in plain):
            return {"": plain}
        shared = {name: at for name, at in plain.items() if " - " not in name}
        counted = any(catalog.axis(name) == "step" for name in shared)  # else a run's own `_step` does
        runs: dict[str, dict[str, int]] = {}
        for name, at in plain.items():
            run, _, tag = name.rpartition(" - ")
            if run and (tag != "_step" or not counted):
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
    while skip < len(lines) and (not lines[skip].strip() or lines[skip].lstrip().startswith(_COMMENT)):
        skip += 1
    sample = [line for line in lines[skip : skip + SAMPLE] if line.strip() and not line.lstrip().startswith(_COMMENT)]
    named = ".csv" in path.suffixes or ".tsv" in path.suffixes
    last = next((line for line in reversed(lines[:skip]) if line.strip()), "").strip().lstrip(_COMMENT).strip()
    found = [one for mark in ",;\t " if (one := _with(mark, sample, skip, named)) is not None]
    found += [one for mark in ",;\t " if last and (one := _commented(mark, last, sample, skip)) is not None]
    if not found and len(sample) > 2:
        found = [one for mark in ",;\t " if (one := _headless(mark, _all_cells(sample, mark), skip, path, named))]
    best = max(found, key=lambda one: (len(one.names), one.delimiter != " ", not one.guessed), default=None)
    if best is None or not best.header:
        return best
    run, names = renamed(best.names, path)
    return replace(best, names=tuple(names), run=run)


def _with(mark: str, sample: list[str], skip: int, named: bool) -> Dialect | None:
    rows = _all_cells(sample, mark)
    if not rows or len(rows[0]) < 2:
        return None
    names, body = rows[0], rows[1:]
    width = len(names)
    even = [row for row in body if len(row) == width]
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


def _commented(mark: str, last: str, sample: list[str], skip: int) -> Dialect | None:
    """Rows of numbers below a comment that names their columns, as numpy.savetxt writes them: "# step loss"."""
    names, rows = cells(last, mark), _all_cells(sample, mark)
    whole = [row for row in rows if len(row) == len(names)]
    if len(names) < 2 or any(map(is_number, names)) or len(whole) * 10 < len(rows) * 9 or not whole:
        return None
    if not all(is_number(cell) for cell in whole[0]) or (
        mark == " " and any(":" in name or "=" in name for name in names)
    ):
        return None
    return Dialect(mark, _unlike(names), header=False, skip=skip)


def _headless(mark: str, rows: list[list[str]], skip: int, path: Path, named: bool) -> Dialect | None:
    """Rows of numbers alone: a step that grows, perhaps a clock, and what was measured."""
    width = len(rows[0]) if rows else 0
    if width < 2 or len(rows) < 3 or any(len(row) != width or not all(map(is_number, row)) for row in rows[:-1]):
        return None
    columns = [[row[at].replace(",", ".") for row in rows[:-1]] for at in range(width)]
    step = next((at for at, column in enumerate(columns) if _counts(column)), None)
    measured = _measured_by(path)
    if step is None or (width > 2 and not named and not measured):
        return None
    names = [f"column {at}" for at in range(1, width + 1)]
    names[step] = "step"
    for at in (0, width - 1):
        if at != step and all(1e9 < float(cell) < 1e11 for cell in columns[at] if cell != "nan"):
            names[at] = "timestamp"
            break
    first = next(at for at, name in enumerate(names) if name.startswith("column "))
    if measured or names.count("step") + names.count("timestamp") == width - 1:
        names[first] = measured or "loss"
    taken = ", ".join(f"column {at} is taken for {name!r}" for at, name in enumerate(names, 1) if name[:7] != "column ")
    return Dialect(mark, tuple(names), header=False, skip=skip, guessed=f"no header names the columns: {taken}")


def _counts(column: list[str]) -> bool:
    """Whether cells are whole numbers that grow from row to row, and are no clock."""
    if not all(cell.isdecimal() and len(cell) < 16 for cell in column) or int(column[0]) > 10**9:
        return False
    return all(int(cell) > int(before) for before, cell in pairwise(column))


def _measured_by(path: Path) -> str:
    """What the name of a file says it holds ("val_loss.txt"), "" for names that say nothing."""
    stem = path.name.partition(".")[0]
    known = catalog.resolve([stem])[stem].role in ("loss", "eval-loss", "score", "reward", "perplexity", "grad-norm")
    return stem if known else ""


def _unlike(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which no two are alike; an empty one is the place of its column."""
    found: dict[str, None] = {}
    for at, name in enumerate(names, 1):
        name = name or f"column {at}"
        found[name if name not in found else f"{name} (column {at})"] = None
    return tuple(found)
