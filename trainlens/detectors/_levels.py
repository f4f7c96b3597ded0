"""What the detectors of sustained levels share: stretches beyond a bound, how sure they are, what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainlens.diagnosis import Cost
from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import episodes, share_beyond, surely

__all__ = [
    "Mask", "Stretch", "at_steps", "common_steps", "cost", "longest", "settled", "share_beyond", "stretches", "surely",
    "sustained",
]  # fmt: skip

Mask = NDArray[np.bool_]
FEW = 5  # points after the start that a level can be told by
_WORLD = ("world_size", "num_gpus", "n_gpus", "gpus", "num_processes", "ngpu")


def sustained(beyond: Mask, least: int = 10) -> list[tuple[int, int]]:
    """Inclusive index pairs of stretches of at least `least` points where most points of a small window (2 %) are."""
    n = len(beyond)
    if n == 0:
        return []
    window = min(n, max(5, min(least, n // 50)))
    sums = np.cumsum(np.r_[0, beyond])
    middle = np.arange(n)
    low, high = np.maximum(0, middle - window // 2), np.minimum(n, middle - window // 2 + window)
    mostly = (sums[high] - sums[low]) > (high - low) / 2
    hits = np.flatnonzero(beyond)
    found = []
    for first, last in episodes(mostly, window):
        low_end, high_end = first - window // 2, last + window // 2  # a stretch's ends have few hits beside them
        inside = hits[np.searchsorted(hits, low_end) : np.searchsorted(hits, high_end, side="right")]
        if len(inside) and inside[-1] - inside[0] + 1 >= least:
            found.append((int(inside[0]), int(inside[-1])))
    return found


def settled(series: Series, share: float = 0.02, least: int = 10) -> tuple[Ints, Floats]:
    """Steps and values that are finite, without the first `share` of the points (at least `least`, if half is left)."""
    step, value = series.step[series.finite], series.value[series.finite]
    begin = min(max(least, int(share * len(step))), len(step) // 2)
    return step[begin:], value[begin:]


def common_steps(group: Sequence[Series]) -> Ints:
    """Steps at which all series have a finite value."""
    step = group[0].step[group[0].finite]
    for one in group[1:]:
        other = one.step[one.finite]
        if not np.array_equal(step, other):
            step = np.intersect1d(step, other, assume_unique=True)
    return step


def at_steps(series: Series, step: Ints) -> Floats:
    """Values at steps that the series has."""
    return series.value[np.searchsorted(series.step, step)]


def cost(run: Run, lost: float | None) -> Cost | None:
    """Lost seconds as a cost, in GPU time too where the log states the number of GPUs; None when nothing is known."""
    if lost is None or not np.isfinite(lost) or lost <= 0:
        return None
    world = run.fact(*_WORLD)
    gpus = float(world.value) if world and isinstance(world.value, int | float) and world.value > 0 else None
    return Cost(round(lost, 1), round(lost * gpus, 1) if gpus else None)


@dataclass(frozen=True)
class Stretch:
    """A sustained stretch of one series; `first` and `last` index `step` and `value`, which lack the start."""

    series: Series
    step: Ints
    value: Floats
    beyond: Mask
    first: int
    last: int
    ranks: int = 1  # ranks that are beyond for as long
    of: int = 1  # ranks that log the metric

    @property
    def steps(self) -> tuple[int, int]:
        return int(self.step[self.first]), int(self.step[self.last])

    @property
    def level(self) -> float:
        return float(np.median(self.value[self.first : self.last + 1]))

    @property
    def ongoing(self) -> bool:
        return self.last >= len(self.value) - max(3, len(self.value) // 50)

    @property
    def confidence(self) -> float:
        return share_beyond(self.beyond, self.first, self.last)

    @property
    def rank(self) -> int | None:
        """The rank, where it is the only one of several."""
        return self.series.rank if self.series.rank >= 0 and self.ranks == 1 < self.of else None

    @property
    def where(self) -> str:
        """ " on rank 3", " on 5 of 8 ranks"; nothing where all are alike."""
        if self.of == 1 or self.ranks == self.of:
            return ""
        return f" on rank {self.series.rank}" if self.ranks == 1 else f" on {self.ranks} of {self.of} ranks"

    @property
    def span(self) -> str:
        """ "from step 10 to 900", with the end of the log where it goes on so far; samples where there are no steps."""
        first, last = self.steps
        unit = "sample" if self.series.positional else "step"
        return f"from {unit} {first:,} to {last:,}{', the end of the log' if self.ongoing else ''}"


def stretches(
    group: Sequence[Series], beyond: Callable[[Floats], Mask], share: float, least: int = 10
) -> list[Stretch]:
    """Stretches beyond a bound of at least `share` of the points, of the series (of several ranks) longest so.

    A series of fewer than twice `least` points must be beyond it at all of them.
    """
    found: list[list[Stretch]] = []
    for series in group:
        step, value = settled(series)
        if len(value) < FEW:
            continue
        mask = beyond(value)
        short = len(value) < 2 * least
        spans = sustained(mask, len(value) if short else max(least, round(share * len(value))))
        spans = [] if short and not mask.all() else spans
        found.append([Stretch(series, step, value, mask, first, last) for first, last in spans])
    longest = max(found, key=lambda one: sum(span.last - span.first for span in one), default=[])
    affected = sum(bool(one) for one in found)
    return [replace(span, ranks=affected, of=len(found)) for span in longest]


def longest(group: Sequence[Series]) -> int:
    """Points after the start of the longest series."""
    return max((len(settled(series)[0]) for series in group), default=0)
