"""Benchmark scores of a run beside each other: one a benchmark, against a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.figures import number
from trainlens.reports._published import MODELS, SOURCE, published

FEWEST = 4  # benchmarks that make a shape
LEAST_PARTS = 3  # tasks `mmlu_anatomy`, … beside `mmlu` that are its parts, no benchmarks of their own
REACH = 1.2  # shares of the reference beyond are drawn at this

_TARGET = re.compile(r"^\s*bench/(\S+)\s*(?:>=?|<=?)\s*([0-9.eE+-]+)\s*(%?)")


@dataclass(frozen=True)
class Score:
    """One benchmark: its scores by step, the last against a reference (None for none of it)."""

    name: str
    curve: Curve
    lower: bool  # the lower the better
    first: float
    last: float
    best: float
    best_step: int
    reference: float | None

    def share(self, value: float) -> float:
        """A value as a share of the reference: above 1 is better than it."""
        if not self.reference or (self.lower and not value):
            return math.nan
        return self.reference / value if self.lower else value / self.reference

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(number(value, self.curve.unit) for value in (self.first, self.last, self.best, self.reference))


def scores(run: RunDiagnosis, required: Iterable[object], model: str) -> tuple[list[Score], str]:
    """The benchmarks of a run by name, and what their reference is in words.

    `model` is one whose scores were published; without it the targets in `required` are the reference, else each
    benchmark's own best.
    """
    better = {metric.name: metric.better for metric in run.metrics}
    found = [_score(curve, better.get(curve.metric) == "lower") for curve in _benchmarks(run, better)]
    if model in MODELS:
        known = {one.name: published(model, one.name) for one in found}
        told = [_against(one, known[one.name]) for one in found]
        return told, f"{model} as published ({SOURCE})"
    wanted = _targets(required)
    if found and any(one.name in wanted for one in found):
        return [_against(one, wanted.get(one.name)) for one in found], "the targets of the settings"
    return [_against(one, one.best, as_is=True) for one in found], "each benchmark's best of this run"


def _benchmarks(run: RunDiagnosis, better: Mapping[str, str]) -> list[Curve]:
    """The one curve of each benchmark: its main score, else its first measure that says which way is better."""
    curves = sorted(
        (one for one in run.curves if one.metric.startswith("bench/") and not one.of and one.step),
        key=lambda one: (one.metric.count("/"), one.metric),
    )
    found: dict[str, Curve] = {}
    for curve in curves:
        task, _, measure = curve.metric.removeprefix("bench/").partition("/")
        if task not in found and (not measure or better.get(curve.metric, "none") != "none"):
            found[task] = curve
    parts = {name: [other for other in found if other.startswith(f"{name}_")] for name in found}
    inside = {part for some in parts.values() if len(some) >= LEAST_PARTS for part in some}
    return [found[name] for name in sorted(found) if name not in inside]


def _score(curve: Curve, lower: bool) -> Score:
    choose = min if lower else max
    best = choose(range(len(curve.value)), key=lambda at: curve.value[at])
    name = curve.metric.removeprefix("bench/")
    return Score(name, curve, lower, curve.value[0], curve.value[-1], curve.value[best], curve.step[best], None)


def _against(score: Score, reference: float | None, *, as_is: bool = False) -> Score:
    """The score with its reference, a share of 1, in the score's own measure: per cent where that goes above 1."""
    per_cent = reference is not None and not as_is and score.best > 1 >= reference and not score.lower
    value = reference * 100 if reference is not None and per_cent else reference
    return Score(score.name, score.curve, score.lower, score.first, score.last, score.best, score.best_step, value)


def _targets(required: Iterable[object]) -> dict[str, float]:
    told = (_TARGET.match(one) for one in required if isinstance(one, str))
    return {one[1]: float(one[2]) / (100 if one[3] else 1) for one in told if one and _is_number(one[2])}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def radar(found: list[Score]) -> list[tuple[float, float, float, str]]:
    """Of each benchmark its angle (clockwise from the top), shares of the reference at first and last, name.

    Those without a reference are left out; fewer than four make no shape: [].
    """
    shown = [one for one in found if math.isfinite(one.share(one.first)) and math.isfinite(one.share(one.last))]
    if len(shown) < FEWEST:
        return []
    step = 2 * math.pi / len(shown)
    return [
        (at * step, _cut(one.share(one.first)), _cut(one.share(one.last)), one.name) for at, one in enumerate(shown)
    ]


def _cut(share: float) -> float:
    return min(REACH, max(0.0, share))
