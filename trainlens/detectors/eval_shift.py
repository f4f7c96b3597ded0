"""Held-out loss that jumps once and stays there.

Why it matters
The evaluations before and after cannot be compared: the set, its tokenisation or the metric's code changed, or a
wrong checkpoint was loaded. Read as overfitting it stops a good run.

How it is found
The largest rise between two evaluations (after the first sixth) is more than `deviations` times the usual scatter of
such moves and more than `size` of the level; at least 3 evaluations follow; their level keeps more than 60 % of the
rise; and it is one jump, not part of a steady rise. At least 10 evaluations.

What to do
Compare the evaluation's settings and data before and after that step; evaluate one old checkpoint again.

When it is wrong
A jump of the training loss at the same step is a real change of the model: then look at loss-shift and loss-spike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens import context
from trainlens.citations import measured
from trainlens.detectors._eval_context import eval_losses
from trainlens.detectors._loss_context import Curve, add, changes, curve_of, interval, near
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import mad, surely

NEEDS = ("role:eval-loss|eval/perplexity",)
LEAST = 10
_TUNED = measured("405 labelled runs, 4 jumps of the evaluation, 105 runs with evaluations")


@dataclass(frozen=True)
class Options:
    deviations: float = threshold(8.0, "jump in robust deviations of the moves", source=_TUNED, unit="deviations")
    size: float = threshold(0.02, "jump as a share of the level", source=_TUNED, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = eval_losses(run)
    if not series:
        return NotApplicable("no held-out loss with a direction")
    most = max(len(curve_of(one)) for one in series)
    if most < LEAST:
        return NotEnoughData(f"{most} evaluations, {LEAST} are needed")
    findings: list[Finding] = []
    for one in series:
        curve = curve_of(one)
        at = find_shift(curve, options.deviations, options.size)
        if at is None:
            continue
        add(findings, _told(run, curve, at, options))
    return findings


def find_shift(curve: Curve, deviations: float = 8.0, size: float = 0.02) -> int | None:
    """Index of the first evaluation of a new, higher level; None when there is no single jump."""
    value, n = curve.value, len(curve)
    if n < LEAST:
        return None
    begin = n // 6
    moves = np.diff(value)
    at = begin + int(np.argmax(moves[begin:]))
    jump = float(moves[at])
    level = abs(float(np.median(value)))
    usual = max(deviations * mad(moves[begin:]), 3 * float(np.median(np.abs(moves[begin:]))))
    if jump <= max(usual, size * level) or n - at <= 3:
        return None
    before = float(np.median(value[max(0, at - 2) : at + 1]))
    soon = float(np.median(value[at + 1 : at + 4]))
    later = float(np.median(value[at + 1 : at + 1 + max(4, (n - at) // 3)]))
    if soon - before <= 0.6 * jump or later <= before + 0.25 * jump:
        return None
    return at + 1


def _told(run: Run, curve: Curve, at: int, options: Options) -> Finding:
    first, last = int(curve.step[at]), int(curve.step[-1])
    before, after = curve.level(at - 3, at), curve.level(at, at + 3)
    step = interval(curve.step)
    explained = near(first, changes(run), step, step)
    where = context.of(run).why(first, step, step, ("batch size", "sequence length", "restart"))
    why = f"; explained by {where}" if explained and where else ""
    return Finding(
        detector="eval-shift",
        severity="info" if explained else "warning",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Evaluation shift at {first:,}, {curve.shown(before)} to {curve.shown(after)}",
        message=f"{curve.metric} jumped from {curve.shown(before)} to {curve.shown(after)} between two evaluations "
        f"at step {first:,} and stayed there{why}.",
        confidence=surely((after - before) / max(abs(before), 1e-12), options.size),
        ongoing=True,
        evidence=(
            Evidence(
                "level after against before",
                curve.metric,
                first,
                last,
                after,
                before,
                before + options.size * abs(before),
                limit_name="eval-shift.size",
            ),
        ),
    )
