"""Held-out loss that rises while training loss goes on falling.

Why it matters
From the best evaluation on, every step makes the model worse at what it has not seen; the best checkpoint lies
behind.

How it is found
Evaluations are smoothed by a median of three. The last three lie above the best by `loss` (Prechelt's generalisation
loss) and by more than 4 times their scatter, they rise steadily (Kendall's tau above `steadiness`, p < 0.01), at
least 4 come after the best, and the training loss has not risen meanwhile. Error from `severe`; info from `mild`,
where p is below 0.05 only, or where the rise is not steady but all since the best are worse by half of it.

What to do
Take the checkpoint of the best evaluation. Stop early, add data or regularisation, or train fewer epochs.

When it is wrong
Fewer than 6 evaluations say nothing, nor does a small, noisy held-out set. One jump that stays is another evaluation
set (eval-shift). Evaluations counted on another axis than training are not judged. Language models may get better at
tasks while their held-out loss rises: look at the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import PRECHELT, measured
from trainlens.detectors._eval_context import LEAST, each_pair, levels_at
from trainlens.detectors._loss_context import Curve
from trainlens.detectors.eval_shift import find_shift
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import block_noise, kendall, rolling_median

NEEDS = ("role:loss", "role:eval-loss|eval/perplexity")
_TUNED = measured("405 labelled runs, 12 overfittings, 105 with evaluations")


@dataclass(frozen=True)
class Options:
    loss: float = threshold(0.04, "rise over the best evaluation, as a share of it", source=PRECHELT, unit="share")
    steadiness: float = threshold(0.4, "Kendall's tau of the evaluations since the best", source=_TUNED)
    severe: float = threshold(0.20, "rise from which it is an error", source=PRECHELT, unit="share")
    mild: float = threshold(0.01, "rise from which it is told as info", source=_TUNED, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    return each_pair(run, lambda held_out, train: _judge(held_out, train, options))


def _judge(held_out: Curve, train: Curve, options: Options) -> Finding | None:
    value, n = held_out.value, len(held_out)
    if n < LEAST or len(train) < LEAST or not held_out.positive or find_shift(held_out) is not None:
        return None
    smooth = rolling_median(value, 1)
    best = int(np.argmin(smooth[: n - 1]))
    level, end = float(smooth[best]), float(value[-3:].mean())
    if value[best + 1] < value[best]:  # the median of three has one level for both
        best += 1
    rise = end / level - 1
    scatter = block_noise(value) / 3**0.5
    if n - best < 5 or rise < options.mild or end - level < 4 * scatter:
        return None
    tau, chance = kendall(value[best:])
    unsteady = tau <= options.steadiness or chance >= 0.05
    if (
        unsteady and not (value[best + 1 :] > (level + end) / 2).all()
    ):  # a few evaluations, all of them worse, rank none
        return None
    around = levels_at(train, held_out.step[[best, n - 1]])
    now = min(float(around[1]), train.level(len(train) - max(5, len(train) // 20), len(train)))
    if now > float(around[0]) + 0.01 * abs(float(around[0])):
        return None
    severity: Severity = "error" if rise >= options.severe else "warning"
    if rise < options.loss or chance >= 0.01 or unsteady:
        severity = "info"
    return _told(held_out, best, level, end, (float(around[0]), now), severity, tau, options)


def _told(
    held_out: Curve,
    best: int,
    level: float,
    end: float,
    train: tuple[float, float],
    severity: Severity,
    tau: float,
    options: Options,
) -> Finding:
    first, last = int(held_out.step[best]), int(held_out.step[-1])
    name, show = held_out.metric, held_out.shown
    return Finding(
        detector="overfitting",
        severity=severity,
        metric=name,
        first_step=first,
        last_step=last,
        title=f"Overfitting since {first:,}, held-out loss up {number(round(end / level - 1, 3), 'share')}",
        message=f"{name} rose from its best {show(level)} at step {first:,} to {show(end)} at {last:,}, "
        f"while train/loss went from {show(train[0])} to {show(train[1])}.",
        confidence=min(0.99, 0.6 + 0.4 * max(tau, 0.0)),
        ongoing=True,
        evidence=(
            Evidence(
                "rise over the best evaluation, as a share of it",
                name,
                first,
                last,
                end / level - 1,
                limit=options.loss,
                unit="share",
                limit_name="overfitting.loss",
            ),
            Evidence("last evaluations against the best", name, first, last, end, level),
            Evidence("gap to the training loss now against then", name, first, last, end - train[1], level - train[0]),
            Evidence(
                "Kendall's tau since the best",
                name,
                first,
                last,
                tau,
                limit=options.steadiness,
                limit_name="overfitting.steadiness",
            ),
        ),
        actions=(f"Use the checkpoint nearest to step {first:,}.",),
    )
