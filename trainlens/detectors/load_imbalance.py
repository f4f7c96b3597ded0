"""Load imbalance: one expert or rank gets far more work than the others.

Why it matters
The fullest expert sets the time of a step and drops tokens beyond its capacity; the empty ones learn nothing. A
router that favours one expert tends to favour it more.

How it is found
The load of each expert against their mean, at the steps that all log: the largest above `factor` on most points of a
stretch of at least `lasting` of the run, after the first 2 %, in which routers find their balance.

What to do
Raise the balancing loss or the router's noise, look at the router's input, restart before it began.

When it is wrong
Where experts are specialised by design, or a shared expert is logged beside the routed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors._levels import Mask, at_steps, common_steps, share_beyond, sustained
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold

NEEDS = ("role:expert-load",)
_RUNS = measured("405 labelled runs: all of 4 runs with a favoured expert found")


@dataclass(frozen=True)
class Options:
    factor: float = threshold(1.5, "largest load against the mean", unit="times", source=_RUNS)
    severe: float = threshold(4.0, "largest load against the mean that is an error", unit="times", source=JUDGEMENT)
    lasting: float = threshold(0.02, "part of the run it must last", unit="share", source=_RUNS)
    points: int = threshold(40, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    experts = run.with_role("expert-load")
    if len(experts) == 1 and len(run.all(experts[0].metric)) > 1:
        experts = run.all(experts[0].metric)  # one metric, an expert a rank
    if len(experts) < 3:
        return NotApplicable("fewer than 3 experts log their load")
    step = common_steps(experts)
    step = step[max(10, len(step) // 50) :]
    if len(step) < options.points:
        return NotEnoughData(f"{len(step)} steps that all experts log, {options.points} are needed")
    loads = np.array([at_steps(one, step) for one in experts])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(loads / loads.mean(axis=0), nan=1.0)
    uneven = ratios.max(axis=0) > options.factor
    least = max(20, round(options.lasting * len(step)))
    return [_finding(options, experts, step, ratios, uneven, at) for at in sustained(uneven, least)]


def _finding(
    options: Options, experts: Sequence[Series], step: Ints, ratios: Floats, uneven: Mask, at: tuple[int, int]
) -> Finding:
    inside = np.median(ratios[:, at[0] : at[1] + 1], axis=1)
    worst = int(np.argmax(inside))
    metric, times = experts[worst].metric, float(inside[worst])
    first, last, ongoing = int(step[at[0]]), int(step[at[1]]), at[1] >= len(step) - max(3, len(step) // 50)
    name = f"Rank {experts[worst].rank}" if experts[worst].rank >= 0 else f"Expert {metric.rpartition('/')[2]}"
    return Finding(
        detector="load-imbalance",
        severity="error" if times > options.severe else "warning",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"{name[:20]} has {number(round(times, 2))} times the mean load",
        message=f"{metric} is {number(round(times, 2))} times the mean of {len(experts)} experts, the least "
        f"{number(round(float(inside.min()), 2))} times, from step {first:,} to {last:,}"
        f"{', the end of the log' if ongoing else ''}.",
        confidence=share_beyond(uneven, *at),
        rank=experts[worst].rank if experts[worst].rank >= 0 else None,
        ongoing=ongoing,
        evidence=(
            Evidence("load against the mean", metric, first, last, times, 1.0, options.factor, "times",
                     "load-imbalance.factor"),
        ),
        actions=("Raise the weight of the balancing loss, and look at the router before this step",),
    )  # fmt: skip
