"""Power throttling: a GPU lowers its clocks for heat or power, or draws far less power than before while as busy.

Why it matters
A GPU that is capped or too hot lowers its clocks; it is still "busy", and all the others wait for it.

How it is found
Power below `share` of its own level in the first tenth of the run, on most points of a stretch of at least `lasting`
of the run. Where utilisation is logged it must not have fallen with it: then the GPU waits, which is another fault.
The temperature in the stretch is told where it is logged. Where the driver's reasons for lower clocks are logged (by
name or as the mask of all), a GPU that is too hot, braked from outside or slowed by its hardware for `held` of its
samples is a warning, from `severe` on an error while it goes on; reaching the power limit is usual of a busy GPU and
explained.

What to do
Look at the clocks and their reasons (`nvidia-smi -q -d PERFORMANCE`), at cooling, at power caps.

When it is wrong
Where the work itself got lighter: smaller batches, evaluation, another phase of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors import _levels
from trainlens.detectors._throttle_reasons import FAULTS, LIMIT, Reason, by_name, reasons
from trainlens.diagnosis import Evidence, Explained, Finding, NotEnoughData
from trainlens.figures import counted, number
from trainlens.model import Floats, Run, Series
from trainlens.plugins import threshold

NEEDS = ("gpu/power|role:throttle",)
_RUNS = measured("405 labelled runs: both with a power cap found, no healthy one")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.80, "power against the first level", unit="share", source=_RUNS)
    busy: float = threshold(0.90, "utilisation against its first level", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=_RUNS)
    held: float = threshold(0.05, "samples of a GPU with a reason that is a fault", unit="share", source=JUDGEMENT)
    severe: float = threshold(0.50, "the same, an error while it goes on", unit="share", source=JUDGEMENT)
    points: int = threshold(40, "points needed", source=_RUNS)
    samples: int = threshold(20, "samples of reasons needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotEnoughData:
    told = _stated(run, options)
    group = run.all("gpu/power")
    if (found := _levels.longest(group)) < options.points:
        many = max((int(one.finite.sum()) for one in run.with_role("throttle")), default=0)
        lacks = NotEnoughData(f"{found} points after the start, {options.points} are needed")
        return told if many >= options.samples else lacks
    low = _levels.stretches(group, lambda power: power < options.share * _first(power), options.lasting)
    return [*told, *(_finding(run, one, options) for one in low if _busy(run, one, options))]


def _stated(run: Run, options: Options) -> list[Finding | Explained]:
    """What the driver gives as reasons: each fault once, with the GPUs that have it."""
    named = by_name([one for one in reasons(run) if one.samples >= options.samples])
    told: list[Finding | Explained] = []
    known: set[int] = set()
    for name in FAULTS:
        slowed = [one for one in named.get(name, ()) if one.share >= options.held and one.series.rank not in known]
        if slowed:
            known |= {one.series.rank for one in slowed}  # a hardware slowdown is said beside its own cause
            told.append(_slowed(run, name, slowed, options))
    if limited := named.get(LIMIT):
        worst = limited[0]
        what = f"at the power limit in {number(worst.share, 'share')} of the samples, as busy GPUs are"
        told.append(Explained("power-throttling", what, worst.first_step, worst.last_step, worst.series.metric))
    return told


def _slowed(run: Run, name: str, slowed: list[Reason], options: Options) -> Finding:
    worst, many = slowed[0], len(run.all(slowed[0].series.metric))
    ongoing = any(one.ongoing for one in slowed)
    rank = worst.series.rank if worst.series.rank >= 0 else None
    which = "GPUs" if rank is None else f"GPU {rank}"
    more = f" and {counted(len(slowed) - 1, 'other')} of {many}" if len(slowed) > 1 else ""
    first, last = min(one.first_step for one in slowed), max(one.last_step for one in slowed)
    share = number(round(worst.share, 3), "share")
    return Finding(
        detector="power-throttling",
        severity="error" if ongoing and worst.share >= options.severe else "warning",
        metric=worst.series.metric,
        first_step=first,
        last_step=last,
        title=f"{which}{more} slowed down: {FAULTS[name]}"[:60],
        message=f"The driver lowered the clocks of {which}{more} for {name.replace('_', ' ')} in {share} of its "
        f"samples, first at step {first:,}{', and does so at the end of the log' if ongoing else ''}.",
        rank=rank if len(slowed) == 1 else None,
        ongoing=ongoing,
        evidence=(
            Evidence("share of the samples", worst.series.metric, first, last, worst.share, 0.0, options.held, "share",
                     "power-throttling.held"),
        ),
        actions=(f"Look at cooling, power supply and dust of the node of {which}, and take it out of the pool",),
    )  # fmt: skip


def _first(value: Floats) -> float:
    return float(np.median(value[: max(10, len(value) // 10)])) if len(value) else 0.0


def _beside(run: Run, metric: str, found: _levels.Stretch) -> tuple[Series, Floats] | None:
    """The series of a metric and the stretch's rank, and its values in the stretch."""
    group = run.all(metric)
    series = next((one for one in group if one.rank == found.series.rank), group[0] if group else None)
    if series is None:
        return None
    first, last = found.steps
    inside = series.value[series.finite & (series.step >= first) & (series.step <= last)]
    return (series, inside) if len(inside) else None


def _busy(run: Run, found: _levels.Stretch, options: Options) -> bool:
    beside = _beside(run, "gpu/utilization", found)
    if beside is None:
        return True
    series, inside = beside
    return float(np.median(inside)) >= options.busy * _first(_levels.settled(series)[1])


def _finding(run: Run, found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    before = _first(found.value)
    heat = _beside(run, "gpu/temperature", found)
    warm = f", at {number(float(np.median(heat[1])))} °C" if heat else ""
    return Finding(
        detector="power-throttling",
        severity="warning",
        metric="gpu/power",
        first_step=first,
        last_step=last,
        title=f"Power fell to {number(found.level, 'W')} at {first:,}{found.where}",
        message=f"gpu/power fell from {number(before, 'W')} to {number(found.level, 'W')} "
        f"(−{number(1 - found.level / before, 'share')}){found.where} {found.span}{warm}.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        evidence=(
            Evidence("median power", "gpu/power", first, last, found.level, before, options.share * before, "W",
                     "power-throttling.share"),
        ),
        actions=("Look at the GPU's clocks and why they are lowered, its cooling and its power cap",),
    )  # fmt: skip
