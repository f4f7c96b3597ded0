"""Communication overhead: a large part of each step is spent on communication between GPUs.

Why it matters
Communication that is not hidden behind computation grows with the number of GPUs, until more of them bring nothing.

How it is found
The logged share of communication, else communication time ÷ step time, above `share` on most points of a stretch of
at least `lasting` of the run, after the first 2 %.

What to do
Overlap gradient reduction with the backward pass, keep tensor parallelism inside a node, larger micro-batches with
accumulation; look for a slow link where the share rose during the run.

When it is wrong
Where the logged time is that of all communication, also of what runs behind computation: only exposed time counts.
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

NEEDS = ("comm_share|comm_time", "comm_share|step_time")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.20, "part of the step time that is too much", unit="share", source=USUAL)
    severe: float = threshold(0.50, "part of the step time that is an error", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=measured("405 labelled runs"))
    points: int = threshold(20, "points needed", source=measured("405 labelled runs"))


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = list(run.all("comm_share")) or _shares(run)
    if (found := _levels.longest(group)) < options.points:
        return NotEnoughData(f"{found} points after the start, {options.points} are needed")
    high = _levels.stretches(group, lambda value: value > options.share, options.lasting)
    return [_finding(one, options) for one in high]


def _shares(run: Run) -> list[Series]:
    """Communication time ÷ step time, by rank."""
    steps = {one.rank: one for one in run.all("step_time")}
    shares = []
    for one in run.all("comm_time"):
        whole = steps.get(one.rank) or run.get("step_time")
        if whole is None:
            continue
        total = interpolate_last(one.step, whole.step, whole.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares.append(replace(one, raw=one.value / total, about=Metric("comm_time", "share")))
    return shares


def _finding(found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    level, metric = found.level, found.series.metric
    return Finding(
        detector="communication-overhead",
        severity="error" if level > options.severe else "warning",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"Communication takes {number(level, 'share')} of a step{found.where}",
        message=f"{metric} is {number(level, 'share')} of the step time{found.where} {found.span}; "
        f"below {number(options.share, 'share')} is usual.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(
            Evidence(
                "median", metric, first, last, level, None, options.share, "share", "communication-overhead.share"
            ),
        ),
        actions=("Overlap communication with the backward pass; compare the links of the nodes",),
    )
