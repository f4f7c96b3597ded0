"""Low MFU: the GPUs do a small part of the floating-point work they could do.

Why it matters
Model FLOPs utilisation is the price of a run: at 20 % the same training costs twice what it does at 40 %.

How it is found
The logged share below `share` on most points of a stretch of at least `lasting` of the run, after the first 2 %;
below `severe` it is an error. Values of zero and less are placeholders. A share above `most` points to a wrong peak
figure or a wrong count of the model's work; above 1 it is impossible.

What to do
Larger micro-batches, fused attention and optimizer, less activation checkpointing, overlapped communication.

When it is wrong
Where the peak that the share is measured against belongs to another precision or another GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens.citations import JUDGEMENT, MEGASCALE, PALM_MFU, USUAL, measured
from trainlens.detectors import _levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Run
from trainlens.plugins import threshold

NEEDS = ("mfu",)


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.30, "MFU that is too low", unit="share", source=PALM_MFU)
    severe: float = threshold(0.20, "MFU that is an error", unit="share", source=USUAL)
    most: float = threshold(0.75, "MFU that is not plausible", unit="share", source=MEGASCALE)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=measured("405 labelled runs"))
    points: int = threshold(_levels.FEW, "points needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = [replace(one, raw=np.where(one.raw > 0, one.raw, np.nan)) for one in run.all("mfu")]
    if (found := _levels.longest(group)) < options.points:
        return NotEnoughData(f"{found} points after the start, {options.points} are needed")
    low = _levels.stretches(group, lambda value: value < options.share, options.lasting)
    high = _levels.stretches(group, lambda value: value > options.most, options.lasting)
    return [*(_low(one, options) for one in low), *(_high(one, options) for one in high)]


def _low(found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    return Finding(
        detector="low-mfu",
        severity="error" if found.level < options.severe else "warning",
        metric="mfu",
        first_step=first,
        last_step=last,
        title=f"MFU is {number(found.level, 'share')}{found.where}",
        message=f"mfu is {number(found.level, 'share')}{found.where} {found.span}; 30 to 60 % is usual.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(Evidence("median", "mfu", first, last, found.level, None, options.share, "share", "low-mfu.share"),),
        actions=("Profile a few steps: see what part is communication, data and small kernels",),
    )


def _high(found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    why = "no run can be above 100 %" if found.level > 1 else "no published run comes near that"
    return Finding(
        detector="low-mfu",
        severity="warning" if found.level > 1 else "info",
        metric="mfu",
        first_step=first,
        last_step=last,
        title=f"MFU of {number(found.level, 'share')} is not plausible",
        message=f"mfu is {number(found.level, 'share')} {found.span}: {why}; the peak or the count of FLOPs is wrong.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(Evidence("median", "mfu", first, last, found.level, None, options.most, "share", "low-mfu.most"),),
        actions=("Check the GPU's peak for the precision in use, and the number of GPUs it is multiplied by",),
    )
