"""Short series, of some 5 to 60 points: too few for a tail or a trend, enough to see what lies apart from all others.

What lies apart is told by gaps, not by deviations: of few points the scatter is not known. The gap to the next point
that chance leaves is small even under heavy tails, while a maximum is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainlens.model import Floats

START = 2  # first points, which may be far off by nature: a first gradient, a step that compiles


@dataclass(frozen=True, slots=True)
class Peak:
    """Points `first` to `last` above all others: the highest is at `top`, `gap` above the highest of the others."""

    first: int
    top: int
    last: int
    gap: float
    usual: float  # the median of the others


@dataclass(frozen=True, slots=True)
class Part:
    """The points from `begin` to the end, all `gap` above all before them; the levels are medians."""

    begin: int
    gap: float
    before: float
    after: float


def lone_peak(value: Floats, most: int = 2) -> Peak | None:
    """The one place where up to `most` neighbours lie above all other points, the first ones left out.

    `value`: at least 6 finite points. None where the highest point is one of the first.
    """
    top = START + int(np.argmax(value[START:]))
    best: Peak | None = None
    for first in range(max(START, top - most + 1), top + 1):
        for last in range(top, min(len(value), first + most)):
            others = np.r_[value[START:first], value[last + 1 :]]
            if len(others) < 3 or value[first : last + 1].min() <= others.max():
                continue
            gap = float(value[top] - others.max())
            if best is None or gap > best.gap:
                best = Peak(first, top, last, gap, float(np.median(others)))
    return best


def parted(value: Floats, least: int = 3, after: int = 2) -> Part | None:
    """Where the points fall into two parts with the widest gap, the higher one last.

    `least` points before (the first ones do not count) and `after` behind. None where no such place is.
    """
    at = np.arange(START + least, len(value) - after + 1)
    if not len(at):
        return None
    highest = np.maximum.accumulate(value[START:])[at - START - 1]
    lowest = np.minimum.accumulate(value[::-1])[::-1][at]
    gaps = lowest - highest
    begin = int(at[np.argmax(gaps)])
    if gaps.max() <= 0:
        return None
    return Part(begin, float(gaps.max()), float(np.median(value[START:begin])), float(np.median(value[begin:])))
