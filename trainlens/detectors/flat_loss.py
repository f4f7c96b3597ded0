"""A loss that never learned, or stands still to the digit.

Why it matters
The whole run is wasted. The gradient does not reach the weights, the rate is 0, the labels are masked or shuffled, or
the values died in a NaN that the trainer hid.

How it is found
From the first to the last tenth of the whole log the loss falls less than `fall` of its start and less than 3
standard errors, over at least 60 points. Or it stays exactly the same for `held` points or more to the end of the
log, while the gradient norm is 0 or no number (also from a loss of exactly 0). Near the logarithm of the vocabulary's
size it guesses. A reward that is at its lowest, to the digit, at `idle` of its points, in the last half as in the
first, gives a policy nothing to learn from: info.

What to do
Check that parameters require gradients and are in the optimiser, that the learning rate is not 0, and that the labels
are right: overfit a single batch first. Look for NaN in the gradient norm.

When it is wrong
A log that begins late in a run (after a resume) may be flat because all is learned: it is not judged. The loss of a
policy may start at exactly 0 by construction and is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, SAGEMAKER, measured
from trainlens.detectors._loss_context import Curve, curve_of, is_dead, is_evaluation, judged
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import surely, surely_below

NEEDS = ("role:loss|role:reward",)
LEAST = 60
IDLE_LEAST = 40
_OWN = measured("bug reports of runs that died in NaN behind a filter")


@dataclass(frozen=True)
class Options:
    fall: float = threshold(0.02, "fall over the whole run, as a share of the start", source=SAGEMAKER, unit="share")
    idle: float = threshold(0.8, "points of a reward at its lowest value", source=JUDGEMENT, unit="share")
    held: int = threshold(8, "equal values to the end of the log with a dead gradient", source=_OWN, unit="points")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    idle = [found for one in judged(run, ("reward",)) if (found := _idle(curve_of(one), options))][:1]
    series = [one for one in judged(run, ("loss",)) if not is_evaluation(one)]
    if not series:
        return idle or NotApplicable("no training loss with a direction")
    loss = _of_loss(run, curve_of(series[0]), options)
    return loss if isinstance(loss, NotEnoughData) and not idle else [*idle, *(loss if isinstance(loss, list) else [])]


def _of_loss(run: Run, curve: Curve, options: Options) -> list[Finding] | NotEnoughData:
    if len(curve) < 5:
        return NotEnoughData(f"{len(curve)} points, {LEAST} are needed")
    if frozen := _frozen(run, curve, options):
        return [frozen]
    if len(curve) < LEAST:
        return NotEnoughData(f"{len(curve)} points, {LEAST} are needed")
    flat = _never_learned(run, curve, options)
    return [flat] if flat else []


def _idle(curve: Curve, options: Options) -> Finding | None:
    """A reward at its lowest nearly all along; `value` is turned, so the lowest reward is the largest value."""
    n = len(curve)
    if n < IDLE_LEAST or curve.sign > 0:
        return None
    usual = float(np.median(curve.value))
    same = curve.value == usual
    halves = float(same[: n // 2].mean()), float(same[n // 2 :].mean())
    if usual < float(curve.value.max()) or min(halves) < options.idle:
        return None
    first, last = int(curve.step[0]), int(curve.step[-1])
    return Finding(
        detector="flat-loss",
        severity="info",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Reward stands at {curve.shown(usual)}",
        message=f"{curve.metric} is exactly {curve.shown(usual)}, its lowest, at {int(same.sum()):,} of {n:,} points "
        f"from step {first:,} to {last:,}: there is next to nothing to learn from.",
        confidence=round(float(same.mean()), 2),
        ongoing=True,
        evidence=(
            Evidence("points at the lowest reward", curve.metric, first, last, float(same.mean()), None, options.idle,
                     "share", "flat-loss.idle"),
        ),
        actions=("Look at a few episodes: does the policy ever reach what is rewarded?",),
    )  # fmt: skip


def _frozen(run: Run, curve: Curve, options: Options) -> Finding | None:
    """Equal to the digit up to the end, with gradients that are 0 or no number."""
    moved = np.flatnonzero(np.diff(curve.value) != 0)
    at = int(moved[-1]) + 1 if len(moved) else 0
    first, last = int(curve.step[at]), int(curve.step[-1])
    held = len(curve) - at
    gradients = run.get("grad_norm")
    if held < options.held or gradients is None or not is_dead(run, first, last):
        return None
    value = float(curve.value[at])
    return Finding(
        detector="flat-loss",
        severity="error",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss frozen at {curve.shown(value)} from step {first:,}",
        message=f"{curve.metric} is exactly {curve.shown(value)} at {held:,} points from step {first:,} to the end, "
        "while the gradient norm is 0 or no number.",
        confidence=surely(held, options.held),
        ongoing=True,
        evidence=(
            Evidence(
                "equal values to the end",
                curve.metric,
                first,
                last,
                float(held),
                limit=float(options.held),
                unit="points",
                limit_name="flat-loss.held",
            ),
        ),
        actions=("Look for the first NaN in loss or gradient norm, and restart before it.",),
    )


def _never_learned(run: Run, curve: Curve, options: Options) -> Finding | None:
    n, value = len(curve), curve.value
    first, last = int(curve.step[0]), int(curve.step[-1])
    start = curve.level(0, max(5, n // 50))
    tail = max(5, n // 10)
    end = curve.level(n - tail, n)
    if not curve.positive or first > 0.5 * (last - first) or start <= 0:
        return None
    if start - end >= max(options.fall * start, 3 * curve.noise / tail**0.5):
        return None
    if end > 1.05 * start or float(np.median(value)) < 0.9 * start:  # it moved: other detectors tell how
        return None
    chance = _chance(run, end)
    return Finding(
        detector="flat-loss",
        severity="error" if is_dead(run, first, last) else "warning",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss never fell: {curve.shown(start)} to {curve.shown(end)}",
        message=f"{curve.metric} went from {curve.shown(start)} to {curve.shown(end)} in "
        f"{last - first:,} steps{chance}.",
        confidence=surely_below((start - end) / start, options.fall),
        ongoing=True,
        evidence=(
            Evidence(
                "fall over the whole run, as a share of the start",
                curve.metric,
                first,
                last,
                (start - end) / start,
                limit=options.fall,
                unit="share",
                limit_name="flat-loss.fall",
            ),
        ),
    )


def _chance(run: Run, level: float) -> str:
    """Told when the level is that of guessing, from a stated vocabulary or number of classes."""
    fact = run.fact("vocab_size", "padded_vocab_size", "num_labels", "num_classes")
    if fact is None or isinstance(fact.value, str) or float(fact.value) < 2:
        return ""
    guess = math.log(float(fact.value))
    return f": the level of guessing (ln {int(fact.value):,} = {guess:.2f})" if abs(level / guess - 1) < 0.01 else ""
