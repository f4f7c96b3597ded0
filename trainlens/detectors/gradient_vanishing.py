"""Gradient vanishing: the gradient norm stays near zero, and little can be learned.

Why it matters
Without a gradient the weights stand still however long the run goes on: dead units, frozen layers, a broken graph.

How it is found
The norm is below `norm` on most points of a stretch of at least `length` points and 1 % of the run, and less than a
tenth of the median of the rest. Where it is below from beginning to end it is a fault only when the training loss did
not fall by `learned`; else its scale is unusual, which is worth a line. In a log of fewer points the last three at
least must lie below `norm` and a tenth of all before them.

What to do
Look which parameters have a gradient at all, at the initialisation and the activations, and at detached tensors.

When it is wrong
Where the loss is driven to zero on purpose, or its scale is tiny.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors._levels import settled, share_beyond, sustained
from trainlens.diagnosis import Evidence, Finding, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import parted

NEEDS = ("role:grad-norm",)
_LAST = 3  # points at the end of a short log
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 6 vanishing gradients found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    norm: float = threshold(1e-3, "gradient norm that is too small", source=USUAL)
    share: float = threshold(0.1, "norm against the median of the rest of the run", unit="share", source=_RUNS)
    length: int = threshold(10, "points it must last", source=_RUNS)
    learned: float = threshold(0.1, "fall of the loss that shows it is only the scale", unit="share", source=JUDGEMENT)
    points: int = threshold(30, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    found: list[Finding] = []
    longest = 0
    for series in run.with_role("grad-norm"):
        step, value = settled(series)
        longest = max(longest, len(value))
        if len(value) < options.points:
            found += _of_few(series, options)
            continue
        beyond = value < options.norm
        if float(np.mean(beyond)) > 0.95:
            learned = _fall(run) > options.learned
            severity: Severity = "info" if learned and not value.any() else "warning" if learned else "error"
            found.append(_finding(series, options, step, value, (0, len(value) - 1), None, severity))
            continue
        for first, last in sustained(beyond, max(options.length, round(0.01 * len(value)))):
            rest = np.r_[value[:first], value[last + 1 :]]
            usual = float(np.median(rest)) if len(rest) else 0.0  # small all along: no fall
            if float(np.median(value[first : last + 1])) < options.share * usual:
                found.append(_finding(series, options, step, value, (first, last), usual, "error"))
    if longest < options.points and not found:
        return NotEnoughData(f"{longest} gradient norms after the start, {options.points} are needed")
    return found


def _of_few(series: Series, options: Options) -> list[Finding]:
    """The norms of a short log that all lie far below all before them, to its end."""
    step, value = series.step[series.finite], series.value[series.finite]
    tiny = float(np.finfo(float).tiny)
    part = parted(-np.log(np.maximum(value, tiny)), after=_LAST)
    if part is None or part.gap < -np.log(options.share) or float(value[part.begin :].max()) >= options.norm:
        return []
    return [_finding(series, options, step, value, (part.begin, len(value) - 1), float(np.exp(-part.before)), "error")]


def _fall(run: Run) -> float:
    """Part of its first level that the training loss lost over the run; 0 when it is not logged."""
    loss = run.get("train/loss")
    values = loss.value[loss.finite] if loss else np.empty(0)
    if len(values) < 10:
        return 0.0
    tenth = max(3, len(values) // 10)
    first, last = float(np.median(values[:tenth])), float(np.median(values[-tenth:]))
    return (first - last) / abs(first) if first else 0.0


def _finding(
    series: Series, options: Options, step: Ints, value: Floats, at: tuple[int, int], usual: float | None,
    severity: Severity,
) -> Finding:  # fmt: skip
    first, last = int(step[at[0]]), int(step[at[1]])
    level, ongoing = float(np.median(value[at[0] : at[1] + 1])), at[1] >= len(value) - 3
    bound = number(options.norm)
    if usual is None:
        title = f"Gradient norm below {bound} all along"
        tail = "from the first steps to the end of the log" + (
            f"; the loss fell all the same: {'an unusual scale' if value.any() else 'was it measured'}?"
            if severity != "error"
            else ", and the loss did not fall."
        )
        message = f"{series.metric} is {number(level)}, below {bound}, {tail}"
    else:
        title = f"Gradient norm below {bound} {'since' if ongoing else 'from'} step {first:,}"
        message = (
            f"{series.metric} was {number(usual)} as a rule and {number(level)}, below {bound}, from step {first:,} to "
            f"{last:,}{', the end of the log' if ongoing else ''}."
        )
    return Finding(
        detector="gradient-vanishing",
        severity=severity,
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=title,
        message=message,
        confidence=0.5 if usual is None and severity != "error" else share_beyond(value < options.norm, *at),
        ongoing=ongoing,
        evidence=(
            Evidence("median norm", series.metric, first, last, level, usual, options.norm,
                     limit_name="gradient-vanishing.norm"),
        ),
        actions=("Log the gradient norm of each layer and see which have none",),
    )  # fmt: skip
