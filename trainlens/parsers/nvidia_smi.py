"""What nvidia-smi logs of GPUs: CSV queries, the samples of `dmon` and `pmon`, the reports of `-q` and its tables.

A CSV query (`--query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1`) names its columns in a header
with units, and repeats the units in the cells; `dmon` and `pmon` print two header lines again and again, and "-" where
a device cannot tell. The number of a GPU counts as a rank; where only its name or bus is logged, GPUs are numbered as
they come. Rows have a clock at most and no steps: each is the next sample. Time is that of the machine, read as UTC.
A query printed without its header cannot be known and is not read. Windows PowerShell writes UTF-16. A report (text,
XML or the boxed table) is one moment, or as many as were appended: its measures have the names of a query, and what it
says of each GPU's memory errors, limits and throttling are facts. The processes of a GPU add up.

The formats: https://docs.nvidia.com/deploy/nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Note, Place, Points
from trainlens.parsers import _smi_report
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._lines import Block, blocks, encoding, head_text
from trainlens.parsers._smi_tables import Form, Samples, monitor_header, query_header, samples
from trainlens.sources import Source

READS_TEXT = True


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  its header is enough
    """How sure it is that nvidia-smi wrote this."""
    text = head_text(head)
    if _smi_report.is_report(text):
        return 1.0
    lines = [line for line in text.split("\n") if line.strip()][:20]
    for line, below in pairwise([*lines, ""]):
        if query_header(line) or monitor_header(line, below):
            return 0.97
        if not line.startswith("#") and not line.lower().startswith(("+ nvidia-smi", "$ nvidia-smi", "nvidia-smi")):
            return 0.0
    return 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points of all measures by GPU, facts of its name and driver, notes of rows that do not fit."""
    if _smi_report.is_report(head_text(source.head())):
        yield from _smi_report.batches(source)
        return
    state = cast(Mapping[str, Any], since.state) if since else {}
    table = _Table(source.name)
    table.restore(state)
    end, line = since.offset if since else 0, int(state.get("line", 1))
    for block in blocks(source, end, line):
        yield from table.read(block)
        if not block.torn:
            end, line = block.end, block.line + block.count
    if table.form is None:
        raise InputError("has no header of nvidia-smi", where=source.name, hint="Log with --format=csv, not noheader")
    yield from table.notes()
    if not source.compressed and encoding(source.head(4))[0] == "utf-8":
        yield Checkpoint(end, {"line": line, **table.state()})


@dataclass
class _Table:
    """The rows of a file, block by block."""

    path: str
    form: Form | None = None
    above: str = ""  # the first of two header lines
    ranks: dict[str, int] = field(default_factory=dict)
    stated: dict[str, str] = field(default_factory=dict)
    odd: list[int] = field(default_factory=list)

    def read(self, block: Block) -> Iterator[Batch]:
        lines = block.text.decode("utf-8", "replace").split("\n")
        rows: list[list[str]] = []
        places: list[int] = []
        for at, line in enumerate(lines):
            text = line.strip()
            if not text:
                continue
            if header := self._header(text):
                if header != self.form:
                    yield from self._points(rows, places)
                    rows, places, self.form = [], [], header
            elif self.form is not None and not text.startswith("#"):
                cells = self.form.split(text)
                if len(cells) == len(self.form.names):
                    rows.append(cells)
                    places.append(block.line + at)
                elif not (block.torn and at == len(lines) - 1):
                    self.odd.append(block.line + at)
        if block.torn and rows and places[-1] == block.line + len(lines) - 1:
            rows.pop()  # its last cell may be cut
            places.pop()
        yield from self._points(rows, places)

    def _header(self, text: str) -> Form | None:
        """The form that a header line states, the second one of two; None for any other line."""
        if text.startswith("#"):
            above, self.above = self.above, text
            return monitor_header(above, text) if above else None
        return query_header(text) if text[0].islower() else None

    def _points(self, rows: list[list[str]], places: list[int]) -> Iterator[Points | Fact]:
        if self.form is None or not rows:
            return
        found = samples(self.form, rows, places, self.ranks)
        for name, value in found.stated.items():
            if self.stated.get(name) != value:
                self.stated[name] = value
                yield Fact(name, value, Place(self.path, places[0]))
        for rank in np.unique(found.rank).tolist():
            yield from _of_rank(found, rank)

    def notes(self) -> Iterator[Note]:
        if self.odd:
            message = f"{len(self.odd):,} lines are no rows of the table, the first is line {self.odd[0]:,}"
            yield Note("not-understood", message, self.odd[0], count=len(self.odd))

    def state(self) -> dict[str, object]:
        form = [self.form.kind, list(self.form.names), list(self.form.units)] if self.form else None
        return {
            "form": form,
            "above": self.above,
            "ranks": dict(self.ranks),
            "stated": dict(self.stated),
            "odd": kept(self.odd),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if state.get("form"):
            kind, names, units = state["form"]
            self.form = Form(kind, tuple(names), tuple(units))
        self.above = state.get("above", "")
        self.odd = restored(state.get("odd"))
        self.ranks, self.stated = dict(state.get("ranks", {})), dict(state.get("stated", {}))


def _of_rank(found: Samples, rank: int) -> Iterator[Points]:
    own = np.flatnonzero(found.rank == rank)
    time, line = found.time[own], found.line[own]
    clock = time if np.isfinite(time).any() else None
    for tag, column in found.measures.items():
        value = column[own]
        told = np.isfinite(value)
        if told.all():
            yield Points(tag, None, value, clock, rank, line)
        elif told.any():
            yield Points(tag, None, value[told], None if clock is None else clock[told], rank, line[told])
