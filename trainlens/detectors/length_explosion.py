"""Length explosion: responses grow and grow, and the reward gains nothing by it.

Why it matters
Generation is most of the time of a step in reinforcement learning of language models. Length without reward is rambling
or repetition, or a loss that favours long answers; at the limit answers are cut off and their rewards mean nothing.

How it is found
The level (a running median over a twentieth of the run) rises above `times` the level at the start and stays there to
the end of the log, for a twentieth of the points at least; since it was last near its start the reward has gained no
more than `gain` of its range. Without a logged reward, or with one too noisy to tell, it is told as info. Lengths that
rise with the reward are what reasoning models do, and silent. At `full` of a stated limit of tokens answers are cut
off: that is told with it.

What to do
Read long samples: repetition means a broken policy. Penalise or filter answers that are cut off, average the loss over
tokens instead of answers, lower the learning rate.

When it is wrong
A higher limit of tokens or harder prompts from some step on lengthen answers lawfully.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import DAPO, JUDGEMENT
from trainlens.detectors._rewards import LEAST, Gain, Levels, gain, levels
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Run
from trainlens.plugins import threshold

NEEDS = ("response_length",)
_LIMITS = ("max_completion_length", "max_response_length", "max_new_tokens", "response_length_limit", "max_gen_len")


@dataclass(frozen=True)
class Options:
    times: float = threshold(2.0, "length over that at the start", source=JUDGEMENT, unit="times")
    gain: float = threshold(0.15, "gain of the reward, as a share of its range", source=JUDGEMENT, unit="share")
    full: float = threshold(0.9, "mean length as a share of the stated limit", source=DAPO, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    series = run.get("response_length")
    known = 0 if series is None else int(series.finite.sum())
    if series is None or known < LEAST:
        return NotEnoughData(f"{known} points, {LEAST} are needed")
    curve = levels(series)
    if curve.start <= 0:
        return []
    short = np.flatnonzero(curve.level <= options.times * curve.start)
    at = int(short[-1]) + 1 if len(short) else 0
    if at == 0 or len(curve) - at < max(10, len(curve) // 20):
        return []
    near = int(np.flatnonzero(curve.level <= 1.25 * curve.start)[-1])
    gained = gain(run, int(curve.step[near]), int(curve.step[-1]), options.gain)
    if gained is not None and gained.rose:
        return []
    return [_told(run, curve, at, near, gained, options)]


def _told(run: Run, curve: Levels, at: int, near: int, gained: Gain | None, options: Options) -> Finding:
    metric, first, last = curve.series.metric, int(curve.step[near]), int(curve.step[-1])
    limit = run.fact(*_LIMITS)
    beside = ""
    if gained is not None:
        beside = f", while {gained.metric} went from {number(gained.before)} to {number(gained.after)}"
    evidence = [
        Evidence("length at the end against the start", metric, first, last, curve.end, curve.start,
                 options.times * curve.start, "tokens", "length-explosion.times"),
    ]  # fmt: skip
    if limit is not None and isinstance(limit.value, int | float) and curve.end >= options.full * limit.value > 0:
        beside += f"; the limit is {number(float(limit.value))}"
        evidence.append(Evidence("mean length as a share of the limit", metric, first, last,
                                 curve.end / float(limit.value), None, options.full, "share",
                                 "length-explosion.full"))  # fmt: skip
    return Finding(
        detector="length-explosion",
        severity="warning" if gained is not None and gained.stands else "info",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"Responses {number(round(curve.end / curve.start, 1))} times as long since {first:,}",
        message=f"{metric} grew from {number(curve.start)} to {number(curve.end)} tokens since step {first:,}, beyond "
        f"{number(options.times)} times at step {int(curve.step[at]):,}{beside}.",
        confidence=0.8 if gained is not None and gained.stands else 0.5,
        ongoing=True,
        evidence=tuple(evidence),
        actions=("Read the longest samples; penalise or leave out answers that are cut off.",),
    )
