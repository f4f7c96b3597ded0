"""A lasting gap between training and held-out loss, with the held-out loss not (yet) rising.

Why it matters
A gap that grows is the first sign of memorising. A constant factor between both is a sign that they are not the same
quantity: summed over accumulation steps, over tokens, or over other data.

How it is found
Over the last third of the evaluations (at least 6 in all) the held-out loss lies above the training loss by `gap` of
it, and the best evaluation is not long past (else it is overfitting). A ratio that stays the same within 10 % from
the first third to the last and is 1.5 or more either way is told as a constant factor. Always info: a gap alone is no
fault.

What to do
Constant factor: check the reduction and accumulation of the logged loss. Growing: watch the next evaluations; more
data, regularisation, fewer epochs.

When it is wrong
Held-out data of another kind lies apart by nature. Below the training loss is normal: drop-out and augmentation act
in training only, and the logged training loss is an average over earlier, worse steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import SAGEMAKER, measured
from trainlens.detectors._eval_context import LEAST, each_pair, levels_at
from trainlens.detectors._loss_context import Curve
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Run
from trainlens.plugins import threshold
from trainlens.signals import surely

NEEDS = ("role:loss", "role:eval-loss")


@dataclass(frozen=True)
class Options:
    gap: float = threshold(0.25, "held-out over training loss, as a share of it", source=SAGEMAKER, unit="share")
    factor: float = threshold(
        1.5, "constant ratio that is told", source=measured("bug reports of summed losses"), unit="times"
    )


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    return each_pair(run, lambda held_out, train: _judge(held_out, train, options))


def _judge(held_out: Curve, train: Curve, options: Options) -> Finding | None:
    n = len(held_out)
    if n < LEAST or len(train) < LEAST or not held_out.positive or not train.positive:
        return None
    ratio = held_out.value / levels_at(train, held_out.step)
    third = n // 3
    begin, end = float(np.median(ratio[1 : third + 1])), float(np.median(ratio[-third:]))
    factor = max(end, 1 / end)
    if factor >= options.factor and abs(end / begin - 1) < 0.1:
        return _told(held_out, ratio, begin, end, factor, options.factor, "factor")
    if end - 1 > options.gap and float(np.median(held_out.value[-third:])) < 1.01 * float(held_out.value.min()):
        return _told(held_out, ratio, begin, end, end - 1, options.gap, "gap")
    return None


def _told(
    held_out: Curve, ratio: Floats, begin: float, end: float, observed: float, limit: float, which: str
) -> Finding:
    first, last = int(held_out.step[len(ratio) - len(ratio) // 3]), int(held_out.step[-1])
    name = held_out.metric
    if which == "factor":
        first = int(held_out.step[0])
        title = f"Held-out loss is {end:.3g} times the training loss"
        message = (
            f"{name} was {begin:.3g} times train/loss at the begin and is {end:.3g} times now: "
            "a constant factor, perhaps of how it is summed."
        )
    else:
        title = f"Held-out loss {number(round(end - 1, 2), 'share')} above the training loss"
        message = (
            f"{name} lies {number(round(end - 1, 2), 'share')} above train/loss over the last third of evaluations; "
            f"it was {number(round(begin - 1, 2), 'share')} at the begin."
        )
    return Finding(
        detector="train-eval-gap",
        severity="info",
        metric=name,
        first_step=first,
        last_step=last,
        title=title,
        message=message,
        confidence=surely(observed, limit),
        ongoing=True,
        evidence=(
            Evidence(
                "held-out over training loss" if end > 1 else "training over held-out loss",
                name,
                first,
                last,
                observed,
                limit=limit,
                unit="times" if which == "factor" else "share",
                limit_name=f"train-eval-gap.{which}",
            ),
        ),
    )
