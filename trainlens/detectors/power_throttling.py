"""Power throttling: a GPU draws far less power than before while it is as busy.

Why it matters
A GPU that is capped or too hot lowers its clocks; it is still "busy", and all the others wait for it.

How it is found
Power below `share` of its own level in the first tenth of the run, on most points of a stretch of at least `lasting`
of the run. Where utilisation is logged it must not have fallen with it: then the GPU waits, which is another fault.
The temperature in the stretch is told where it is logged.

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
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Run, Series
from trainlens.plugins import threshold

NEEDS = ("gpu/power",)
_RUNS = measured("405 labelled runs: both with a power cap found, no healthy one")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.80, "power against the first level", unit="share", source=_RUNS)
    busy: float = threshold(0.90, "utilisation against its first level", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.04, "part of the run it must last", unit="share", source=_RUNS)
    points: int = threshold(40, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = run.all("gpu/power")
    if (found := _levels.longest(group)) < options.points:
        return NotEnoughData(f"{found} points after the start, {options.points} are needed")
    low = _levels.stretches(group, lambda power: power < options.share * _first(power), options.lasting)
    return [_finding(run, one, options) for one in low if _busy(run, one, options)]


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
