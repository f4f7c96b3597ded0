"""A metric that stops being logged, or repeats an old value, while the run goes on.

Why it matters
A loss that vanishes from the log has often become NaN: nothing in the line says so. A value repeated to the last
digit was not measured again, as on steps that half precision skipped.

How it is found
Ended: a training loss or gradient norm lacks its last `missing` points, counted by its own interval, while another
metric of the same rhythm was logged `missing` times or more after it. Repeated: `repeats` or more equal values in a
row in a series whose other values hardly ever repeat, and nowhere else.

What to do
Look at gradient norm, loss scale and skipped steps over that range; check the logging code of that metric.

When it is wrong
Losses of a phase that ended (a two-stage training) end by design. A model that stands still repeats its loss
honestly: flat-loss tells that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import BLOOM, measured
from trainlens.detectors._loss_context import figure, interval, is_dead, judged
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Role, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import held_level, surely

NEEDS = ("role:loss|role:eval-loss|role:grad-norm|role:score|role:perplexity",)
_PER_STEP: tuple[Role, ...] = ("loss", "grad-norm", "learning-rate", "step-time", "throughput")
_REPEATING: tuple[Role, ...] = ("loss", "eval-loss", "grad-norm", "score", "perplexity", "reward")
_OWN = measured("bug reports of losses that vanished with a NaN")


@dataclass(frozen=True)
class Options:
    missing: int = threshold(10, "points missing at the end while others go on", source=_OWN, unit="points")
    repeats: int = threshold(5, "equal values in a row", source=BLOOM, unit="points")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    ended = [one for one in (*judged(run, ("loss",)), *run.with_role("grad-norm")) if len(one) >= 5]
    repeating = [one for role in _REPEATING for one in run.with_role(role) if len(one) >= 4 * options.repeats // 2]
    if not ended and not repeating:
        return NotEnoughData("no series of a loss, a score or a gradient norm has 5 points")
    others = [other for role in _PER_STEP for other in run.with_role(role) if len(other)]
    latest = max((int(other.step[-1]) for other in others), default=0)
    findings = [finding for one in ended if (finding := _ended(run, one, options, latest))]
    findings.extend(finding for one in repeating if (finding := _repeated(run, one, options)))
    return findings


def _ended(run: Run, series: Series, options: Options, latest: int) -> Finding | None:
    """What the end of a series says; `latest` is the last step of all."""
    last, step = int(series.step[-1]), interval(series.step)
    if latest - last < options.missing * step:
        return None
    for role in _PER_STEP:
        for other in run.with_role(role):
            after = other.step[other.step > last]
            if other.metric == series.metric or len(after) < options.missing or other.positional != series.positional:
                continue
            missed = (int(after[-1]) - last) / step
            if missed < options.missing or not 1 / 3 <= interval(other.step) / step <= 3:
                continue
            return _told_ended(run, series, other, int(after[0]), int(after[-1]), int(missed), options)
    return None


def _told_ended(
    run: Run, series: Series, other: Series, first: int, last: int, missed: int, options: Options
) -> Finding:
    gradients = run.get("grad_norm")
    dead = gradients is not None and bool((~gradients.finite & (gradients.step >= first)).any())
    why = ", and the gradient norm is no number there" if dead else ""
    return Finding(
        detector="stale-metric",
        severity="error" if dead else "warning" if series.about.role == "loss" else "info",
        metric=series.metric,
        first_step=first,
        last_step=last,
        title=f"{series.metric[:24]} no longer logged from {first:,}",
        message=f"{series.metric} ends at step {int(series.step[-1]):,} with {figure(float(series.value[-1]))}, "
        f"while {other.metric[:40]} is logged up to {last:,}{why}.",
        ongoing=True,
        evidence=(
            Evidence(
                "points missing at the end",
                series.metric,
                first,
                last,
                float(missed),
                limit=float(options.missing),
                unit="points",
                limit_name="stale-metric.missing",
            ),
        ),
    )


def _repeated(run: Run, series: Series, options: Options) -> Finding | None:
    value, step = series.value[series.finite], series.step[series.finite]
    held = held_level(value, options.repeats)
    if held is None:
        return None
    first, last = held
    others = np.r_[value[:first], value[last + 1 :]]
    repeated = float(value[first])
    renewed = others[np.r_[True, np.diff(others) != 0]] if len(others) else others  # each stretch of equals once
    if len(renewed) < max(8, len(others) / 2) or len(np.unique(renewed)) < 0.9 * len(renewed):
        return None  # coarse values, or one held between rare measurements
    if repeated in (0.0, 1.0) or repeated in others:
        return None
    if last == len(value) - 1 and is_dead(run, int(step[first]), int(step[last])):
        return None
    begin, end, number = int(step[first]), int(step[last]), last - first + 1
    return Finding(
        detector="stale-metric",
        severity="warning",
        metric=series.metric,
        first_step=begin,
        last_step=end,
        title=f"{series.metric[:20]} repeats {figure(repeated)} from {begin:,}",
        message=f"{series.metric} is exactly {figure(repeated)} at {number:,} points in a row, "
        f"steps {begin:,} to {end:,}: it was not measured anew.",
        confidence=surely(number, options.repeats),
        ongoing=last == len(value) - 1,
        evidence=(
            Evidence(
                "equal values in a row",
                series.metric,
                begin,
                end,
                float(number),
                limit=float(options.repeats),
                unit="points",
                limit_name="stale-metric.repeats",
            ),
        ),
    )
