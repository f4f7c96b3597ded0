"""Restart: the run was interrupted and went on where it had stopped.

Why it matters
No step is lost, but the pause is, and the first steps after it are slow; many restarts point to an unsound machine.

How it is found
A new attempt that begins after the last step of the one before, or, where attempts do not show in the steps, lines of
the log that say so. Where neither is there: rows are missing, and the first step behind them took more than `slow`
times the usual one, as a first step does. Files of the run in which a launch left nothing but a header are told too.
What was lost is the time between the two less one usual step. Always worth a line, no more.

What to do
Nothing, when it was planned. Else see what ended the earlier attempt.

When it is wrong
Where two files of one run were written by two hosts whose clocks disagree: the pause is then not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT
from trainlens.detectors._levels import cost
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.figures import counted, seconds
from trainlens.model import Attempt, Event, Place, Run
from trainlens.plugins import threshold

NEEDS = ()


@dataclass(frozen=True)
class Options:
    slow: float = threshold(3.0, "first step after missing rows against the usual one", unit="times", source=JUDGEMENT)
    gap: float = threshold(3.0, "distance of two rows that are missing some", unit="times", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:
    died = _died(run)
    if not run.attempts and not run.events and not died:
        return NotApplicable("the log tells of no attempts")
    if len(run.attempts) > 1:
        pairs = zip(run.attempts[:-1], run.attempts[1:], strict=True)
        return [
            *(_between(run, before, after) for before, after in pairs if after.first_step > before.last_step),
            *died,
        ]
    told = [event for event in run.events if event.kind == "restart"]
    return [*([_stated(told)] if told else _unsaid(run, options)), *died]


def _unsaid(run: Run, options: Options) -> list[Finding]:
    """The restarts that only missing rows with a slow first step behind them tell of."""
    times = run.get("step_time")
    if times is None or times.positional or np.count_nonzero(times.finite) < 40:
        return []
    step, value = times.step[times.finite], times.value[times.finite]
    apart = np.diff(step).astype(float)
    usual = np.median(value)
    at = 1 + np.flatnonzero((apart > options.gap * np.median(apart)) & (value[1:] > options.slow * usual))
    if not len(at) or len(at) > len(value) / 50:
        return []
    first, last = int(step[at[0] - 1]), int(step[at[-1]])
    slowest = float(value[at].max())
    each = ", ".join(f"{one:,}" for one in step[at[:4]].tolist())
    return [
        Finding(
            detector="restart",
            severity="info",
            metric="step_time",
            first_step=first,
            last_step=last,
            title=f"{counted(len(at), 'restart')} by the look of it",
            message=f"Rows are missing before step {each}{' and others' if len(at) > 4 else ''}, and the step behind "
            f"took up to {seconds(slowest)} instead of {seconds(float(usual))}, as a first step does.",
            confidence=0.7,
            evidence=(
                Evidence("first step behind missing rows", "step_time", first, last, slowest, float(usual),
                         options.slow * float(usual), "s", "restart.slow"),
            ),
        )
    ]  # fmt: skip


def _died(run: Run) -> list[Finding]:
    """The line that launches of this run left a file without a point."""
    empty = [source.path for source in run.sources
             if not source.points and any(note.kind == "no-points" for note in source.notes)]  # fmt: skip
    if not empty or not run.series:
        return []
    return [
        Finding(
            detector="restart",
            severity="info",
            metric=None,
            first_step=None,
            last_step=None,
            title=f"{len(empty):,} launches logged no step" if len(empty) > 1 else "A launch logged no step",
            message=f"{counted(len(empty), 'file')} of the run hold{'s' if len(empty) == 1 else ''} no point: "
            "launches that ended before their first step, or a writer that was opened and not used.",
            evidence=tuple(Evidence("no point", place=Place(path)) for path in empty[:3]),
        )
    ]


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
