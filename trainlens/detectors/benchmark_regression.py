"""Benchmark scores that fall back, a checkpoint that is bad at most tasks, or scores at the level of guessing.

Why it matters
Training loss says little about what a model can do. A score that falls and stays below its best tells that training
unlearns it; one checkpoint that is bad at everything was taken in a loss spike, is damaged, or was evaluated wrongly.

How it is found
Each task is one curve over checkpoints. The error of a score is the standard error that the log states, or the scatter
about a smooth curve where that is larger (for a regression also how far the score wanders over an eighth of the log). A
task has regressed when its best level (a median of three) lies more than `errors` errors and more than `size` of it
above the level at the end, and the last two scores are all below. A checkpoint is bad when at least two tasks fall
below the line between their neighbours by more than `errors` errors, and `most` of those that learn anything by half as
many and half of `size`; the first checkpoint is held against the next ones over ln(step), the last against those
before. Scores within two errors of guessing at every checkpoint are told as info. Where no steps are logged, results of
one model on several tasks that are apart by as much are told too.

What to do
Evaluate the checkpoint again with the same settings. If it stays: look for a loss spike or a change of data just before
it, and take an earlier checkpoint. Results of one model that disagree: compare prompt, number of shots, beginning-of-
text token and the version of the harness.

When it is wrong
Without stated errors fewer than 5 checkpoints tell no scatter and are not judged. Another harness version or prompt
between checkpoints looks like a regression. A task that moves alone at one checkpoint is noise and is never told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, LM_EVAL, measured
from trainlens.detectors._benchmarks import Task, chance, tasks
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import counted, number
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import kendall, mad, rolling_median

NEEDS = ("role:score",)
LEAST = 5  # checkpoints of a task without stated errors
_TOLD = 8  # tasks in the evidence of one finding
_TUNED = measured("benchmarks through three published trainings of 1.3 B parameters, and simulated scores")


@dataclass(frozen=True)
class Options:
    errors: float = threshold(4.0, "fall in standard errors of a difference", source=LM_EVAL, unit="errors")
    size: float = threshold(0.05, "fall as a share of the best score", source=_TUNED, unit="share")
    most: float = threshold(
        0.5, "share of the learning tasks that makes a checkpoint bad", source=JUDGEMENT, unit="share"
    )
    guessing: float = threshold(2.0, "errors around guessing", source=LM_EVAL, unit="errors")


@dataclass(frozen=True, slots=True)
class _Fall:
    task: Task
    at: int  # first point that is low
    before: float
    after: float
    errors: float


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    found = tasks(run)
    if not found:
        return NotApplicable("no benchmark scores in the logs")
    told = [task for task in found if task.stated or len(task) >= LEAST]
    if not told:
        return NotEnoughData(f"{max(len(task) for task in found)} checkpoints, {LEAST} are needed")
    findings = _guesses(told, options)
    placed = [task for task in told if not task.positional]
    findings += _disagreements([task for task in told if task.positional], options)
    bad, steps = _bad_checkpoints(placed, options)
    return findings + bad + _regressions(placed, steps, options)


# ---- a level that is lost ------------------------------------------------------------------------------------------


def _regressions(judged: Sequence[Task], known: set[int], options: Options) -> list[Finding]:
    """One finding for all tasks whose scores end below their best, where they begin to."""
    falls = [fall for task in judged if (fall := _lasting(task, options)) is not None]
    falls = [fall for fall in falls if int(fall.task.step[fall.at]) not in known]
    if not falls:
        return []
    falls.sort(key=lambda fall: -fall.errors)
    worst = falls[0]
    first, last = (int(step) for step in (worst.task.step[worst.at], worst.task.step[-1]))
    many = len(falls) >= max(2, options.most * len(judged))
    also = f", and so did {counted(len(falls) - 1, 'other task')} of {len(judged)}" if len(falls) > 1 else ""
    best = float(worst.before)
    return [
        Finding(
            detector="benchmark-regression",
            severity="error" if many and len(falls) >= 3 else "warning",
            metric=worst.task.metric,
            first_step=first,
            last_step=last,
            title=f"Benchmark {worst.task.name[:20]} fell from {number(best)} to {number(worst.after)}",
            message=f"{worst.task.metric[:60]} fell from {number(best)} to {number(worst.after)} "
            f"({number(round(worst.errors, 1))} standard errors) since step {first:,} and stays there{also}.",
            confidence=0.9 if worst.errors > 1.5 * options.errors else 0.75,
            ongoing=True,
            evidence=tuple(_evidence(fall, "fell") for fall in falls[:_TOLD]),
            actions=(f"Evaluate the checkpoint before step {first:,} again, and go on from it if it holds.",),
        )
    ]


def _lasting(task: Task, options: Options) -> _Fall | None:
    value, n = task.value, len(task)
    if n < LEAST:
        return None
    smooth = rolling_median(value, 1)
    best = int(np.argmax(smooth[: n - 2]))
    lag = max(1, n // 8)
    wander = (
        mad(value[2 * lag :] - 2 * value[lag:-lag] + value[: -2 * lag]) / 6**0.5
    )  # some tasks come and go all along
    level, error = float(smooth[best]), max(float(np.median(task.error)), wander) * 2**0.5
    # the best of many scores is high by chance, and errors from few scores are uncertain
    need = max(options.errors * error / 2**0.5 * (1 + 0.1 * float(np.log(n))), options.size * task.size(best))
    low = value < level - need / 2
    after = np.flatnonzero(~low)
    at = int(after[-1]) + 1 if len(after) else 0
    if at <= best or n - at < 2 or error <= 0:
        return None
    end = float(np.median(value[max(at, n - 3) :]))
    if level - end <= need or value[-2:].max() > level - need / 2:
        return None
    return _Fall(
        task, at, float(task.shown[best]), float(np.median(task.shown[max(at, n - 3) :])), (level - end) / error
    )


# ---- one checkpoint ------------------------------------------------------------------------------------------------


def _bad_checkpoints(judged: Sequence[Task], options: Options) -> tuple[list[Finding], set[int]]:
    """Checkpoints at which most tasks fall at once, and their steps."""
    learning = [task for task in judged if len(task) >= LEAST and _learns(task)]
    if len(learning) < 2:
        return [], set()
    findings, known = [], set()
    for step in sorted({int(step) for task in learning for step in task.step}):
        asked = [task for task in learning if step in task.step]
        falls = [fall for task in asked if (fall := _dip(task, int(np.searchsorted(task.step, step)), options))]
        if sum(fall.errors > options.errors for fall in falls) < 2 or len(asked) < len(learning) / 2:
            continue
        if len(falls) < options.most * len(asked):
            continue
        falls.sort(key=lambda fall: -fall.errors)
        worst = falls[0]
        known.add(step)
        last = step == int(worst.task.step[-1])
        fate = "the last so far" if last else "the first" if worst.at == 0 else "the next one is back"
        findings.append(
            Finding(
                detector="benchmark-regression",
                severity="warning",
                metric=worst.task.metric,
                first_step=step,
                last_step=step,
                title=f"Bad checkpoint at {step:,}: {len(falls)} of {len(asked)} tasks fall",
                message=f"At step {step:,} ({fate}) {len(falls)} of {len(asked)} tasks that learn are far below their "
                f"curve: {worst.task.name[:40]} {number(worst.after)} where {number(worst.before)} was to be expected.",
                confidence=min(0.99, 0.7 + 0.3 * len(falls) / len(asked)),
                ongoing=last,
                evidence=tuple(_evidence(fall, "is") for fall in falls[:_TOLD]),
                actions=("Evaluate it again; look for a loss spike just before it, and use a neighbour meanwhile.",),
            )
        )
    return findings, known


def _learns(task: Task) -> bool:
    """Whether the scores rise with training by more than their errors: the others cannot fall."""
    spread = float(np.quantile(task.value, 0.9) - np.quantile(task.value, 0.1))
    return spread > 3 * float(np.median(task.error)) and kendall(task.value)[0] > 0.3


def _dip(task: Task, at: int, options: Options) -> _Fall | None:
    """The fall of one score below what its neighbours lead to expect, None where it is no such fall."""
    value, step, n = task.value, task.step.astype(float), len(task)
    if 0 < at < n - 1:
        share = (step[at] - step[at - 1]) / max(step[at + 1] - step[at - 1], 1.0)
        expected = value[at - 1] + share * (value[at + 1] - value[at - 1])
        expected = min(float(expected), float(max(value[at - 1], value[at + 1])))
    elif at == n - 1:
        expected = float(np.median(value[max(0, at - 3) : at]))
    elif step[0] > 0 and step[0] >= 3 * (step[1] - step[0]):  # well into the training, whose start is lawfully low
        picks = slice(1, min(n, 5))
        slope = max(0.0, float(np.polyfit(np.log(step[picks]), value[picks], 1)[0]))
        expected = float(np.median(value[picks])) - 3 * slope * float(np.log(np.median(step[picks]) / step[0]))
    else:
        return None
    error = float(np.median(task.error)) * 1.5**0.5
    fall = expected - float(value[at])
    if error <= 0 or fall <= max(options.errors / 2 * error, options.size / 2 * task.size(at)):
        return None
    shown = expected if task.value is task.shown else float(np.exp(-expected)) if (task.shown > 0).all() else -expected
    return _Fall(task, at, shown, float(task.shown[at]), fall / error)


# ---- results without steps, and guessing ---------------------------------------------------------------------------


def _disagreements(judged: Sequence[Task], options: Options) -> list[Finding]:
    """Results of one model that cannot be of the same settings."""
    apart = []
    for task in judged:
        if len(task) < 2 or not task.stated:
            continue
        low, high = int(np.argmin(task.value)), int(np.argmax(task.value))
        error = float(np.hypot(task.error[low], task.error[high]))
        errors = float(task.value[high] - task.value[low]) / max(error, 1e-12)
        if errors > 2 * options.errors and task.value[high] - task.value[low] > 2 * options.size * task.size(high):
            apart.append(_Fall(task, low, float(task.shown[high]), float(task.shown[low]), errors))
    several = [task for task in judged if len(task) >= 2 and task.stated]
    if len(apart) < 2 or len(apart) < options.most * len(several):
        return []
    worst = max(apart, key=lambda fall: fall.errors)
    lower, higher = sorted((worst.after, worst.before))
    newest_is_low = worst.at == len(worst.task) - 1
    severity: Severity = "warning" if newest_is_low else "info"
    return [
        Finding(
            detector="benchmark-regression",
            severity=severity,
            metric=worst.task.metric,
            first_step=None,
            last_step=None,
            title=f"Results of one model disagree on {len(apart)} of {len(several)} tasks",
            message=f"{worst.task.metric[:60]} is {number(lower)} in one result and {number(higher)} in another, "
            f"{number(round(worst.errors))} standard errors apart: the settings of the evaluations differ.",
            confidence=0.8,
            evidence=tuple(_evidence(fall, "is") for fall in apart[:_TOLD]),
            actions=("Compare prompt, number of shots and beginning-of-text token of the two results.",),
        )
    ]


def _guesses(judged: Sequence[Task], options: Options) -> list[Finding]:
    """Tasks whose every score is what guessing gets."""
    low = []
    for task in judged:
        guess = chance(task) if task.value is task.shown else None  # a perplexity has no guessing
        if guess is None:
            continue
        if bool((np.abs(task.shown - guess) <= np.maximum(options.guessing * task.error, 0.01 * guess)).all()):
            low.append((task, guess))
    if not low:
        return []
    task, guess = low[0]
    first, last = (None, None) if task.positional else (int(task.step[0]), int(task.step[-1]))
    names = ", ".join(one.name[:24] for one, _ in low[:3]) + (f" and {len(low) - 3} more" if len(low) > 3 else "")
    return [
        Finding(
            detector="benchmark-regression",
            severity="info",
            metric=task.metric,
            first_step=first,
            last_step=last,
            title=f"{counted(len(low), 'benchmark')} at the level of guessing",
            message=f"Every score of {names} lies within {number(options.guessing)} standard errors of guessing "
            f"({task.name[:24]}: {number(float(np.median(task.shown)))}, guessing {number(guess)}).",
            confidence=0.8,
            ongoing=True,
            evidence=tuple(
                Evidence("median score against guessing", one.metric, first, last, float(np.median(one.shown)), share)
                for one, share in low[:_TOLD]
            ),
        )
    ]


def _evidence(fall: _Fall, verb: str) -> Evidence:
    step = None if fall.task.positional else int(fall.task.step[fall.at])
    text = "score after against the best before" if verb == "fell" else "score against the one expected"
    return Evidence(
        f"{text}, {number(round(fall.errors, 1))} standard errors apart",
        fall.task.metric,
        step,
        step,
        fall.after,
        fall.before,
    )
