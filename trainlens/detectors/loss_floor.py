"""A training loss of a language model that is too low to be true.

Why it matters
Text has entropy. A loss for each token far below what the best models reach means that the answer is in the input,
that the data are few and memorised, or that most labels are masked.

How it is found
The loss starts at `start` nats or more (thousands of possible tokens) and the median of its last twentieth is below
`floor`. Warning where it also comes early (within `early` of an epoch, or within 1,000 steps), info where epochs
passed: then it is memorising. At least 20 points.

What to do
Check shift of labels against inputs, leaks of the target into the prompt, the size of the data and its repetitions,
and the share of masked tokens. Look at the held-out loss.

When it is wrong
Fine-tuning on short, fixed answers, on formats or on classes reaches such values honestly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import Citation, measured
from trainlens.detectors._loss_context import Curve, curve_of, is_evaluation, judged
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import interpolate_last, rolling_median

NEEDS = ("role:loss",)
LEAST = 20
CHINCHILLA = Citation(
    "Hoffmann et al. 2022, irreducible loss of 1.69 nats for each token", "https://arxiv.org/abs/2203.15556"
)


@dataclass(frozen=True)
class Options:
    floor: float = threshold(0.1, "loss for each token that is not believed", source=CHINCHILLA, unit="nats")
    start: float = threshold(
        4.0,
        "first loss from which it is a language model's",
        source=measured("starts of pre-training logs: ln of the vocabulary"),
        unit="nats",
    )
    early: float = threshold(
        1.0, "epochs within which it is a warning", source=measured("memorising needs epochs"), unit="epochs"
    )


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = [one for one in judged(run, ("loss",)) if not is_evaluation(one)]
    if not series:
        return NotApplicable("no training loss with a direction")
    curve = curve_of(series[0])
    n = len(curve)
    if n < LEAST:
        return NotEnoughData(f"{n} points, {LEAST} are needed")
    if not curve.positive or curve.level(0, 3) < options.start:
        return []
    if curve.level(n - max(5, n // 20), n) >= options.floor:
        return []
    return [_told(run, curve, options)]


def _told(run: Run, curve: Curve, options: Options) -> Finding:
    low = np.flatnonzero(rolling_median(curve.value, max(2, len(curve) // 100)) >= options.floor)
    at = min(len(curve) - 1, int(low[-1]) + 1) if len(low) else 0
    first, last = int(curve.step[at]), int(curve.step[-1])
    epochs = _epochs(run, first)
    early = epochs < options.early if epochs is not None else first - int(curve.step[0]) < 1000
    end = curve.level(len(curve) - max(5, len(curve) // 20), len(curve))
    told = f" after {epochs:.2g} epochs" if epochs is not None else ""
    return Finding(
        detector="loss-floor",
        severity="warning" if early else "info",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss implausibly low from {first:,}: {curve.shown(end)}",
        message=f"{curve.metric} fell from {curve.shown(curve.level(0, 3))} below {options.floor:g} nats "
        f"at step {first:,}{told} and is {curve.shown(end)}: memorised data, or the answer leaks.",
        confidence=0.7,
        ongoing=True,
        evidence=(
            Evidence(
                "level at the end",
                curve.metric,
                first,
                last,
                end,
                limit=options.floor,
                unit="nats",
                limit_name="loss-floor.floor",
            ),
        ),
    )


def _epochs(run: Run, step: int) -> float | None:
    series = run.get("epoch")
    if series is None or not len(series):
        return None
    known = float(interpolate_last(np.array([step]), series.step, series.value)[0])
    return known if np.isfinite(known) else None
