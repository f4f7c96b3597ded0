"""gpustat: its lines, printed once or by `gpustat -i`, and documents of `gpustat --json`.

A moment begins with a line of the host and the date, then a line for each GPU, whose number is the rank:
`[0] NVIDIA A100 | 61'C,  95 %,  300 / 400 W | 30000 / 81920 MB`; "??" is no value. A document holds the same by name.
Measures have the names of the document. Users and commands of processes are not told.

The format: https://github.com/wookayin/gpustat.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Points
from trainlens.parsers._lines import blocks, clock, head_text, plain
from trainlens.parsers._smi_report import moment
from trainlens.sources import Source

_GPU = re.compile(
    r"^\[(\d{1,3})\]\s.{1,80}?\|\s*(\d{1,4}|\?\?)\s*'C,(?:\s*(?:\d+|\?\?) %,)??\s*(\d{1,3}|\?\?)\s*%"
    r"(?:,\s*(\d{1,5}|\?\?)\s*/\s*(?:\d{1,5}|\?\?)\s*W)?\s*\|\s*(\d{1,8}|\?\?)\s*/\s*(\d{1,8}|\?\?)\s*MB"
)
_TAGS = ("temperature.gpu", "utilization.gpu", "power.draw", "memory.used", "memory.total")
_UNITS = dict(zip(_TAGS, ("", "%", "W", "MiB", "MiB"), strict=True))
_DOCUMENT = re.compile(r'^\s*\{\s*"hostname":.{0,400}?"gpus":\s*\[\s*\{\s*"index":', re.S)
_LONGEST = 1 << 20  # letters of one document


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  its lines are enough
    """How sure it is that gpustat wrote this."""
    text = plain(head_text(head))
    if _DOCUMENT.match(text):
        return 0.97
    lines = [line for line in text.split("\n") if line.strip()][:50]
    told = sum(bool(_GPU.match(line)) for line in lines)
    return 0.97 if told and told * 3 >= len(lines) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  moments are short
    """Points by measure and GPU; InputError when there are none."""
    found = _Moments()
    for block in blocks(source):
        lines = plain(block.text.decode("utf-8", "replace")).split("\n")
        for at, line in enumerate(lines):
            if line.strip() and not (block.torn and at == len(lines) - 1 and line.lstrip()[:1] not in ("{", "}")):
                found.line(line.rstrip("\r"), block.line + at)
    if not found.rows:
        raise InputError("holds no samples of gpustat", where=source.name, hint="Log with `gpustat --json -i 10`")
    for (tag, rank), rows in found.rows.items():
        value, time, line_of = (np.array(column) for column in zip(*rows, strict=True))
        clocked = time.astype(np.float64) if np.isfinite(time).any() else None
        yield Points(tag, None, value.astype(np.float64), clocked, rank, line_of.astype(np.int64), unit=_UNITS[tag])


@dataclass
class _Moments:
    time: float = np.nan
    text: list[str] = field(default_factory=list)  # of the document that has begun
    begun: int = 0
    length: int = 0
    rows: dict[tuple[str, int], list[tuple[float, float, int]]] = field(default_factory=lambda: defaultdict(list))

    def line(self, line: str, at: int) -> None:
        if self.text or line.startswith("{"):
            self._document(line, at)
        elif gpu := _GPU.match(line):
            for tag, cell in zip(_TAGS, gpu.groups()[1:], strict=True):
                if cell and cell != "??":
                    self.rows[tag, int(gpu[1])].append((float(cell), self.time, at))
        elif np.isfinite(time := moment(line)):
            self.time = time

    def _document(self, line: str, at: int) -> None:
        """Lines are gathered until they are a document; one too long is given up."""
        if not self.text:
            self.begun, self.length = at, 0
        self.text.append(line)
        if not line.rstrip().endswith("}") or (line.startswith(" ") and len(self.text) > 1):
            self.length += len(line)
            self.text = self.text if self.length < _LONGEST else []
            return
        try:
            document = json.loads("\n".join(self.text))
        except (ValueError, RecursionError):
            document = None
        self.text = []
        if not isinstance(document, dict) or not isinstance(document.get("gpus"), list):
            return
        known = clock(str(document.get("query_time", "")).replace("T", " "))
        for gpu in document["gpus"]:
            if not isinstance(gpu, dict) or not isinstance(rank := gpu.get("index"), int) or not 0 <= rank < 1 << 20:
                continue
            for tag in _TAGS:
                if isinstance(value := gpu.get(tag), (int, float)) and not isinstance(value, bool):
                    time = np.nan if known is None else known
                    self.rows[tag, rank].append((float(value), time, self.begun))
