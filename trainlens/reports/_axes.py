"""What a chart's x can count beside steps: hours, tokens, epochs, each known at some steps of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.model import Floats

MOST_KNOTS = 120
_CLOCK = ("train/loss", "step_time", "lr", "grad_norm")  # whose time stamps are asked first
_UNITS = (("hours", 3600.0, 7200.0), ("minutes", 60.0, 120.0), ("seconds", 1.0, 0.0))  # size, used from here on


@dataclass(frozen=True)
class Axis:
    """A quantity that never falls with the steps: its value `at` some `step`s, both rising; linear between them."""

    name: str
    unit: str
    step: tuple[float, ...]
    at: tuple[float, ...]


def axes(run: RunDiagnosis) -> list[Axis]:
    """The quantities that this run's logs tell: time since the first point, tokens seen, epochs."""
    whole = [curve for curve in run.curves if not curve.of and len(curve.step) > 1]
    found = (_time(whole), _counted(whole, "tokens"), _counted(whole, "epoch"))
    return [axis for axis in found if axis is not None]


def _time(whole: list[Curve]) -> Axis | None:
    clocks = [curve for curve in whole if sum(one is not None for one in curve.time) > 1]
    clocks.sort(key=lambda one: (_CLOCK.index(one.metric) if one.metric in _CLOCK else len(_CLOCK), -len(one.step)))
    if not clocks:
        return None
    stamps = np.asarray([math.nan if one is None else one for one in clocks[0].time])
    passed = float(np.nanmax(stamps) - np.nanmin(stamps))
    unit, size, _ = next(one for one in _UNITS if not passed < one[2])
    return _axis("time", unit, np.asarray(clocks[0].step, np.float64), (stamps - np.nanmin(stamps)) / size)


def _counted(whole: list[Curve], metric: str) -> Axis | None:
    curve = next((one for one in whole if one.metric == metric), None)
    if curve is None:
        return None
    value = np.asarray(curve.value, np.float64)
    if metric == "epoch":
        return _axis("epoch", "epochs", np.asarray(curve.step, np.float64), value)
    most = float(np.nanmax(value))
    scale, word = next(((one, word) for one, word in ((1e12, "trillion "), (1e9, "billion "), (1e6, "million "))
                        if most >= one), (1.0, ""))  # fmt: skip
    return _axis(metric, f"{word}{metric}", np.asarray(curve.step, np.float64), value / scale)


def _axis(name: str, unit: str, step: Floats, at: Floats) -> Axis | None:
    """None where the quantity stands still, jumps back for long or is hardly known: it could not carry an x axis."""
    known = np.isfinite(at)
    step, at = step[known], at[known]
    if len(at) < 2:
        return None
    highest = np.maximum.accumulate(at)
    if np.mean(highest > at) > 0.1:
        return None
    rising = np.append(True, np.diff(highest) > 0)
    step, at = step[rising], highest[rising]
    if len(at) < 2:
        return None
    kept = np.unique(np.linspace(0, len(at) - 1, MOST_KNOTS).astype(int))
    return Axis(name, unit, tuple(step[kept].tolist()), tuple(float(f"{one:.7g}") for one in at[kept].tolist()))
