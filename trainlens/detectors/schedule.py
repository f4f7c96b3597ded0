"""Schedule: the learning rate's schedule, and where the run departs from it.

Why it matters
A schedule that begins again after a resume, reaches its end long before the run does, or never decays although it was
set to, costs the run its last third: most of the fall of the loss comes with the decay.

How it is found
The family is named by least squares over constant, linear, cosine, polynomial, warmup-stable-decay, multi-step,
inverse square root, exponential, one-cycle, cyclic and restarts; the report tells it beside the result. Told here are:
a rate that follows the first attempt's beginning again after a resume; one that stands below `spent` of its peak for
more than `early` of the run; a decay that was set up for more steps than the run has, which ends above `late` of the
peak; a constant rate where a decay was configured and `due` of the planned steps after the warmup are done; another
family than the configured one.

What to do
Save and load the scheduler's state; give it the steps of the whole run, counted as the trainer counts them.

When it is wrong
Where a low rate at the end is wanted (annealing on other data), or the plan that the logs state was changed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens import context
from trainlens.citations import DEEPSEEK_LLM, JUDGEMENT, TISSUE, measured
from trainlens.detectors import _learning_rate, _setup
from trainlens.diagnosis import Evidence, Finding, NotEnoughData, Schedule, Severity
from trainlens.figures import number
from trainlens.model import Floats, Run, Series
from trainlens.plugins import threshold

NEEDS = ("lr",)
TOLD_INSIDE = ("learning-rate-jump",)
_RUNS = measured("395 labelled runs whose schedule is known: 392 of 392 without a fault are named right")
_DECAYING = ("linear", "cosine", "polynomial", "exponential", "one-cycle")
# How trainers name a family; the first that occurs in the configured word decides.
_STYLES = (
    ("constant", "constant"),
    ("restart", "restarts"),
    ("one", "one-cycle"),
    ("wsd", "warmup-stable-decay"),
    ("stable", "warmup-stable-decay"),
    ("cosine", "cosine"),
    ("linear", "linear"),
    ("inverse", "inverse-sqrt"),
    ("sqrt", "inverse-sqrt"),
    ("poly", "polynomial"),
    ("exp", "exponential"),
    ("step", "multi-step"),
)
_ALIKE = ({"linear", "polynomial"}, {"cosine", "one-cycle"}, {"multi-step", "exponential"})


@dataclass(frozen=True)
class Options:
    early: float = threshold(
        0.10, "part of the run at the end of a schedule that is spent", unit="share", source=TISSUE
    )
    spent: float = threshold(0.001, "rate against the peak that trains no more", unit="share", source=JUDGEMENT)
    late: float = threshold(
        0.35, "rate against the peak at the end of a finished run", unit="share", source=DEEPSEEK_LLM
    )
    due: float = threshold(0.40, "part of the planned steps after which a decay shows", unit="share", source=JUDGEMENT)
    points: int = threshold(20, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    series = run.get("lr")
    if series is None or np.count_nonzero(series.finite) < options.points:
        return NotEnoughData(f"{0 if series is None else len(series)} learning rates, {options.points} are needed")
    found = _begun_again(series)
    named = context.of(run).schedule
    if named is not None and not found:
        found = [*_spent(series, named, options), *_planned(run, series, named, options)]
    return found


def _begun_again(series: Series) -> list[Finding]:
    """A resumed attempt whose rates are those of the run's beginning, not those that the resumed step is due."""
    step, rate = _learning_rate.points(series)
    if len(series.attempt) != len(series):
        return []
    attempt = series.attempt[series.finite]
    peak = _learning_rate.peak_of(rate)
    for at in np.flatnonzero(np.diff(attempt)) + 1:
        due = float(rate[at - 1])
        most = min(int(at), len(rate) - int(at))
        if abs(due - float(rate[at])) <= 0.1 * peak:
            continue
        if any(
            _same_beginning(rate, int(at), rows, peak) and step[at] > step[rows - 1] for rows in (min(20, most), most)
        ):
            begin = int(step[at])
            return [
                _finding(
                    series,
                    "warning",
                    begin,
                    int(step[-1]),
                    f"The schedule begins again at step {begin:,}",
                    f"after the restart at step {begin:,} {series.metric} follows the first steps of the run again, "
                    f"{number(float(rate[at]))} where {number(due)} was due.",
                    Evidence("rate after the restart", series.metric, begin, begin, float(rate[at]), due),
                    "Save and load the scheduler's state with the checkpoint",
                    0.95,
                )
            ]
    return []


def _same_beginning(rate: Floats, at: int, rows: int, peak: float) -> bool:
    """Whether `rows` rates from `at` on are those that the run began with; flat ones tell nothing."""
    again, first = rate[at : at + rows], rate[:rows]
    return rows >= 5 and bool(np.ptp(first) > 0.02 * peak and np.allclose(again, first, rtol=0.02, atol=0.01 * peak))


def _spent(series: Series, named: Schedule, options: Options) -> list[Finding]:
    first, last = int(series.step[0]), int(series.step[-1])
    if named.held_from is None or named.final > options.spent * named.peak:
        return []
    part = (last - named.held_from) / max(1, last - first)
    if part <= options.early:
        return []
    return [
        _finding(
            series,
            "warning",
            named.held_from,
            last,
            f"The schedule ends at {named.held_from:,}, the run goes on",
            f"{series.metric} is {number(named.final)} from step {named.held_from:,} to {last:,}, "
            f"{number(round(part, 3), 'share')} of the run: these steps train nothing.",
            Evidence(
                "part of the run at the end of the schedule",
                series.metric,
                named.held_from,
                last,
                part,
                0.0,
                options.early,
                "share",
                "schedule.early",
            ),
            "Give the scheduler the steps of the whole run",
            0.95,
        )
    ]


def _planned(run: Run, series: Series, named: Schedule, options: Options) -> list[Finding]:
    """What the points say against what the run was set to, where both are known."""
    total, style = _setup.value_of(run, "total steps"), _style(_setup.word_of(run, "style"))
    last = int(series.step[-1])
    interval = float(np.median(np.diff(series.step))) if len(series) > 1 else 1.0
    if not total or total < last - interval:
        return []
    done = (last - named.warmup_steps) / max(1.0, total - named.warmup_steps)
    least = _setup.value_of(run, "least rate") or 0.0
    if named.family == "constant" and style in _DECAYING and done >= options.due and least < 0.9 * named.peak:
        return [
            _finding(
                series,
                "warning",
                named.warmup_steps,
                last,
                "The learning rate never decays",
                f"{series.metric} stays at {number(named.peak)} until step {last:,} of {total:,.0f}, although "
                f"a {style} schedule is configured.",
                Evidence(
                    "part of the planned steps done",
                    series.metric,
                    named.warmup_steps,
                    last,
                    done,
                    None,
                    options.due,
                    "share",
                    "schedule.due",
                ),
                "See that the scheduler is stepped, once a step",
                0.9,
            )
        ]
    steps = _setup.value_of(run, "decay steps")
    over = last >= total - 1.5 * interval and named.final > max(options.late * named.peak, 1.1 * least)
    if named.family in _DECAYING and over and steps and steps > 1.1 * total:
        return [
            _finding(
                series,
                "warning",
                last,
                last,
                "The run ends before its schedule does",
                f"{series.metric} is still {number(named.final)} of {number(named.peak)} at the last step {last:,}: "
                f"the decay is set to {steps:,.0f} steps, the run to {total:,.0f}.",
                Evidence(
                    "rate at the end against the peak",
                    series.metric,
                    last,
                    last,
                    named.final / named.peak,
                    0.1,
                    options.late,
                    "share",
                    "schedule.late",
                ),
                "Set the steps of the decay to those of the run",
                0.9,
            )
        ]
    other = (
        style and named.family not in ("constant", "warmup-only", style) and named.error < 0.005 and done >= options.due
    )
    if other and not any({style, named.family} <= alike for alike in _ALIKE):
        return [
            _finding(
                series,
                "info",
                int(series.step[0]),
                last,
                f"{named.family} schedule, {style} configured",
                f"{series.metric} follows a {named.family} schedule until step {last:,}, while a "
                f"{style} one is configured.",
                Evidence("misfit of the named family", series.metric, int(series.step[0]), last, named.error),
                "See which scheduler the run has built",
                0.8,
            )
        ]
    return []


def _style(word: str) -> str:
    return next((family for part, family in _STYLES if part in word.replace("_", "-")), "")


def _finding(
    series: Series,
    severity: Severity,
    first: int,
    last: int,
    title: str,
    message: str,
    evidence: Evidence,
    action: str,
    confidence: float,
) -> Finding:
    return Finding(
        detector="schedule",
        severity=severity,
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=title,
        message=message[0].upper() + message[1:] if not message.startswith(series.metric) else message,
        confidence=confidence,
        ongoing=last >= int(series.step[-1]),
        evidence=(evidence,),
        actions=(action,),
    )
