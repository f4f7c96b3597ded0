"""Restart: the run was interrupted and went on where it had stopped.

Why it matters
No step is lost, but the pause is, and the first steps after it are slow; many restarts point to an unsound machine.

How it is found
A new attempt that begins after the last step of the one before, or, where attempts do not show in the steps, lines of
the log that say so. What was lost is the time between the two less one usual step. Always worth a line, no more.

What to do
Nothing, when it was planned. Else see what ended the earlier attempt.

When it is wrong
Where two files of one run were written by two hosts whose clocks disagree: the pause is then not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.detectors._levels import cost
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.figures import seconds
from trainlens.model import Attempt, Event, Run

NEEDS = ()


@dataclass(frozen=True)
class Options:
    """No thresholds: a restart is a fact."""


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:  # noqa: ARG001
    if not run.attempts and not run.events:
        return NotApplicable("the log tells of no attempts")
    if len(run.attempts) > 1:
        pairs = zip(run.attempts[:-1], run.attempts[1:], strict=True)
        return [_between(run, before, after) for before, after in pairs if after.first_step > before.last_step]
    told = [event for event in run.events if event.kind == "restart"]
    return [_stated(told)] if told else []


def _between(run: Run, before: Attempt, after: Attempt) -> Finding:
    pause = after.first_time - before.last_time if after.first_time and before.last_time else None
    known = pause is not None and pause > 0
    still = f" after a pause of {seconds(pause)}" if known and pause is not None else ""
    return Finding(
        detector="restart",
        severity="info",
        metric=None,
        first_step=before.last_step,
        last_step=after.first_step,
        title=f"Restart after step {before.last_step:,}",
        message=f"The run stopped after step {before.last_step:,} and went on with {after.first_step:,}{still}; "
        "no step was done twice.",
        first_time=before.last_time,
        last_time=after.first_time,
        cost=cost(run, pause if known else None),
        evidence=(
            Evidence("pause", None, before.last_step, after.first_step, pause if known else None, unit="s",
                     place=after.place),
        ),
    )  # fmt: skip


def _stated(told: Sequence[Event]) -> Finding:
    steps = [event.step for event in told if event.step is not None]
    text = " ".join(told[0].text.split())
    return Finding(
        detector="restart",
        severity="info",
        metric=None,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        title="The log reports a restart" if len(told) == 1 else f"The log reports {len(told)} restarts",
        message=f"{len(told)} line{'s' if len(told) > 1 else ''} of the log; first: “{text[:140]}”.",
        first_time=told[0].time,
        last_time=told[-1].time,
        evidence=tuple(Evidence("restart", first_step=event.step, place=event.place) for event in told[:5]),
    )
