"""A loss that leaves its best level for good, or a score that collapses.

Why it matters
Every step after the onset is lost: the run has to go back to a checkpoint before it, with a cause removed.

How it is found
The level is the median of a fiftieth of the run. The end (median of the last twentieth) lies above the best level by
more than `size` of it and more than `errors` standard errors; it counts as divergence when the level still rises,
when more than `lost` of all progress is gone, when it rose by `crept` without a jump, or when the scatter doubled.
Where values change sign or higher is better, `lost_signed` of the progress must be gone. A log that dies in NaN is
judged by its last numbers, one of fewer than 40 points by 1.5 times its start. The onset is the jump if one explains
half of the rise, else the last time at the best level.

What to do
Stop the run. Restart from the last checkpoint before the onset with a lower learning rate, tighter clipping or other
data; look at gradient norm and loss scale just before the onset.

When it is wrong
A new data mixture or objective lifts the loss lawfully (loss-shift if it comes down again). The loss of a policy in
reinforcement learning has no direction and is not judged. A training loss that the held-out loss does not follow is a
loss-shift. A held-out loss that rises while training goes on well is overfitting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.citations import JUDGEMENT, PALM, measured
from trainlens.detectors._loss_context import (
    LOSSES,
    SCORES,
    Curve,
    add,
    curve_of,
    held_out,
    is_evaluation,
    judged,
    too_short,
)
from trainlens.detectors._loss_levels import LevelLimits, Rise, rise_of
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Run, Series
from trainlens.plugins import threshold
from trainlens.signals import surely

NEEDS = ("role:loss|role:eval-loss|role:perplexity|role:score|role:reward",)
_TUNED = measured("405 labelled runs, 17 divergences: all found, no false alarm")


@dataclass(frozen=True)
class Options:
    size: float = threshold(0.05, "rise over the best level, as a share of it", source=_TUNED, unit="share")
    errors: float = threshold(6.0, "rise over the best level in standard errors", source=_TUNED, unit="errors")
    lost: float = threshold(0.35, "share of all progress that is gone", source=_TUNED, unit="share")
    lost_signed: float = threshold(
        0.5, "the same for scores and for losses that change sign", source=PALM, unit="share"
    )
    crept: float = threshold(0.2, "rise over the best level, without a jump", source=JUDGEMENT, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    training = run.get("train/loss")
    series = [
        one
        for one in judged(run, LOSSES + SCORES)
        if training is None or one.about.role in SCORES or not is_evaluation(one)
    ]
    if not series:
        return NotApplicable("no loss or score with a direction")
    if short := too_short([curve_of(one) for one in series], 4):
        return short
    limits = LevelLimits(options.size, options.errors, options.lost, options.lost_signed, options.crept)
    findings: list[Finding] = []
    for one in series:
        rise = rise_of(one, limits)
        if rise is not None and rise.diverges and not _of_the_measure(run, one, rise):
            add(findings, _told(curve_of(one), rise, options))
    return findings


def _of_the_measure(run: Run, series: Series, rise: Rise) -> bool:
    """Whether the held-out loss shows nothing of a rise of the training loss: loss-shift tells it."""
    onset = int(series.step[series.finite][rise.onset])
    return series.metric == "train/loss" and held_out(run, onset, onset) is not None


def _told(curve: Curve, rise: Rise, options: Options) -> Finding:
    first = int(curve.step[rise.onset])
    best, end = curve.shown(rise.level), curve.shown(rise.end)
    verb, name = ("rose", "Loss divergence") if curve.sign > 0 else ("fell", "Collapse")
    fate = "and still grows worse" if rise.still else "and stays there"
    if not curve.ends_finite:
        fate = "and then was no number any more"
    lost = f", {number(round(min(rise.lost, 9.99), 2), 'share')} of its progress lost" if rise.lost < 10 else ""
    return Finding(
        detector="loss-divergence",
        severity="error",
        metric=curve.metric,
        first_step=first,
        last_step=max(first, curve.last_step),
        title=f"{name} from step {first:,}",
        message=f"{curve.metric} {verb} from {best} to {end} after step {first:,}{lost}, {fate}.",
        confidence=surely(rise.lost, options.lost if curve.positive else options.lost_signed),
        ongoing=True,
        evidence=(
            Evidence(
                "level at the end against the best",
                curve.metric,
                first,
                max(first, curve.last_step),
                curve.sign * rise.end,
                curve.sign * rise.level,
                None,
            ),
            Evidence(
                "share of the progress lost",
                curve.metric,
                observed=min(rise.lost, 9.99),  # the first level may be the best: no progress
                limit=options.lost if curve.positive else options.lost_signed,
                unit="share",
                limit_name="loss-divergence.lost" if curve.positive else "loss-divergence.lost_signed",
            ),
        ),
        actions=(f"Restart from the last checkpoint before step {first:,} with a lower learning rate.",),
    )
