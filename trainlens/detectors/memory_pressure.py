"""Memory pressure: GPU memory is nearly full for long.

Why it matters
A longer sequence, an evaluation or fragmentation then ends the run; close to the limit the allocator also gives
memory back and asks again, which costs time.

How it is found
The share of GPU memory in use, else used ÷ total, above `share` on most points of a stretch of at least `lasting` of
the run. Of several GPUs the one that is full for longest is told.

What to do
Activation checkpointing, smaller micro-batches, a sharded optimizer; let the allocator grow its segments.

When it is wrong
Where the share is that of memory reserved by an allocator that takes all it can get from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors import _levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Metric, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import interpolate_last

NEEDS = ("gpu/memory_share|gpu/memory_used", "gpu/memory_share|gpu/memory_total")
_RUNS = measured("405 labelled runs: all of 5 with full memory found, none of those at 80 %")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.90, "part of the memory in use that is a warning", unit="share", source=USUAL)
    severe: float = threshold(0.985, "part of the memory in use that is an error", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=_RUNS)
    points: int = threshold(20, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = list(run.all("gpu/memory_share")) or _shares(run)
    if (found := _levels.longest(group)) < options.points:
        return NotEnoughData(f"{found} points after the start, {options.points} are needed")
    high = _levels.stretches(group, lambda value: value > options.share, options.lasting)
    return [_finding(one, options) for one in high]


def _shares(run: Run) -> list[Series]:
    """Used ÷ total, by rank."""
    totals = {one.rank: one for one in run.all("gpu/memory_total")}
    shares = []
    for used in run.all("gpu/memory_used"):
        total = totals.get(used.rank) or run.get("gpu/memory_total")
        if total is None:
            continue
        whole = interpolate_last(used.step, total.step, total.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares.append(replace(used, raw=used.value / whole, about=Metric("gpu/memory_used", "share")))
    return shares


def _finding(found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    peak = float(found.value[found.first : found.last + 1].max())
    return Finding(
        detector="memory-pressure",
        severity="error" if found.level > options.severe else "warning",
        metric=found.series.metric,
        first_step=first,
        last_step=last,
        title=f"GPU memory is {number(found.level, 'share')} full{found.where}",
        message=f"{number(found.level, 'share')} of the GPU memory is in use{found.where} {found.span}, up to "
        f"{number(peak, 'share')}; below {number(options.share, 'share')} is usual.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(
            Evidence("median", found.series.metric, first, last, found.level, None, options.share, "share",
                     "memory-pressure.share"),
        ),
        actions=("Use activation checkpointing or smaller micro-batches before a longer batch ends the run",),
    )  # fmt: skip
