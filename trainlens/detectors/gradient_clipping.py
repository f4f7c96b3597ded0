"""Gradient clipping: a large part of the steps is clipped.

Why it matters
Clipping is meant for rare outliers. Where it acts on most steps it sets the step size, and the learning rate that was
chosen no longer means what it says.

How it is found
From a logged flag or share of clipped steps, else from the norm and the threshold that the configuration states.
After the first 5 % of the run: up to 5 % is usual, above `watch` worth a line, above `share` a warning. Norms that
never exceed the threshold but often sit on it were measured after clipping, and tell nothing.

What to do
Raise the threshold to a high quantile of the norm, or lower the learning rate.

When it is wrong
Where clipping all steps is the method (normalised gradient descent), or the flag counts something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors._levels import settled, surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run
from trainlens.plugins import threshold

NEEDS = ("role:clipped|grad_norm",)
_FACTS = (
    "clip_grad",
    "max_grad_norm",
    "gradient_clipping",
    "grad_clip",
    "gradient_clip_val",
    "clip_grad_norm",
    "clip_norm",
)
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 7 runs with much clipping found, no healthy one")


@dataclass(frozen=True)
class Options:
    watch: float = threshold(0.05, "part of the steps that is worth a line", unit="share", source=USUAL)
    share: float = threshold(0.10, "part of the steps that is a warning", unit="share", source=_RUNS)
    rule: float = threshold(
        0.50, "part of the steps from which clipping sets the step size", unit="share", source=JUDGEMENT
    )
    points: int = threshold(40, "points needed", source=_RUNS)


@dataclass(frozen=True)
class Rows:
    """After the first 5 % of the run: which rows were clipped (or what part of their steps), and how that is known."""

    step: Ints
    clipped: Floats
    metric: str
    how: str


def clipped_rows(run: Run) -> Rows | NotApplicable:
    flags = next(iter(run.with_role("clipped")), None)
    if flags is not None:
        return Rows(*settled(flags, 0.05), flags.metric, "logged as clipped")
    norms, bound = run.get("grad_norm"), run.fact(*_FACTS)
    if norms is None or bound is None or not isinstance(bound.value, int | float) or bound.value <= 0:
        return NotApplicable("neither clipped steps nor a clipping threshold are logged")
    step, value = settled(norms, 0.05)
    if len(value) and value.max() <= bound.value * 1.001 and np.mean(value > bound.value * 0.999) > 0.01:
        return NotApplicable("the logged norms never exceed the threshold: they are measured after clipping")
    how = f"above the threshold of {number(float(bound.value))}"
    return Rows(step, (value > bound.value).astype(float), norms.metric, how)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotApplicable | NotEnoughData:
    rows = clipped_rows(run)
    if isinstance(rows, NotApplicable):
        return rows
    step, clipped, metric, how = rows.step, rows.clipped, rows.metric, rows.how
    if len(clipped) < options.points:
        return NotEnoughData(f"{len(clipped)} points after the start, {options.points} are needed")
    share = float(np.mean(np.clip(clipped, 0, 1)))
    if share > options.watch:
        return [_finding(options, step, clipped, share, metric, how)]
    if not share:
        return []
    what = f"{number(round(share, 4), 'share')} of steps are clipped, up to {number(options.watch, 'share')} is usual"
    return [Explained("gradient-clipping", what, int(step[0]), int(step[-1]), metric)]


def _finding(options: Options, step: Ints, clipped: Floats, share: float, metric: str, how: str) -> Finding:
    hits = np.flatnonzero(clipped > 0)
    first, last = int(step[hits[0]]), int(step[hits[-1]])
    sets = "; clipping sets the step size" if share > options.rule else ""
    return Finding(
        detector="gradient-clipping",
        severity="warning" if share > options.share else "info",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"{number(round(share, 3), 'share')} of steps are clipped",
        message=f"{number(round(share, 3), 'share')} of {len(clipped):,} rows after the start are {how}, from step "
        f"{first:,} to {last:,}{sets}.",
        confidence=surely(share, options.watch),
        ongoing=bool(hits[-1] >= len(clipped) - max(5, len(clipped) // 20)),
        evidence=(
            Evidence("share of steps clipped", metric, first, last, share, 0.01, options.share, "share",
                     "gradient-clipping.share"),
        ),
        actions=("Raise the threshold to the 95 % quantile of the norm, or lower the learning rate",),
    )  # fmt: skip
