"""PyTorch's memory: the tables of `torch.cuda.memory_summary()`; its snapshots are refused.

A table is one moment of one device, which is the rank: of each kind of memory what is in use, the most that was, and
what was allocated and freed since the start, in bytes. A snapshot (`torch.cuda.memory._dump_snapshot`) is a pickle, and
a pickle can run any code when it is opened; it is known by its first bytes, never opened, and the message says how to
look at it with PyTorch's own tool.

The formats: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html,
https://github.com/pytorch/pytorch/blob/main/torch/cuda/memory.py (memory_summary).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Points
from trainlens.parsers._lines import blocks, head_text
from trainlens.sources import Source

_TITLE = re.compile(r"^\|\s+PyTorch CUDA memory summary, device ID (\d{1,3})\s+\|\s*$")
_FAILURES = re.compile(r"^\|\s+CUDA OOMs:\s+(\d{1,12})\s+\|\s+cudaMalloc retries:\s+(\d{1,12})\s+\|\s*$")
_ROW = re.compile(r"^\|\s{1,12}(\w[\w -]{0,40}?)\s+\|" + r"\s*(-?\d{1,18})\s*(B|[KMGT]i?B)?\s*\|" * 4 + r"\s*$")
_COLUMNS = ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")
_SIZES = {"": 1.0, "B": 1.0, **{f"{letter}{rest}": 1024.0**power for power, letter in enumerate("KMGT", 1)
                                for rest in ("B", "iB")}}  # fmt: skip
_SNAPSHOT = (b"segments", b"device_traces")


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  its first bytes are enough
    """How sure it is that this is a table of memory, or a snapshot, which will be refused."""
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return 1.0 if any(word in head for word in _SNAPSHOT) else 0.0
    lines = [line for line in head_text(head).split("\n") if line.strip()]
    drawn = sum(line.startswith("|") for line in lines)
    return 0.97 if drawn * 10 > 9 * len(lines) and any(_TITLE.match(line) for line in lines[:5]) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  tables are small
    """Points by measure and device; InputError for a snapshot."""
    if source.head(1) == b"\x80":
        what = "is a memory snapshot of PyTorch, a pickle, which could run code and is not opened"
        hint = (
            "Look at it with `python -m torch.cuda._memory_viz trace_plot FILE -o memory.html`; log memory_allocated()"
        )
        raise InputError(what, where=source.name, hint=hint)
    found: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
    rank, above = 0, ""
    for block in blocks(source):
        lines = block.text.decode("utf-8", "replace").split("\n")
        for at, line in enumerate(lines[: -1 if block.torn else None], block.line):
            line = line.rstrip("\r")
            if title := _TITLE.match(line):
                rank, above = int(title[1]), ""
            elif failures := _FAILURES.match(line):
                for name, count in zip(("CUDA OOMs", "cudaMalloc retries"), failures.groups(), strict=True):
                    found[name, rank].append((float(count), at))
            elif row := _ROW.match(line):
                name, cells = row[1], row.groups()[1:]
                above = above if name.startswith("from ") else name
                whole = name if name == above else f"{above}/{name}"
                for column, value, size in zip(_COLUMNS, cells[::2], cells[1::2], strict=True):
                    found[f"{whole}/{column}", rank].append((float(value) * _SIZES[size or ""], at))
    for (tag, of), rows in found.items():
        values, places = zip(*rows, strict=True)
        unit = "bytes" if "memory" in tag.lower() else ""
        yield Points(tag, None, np.array(values), None, of, np.array(places, np.int64), unit=unit)
