"""Out of memory: a GPU or the host ran out of memory.

Why it matters
It ends the run, often hours in: when a longer batch, an evaluation or a growing leak first needs a little more.

How it is found
What the log says: CUDA's and PyTorch's messages, the kernel's out-of-memory killer, a job's memory limit. Messages of
all ranks and what follows from them (killed workers, broken collectives) are one finding, with the figures that the
message holds: what was wanted, what was free, what other processes held. It is a warning where the run went on after
it, and worth a line where that was before the first step: batch sizes are tried so.

What to do
Smaller micro-batches with accumulation, activation checkpointing, a sharded optimizer; look for a leak when memory
grew.

When it is wrong
Where a script tries batch sizes on purpose until one does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.detectors import _incidents
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.figures import number
from trainlens.model import Run

NEEDS = ()

_SIZE = r"([\d.]{1,20}) ([KMGT]i?B|B|bytes)"
# What PyTorch's allocators print, in their newer and older wording; several of one kind are added.
_FIGURES = (
    ("memory wanted", re.compile(rf"(?:Tried to allocate|trying to allocate) {_SIZE}")),
    ("memory free", re.compile(rf"of which {_SIZE} is free|; {_SIZE} free")),
    ("memory of the GPU", re.compile(rf"total capacity of {_SIZE}|{_SIZE} total capacity|max allowed: {_SIZE}")),
    ("held by this process", re.compile(rf"this process has {_SIZE} memory in use")),
    ("held by other processes", re.compile(rf"Process \d+ has {_SIZE} memory in use(?=.*this process has)")),
    ("allocated by PyTorch", re.compile(rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated")),
    ("reserved but unused by PyTorch", re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")),
)
_RESERVED = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6,
          "GB": 10**9, "TB": 10**12}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """No thresholds: the log states it."""


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:  # noqa: ARG001
    if not _incidents.tells_ends(run):
        return NotApplicable("no text of the run was read that would say so")
    return [_finding(run, one) for one in _incidents.incidents(run) if one.root.kind in _incidents.OUT_OF_MEMORY]


def _finding(run: Run, found: _incidents.Incident) -> Finding:
    event = found.root
    where = "The host" if event.kind == "host-out-of-memory" else "A GPU"
    after = f" after step {found.step:,}" if found.step is not None else ""
    many = f" on {found.ranks} ranks" if found.ranks > 1 else f" on rank {event.rank}" if event.rank >= 0 else ""
    end = "; the run went on" if found.went_on else "; a restart followed" if found.resumed else ""
    figures = _figures(event.text)
    evidence = [Evidence(event.kind, first_step=event.step, place=event.place)]
    evidence += [Evidence(what, observed=size, unit="bytes", place=event.place) for what, size in figures.items()]
    if (memory := run.get("gpu/memory_share")) is not None and memory.finite.any():
        last = float(memory.value[memory.finite][-1])
        evidence.append(Evidence("memory in use at the last row", memory.metric, observed=last, unit="share"))
        end += f"; {number(last, 'share')} in use in the last row"
    head = f"{where} ran out of memory{after}{many}{_said(figures)}{end}"
    tried = found.went_on and found.step is None
    return Finding(
        detector="out-of-memory",
        severity="info" if tried else "warning" if found.went_on else "error",
        metric=None,
        first_step=found.step,
        last_step=found.step,
        title=f"{where} ran out of memory{after}",
        message=f"{head}: “{_incidents.quoted(event, 190 - len(head))}”.",
        rank=event.rank if event.rank >= 0 else None,
        first_time=event.time,
        last_time=event.time,
        evidence=tuple(evidence),
        actions=(
            "Use fewer workers of the data loader, or ask for more memory of the host"
            if event.kind == "host-out-of-memory"
            else "Use smaller micro-batches with accumulation, or activation checkpointing",
        ),
    )


def _figures(text: str) -> dict[str, float]:
    """Bytes by name, as far as the message states them."""
    found: dict[str, float] = {}
    for what, pattern in _FIGURES:
        sizes = [_bytes([part for part in parts if part]) for parts in pattern.findall(text)]
        if known := [size for size in sizes if size is not None]:
            found[what] = sum(known) if what == "held by other processes" else known[0]
    reserved = next((_bytes(list(parts)) for parts in _RESERVED.findall(text)), None)
    if reserved is not None and "allocated by PyTorch" in found:
        found["reserved but unused by PyTorch"] = max(0.0, reserved - found["allocated by PyTorch"])
    return found


def _bytes(parts: Sequence[str]) -> float | None:
    try:
        return float(parts[0].rstrip(".")) * _UNITS[parts[1]]
    except ValueError:
        return None


def _said(figures: dict[str, float]) -> str:
    wanted, free, total = (figures.get(what) for what in ("memory wanted", "memory free", "memory of the GPU"))
    if wanted is None or free is None or total is None:
        return ""
    others = figures.get("held by other processes", 0.0)
    held = f", {number(others, 'bytes')} held by other processes" if others > 0.02 * total else ""
    return f", {number(wanted, 'bytes')} wanted, {number(free, 'bytes')} of {number(total, 'bytes')} free{held}"
