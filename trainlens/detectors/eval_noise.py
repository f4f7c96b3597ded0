"""Evaluations so noisy that neighbouring ones cannot be ranked.

Why it matters
The best checkpoint is chosen by evaluations, and stopping early too. Where chance moves them more than training does,
the choice is a lottery, and the best one looks better than it is.

How it is found
Scatter: how far evaluations lie from the line between their neighbours, as one standard deviation. Progress: what the
level gains between two evaluations, from Theil and Sen's slope over the last two thirds. It is told as info when the
scatter is more than `scatter` of the level and more than `unclear` times the progress, so that two neighbours are put
in the wrong order in four of ten cases or more; with how many evaluations, or how much larger a set, would do. It is a
warning when the scatter is more than `severe` of the level and the thirds of the run do not differ by half as much.

What to do
Evaluate on more samples, always the same ones in the same way; or rank averages over several evaluations.

When it is wrong
A learning rate that is too high makes the model itself swing: then more samples do not help (see loss-oscillation). A
converged run has no progress to be ranked, and is only told where its scatter is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import MILLER, measured
from trainlens.detectors._loss_context import Curve, add, curve_of, is_evaluation, judged
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Floats, Run
from trainlens.plugins import threshold
from trainlens.signals import GAUSSIAN, surely, theil_sen

NEEDS = ("role:eval-loss|role:score|role:perplexity",)
LEAST = 10  # evaluations
_SURE = 1.2816 * 2**0.5  # standard deviations apart for an order that is right nine times of ten
_MOST = 1000.0  # times as many samples: beyond that the advice is another one
_TUNED = measured("105 labelled runs with evaluations, some with small held-out sets, and simulated ones")


@dataclass(frozen=True)
class Options:
    scatter: float = threshold(0.01, "scatter as a share of the level", source=_TUNED, unit="share")
    unclear: float = threshold(3.0, "scatter over the progress between neighbours", source=MILLER, unit="times")
    severe: float = threshold(0.10, "scatter from which it may be a warning", source=_TUNED, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = [one for one in judged(run, ("eval-loss", "perplexity", "score")) if is_evaluation(one)]
    if not series:
        return NotApplicable("no evaluations with a direction")
    curves = [curve_of(one) for one in series]
    most = max(len(curve) for curve in curves)
    if most < LEAST:
        return NotEnoughData(f"{most} evaluations, {LEAST} are needed")
    findings: list[Finding] = []
    for curve in curves:
        if (found := _judge(curve, options)) is not None:
            add(findings, found)
    return findings[:1]  # one set of evaluations, however many numbers are computed from it


def scatter(value: Floats) -> float:
    """Standard deviation of single evaluations about the line between their neighbours."""
    bends = value[1:-1] - (value[:-2] + value[2:]) / 2
    return float(GAUSSIAN * float(np.median(np.abs(bends))) / 1.5**0.5)


def _judge(curve: Curve, options: Options) -> Finding | None:
    n = len(curve)
    if n < LEAST:
        return None
    late = slice(n // 3, n)
    value = curve.value[late]
    level, noise = abs(float(np.median(value))), scatter(value)
    if level <= 0 or noise <= options.scatter * level:
        return None
    slope, low, _ = theil_sen(np.arange(len(value), dtype=float), value)
    progress = max(-slope, 0.0)
    if noise <= options.unclear * progress or low > 0:  # surely rising: that is another ailment, and can be ranked
        return None
    thirds = [float(np.median(part)) for part in np.array_split(curve.value[n // 6 :], 3)]
    lost = noise > options.severe * level and max(thirds) - min(thirds) < noise / 2
    severity: Severity = "warning" if lost else "info"
    return _told(curve, late.start, noise, level, progress, severity, options)


def _told(
    curve: Curve, begin: int, noise: float, level: float, progress: float, severity: Severity, options: Options
) -> Finding:
    first, last = int(curve.step[begin]), int(curve.step[-1])
    more = (_SURE * noise / progress) ** 2 if progress > 0 else np.inf
    apart = int(np.ceil(_SURE * noise / progress)) if progress > 0 else 0
    if more <= _MOST:
        advice = f"{number(float(np.ceil(more)))} times as many samples, or ones {apart:,} evaluations apart, would do"
    else:
        advice = "there is no progress between neighbours to be seen"
    return Finding(
        detector="eval-noise",
        severity=severity,
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Evaluations scatter by {number(noise / level, 'share')} of their level",
        message=f"{curve.metric} scatters by ±{number(noise)} from one evaluation to the next, while it gains "
        f"{number(progress)}: neighbours cannot be ranked; {advice}.",
        confidence=surely(noise / level, options.scatter),
        ongoing=True,
        evidence=(
            Evidence("scatter as a share of the level", curve.metric, first, last, noise / level, None, options.scatter,
                     "share", "eval-noise.scatter"),
            Evidence("progress from one evaluation to the next", curve.metric, first, last, progress),
        ),
        actions=("Evaluate on more samples, or rank averages of several evaluations.",),
    )  # fmt: skip
