"""Evaluation cadence: evaluations, or the loss itself, are logged too rarely, irregularly, or no longer at all.

Why it matters
Overfitting, a broken checkpoint or contaminated data show in held-out metrics first; without them the best checkpoint
cannot be chosen. An evaluation that fails quietly leaves a run that looks sound.

How it is found
The steps of all held-out losses and scores, and of lines that say an evaluation began. Where at least `count` of them
come regularly and training rows of the same log go on for `stopped` times the usual distance without one, they have
stopped: a warning. Single ones left out, evaluations more than `steps` apart and a training loss logged more rarely
than every `loss_steps` are worth a line.

What to do
Look at what the evaluation loop said at that step; evaluate at fixed steps, on a part of the set when it is slow.

When it is wrong
Where steps count something smaller than updates (samples, tokens), where evaluations are left out by design in a last
phase, or where they are logged to another file that was not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import CADENCE, JUDGEMENT
from trainlens.detectors._cadence import Cadence, cadence, last_row
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import counted
from trainlens.model import Run, Series
from trainlens.plugins import threshold

NEEDS = ()


@dataclass(frozen=True)
class Options:
    steps: int = threshold(5000, "most steps between two evaluations", unit="steps", source=CADENCE)
    loss_steps: int = threshold(1000, "most steps between two values of the loss", unit="steps", source=CADENCE)
    stopped: float = threshold(
        3.0, "usual distances without one that mean they stopped", unit="times", source=JUDGEMENT
    )
    regular: float = threshold(0.7, "part of the distances that must be equal", unit="share", source=JUDGEMENT)
    count: int = threshold(5, "evaluations needed to judge whether they stopped", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    told = _rare_loss(run, options)
    series = [one for one in (*run.with_role("eval-loss"), *run.with_role("score"))
              if one.metric.startswith("eval") and not one.positional]  # fmt: skip
    steps = np.concatenate([np.empty(0, np.int64), *(one.step for one in series)])
    events = [event for event in run.events if event.kind == "evaluation" and event.step is not None]
    if not len(steps) and not events:
        return told or NotApplicable("no evaluations in the logs")
    paths = {run.sources[int(number)].path for one in series for number in np.unique(one.source)
             if int(number) < len(run.sources)}  # fmt: skip
    end = last_row(run, paths | {event.place.path for event in events if event.place is not None})
    found = cadence([*steps.tolist(), *(event.step or 0 for event in events)], end)
    if found is None or len(found.step) < options.count:
        return told or NotEnoughData(
            f"{0 if found is None else len(found.step)} evaluations, {options.count} are needed"
        )
    metric = series[0].metric if series else None
    if found.stopped(options.stopped, options.regular):
        return [_stopped(options, found, end, metric), *told]
    if found.usual > options.steps:
        return [_rare(options, found, metric), *told]
    missing = found.missing(options.regular)
    return [*([_irregular(found, missing, metric)] if missing else []), *told]


def _stopped(options: Options, found: Cadence, end: int, metric: str | None) -> Finding:
    last = int(found.step[-1])
    return Finding(
        detector="eval-cadence",
        severity="warning",
        metric=metric,
        first_step=last,
        last_step=end,
        title=f"No evaluation since {last:,}",
        message=f"{metric or 'An evaluation'} was logged every {found.usual:,.0f} steps up to step {last:,}, but not "
        f"in the {found.open:,} steps since, while training went on.",
        confidence=surely(found.open / found.usual, options.stopped),
        ongoing=True,
        evidence=(
            Evidence("steps without an evaluation", metric, last, end, found.open, found.usual,
                     options.stopped * found.usual, "steps", "eval-cadence.stopped"),
        ),
        actions=(f"See what the evaluation loop said after step {last:,}",),
    )  # fmt: skip


def _irregular(found: Cadence, missing: int, metric: str | None) -> Finding:
    first, last = int(found.step[found.longest]), int(found.step[found.longest + 1])
    return Finding(
        detector="eval-cadence",
        severity="info",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"{counted(missing, 'evaluation')} left out",
        message=f"Evaluations come every {found.usual:,.0f} steps, but {missing:,} of them are missing; the longest "
        f"wait is from step {first:,} to {last:,}.",
        evidence=(Evidence("longest distance", metric, first, last, last - first, found.usual, None, "steps"),),
    )


def _rare(options: Options, found: Cadence, metric: str | None) -> Finding:
    first, last = int(found.step[0]), int(found.step[-1])
    return Finding(
        detector="eval-cadence",
        severity="info",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"An evaluation only every {found.usual:,.0f} steps",
        message=f"Evaluations are {found.usual:,.0f} steps apart; at most {options.steps:,} shows a fault in time.",
        evidence=(
            Evidence("distance of evaluations", metric, first, last, found.usual, None, options.steps, "steps",
                     "eval-cadence.steps"),
        ),
    )  # fmt: skip


def _rare_loss(run: Run, options: Options) -> list[Finding]:
    loss: Series | None = run.get("train/loss")
    if loss is None or loss.positional or len(loss) < options.count or run.with_role("reward"):
        return []
    usual = float(np.median(np.diff(loss.step)))
    if usual <= options.loss_steps:
        return []
    first, last = int(loss.step[0]), int(loss.step[-1])
    return [
        Finding(
            detector="eval-cadence",
            severity="info",
            metric="train/loss",
            first_step=first,
            last_step=last,
            title=f"The loss is logged only every {usual:,.0f} steps",
            message=f"train/loss is logged every {usual:,.0f} steps; at most {options.loss_steps:,} shows a spike.",
            evidence=(
                Evidence("distance of rows", "train/loss", first, last, usual, None, options.loss_steps, "steps",
                         "eval-cadence.loss_steps"),
            ),
        )
    ]  # fmt: skip
