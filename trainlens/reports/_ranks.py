"""Ranks beside each other as a heat map, and likewise what a run logs of each layer or expert."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.model import Floats

HEAT_BLOCKS = 48
LEAST_WORST = 1.05  # the darkest colour of a heat map stands for no less than 5 % over the median rank
MOST_RANKS_TOLD = 5

_FIRST = ("compute_time", "step_time", "train/loss", "comm_time", "comm_share", "data_time", "gpu/utilization")
LEAST_ROWS = 4  # of layers or experts; fewer are read better as curves
# The word before a number that says what is numbered: layers.7, h.3, block_2, expert_load/5.
_NUMBERED = re.compile(
    r"(?<![a-z])(?P<kind>layer|block|h|stage|head|expert)s?(?:_load|_tokens)?[._/\-\[ ]{0,2}(?P<number>\d{1,4})(?!\d)",
    re.I,
)
_BESIDE = ("rank", "expert")  # kinds whose members do the same work, so that they can be held against each other
_MORE_IS_WORSE = ("train/loss", "gpu/temperature", "comm_share")


@dataclass(frozen=True)
class RankRow:
    rank: int
    value: float
    ratio: float
    told: bool  # a finding speaks of it


@dataclass(frozen=True)
class Heat:
    """Each rank's (expert's) value over the median one's, each layer's over its own median.

    `ratio` is rank × block, NaN where nothing was logged; `ranks` are the numbers of what `kind` names.
    """

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
    kind: str = "rank"
    members: tuple[str, ...] = ()  # metrics that the rows are, where each has its own name

    @property
    def against(self) -> str:
        return f"the median {self.kind}" if self.kind in _BESIDE else "its own median"

    @property
    def shade(self) -> Floats:
        """How far a rank is from the median rank, from 1: only upwards where more is worse."""
        if self.kind not in _BESIDE:
            return _times(self.ratio)
        return self.ratio if _more_is_worse(self.metric) else 1 + np.abs(self.ratio - 1)

    @property
    def balance(self) -> str:
        """How even the ranks are, in words."""
        what = "slowest" if self.metric.endswith("time") else "furthest"
        return f"{what} {self.kind} ÷ {self.against} {self.rows[0].ratio:.2f} ({self.kind} {self.rows[0].rank})"


def has_ranks(run: RunDiagnosis, metric: str) -> bool:
    return len({curve.rank for curve in run.curves if curve.metric == metric and not curve.of}) > 1


def heats(run: RunDiagnosis, first: int, last: int, most: int = 2) -> list[Heat]:
    """A heat map a metric of several ranks, compute and step time first."""
    names = {curve.metric for curve in run.curves if not curve.of and curve.rank is not None}
    names = {name for name in names if has_ranks(run, name)}
    ordered = sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    found = (_of_ranks(run, name, (first, last)) for name in ordered)
    return [heat for heat in found if heat is not None][:most]


def layers(run: RunDiagnosis, curves: Mapping[str, Curve], extent: tuple[int, int], most: int = 4) -> list[Heat]:
    """A heat map of each quantity that is logged by layer or expert under numbered names, those told of first.

    `curves` is one curve a metric, `extent` the first and last step shown.
    """
    groups: dict[tuple[str, str], dict[int, Curve]] = {}
    for name, curve in curves.items():
        if (found := _NUMBERED.search(name)) and not name.startswith("bench/"):
            start, end = found.span("number")
            kind = {"h": "layer"}.get(found["kind"].lower(), found["kind"].lower())
            groups.setdefault((kind, f"{name[:start]}*{name[end:]}"), {}).setdefault(int(found["number"]), curve)
    told = {finding.metric for finding in run.findings}
    heats: list[Heat] = []
    for (kind, title), rows in groups.items():
        ordered = dict(sorted(rows.items()))
        named = [number for number, curve in ordered.items() if curve.metric in told]
        if len(rows) >= LEAST_ROWS and (heat := _heat(title, kind, list(ordered.items()), named, extent)) is not None:
            heats.append(heat)
    heats.sort(key=lambda heat: (not heat.named, -abs(heat.rows[0].ratio - 1), heat.metric))
    return heats[:most]


def _of_ranks(run: RunDiagnosis, metric: str, extent: tuple[int, int]) -> Heat | None:
    curves = [curve for curve in run.curves if curve.metric == metric and not curve.of and curve.rank is not None]
    rows = sorted(((curve.rank or 0, curve) for curve in curves), key=lambda one: one[0])
    named = sorted({one.rank for one in run.findings if one.rank is not None})
    return _heat(metric, "rank", rows, named, extent)


def _heat(
    metric: str, kind: str, numbered: Sequence[tuple[int, Curve]], named: Sequence[int], extent: tuple[int, int]
) -> Heat | None:
    first, last = extent
    ranks, curves = [number for number, _ in numbered], [curve for _, curve in numbered]
    values = np.array([_blocks(curve, first, last) for curve in curves])
    with warnings.catch_warnings():  # a block that no rank has is NaN, which is what is wanted
        warnings.simplefilter("ignore", RuntimeWarning)
        levels = np.nanmedian(values, axis=1)
        if kind not in _BESIDE and not np.all(levels > 0):
            return None  # values on both sides of 0 have no ratio
        middle = np.nanmedian(values, axis=0) if kind in _BESIDE else levels[:, None]
        ratio = values / np.where(middle == 0, np.nan, middle)
        quarters = np.array([np.nanmedian(part, axis=1) for part in np.array_split(ratio, 4, axis=1)])
        furthest = np.nanmax(quarters, axis=0) if _more_is_worse(metric) else _furthest(quarters)
    if not np.isfinite(furthest).any():
        return None
    order = np.argsort(-np.abs(np.nan_to_num(furthest - 1)), kind="stable")[:MOST_RANKS_TOLD]
    rows = tuple(RankRow(ranks[at], float(levels[at]), float(furthest[at]), ranks[at] in named) for at in order)
    return Heat(
        metric=metric,
        unit=curves[0].unit,
        ranks=tuple(ranks),
        first=first,
        last=last,
        ratio=ratio,
        median=float(np.nanmedian(levels)),
        worst=max(LEAST_WORST, _darkest(kind, furthest)),
        rows=rows,
        named=tuple(named),
        kind=kind,
        members=() if kind == "rank" else tuple(curve.metric for curve in curves),
    )


def _darkest(kind: str, furthest: Floats) -> float:
    return float(np.nanmax(1 + np.abs(furthest - 1) if kind in _BESIDE else _times(furthest)))


def _times(ratio: Floats) -> Floats:
    """How many times more or less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ratio > 0, np.maximum(ratio, 1 / ratio), np.nan))


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
