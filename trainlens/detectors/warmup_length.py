"""Warmup length: how long the learning rate rises at the start, against what is usual.

Why it matters
Adam's second moments are wrong for the first some hundred steps; a large model at its full rate there may be thrown
where it never recovers from. A warmup that is far too long is training time at too low a rate.

How it is found
The steps until the peak, of the steps that are planned (or that were run, once the rate has decayed). Usual are 1 to
5 % in short runs and about 2,000 steps in long ones; more than `longest` is worth a line, and so is a length other
than the configured one. No warmup is a warning only where a large model (`large` weights) begins from scratch, and
the loss rises by more than `rise` or the gradient norm is above `norm` times its level in the first 5 % of the run.

What to do
Warm up over 2,000 steps, or 1 to 5 % of a short run.

When it is wrong
Where the rate was warmed up before the log begins. Fine-tunings and small models do without a warmup; of them
nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens import context
from trainlens.citations import DEEPSEEK_LLM, JUDGEMENT, USUAL
from trainlens.detectors import _setup
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Schedule, Severity
from trainlens.figures import number
from trainlens.model import Run, Series
from trainlens.plugins import threshold

NEEDS = ("lr",)
_SCRATCH = 6.0  # nats of the first loss: a language model that begins from random weights is near ln(vocabulary)


@dataclass(frozen=True)
class Options:
    longest: float = threshold(0.15, "part of the steps that is a long warmup", unit="share", source=USUAL)
    usual: float = threshold(0.05, "part of the steps up to which a warmup is usual", unit="share", source=DEEPSEEK_LLM)
    large: float = threshold(3e8, "weights of a large model", source=JUDGEMENT)
    rise: float = threshold(1.3, "loss in the first steps against the lowest before it", unit="times", source=JUDGEMENT)
    norm: float = threshold(10.0, "gradient norm in the first steps against the run's", unit="times", source=JUDGEMENT)
    points: int = threshold(40, "points needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = run.get("lr")
    if series is None or len(series) < options.points:
        return NotEnoughData(f"{0 if series is None else len(series)} learning rates, {options.points} are needed")
    named = context.of(run).schedule
    if named is None or named.family in ("warmup-only", "restarts", "cyclic", "one-cycle"):
        return NotApplicable("no warmup can be told from this schedule")
    if series.positional:
        return NotApplicable("the log has no step numbers")
    first, interval = int(series.step[0]), float(np.median(np.diff(series.step)))
    if first > max(1.0, interval):
        return NotApplicable(f"the log begins at step {first:,}")
    if not named.warmup_steps:
        return _none(run, series, options)
    return [*_long(run, series, named, options), *_other(run, series, named, interval)]


def _none(run: Run, series: Series, options: Options) -> list[Finding]:
    weights = _setup.parameters(run)
    loss, norm = run.get("train/loss"), run.get("grad_norm")
    if int(series.step[0]) > 10:  # the warmup may lie before the first row
        return []
    if weights is None or weights < options.large or _setup.begun_from_weights(run) or loss is None:
        return []
    value = loss.value[loss.finite]
    if len(value) < options.points or value[0] < _SCRATCH:
        return []
    early = value[: max(10, len(value) // 20)]
    lowest = np.minimum.accumulate(early)
    rise = float(np.max(early[1:] / np.maximum(lowest[:-1], 1e-12)))
    high = 0.0
    if norm is not None and np.count_nonzero(norm.finite) >= options.points:
        known = norm.value[norm.finite]
        high = float(known[: max(10, len(known) // 20)].max() / max(float(np.median(known)), 1e-12))
    if rise < options.rise and high < options.norm:
        return []
    what = (
        f"the loss rises {number(round(rise, 2))}-fold"
        if rise >= options.rise
        else f"the gradient norm is {number(round(high, 1))} times its level"
    )
    end = int(loss.step[loss.finite][len(early) - 1])
    return [
        _finding(
            series,
            "warning",
            int(series.step[0]),
            end,
            "No warmup, and trouble in the first steps",
            f"{series.metric} is at its peak from step {series.step[0]:,}, and {what} by step {end:,}, "
            f"in a model of {number(weights)} weights.",
            Evidence(
                "loss against the lowest before",
                "train/loss",
                int(series.step[0]),
                end,
                rise,
                1.0,
                options.rise,
                "",
                "warmup-length.rise",
            ),
            "Warm the learning rate up over 2,000 steps",
            0.75,
        )
    ]


def _long(run: Run, series: Series, named: Schedule, options: Options) -> list[Finding]:
    total = _setup.value_of(run, "total steps")
    last = int(series.step[-1])
    if not total or total < last:
        if named.final > 0.5 * named.peak:
            return []  # the run may be far from its end
        total = float(last)
    share = named.warmup_steps / total
    if share <= options.longest or named.warmup_steps <= 200:
        return []
    return [
        _finding(
            series,
            "info",
            int(series.step[0]),
            named.warmup_steps,
            f"The warmup is {number(round(share, 3), 'share')} of the run",
            f"{series.metric} rises until step {named.warmup_steps:,} of {total:,.0f}; 1 to "
            f"{number(options.usual, 'share')} of the steps or about 2,000 are usual.",
            Evidence(
                "part of the steps",
                series.metric,
                int(series.step[0]),
                named.warmup_steps,
                share,
                options.usual,
                options.longest,
                "share",
                "warmup-length.longest",
            ),
            "Shorten the warmup to 1 to 5 % of the steps",
            0.8,
        )
    ]


def _other(run: Run, series: Series, named: Schedule, interval: float) -> list[Finding]:
    """Another length than the configured one, as far as the logged rows can tell them apart."""
    planned = _setup.value_of(run, "warmup steps")
    if planned is None and (share := _setup.value_of(run, "warmup share")) and share < 1:
        total = _setup.value_of(run, "total steps")
        planned = share * total if total else None
    if planned is None or abs(planned - named.warmup_steps) <= max(3 * interval, 0.15 * planned):
        return []
    return [
        _finding(
            series,
            "info",
            int(series.step[0]),
            named.warmup_steps,
            f"A warmup of {named.warmup_steps:,} steps, {planned:,.0f} configured",
            f"{series.metric} reaches its peak at step {named.warmup_steps:,}, while a warmup of {planned:,.0f} steps "
            "is configured: steps may be counted in another unit.",
            Evidence(
                "steps until the peak",
                series.metric,
                int(series.step[0]),
                named.warmup_steps,
                named.warmup_steps,
                planned,
            ),
            "See what the scheduler counts: steps, micro-steps or samples",
            0.8,
        )
    ]


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
        detector="warmup-length",
        severity=severity,
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=title,
        message=message,
        confidence=confidence,
        evidence=(evidence,),
        actions=(action,),
    )
