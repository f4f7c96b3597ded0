"""Reward collapse: the reward falls back towards the level it began with.

Why it matters
What was learned is lost, mostly because one update was too large or the policy found a region the value function or the
reward model misjudges. Each further step is spent on a broken policy.

How it is found
The level is a running median over a twentieth of the run. After its highest so far it loses more than `lost` of all
that was gained over the start, for at least `lasting` of the points (10 at least), and by more than `errors` standard
errors of a level. The begin is the last time at the height. Still down at the end of the log: an error, as stopping
saves what follows; learned again: a warning. A loss of `mild`, by `few`
standard errors, is told as info.

What to do
Go back to a checkpoint before the begin; lower the learning rate or the clip range, raise the KL term, and look at KL,
entropy and response length just before it.

When it is wrong
Another reward function, other tasks or a harder stage of a curriculum lower the reward lawfully. Rewards that never
rose surely above their start have nothing to lose and are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors._rewards import LEAST, Levels, level_error, levels, reward
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Run
from trainlens.plugins import threshold
from trainlens.signals import episodes

NEEDS = ("role:reward",)
TOLD_INSIDE = ("loss-divergence",)
_SIMULATED = measured("simulated rewards of 100 to 10,000 points that rise, saturate or wander")


@dataclass(frozen=True)
class Options:
    lost: float = threshold(0.6, "share of the gain over the start that is lost", source=JUDGEMENT, unit="share")
    mild: float = threshold(0.35, "the same, told as info", source=JUDGEMENT, unit="share")
    errors: float = threshold(6.0, "fall in standard errors of a level", source=_SIMULATED, unit="errors")
    few: float = threshold(4.5, "the same, of a fall that is told as info", source=_SIMULATED, unit="errors")
    lasting: float = threshold(0.03, "points of the fall as a share of the run", source=_SIMULATED, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = reward(run)
    if series is None:
        return NotApplicable("no reward in the logs")
    curve = levels(series)
    if len(curve) < LEAST:
        return NotEnoughData(f"{len(curve)} points, {LEAST} are needed")
    for share, errors, is_mild in ((options.lost, options.errors, False), (options.mild, options.few, True)):
        if found := _fall(curve, share, errors, options.lasting):
            return [_told(curve, *found, is_mild, options)]
    return []


def _fall(curve: Levels, share: float, errors: float, lasting: float) -> tuple[int, int, int] | None:
    """Indices of the height, of the first point below it by `share`, and of the last of that stretch."""
    width = max(5, len(curve) // 20)
    error = level_error(curve, width)
    level = np.r_[np.full(width, curve.start), curve.level[width:]]  # the first medians are those of a few points
    highest = np.maximum.accumulate(level)
    gained, fallen = highest - curve.start, highest - curve.level
    least = max(errors * error, 1e-12 * float(np.abs(curve.value).max()))
    low = (fallen > share * gained) & (fallen > least) & (gained > least)
    long = max(10, round(lasting * len(curve)))
    for first, last in episodes(low & (np.arange(len(curve)) > width), max(3, width // 4)):
        if last - first + 1 >= long:
            return width + int(np.argmax(curve.level[width : first + 1])), first, last
    return None


def _told(curve: Levels, top: int, first: int, last: int, is_mild: bool, options: Options) -> Finding:
    n, metric = len(curve), curve.series.metric
    near = np.flatnonzero(curve.level[top : first + 1] >= curve.level[top] - 0.1 * (curve.level[top] - curve.start))
    begin = top + int(near[-1])
    ongoing = last >= n - max(3, n // 50)
    height, depth = float(curve.level[top]), float(curve.level[first : last + 1].min())
    share = (height - depth) / max(height - curve.start, 1e-12)
    severity: Severity = "info" if is_mild else "error" if ongoing else "warning"
    fate = "and is still there" if ongoing else f"and had recovered by step {int(curve.step[min(n - 1, last + 1)]):,}"
    step = int(curve.step[begin])
    return Finding(
        detector="reward-collapse",
        severity=severity,
        metric=metric,
        first_step=step,
        last_step=int(curve.step[last]),
        title=f"Reward collapse from step {step:,}" if not is_mild else f"Reward drop from step {step:,}",
        message=f"{metric} fell from a level of {number(height)} to {number(depth)} after step {step:,}, "
        f"{number(min(share, 9.99), 'share')} of what it had gained since its start at {number(curve.start)}, {fate}.",
        confidence=0.9 if share > 1.3 * options.lost else 0.75,
        ongoing=ongoing,
        evidence=(
            Evidence("share of the gain that is lost", metric, step, int(curve.step[last]), min(share, 9.99), None,
                     options.mild if is_mild else options.lost, "share",
                     f"reward-collapse.{'mild' if is_mild else 'lost'}"),
            Evidence("level against the highest before", metric, step, int(curve.step[last]), depth, height),
        ),
        actions=(f"Go back to a checkpoint before step {step:,}.",),
    )  # fmt: skip
