"""NVIDIA DCGM: what `dcgmi dmon` prints, and the scrapes of dcgm-exporter (Prometheus text).

`dcgmi dmon` names its columns in a header ("#Entity  GRACT  SMACT  POWER") that comes again and again; a row is a GPU
or an instance of one, "N/A" is no value, and there is no clock. An exporter writes one line a measure and GPU,
`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="node1"} 95`, with milliseconds behind it at times; lines that hold a date or a
comment with one are the clock of what follows. The number of a GPU is its rank; of several hosts those of the first
by name come first. An Xid that an exporter tells is an event when it changes. Process labels and hosts are not told.

The formats: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html,
https://github.com/NVIDIA/dcgm-exporter, https://prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainlens.errors import InputError
from trainlens.model import NO_RANK, Batch, Checkpoint, Event, Fact, Note, Place, Points
from trainlens.parsers._lines import blocks, clock, head_text
from trainlens.parsers._smi_tables import number
from trainlens.sources import Source

_HEADER = re.compile(r"^\s*#\s*Entity\s+(\S.*)$")
_ROW = re.compile(r"^\s*(GPU|GPU-I|GPU-CI|GI|CI)\s+(\d{1,4})(?:/[\d/]+)?\s+(\S.*)$")
_SCRAPED = re.compile(
    r"^((?:DCGM_FI|nvidia_smi|nvidia_gpu|amd_gpu|gpu)_\w{1,120})\{([^{}]{0,2000})\}\s+(\S{1,40})(?:\s+(\d{10,19}))?\s*$"
)
_LABEL = re.compile(r'(\w{1,40})="((?:[^"\\]|\\.){0,300})"')
_UNITS = {"FBUSD": "MiB", "FBFRE": "MiB", "FBTTL": "MiB", "DCGM_FI_DEV_FB_USED": "MiB", "DCGM_FI_DEV_FB_FREE": "MiB",
          "DCGM_FI_DEV_FB_TOTAL": "MiB", "DCGM_FI_DEV_GPU_UTIL": "%", "GPUTL": "%", "POWER": "W",
          "DCGM_FI_DEV_POWER_USAGE": "W"}  # fmt: skip
_XID = "DCGM_FI_DEV_XID_ERRORS"


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  its lines are enough
    """How sure it is that DCGM wrote this."""
    lines = [line for line in head_text(head).split("\n") if line.strip()][:60]
    if any(_HEADER.match(line) for line in lines[:5]) and not any("=" in line for line in lines[:5]):
        return 0.97
    scraped = sum(bool(_SCRAPED.match(line)) for line in lines if not line.startswith("#"))
    return 0.97 if scraped and scraped * 2 >= sum(not line.startswith("#") for line in lines) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  ranks need all hosts
    """Points by measure and GPU, facts of the devices, events of Xids, a note of lines that do not fit."""
    found = _Samples(source.name)
    for block in blocks(source):
        lines = block.text.decode("utf-8", "replace").split("\n")
        for at, line in enumerate(lines):
            if line.strip() and not (block.torn and at == len(lines) - 1):
                found.line(line.rstrip("\r"), block.line + at)
    if not found.rows and not found.columns:
        raise InputError("holds no samples of DCGM", where=source.name, hint="Log with `dcgmi dmon -e 203,155,150`")
    yield from found.batches()


Series = tuple[str, str, int]  # tag, host, number of the GPU


@dataclass
class _Samples:
    path: str
    columns: list[str] = field(default_factory=list)
    time: float = np.nan
    rows: dict[Series, list[tuple[float, float, int]]] = field(default_factory=lambda: defaultdict(list))
    stated: dict[str, Fact] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)  # of GPUs that only have a name
    xids: dict[tuple[str, int], float] = field(default_factory=dict)
    events: list[tuple[str, int, Event]] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)

    def line(self, line: str, at: int) -> None:
        if header := _HEADER.match(line):
            self.columns = header[1].split()
        elif self.columns and (row := _ROW.match(line)):
            self._row(row, at)
        elif scraped := _SCRAPED.match(line):
            self._scraped(scraped, at)
        elif (time := clock(line)) is not None:
            self.time = time
        elif not line.lstrip().startswith("#") and line.strip() not in ("Id", "ID"):
            self.odd.append(at)

    def _row(self, row: re.Match[str], at: int) -> None:
        cells = row[3].split()
        if len(cells) != len(self.columns):
            self.odd.append(at)
            return
        for name, cell in zip(self.columns, cells, strict=True):
            tag = name if row[1] == "GPU" else f"{row[1]}/{name}"
            if np.isfinite(value := number(cell)):
                self.rows[tag, "", int(row[2])].append((value, self.time, at))

    def _scraped(self, found: re.Match[str], at: int) -> None:
        labels = dict(_LABEL.findall(found[2]))
        host = labels.get("Hostname") or labels.get("hostname") or labels.get("instance") or ""
        gpu = labels.get("gpu") or labels.get("gpu_id") or labels.get("index") or labels.get("minor_number") or ""
        name = labels.get("UUID") or labels.get("uuid") or gpu
        rank = int(gpu) if gpu.isdecimal() and len(gpu) < 6 else self.ids.setdefault(name, len(self.ids))
        try:
            value = float(found[3])
        except ValueError:
            self.odd.append(at)
            return
        stamp = found[4]
        time = int(stamp) / 10 ** max(0, len(stamp) - 10) if stamp else self.time
        if model := labels.get("modelName"):
            self.stated.setdefault(f"{rank}.gpu_name", Fact(f"{rank}.gpu_name", model, Place(self.path, at)))
        if found[1] == _XID:
            self._xid(value, time, host, rank, at)
        instance = f"instance {labels['GPU_I_ID']}/" if labels.get("GPU_I_ID") else ""
        self.rows[f"{instance}{found[1]}", host, rank].append((value, time, at))

    def _xid(self, value: float, time: float, host: str, rank: int, at: int) -> None:
        before, self.xids[host, rank] = self.xids.get((host, rank), 0.0), value
        if value > 0 and value != before and np.isfinite(value):
            when = None if np.isnan(time) else time
            said = Event("xid", f"Xid {int(value)} on GPU {rank}", time=when, place=Place(self.path, at))
            self.events.append((host, rank, said))

    def batches(self) -> Iterator[Batch]:
        hosts = sorted({host for _, host, _ in self.rows})
        size = 1 + max((gpu for _, _, gpu in self.rows), default=0)
        begin = {host: place * size for place, host in enumerate(hosts)}
        yield from self.stated.values()
        for host, gpu, event in self.events:
            yield Event(event.kind, event.text, time=event.time, rank=begin[host] + gpu, place=event.place)
        for (tag, host, gpu), rows in self.rows.items():
            value, time, line = (np.array(column) for column in zip(*rows, strict=True))
            clocked = time.astype(np.float64) if np.isfinite(time).any() else None
            rank = begin[host] + gpu if gpu >= 0 else NO_RANK
            unit = _UNITS.get(tag, "")
            yield Points(tag, None, value.astype(np.float64), clocked, rank, line.astype(np.int64), unit=unit)
        if self.odd:
            message = f"{len(self.odd):,} lines are no samples, the first is line {self.odd[0]:,}"
            yield Note("not-understood", message, self.odd[0], count=len(self.odd))
