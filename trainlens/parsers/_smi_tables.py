"""The tables that nvidia-smi prints: what a header says of its columns, and rows of cells as columns of numbers.

Three tables are told apart: the CSV of a query, the samples of each device (dmon), those of each process (pmon).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from trainlens.model import NO_RANK, Floats, Ints
from trainlens.parsers._lines import clock

Kind = Literal["query", "dmon", "pmon"]

_FIELD = re.compile(r"^([a-z0-9_]+(?:\.[a-z0-9_]+)*)(?: \[([^\]]+)\])?$")
_KNOWN = re.compile(
    r"^(?:(?:utilization|memory|temperature|power|clocks|fan|ecc|pcie|pci|encoder|decoder|enforced)\.\w"
    r"|clocks_(?:throttle|event)_reasons\.|index$|gpu_(?:name|uuid|bus_id|serial)$|used_(?:gpu_)?memory)"
)
_NONE = frozenset(("", "-", "n/a", "[n/a]", "[not supported]", "not supported", "[not found]", "[unknown error]",
                   "[insufficient permissions]", "[gpu requires reset]"))  # fmt: skip
_WORDS = {"active": 1.0, "not active": 0.0, "enabled": 1.0, "disabled": 0.0, "yes": 1.0, "no": 0.0}
_GPU = ("index", "gpu", "gpu_id")  # numbers of a device
_IDENTITY = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "pci.bus", "serial", "gpu_serial")  # its name, unnumbered
_STATED = ("name", "gpu_name", "driver_version", "vbios_version")
# A process is no measure; nor is the state of performance, a word such as P0.
_LEFT_OUT = frozenset(
    ("pid", "type", "command", "count", "process_name", "pstate", "minor_number", "timestamp", "date", "time")
)
_PRINTED_UNITS = frozenset(("W", "%", "MB"))  # those that give a measure its scale
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Form:
    """A table's kind and the columns it has: names as in the header, in order; `units` those of the second header."""

    kind: Kind
    names: Sequence[str]
    units: Sequence[str] = ()

    @property
    def bare(self) -> list[str]:
        """Names without their units."""
        return [found[1] if (found := _FIELD.match(name)) else name.lower() for name in self.names]

    def tag(self, at: int) -> str:
        """The name of a measure; where the unit stands below it, behind it in brackets."""
        name, unit = self.names[at], self.units[at] if at < len(self.units) else ""
        return f"{name} [{unit}]" if unit in _PRINTED_UNITS else name

    def split(self, line: str) -> list[str]:
        if self.kind == "query":
            return [cell.strip() for cell in line.split(",")]
        return [cell.rstrip(",") for cell in line.split(None, len(self.names) - 1)]


def query_header(line: str) -> Form | None:
    """The columns of a CSV query, None where the line is no such header."""
    names = [cell.strip() for cell in line.split(",")]
    if not names or not all(_FIELD.match(name) for name in names):
        return None
    known = sum(bool(_KNOWN.match(name)) for name in names)
    return Form("query", tuple(names)) if known >= 2 or (known and "timestamp" in names) else None


def monitor_header(line: str, below: str) -> Form | None:
    """The columns of dmon or pmon from the two header lines."""
    names, units = (part.lstrip("# ").replace(",", " ").split() for part in (line, below))
    lower = [name.lower() for name in names]
    if "gpu" not in lower or len(units) != len(names) or units[lower.index("gpu")].lower() != "idx":
        return None
    return Form("pmon" if "pid" in lower else "dmon", tuple(names), tuple(units))


def number(cell: str) -> float:
    """The number of a cell, which may carry its unit; NaN where it has none, as "[N/A]" and "-"."""
    lower = cell.strip().lower()
    if lower in _NONE:
        return np.nan
    if lower in _WORDS:
        return _WORDS[lower]
    if lower.startswith("0x"):
        try:
            return float(int(lower, 16))
        except ValueError:
            return np.nan
    first = lower.split(None, 1)[0]
    return float(first) if _NUMBER.fullmatch(first) else np.nan


@dataclass(slots=True)
class Samples:
    """Rows as columns: of each measure its numbers, the rank, time (NaN unknown) and line of each row."""

    rank: Ints
    time: Floats
    line: Ints
    measures: dict[str, Floats] = field(default_factory=dict)
    stated: dict[str, str] = field(default_factory=dict)


def samples(form: Form, rows: Sequence[Sequence[str]], lines: Iterable[int], ranks: dict[str, int]) -> Samples:
    """Rows of as many cells as the form has columns. `ranks` numbers devices that only have a name; it grows."""
    bare = form.bare
    columns: list[tuple[str, ...]] = list(zip(*rows, strict=True)) if rows else [()] * len(bare)
    found = Samples(
        _ranks(bare, columns, ranks, len(rows)), _times(bare, columns, len(rows)), np.array([*lines], np.int64)
    )
    for at, name in enumerate(bare):
        if name in _STATED and rows:
            found.stated[name] = columns[at][0]
        elif name not in _LEFT_OUT and name not in _GPU and name not in _IDENTITY:
            cells = {cell: number(cell) for cell in set(columns[at])}
            found.measures[form.tag(at)] = np.array([cells[cell] for cell in columns[at]], np.float64)
    if "pid" in bare and rows:
        return _by_device(found, _sampled(form, bare, columns, found))
    return found


def _ranks(bare: list[str], columns: list[tuple[str, ...]], ranks: dict[str, int], rows: int) -> Ints:
    for name in _GPU:
        if name in bare and all(cell.isdecimal() for cell in columns[bare.index(name)]):
            return np.array([int(cell) for cell in columns[bare.index(name)]], np.int64)
    for name in _IDENTITY:
        if name in bare:
            return np.array([ranks.setdefault(cell, len(ranks)) for cell in columns[bare.index(name)]], np.int64)
    return np.full(rows, NO_RANK, np.int64)


def _times(bare: list[str], columns: list[tuple[str, ...]], rows: int) -> Floats:
    if "timestamp" in bare:
        stamps: Iterable[str] = columns[bare.index("timestamp")]
    elif "date" in bare and "time" in bare:
        dates, times = columns[bare.index("date")], columns[bare.index("time")]
        stamps = (f"{date[:4]}-{date[4:6]}-{date[6:8]} {time}" for date, time in zip(dates, times, strict=True))
    else:
        return np.full(rows, np.nan)
    return np.array([np.nan if (at := clock(stamp)) is None else at for stamp in stamps], np.float64)


def _sampled(form: Form, bare: list[str], columns: list[tuple[str, ...]], found: Samples) -> Ints:
    """Numbers of the samples that rows of processes are of: a new one where the devices or the processes begin anew."""
    pids = columns[bare.index("pid")]
    stamps = columns[bare.index("timestamp")] if form.kind == "query" and "timestamp" in bare else ("",) * len(pids)
    sample, seen, last, before = 0, set[tuple[int, str]](), -1, stamps[0]
    group = np.empty(len(pids), np.int64)
    for at, (rank, pid, stamp) in enumerate(zip(found.rank.tolist(), pids, stamps, strict=True)):
        if (rank < last and not stamp) or (rank, pid) in seen or (stamp and _second(stamp) != _second(before)):
            sample += 1
            seen.clear()
        seen.add((rank, pid))
        group[at], last, before = sample, rank, stamp
    return group


def _second(stamp: str) -> str:
    return stamp.partition(".")[0]


def _by_device(found: Samples, group: Ints) -> Samples:
    """The processes of one device and sample as one row: shares and memory add up."""
    order = np.lexsort((found.rank, group))
    group, rank = group[order], found.rank[order]
    first = np.flatnonzero(np.r_[True, (np.diff(group) != 0) | (np.diff(rank) != 0)])
    sums = {}
    for tag, column in found.measures.items():
        known = np.isfinite(column[order])
        total = np.add.reduceat(np.where(known, column[order], 0.0), first)
        sums[tag] = np.where(np.add.reduceat(known.astype(np.int64), first) > 0, total, np.nan)
    kept = order[first]
    return Samples(found.rank[kept], found.time[kept], found.line[kept], sums, found.stated)
