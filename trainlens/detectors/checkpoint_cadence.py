"""Checkpoint cadence: checkpoints come too rarely, irregularly, or no longer at all.

Why it matters
A crash costs all work since the last checkpoint, on every GPU. A full disk or a dead writer ends the saving without
ending the run, and nobody notices until the checkpoint is needed.

How it is found
Lines and events that say a checkpoint was saved. Where at least `count` of them come regularly and the rows of the same
log go on for `stopped` times the usual distance without one, saving has stopped: a warning. Single ones left out
between others are worth a line, and so is a usual distance, or the time before the first, of more than `hours`; the
time comes from the time per step. The finding tells what a crash would cost.

What to do
Save every two to four hours with the optimizer's state, in the background; look at the disk and the writer's messages.

When it is wrong
Where only the best model is saved: such savings are not regular and are not judged for having stopped. Where the log
no longer prints a line for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import CADENCE, JUDGEMENT
from trainlens.detectors import _speed
from trainlens.detectors._cadence import Cadence, cadence, last_row
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import counted, seconds
from trainlens.model import Ints, Run
from trainlens.plugins import threshold

NEEDS = ("event:checkpoint-begin|event:checkpoint-end",)
_KINDS = ("checkpoint-begin", "checkpoint-end")


@dataclass(frozen=True)
class Options:
    hours: float = threshold(4.0, "longest usual time between two", unit="h", source=CADENCE)
    stopped: float = threshold(2.5, "usual distances without one that mean it stopped", unit="times", source=JUDGEMENT)
    regular: float = threshold(0.7, "part of the distances that must be equal", unit="share", source=JUDGEMENT)
    count: int = threshold(4, "checkpoints needed to judge whether they stopped", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    events = [event for event in run.events if event.kind in _KINDS and event.step is not None]
    end = last_row(run, {event.place.path for event in events if event.place is not None})
    saves = [event.step for event in events if event.step is not None]
    if not saves or end < 0:
        return NotEnoughData("the steps of the checkpoints, or the rows beside them, are not known")
    pace = _speed.pace(run)
    per_step = float(np.median(pace.seconds)) if pace is not None and pace.timed else None
    found = cadence(saves, end)
    told = [] if per_step is None else _rare(options, np.unique(saves), end, per_step)
    if found is None:
        return told
    if len(found.step) >= options.count and found.stopped(options.stopped, options.regular):
        return [_stopped(options, found, end, per_step), *told]
    missing = found.missing(options.regular) if len(found.step) >= options.count else 0
    return [*told, *([_irregular(found, missing, per_step)] if missing else [])]


def _stopped(options: Options, found: Cadence, end: int, per_step: float | None) -> Finding:
    last = int(found.step[-1])
    lost = f" ({seconds(found.open * per_step)})" if per_step else ""
    return Finding(
        detector="checkpoint-cadence",
        severity="warning",
        metric=None,
        first_step=last,
        last_step=end,
        title=f"No checkpoint since {last:,}",
        message=f"A checkpoint was saved every {found.usual:,.0f} steps up to step {last:,}, and none in the "
        f"{found.open:,} steps since: a crash would cost all of them{lost}.",
        confidence=surely(found.open / found.usual, options.stopped),
        ongoing=True,
        evidence=(
            Evidence("steps without a checkpoint", None, last, end, found.open, found.usual,
                     options.stopped * found.usual, "steps", "checkpoint-cadence.stopped"),
        ),
        actions=("See whether the disk is full or the writer failed, and save one now",),
    )  # fmt: skip


def _irregular(found: Cadence, missing: int, per_step: float | None) -> Finding:
    at = found.longest
    first, last = int(found.step[at]), int(found.step[at + 1])
    lost = f" ({seconds((last - first) * per_step)})" if per_step else ""
    return Finding(
        detector="checkpoint-cadence",
        severity="info",
        metric=None,
        first_step=first,
        last_step=last,
        title=f"{counted(missing, 'checkpoint')} left out, between {first:,} and {last:,}"
        if missing < 2 else f"{missing:,} checkpoints left out",
        message=f"A checkpoint is saved every {found.usual:,.0f} steps, but {missing:,} of them are missing; the "
        f"longest wait is from step {first:,} to {last:,}{lost}.",
        evidence=(Evidence("longest distance", None, first, last, last - first, found.usual, None, "steps"),),
    )  # fmt: skip


def _rare(options: Options, saves: Ints, end: int, per_step: float) -> list[Finding]:
    """The line that they are further apart, or the first comes later, than the hours allow."""
    apart = np.diff(np.r_[saves, end] if len(saves) == 1 else saves)
    usual = float(np.median(apart)) if len(apart) else 0.0
    if usual * per_step <= 3600 * options.hours:
        return []
    first, last = int(saves[0]), max(end, int(saves[-1]))
    return [
        Finding(
            detector="checkpoint-cadence",
            severity="info",
            metric=None,
            first_step=first,
            last_step=last,
            title=f"A checkpoint only every {seconds(usual * per_step)}",
            message=f"Checkpoints are {usual:,.0f} steps apart, {seconds(usual * per_step)} at {seconds(per_step)} a "
            f"step: a crash costs up to that. Every 2 to {options.hours:.0f} hours is usual.",
            evidence=(
                Evidence("time between checkpoints", None, first, last, usual * per_step / 3600, None, options.hours,
                         "h", "checkpoint-cadence.hours"),
            ),
            actions=("Save more often, in the background",),
        )
    ]  # fmt: skip
