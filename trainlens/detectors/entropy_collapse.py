"""Entropy collapse: the policy has become certain before the reward was learned, and explores no more.

Why it matters
A policy without entropy answers the same each time: all samples of a group are alike, advantages are zero, and the
reward stands where it is for the rest of the run.

How it is found
The level (a running median over a twentieth of the run) falls below `share` of the level at the start and stays there
to the end of the log. From the step at which half of the entropy was gone the reward has gained no more than `gain` of
its range for sure: told as a warning. With a reward that still rose it is silent, as a policy that learns becomes
certain by itself; without a logged reward, or with one too noisy to tell, it is info.

What to do
Raise the entropy bonus or the sampling temperature, lower the learning rate, raise the upper clip bound (as DAPO does),
or add a KL term. Go back to a checkpoint from before the fall.

When it is wrong
Entropies of continuous actions may be negative and have no natural zero: they are not judged. A task whose reward was
at its ceiling from the start has nothing to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import DAPO, JUDGEMENT
from trainlens.detectors._rewards import LEAST, gain, levels
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Run
from trainlens.plugins import threshold

NEEDS = ("entropy",)


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.1, "entropy as a share of its level at the start", source=DAPO, unit="share")
    gain: float = threshold(0.15, "gain of the reward, as a share of its range", source=JUDGEMENT, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = run.get("entropy")
    if series is None or int(series.finite.sum()) < LEAST:
        return NotEnoughData(f"{0 if series is None else int(series.finite.sum())} points, {LEAST} are needed")
    curve = levels(series)
    if curve.start <= 0 or float(curve.value.min()) < 0:
        return NotApplicable("an entropy below zero has no level of certainty")
    above = np.flatnonzero(curve.level >= options.share * curve.start)
    at = int(above[-1]) + 1 if len(above) else 0
    if at == 0 or len(curve) - at < max(10, len(curve) // 20):
        return []
    half = int(np.flatnonzero(curve.level >= 0.5 * curve.start)[-1])
    first, last = int(curve.step[at]), int(curve.step[-1])
    gained = gain(run, int(curve.step[half]), last, options.gain)
    if gained is not None and gained.rose:
        return []
    beside = ""
    if gained is not None:
        beside = f", while {gained.metric} went from {number(gained.before)} to {number(gained.after)}"
    evidence = [
        Evidence("entropy at the end against the start", series.metric, first, last, curve.end, curve.start,
                 options.share * curve.start, limit_name="entropy-collapse.share"),
    ]  # fmt: skip
    if gained is not None:
        evidence.append(
            Evidence("reward at the end against before", gained.metric, first, last, gained.after, gained.before)
        )
    return [
        Finding(
            detector="entropy-collapse",
            severity="warning" if gained is not None and gained.stands else "info",
            metric=series.metric,
            first_step=first,
            last_step=last,
            title=f"Entropy collapse from step {first:,}",
            message=f"{series.metric} fell from {number(curve.start)} to {number(curve.end)} and is below "
            f"{number(options.share, 'share')} of its start since step {first:,}{beside}.",
            confidence=0.8 if gained is not None and gained.stands else 0.5,
            ongoing=True,
            evidence=tuple(evidence),
            actions=("Raise the entropy bonus or the temperature, from a checkpoint before the fall.",),
        )
    ]
