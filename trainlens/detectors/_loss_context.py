"""What of a loss curve may be judged, and what may explain a move: shared by the detectors of losses and scores.

A `Curve` is a series without its NaN, turned so that *up is worse*; `changes` are the steps at which a move is lawful
(another batch size or sequence length, a restart); `learning_rate` tells whether the rate fell meanwhile.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TypeVar

import numpy as np

from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.model import Floats, Ints, Role, Run, Series
from trainlens.signals import mad

LOSSES: tuple[Role, ...] = ("loss", "eval-loss", "perplexity")
SCORES: tuple[Role, ...] = ("score", "reward")
_EVALUATION = ("eval", "val", "valid", "validation", "test", "dev")

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Curve:
    """The finite points of a series; `value` is turned so that up is worse, `shown` turns a number back."""

    metric: str
    step: Ints
    value: Floats
    sign: float  # -1 where higher is better
    noise: float  # standard deviation from point to point
    skip: int  # first points, never judged
    positive: bool  # lower is better and every value is above 0: ratios mean something
    last_step: int  # of the whole series
    ends_finite: bool  # the last logged point is a number

    def __len__(self) -> int:
        return len(self.value)

    def shown(self, value: float) -> str:
        return figure(self.sign * value)

    def level(self, first: int, last: int) -> float:
        """Median of points first to last - 1 (at least one)."""
        return float(np.median(self.value[max(0, first) : max(last, first + 1, 1)]))


def remembered(ask: Callable[..., Answer]) -> Callable[..., Answer]:
    """Ask once a series (and hashable limits): several detectors look at the same spikes. Forgotten with the series."""
    known: dict[int, dict[tuple[object, ...], Answer]] = {}

    @wraps(ask)
    def answer(series: Series, *limits: object) -> Answer:
        if id(series) not in known:
            weakref.finalize(series, known.pop, id(series), None)
        answers = known.setdefault(id(series), {})
        limits += (getattr(ask, "__defaults__", None) or ())[len(limits) :]
        if limits not in answers:
            answers[limits] = ask(series, *limits)
        return answers[limits]

    return answer


@remembered
def curve_of(series: Series) -> Curve:
    """The judged part of a series of a loss or a score."""
    sign = -1.0 if series.about.better == "higher" else 1.0
    finite = series.finite
    value = sign * series.value[finite]
    n = len(value)
    return Curve(
        metric=series.metric,
        step=series.step[finite],
        value=value,
        sign=sign,
        noise=mad(np.diff(value)) / 2**0.5,
        skip=max(6, n // 50),
        positive=sign > 0 and n > 0 and bool((value > 0).all()),
        last_step=int(series.step[-1]) if len(series) else 0,
        ends_finite=bool(finite[-1]) if len(series) else True,
    )


def judged(run: Run, roles: tuple[Role, ...]) -> list[Series]:
    """One series a metric of these roles; the catalogue's own train/loss comes first.

    Benchmark scores are no curves of a training: few, of unlike checkpoints, and each with an error of its own.
    """
    found = [
        series
        for role in roles
        for series in run.with_role(role)
        if series.about.better != "none" and not series.metric.startswith("bench/")
    ]
    return sorted(found, key=lambda series: (series.metric != "train/loss", roles.index(series.about.role)))


def is_evaluation(series: Series) -> bool:
    """Whether a series is measured on held-out data, by its role or the folder of its name."""
    parts = series.metric.lower().replace("_", "/").split("/")
    return series.about.role == "eval-loss" or any(part in _EVALUATION for part in parts)


def too_short(curves: list[Curve], least: int) -> NotEnoughData | None:
    """The answer when no curve has `least` finite points."""
    longest = max((len(curve) for curve in curves), default=0)
    return None if longest >= least else NotEnoughData(f"{longest} points, {least} are needed")


def add(findings: list[Finding], finding: Finding) -> None:
    """Add a finding, or name its metric in the one that tells this episode: parts of a loss move with their sum."""
    first, last = finding.first_step or 0, finding.last_step or 0
    for at, other in enumerate(findings):
        begin, end = other.first_step or 0, other.last_step or 0
        slack = max(5, min(end - begin, last - first))
        if finding.metric != other.metric and first <= end + slack and begin - slack <= last:
            beside = Evidence("moves together with it", finding.metric, first, last)
            findings[at] = replace(other, evidence=(*other.evidence, beside))
            return
    findings.append(finding)


def changes(run: Run) -> Ints:
    """Steps from which the loss may lawfully be another: batch size or sequence length changed, a restart."""
    steps = [attempt.first_step for attempt in run.attempts[1:]]
    for name in ("batch_size", "sequence_length"):
        if (series := run.get(name)) is not None and len(series) > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = np.abs(np.diff(series.value)) > 0.01 * np.abs(series.value[:-1])
            if moved.mean() < 0.05:  # a ramp in many small steps explains no single move
                steps.extend(series.step[1:][moved].tolist())
    return np.array(sorted(steps), np.int64)


def restarts(run: Run) -> Ints:
    """First steps of all attempts but the first."""
    return np.array(sorted(attempt.first_step for attempt in run.attempts[1:]), np.int64)


def near(step: int, marks: Ints, before: float, after: float) -> bool:
    """Whether `step` lies within [mark - before, mark + after] of some mark."""
    return bool(((marks - before <= step) & (step <= marks + after)).any())


def interval(step: Ints) -> float:
    """The usual distance of two points, in steps."""
    return float(np.median(np.diff(step))) if len(step) > 1 else 1.0


def held_out(run: Run, first: int, peak: int) -> tuple[Series, float, float] | None:
    """The held-out loss that did not follow a rise of the training loss: its level before `first` and from `peak` on.

    None where there is none, or where it rose too: then it is the model that became worse.
    """
    for one in judged(run, ("eval-loss",)):
        curve = curve_of(one)
        before, after = curve.value[curve.step < first][-3:], curve.value[curve.step >= peak]
        if len(before) and len(after):
            old, new = float(np.median(before)), float(np.median(after))
            return (one, old, new) if max(new, float(after[-1])) <= old else None
    return None


def learning_rate(run: Run, first: int, last: int) -> tuple[float, float] | None:
    """Learning rate at two steps as shares of its peak, None where it is not logged."""
    series = run.get("lr")
    if series is None or not len(series):
        return None
    finite = series.finite
    step, value = series.step[finite], series.value[finite]
    if not len(value) or value.max() <= 0:
        return None
    at = np.clip(np.searchsorted(step, [first, last], side="right") - 1, 0, len(value) - 1)
    peak = float(value.max())
    return float(value[at[0]]) / peak, float(value[at[1]]) / peak


def is_dead(run: Run, first: int, last: int) -> bool:
    """Whether learning rate or gradient norm is 0 (or no number) nearly everywhere between two steps."""
    for name, floor in (("lr", 1e-6), ("grad_norm", 0.0)):
        if (series := run.get(name)) is None:
            continue
        inside = series.value[(series.step >= first) & (series.step <= last)]
        known = series.value[series.finite]
        if len(inside) >= 5:
            limit = floor * float(np.abs(known).max()) if len(known) else 0.0
            if np.mean(~(np.abs(inside) > limit)) > 0.9:
                return True
    return False


def figure(value: float) -> str:
    """A number as it is told: 4 significant digits, no exponent where it can be avoided."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def count(number: int, word: str) -> str:
    """ "1 step", "34 steps"."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")
