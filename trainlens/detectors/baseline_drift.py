"""Baseline drift: the run departs from the run it is held against.

Why it matters
A change of code, library or hardware that should change nothing must not make training worse or slower. Held against a
golden run, a loss that drifts by 1 % or a step that takes 5 % longer shows before anyone looks at a curve.

How it is found
Each metric that both runs logged and that has a direction (losses, scores, throughput, time per step) is compared at
the steps both have; where the steps differ the baseline is drawn through its points. The differences, as a share of the
baseline's value, are averaged by median over at most 40 blocks. The run has drifted where the median of the last
quarter of the blocks is worse by more than `loss` (or `speed`) and by 4 times the noise between blocks. `exact` asks
instead for the same value at every common step, within 1e-6 of it: the test for runs that are to be reproduced to the
bit. A metric that the baseline has and the run lost is told as well, and a run that ends before the baseline does: what
came after its last step was held against nothing.

What to do
Compare configuration, data order and versions of the two runs from the first step named. Where the change is wanted,
write a new baseline (`trainlens check --write-baseline`).

When it is wrong
Other seeds or another data order make losses differ by noise: widen `loss`. Runs at another batch size, sequence length
or number of GPUs cannot be held against each other step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, Citation
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import block_medians, block_noise, surely

NEEDS = ()
BLOCKS = 40
LEAST = 5  # common steps
_SPEED = frozenset(("throughput", "step-time"))
_JUDGED = frozenset(("loss", "eval-loss", "score", "reward", "perplexity", *_SPEED))
_EQUAL = 1e-6
_NOISES = 4.0
_FUNCTIONAL_TESTS = Citation(
    "Megatron-LM, functional tests: 5 % of the golden value",
    "https://github.com/NVIDIA/Megatron-LM/tree/main/tests/functional_tests",
)


@dataclass(frozen=True)
class Options:
    loss: float = threshold(0.01, "how much worse a loss or score may be", source=JUDGEMENT, unit="share")
    speed: float = threshold(0.05, "how much slower the run may be", source=_FUNCTIONAL_TESTS, unit="share")
    exact: bool = threshold(False, "every common step must have the same value", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    if run.baseline is None:
        return NotApplicable("no baseline was given")
    findings: list[Finding] = []
    most = compared = 0
    for name in sorted({series.metric for series in run.baseline.series if series.about.role in _JUDGED}):
        before, now = run.baseline.get(name), run.get(name)
        if before is None or before.metric != before.about.name:
            continue
        if now is None:
            findings.append(_lost(before))
            continue
        step, difference, reference = _differences(now, before, exact=options.exact)
        most = max(most, len(step))
        if len(step) < (1 if options.exact else LEAST):
            continue
        compared += 1
        found = _exactly(now, step, difference) if options.exact else _drift(now, step, difference, reference, options)
        findings += [found] if found is not None else []
    if not compared and not findings:
        least = 1 if options.exact else LEAST
        return NotEnoughData(
            f"{most} steps in common with the baseline, {least} are needed" if most
            else "the baseline and the run have no loss, score or speed in common at the same steps"
        )  # fmt: skip
    return [*findings, *_shorter(run, run.baseline)]


def _differences(now: Series, before: Series, *, exact: bool) -> tuple[Ints, Floats, Floats]:
    """Common steps, the run's value less the baseline's as a share of that, and the baseline's value.

    `exact`: values of the run that are no numbers stay, as an infinite difference; steps are never drawn between.
    """
    a, b = np.ones(len(now), bool) if exact else now.finite, before.finite
    step, value, old_step, old = now.step[a], now.value[a], before.step[b], before.value[b]
    if not len(step) or not len(old_step):
        return step[:0], value[:0], value[:0]
    common, at, old_at = np.intersect1d(step, old_step, assume_unique=True, return_indices=True)
    if exact or len(common) >= min(len(step), len(old_step)) // 2 + 1:
        step, value, reference = common, value[at], old[old_at]
    else:  # another grid of steps
        inside = (step >= old_step[0]) & (step <= old_step[-1])
        step, value = step[inside], value[inside]
        reference = np.interp(step, old_step, old)
    scale = np.maximum(np.abs(reference), 1e-12)
    return step, np.nan_to_num((value - reference) / scale, nan=np.inf, posinf=np.inf, neginf=-np.inf), reference


def _drift(series: Series, step: Ints, difference: Floats, reference: Floats, options: Options) -> Finding | None:
    speed = series.about.role in _SPEED
    limit = options.speed if speed else options.loss
    worse = difference if series.about.better == "lower" else -difference
    size = max(1, len(worse) // BLOCKS)
    blocks = block_medians(worse, size)
    quarter = max(1, len(blocks) // 4)
    amount = float(np.median(blocks[-quarter:]))
    if amount <= limit or (len(blocks) >= 8 and amount <= _NOISES * block_noise(blocks)):
        return None
    within = np.flatnonzero(blocks <= limit)
    first = min((int(within[-1]) + 1 if len(within) else 0) * size, len(step) - 1)
    late = slice(max(0, len(step) - quarter * size), None)
    old, new = float(np.median(reference[late])), float(np.median((reference * (1 + difference))[late]))
    share = f"{number(amount, 'share')} {'slower' if speed else 'worse'}"
    unit = series.about.unit
    return Finding(
        detector="baseline-drift",
        severity="error" if amount > 5 * limit else "warning",
        metric=series.metric,
        first_step=int(step[first]),
        last_step=int(step[-1]),
        title=f"{series.metric} {share} than the baseline"[:60],
        message=f"{series.metric} is {number(new, unit)} over the last quarter of the common steps where the baseline "
        f"has {number(old, unit)}: {share}, allowed is {number(limit, 'share')}; so since step {int(step[first]):,}.",
        confidence=surely(amount, limit),
        ongoing=True,
        evidence=(
            Evidence(
                "worse than the baseline by", series.metric, int(step[first]), int(step[-1]), amount, 0.0, limit,
                unit="share", limit_name=f"baseline-drift.{'speed' if speed else 'loss'}",
            ),
        ),
    )  # fmt: skip


def _exactly(series: Series, step: Ints, difference: Floats) -> Finding | None:
    if series.about.role in _SPEED:  # no two runs are equally fast
        return None
    odd = np.flatnonzero(np.abs(difference) > _EQUAL)
    if not len(odd):
        return None
    at, worst = int(odd[0]), float(np.abs(difference).max())
    most = f"at most by {number(worst, 'share')}" if np.isfinite(worst) else "where it is no number"
    return Finding(
        detector="baseline-drift",
        severity="error",
        metric=series.metric,
        first_step=int(step[at]),
        last_step=int(step[-1]),
        title=f"{series.metric} differs from the baseline from {int(step[at]):,}"[:60],
        message=f"{series.metric} differs from the baseline at {len(odd):,} of {len(step):,} steps, first at "
        f"{int(step[at]):,}, {most}.",
        evidence=(
            Evidence(
                "largest difference from the baseline", series.metric, int(step[at]), int(step[-1]),
                worst if np.isfinite(worst) else None, 0.0, _EQUAL,
                unit="share", limit_name="baseline-drift.exact",
            ),
        ),
    )  # fmt: skip


def _shorter(run: Run, baseline: Run) -> list[Finding]:
    """The line that the run ends two rows and 1 % of the steps before the baseline or more, by their longest series."""
    judged = [one for one in baseline.series if one.about.role in _JUDGED and len(one) > 1 and not one.positional]
    pairs = [(now, one) for one in judged if (now := run.get(one.metric)) is not None and len(now)]
    if not pairs:
        return []
    now, before = max(pairs, key=lambda pair: len(pair[1]))
    last, end = int(now.step[-1]), int(before.step[-1])
    if end - last < max(2 * int(np.median(np.diff(before.step))), 0.01 * end):
        return []
    return [
        Finding(
            detector="baseline-drift",
            severity="info",  # it may still go on
            metric=None,
            first_step=last,
            last_step=last,
            title=f"Ends at step {last:,}, the baseline at {end:,}",
            message=f"The run ends at step {last:,}, the baseline at {end:,}: what should come after that was held "
            "against nothing.",
            evidence=(Evidence("last step", now.metric, last, last, float(last), float(end)),),
            actions=("Let the run go as far as the baseline, or write a baseline of this length",),
        )
    ]


def _lost(before: Series) -> Finding:
    return Finding(
        detector="baseline-drift",
        severity="warning",
        metric=before.metric,
        first_step=None,
        last_step=None,
        title=f"{before.metric} of the baseline is not in the logs"[:60],
        message=f"The baseline has {len(before):,} points of {before.metric}, this run has none.",
        evidence=(Evidence("points in the baseline", before.metric, observed=0.0, expected=float(len(before))),),
    )
