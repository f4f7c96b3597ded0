"""AMD's tools: `rocm-smi --csv` or `--json`, and `amd-smi … --csv` or `--json`, once or again and again.

`rocm-smi` names its devices "card0", "card1" (a CSV row or a JSON object each), `amd-smi` has a column or key "gpu".
The number is the rank. A header that comes again begins the next sample, so does the next JSON document; lines with a
date between them are their clock. Nested values of amd-smi are joined by "/"; its "unit" is the unit.

The formats: https://rocm.docs.amd.com/projects/rocm_smi_lib, https://rocm.docs.amd.com/projects/amdsmi.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Note, Points
from trainlens.parsers._lines import blocks, clock, head_text
from trainlens.parsers._smi_tables import number
from trainlens.sources import Source

_CARDS = re.compile(r'^\s*[\[{][\s\[{]*"card\d{1,3}"\s*:\s*\{')
_AMD = re.compile(r'^\s*[\[{][\s\[{]*(?:"gpu_data"\s*:\s*\[\s*\{\s*)?"gpu"\s*:\s*\d{1,3}\s*,')
_MARKS = re.compile(r'"(?:usage|gfx_activity|mem_usage|power|clock|temperature|asic)"')
_CARD = re.compile(r"(?:card|gpu)?(\d{1,3})$", re.I)
_TIMES = frozenset(("timestamp", "time", "date", "datetime"))
_UNITS = {"used_vram": "MB", "total_vram": "MB", "free_vram": "MB", "gfx_activity": "%", "umc_activity": "%"}
_LONGEST = 4 << 20  # bytes of one JSON document
Values = list[tuple[float, float, int]]


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  its content is enough
    """How sure it is that one of AMD's tools wrote this."""
    text = head_text(head).lstrip()
    if _CARDS.match(text) or (_AMD.match(text) and _MARKS.search(text[:4000])):
        return 0.97
    return 0.97 if any(_header(line) for line in text.split("\n")[:5]) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  its documents are small
    """Points by measure and GPU, a note of what does not fit; InputError when there are none."""
    found = _Samples()
    for block in blocks(source):
        lines = block.text.decode("utf-8", "replace").split("\n")
        for at, line in enumerate(lines):
            if line.strip() and not (block.torn and found.names and at == len(lines) - 1):
                found.line(line.rstrip("\r"), block.line + at)
    if not found.rows:
        raise InputError("holds no samples of rocm-smi or amd-smi", where=source.name)
    for (tag, rank), rows in found.rows.items():
        value, time, line_of = (np.array(column) for column in zip(*rows, strict=True))
        clocked = time.astype(np.float64) if np.isfinite(time).any() else None
        unit = found.units.get(tag, _UNITS.get(tag, ""))
        yield Points(tag, None, value.astype(np.float64), clocked, rank, line_of.astype(np.int64), unit=unit)
    if found.odd:
        message = f"{len(found.odd):,} lines are no samples, the first is line {found.odd[0]:,}"
        yield Note("not-understood", message, found.odd[0], count=len(found.odd))


def _header(line: str) -> list[str]:
    """The names of the columns of a CSV header; none where the line is no such header."""
    names = [cell.strip() for cell in line.split(",")]
    lower = [name.lower() for name in names]
    if lower[0] == "device" and any(re.search(r"\((?:%|c|w|b|mhz)\)|gpu use|vram", one) for one in lower[1:]):
        return names
    amd = any(re.search(r"gfx|umc|vram|socket_power|hotspot|edge|power_usage", name) for name in lower)
    return names if "gpu" in lower[:2] and amd else []


@dataclass
class _Samples:
    names: list[str] = field(default_factory=list)
    time: float = np.nan
    text: list[str] = field(default_factory=list)  # of the JSON document that has begun
    begun: int = 0
    length: int = 0
    rows: dict[tuple[str, int], Values] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, str] = field(default_factory=dict)
    odd: list[int] = field(default_factory=list)

    def line(self, line: str, at: int) -> None:
        if self.text or (not self.names and line.lstrip()[:1] in ("{", "[")):
            self._json(line, at)
        elif header := _header(line):
            self.names = header
        elif self.names and len(cells := [cell.strip() for cell in line.split(",")]) == len(self.names):
            self._cells(dict(zip(self.names, cells, strict=True)), at)
        elif (time := clock(line)) is not None:
            self.time = time
        else:
            self.odd.append(at)

    def _cells(self, cells: dict[str, str], at: int) -> None:
        device = next((value for name, value in cells.items() if name.lower() in ("device", "gpu")), "")
        stamp = next((value for name, value in cells.items() if name.lower() in _TIMES), "")
        if (card := _CARD.match(device)) is None:
            if device.lower() != "system":
                self.odd.append(at)
            return
        time = _time(stamp, self.time)
        for name, cell in cells.items():
            if name.lower() not in ("device", "gpu", *_TIMES):
                self._add(name, int(card[1]), number(cell.rstrip("%")), time, at)

    def _json(self, line: str, at: int) -> None:
        """Lines are gathered until they are a document; one too long is given up."""
        if not self.text:
            self.begun, self.length = at, 0
        self.text.append(line)
        self.length += len(line)
        if self.length > _LONGEST:
            self.text = []
            self.odd.append(self.begun)
            return
        if line.rstrip()[-1:] not in ("}", "]") or (line[:1] in " \t" and len(self.text) > 1):
            return
        try:
            document = json.loads("\n".join(self.text))
        except (ValueError, RecursionError):
            return
        self.text = []
        self._document(document, self.begun)

    def _document(self, document: Any, at: int) -> None:
        if isinstance(document, dict) and isinstance(document.get("gpu_data"), list):
            document = document["gpu_data"]
        if isinstance(document, dict) and "gpu" not in document:
            pairs = list(document.items())
        else:
            pairs = [("", one) for one in (document if isinstance(document, list) else [document])]
        for name, device in pairs:
            if not isinstance(device, dict) or (card := _CARD.match(str(device.get("gpu", name)))) is None:
                continue
            stamp = next((str(value) for key, value in device.items() if key.lower() in _TIMES), "")
            measures = {key: value for key, value in device.items() if key != "gpu"}
            self._leaves("", measures, int(card[1]), (_time(stamp, self.time), at), 0)

    def _leaves(self, above: str, values: dict[str, Any], rank: int, place: tuple[float, int], depth: int) -> None:
        for key, value in values.items():
            name = f"{above}{key}"
            if isinstance(value, dict) and "value" in value:
                self.units[name] = str(value.get("unit") or "")
                self._add(name, rank, number(str(value["value"])), *place)
            elif isinstance(value, dict) and depth < 8:
                self._leaves(f"{name}/", value, rank, place, depth + 1)
            elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and key.lower() not in _TIMES:
                self._add(name, rank, number(str(value).rstrip("%")), *place)

    def _add(self, name: str, rank: int, value: float, time: float, at: int) -> None:
        if np.isfinite(value):
            self.rows[name, rank].append((value, time, at))


def _time(stamp: str, otherwise: float) -> float:
    if re.fullmatch(r"\d{10}(?:\.\d{1,9})?", stamp):
        return float(stamp)
    known = clock(stamp)
    return otherwise if known is None else known
