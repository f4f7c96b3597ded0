"""Ranks beside each other, and benchmark scores beside each other: the two panels that are no plain curves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.model import Floats

HEAT_BLOCKS = 48
LEAST_WORST = 1.05  # the darkest colour of a heat map stands for no less than 5 % over the median rank
MOST_RANKS_TOLD = 5

_FIRST = ("compute_time", "step_time", "train/loss", "comm_time", "comm_share", "data_time", "gpu/utilization")
_MORE_IS_WORSE = ("train/loss", "gpu/temperature", "comm_share")


@dataclass(frozen=True)
class RankRow:
    rank: int
    value: float
    ratio: float
    told: bool  # a finding speaks of it


@dataclass(frozen=True)
class Heat:
    """Each rank's value over the median rank's. `ratio` is rank × block, NaN where nothing was logged."""

    metric: str
    unit: str
    ranks: tuple[int, ...]
    first: int
    last: int
    ratio: Floats
    median: float
    worst: float  # the ratio that has the darkest colour
    rows: tuple[RankRow, ...]  # the ranks furthest from the median, at their furthest quarter of the run
    named: tuple[int, ...]  # ranks that findings speak of

    @property
    def shade(self) -> Floats:
        """How far a rank is from the median rank, from 1: only upwards where more is worse."""
        return self.ratio if _more_is_worse(self.metric) else 1 + np.abs(self.ratio - 1)

    @property
    def balance(self) -> str:
        """How even the ranks are, in words."""
        what = "slowest" if self.metric.endswith("time") else "furthest"
        return f"{what} rank ÷ median {self.rows[0].ratio:.2f} (rank {self.rows[0].rank})"


def has_ranks(run: RunDiagnosis, metric: str) -> bool:
    return len({curve.rank for curve in run.curves if curve.metric == metric and not curve.of}) > 1


def heats(run: RunDiagnosis, first: int, last: int, most: int = 2) -> list[Heat]:
    """A heat map a metric of several ranks, compute and step time first."""
    names = {curve.metric for curve in run.curves if not curve.of and curve.rank is not None}
    names = {name for name in names if has_ranks(run, name)}
    ordered = sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    found = (_heat(run, name, first, last) for name in ordered)
    return [heat for heat in found if heat is not None][:most]


def _heat(run: RunDiagnosis, metric: str, first: int, last: int) -> Heat | None:
    curves = [curve for curve in run.curves if curve.metric == metric and not curve.of and curve.rank is not None]
    curves.sort(key=lambda curve: curve.rank or 0)
    values = np.array([_blocks(curve, first, last) for curve in curves])
    with warnings.catch_warnings():  # a block that no rank has is NaN, which is what is wanted
        warnings.simplefilter("ignore", RuntimeWarning)
        middle = np.nanmedian(values, axis=0)
        ratio = values / np.where(middle == 0, np.nan, middle)
        quarters = np.array([np.nanmedian(part, axis=1) for part in np.array_split(ratio, 4, axis=1)])
        furthest = np.nanmax(quarters, axis=0) if _more_is_worse(metric) else _furthest(quarters)
        levels = np.nanmedian(values, axis=1)
    if not np.isfinite(furthest).any():
        return None
    named = tuple(sorted({one.rank for one in run.findings if one.rank is not None}))
    order = np.argsort(-np.abs(np.nan_to_num(furthest - 1)), kind="stable")[:MOST_RANKS_TOLD]
    rows = tuple(
        RankRow(curves[at].rank or 0, float(levels[at]), float(furthest[at]), (curves[at].rank or 0) in named)
        for at in order
    )
    return Heat(
        metric=metric,
        unit=curves[0].unit,
        ranks=tuple(curve.rank or 0 for curve in curves),
        first=first,
        last=last,
        ratio=ratio,
        median=float(np.nanmedian(levels)),
        worst=max(LEAST_WORST, 1 + float(np.nanmax(np.abs(furthest - 1)))),
        rows=rows,
        named=named,
    )


def _more_is_worse(metric: str) -> bool:
    return metric in _MORE_IS_WORSE or metric.endswith("time")


def _furthest(quarters: Floats) -> Floats:
    """Of each rank the quarter furthest from 1, on whichever side."""
    at = np.argmax(np.abs(np.nan_to_num(quarters - 1)), axis=0)
    return np.asarray(np.take_along_axis(quarters, at[None, :], axis=0)[0])


def _blocks(curve: Curve, first: int, last: int) -> Floats:
    """The curve's median in each of 48 equal stretches; an empty stretch within the curve takes the one before."""
    step, value = np.asarray(curve.step, np.float64), np.asarray(curve.value, np.float64)
    centres = first + (np.arange(HEAT_BLOCKS) + 0.5) * (last - first) / HEAT_BLOCKS
    width = (last - first) / HEAT_BLOCKS
    at = np.searchsorted(step, centres, side="right") - 1
    known = (at >= 0) & (centres <= step[-1] + max(width, float(np.median(np.diff(step))) if len(step) > 1 else width))
    return np.where(known, value[np.maximum(at, 0)], np.nan)
