"""Crash: the run was ended by an error, a signal or its scheduler, or ended early without a word.

Why it matters
The steps since the last checkpoint are lost, and the job's place in the queue; the first error among hundreds of
lines is the one to mend.

How it is found
Tracebacks, broken or timed-out collectives, signals, full disks and exit codes that the log holds. Those of one
moment are one finding, told by the first that does not follow from another: killed workers and waiting collectives
are victims. It is an error when it ended the run, a warning when a restart followed or a scheduler ended it, and
worth a line when somebody stopped it by hand or training went on. A log that ends before the planned number of steps,
with no reason given, is worth a line. Running out of memory is told by its own detector.

What to do
Read the quoted line in its place; mend its cause before restarting from the last checkpoint.

When it is wrong
Where an error was caught and the process ended for another reason that is not in these files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.citations import JUDGEMENT
from trainlens.detectors import _incidents
from trainlens.diagnosis import Evidence, Finding, NotApplicable, Severity
from trainlens.figures import counted
from trainlens.model import Event, Run
from trainlens.plugins import threshold

NEEDS = ()
_TOTAL = (
    "train_iters", "max_steps", "total_steps", "num_training_steps", "max_iters", "num_iterations", "total_iterations",
    "max_train_steps", "training_steps", "max_update", "total_num_steps",
)  # fmt: skip
_WORDS = {
    "traceback": "An error ended the run",
    "nccl-error": "A collective failed", "nccl-timeout": "A collective timed out",
    "gpu-lost": "A GPU was lost", "xid": "A GPU reported a fault", "ecc": "GPU memory had uncorrectable errors",
    "segmentation-fault": "A segmentation fault", "disk-full": "The disk was full", "killed": "The run was killed",
    "worker-killed": "A worker was killed", "exit-code": "The run ended with an error code",
    "preemption": "The scheduler ended the run", "time-limit": "The time limit ended the run",
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    early: float = threshold(
        0.98, "part of the planned steps that counts as done", unit="share", source=JUDGEMENT
    )  # fmt: skip


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:
    found = _incidents.incidents(run)
    early = _early(run, options) if not found or found[-1].went_on else []
    if not early and not _incidents.tells_ends(run):
        return NotApplicable("no text of the run was read that would say how it ended")
    return [*(_finding(one) for one in found if one.root.kind not in _incidents.OUT_OF_MEMORY), *early]


def _severity(found: _incidents.Incident) -> Severity:
    if found.went_on or found.by_hand:
        return "info"
    if found.root.kind in _incidents.PLANNED:
        return "info" if found.resumed else "warning"
    return "warning" if found.resumed else "error"


def _finding(found: _incidents.Incident) -> Finding:
    event = found.root
    words = "Stopped by hand" if found.by_hand else _WORDS[event.kind]
    if found.went_on and event.kind == "traceback":
        words = "An error was reported"
    after = f" after step {found.step:,}" if found.step is not None else ""
    who = f" on rank {event.rank}" if event.rank >= 0 else ""
    others = len(found.events) - 1
    tail = ", training went on" if found.went_on else ", a restart followed" if found.resumed else ""
    tail += f"; {counted(others, 'message')} followed" if others else ""
    head = f"{words}{after}{who}"
    return Finding(
        detector="crash",
        severity=_severity(found),
        metric=None,
        first_step=found.step,
        last_step=found.step,
        title=f"{words}{after}",
        message=f"{head}: “{_incidents.quoted(event, 194 - len(head) - len(tail))}”{tail}.",
        rank=event.rank if event.rank >= 0 else None,
        first_time=event.time,
        last_time=event.time,
        evidence=tuple(
            Evidence(one.kind, first_step=one.step, place=one.place) for one in (event, *_others(found))[:5]
        ),
        actions=("Read the quoted line in its place and mend its cause before restarting",),
    )


def _others(found: _incidents.Incident) -> list[Event]:
    return [event for event in found.events if event is not found.root]


def _early(run: Run, options: Options) -> list[Finding]:
    """The line that a run ended before its planned steps, with no reason in the log."""
    total, rows = run.fact(*_TOTAL), _incidents.main_series(run)
    planned = float(total.value) if total and isinstance(total.value, int | float) else 0.0
    ended = any(event.kind == "run-end" for event in run.events)
    if rows is None or not len(rows) or rows.positional or run.ongoing or ended or planned <= 0:
        return []
    last = int(rows.step[-1])
    if last >= options.early * planned - 1:
        return []
    return [
        Finding(
            detector="crash",
            severity="info",
            metric=None,
            first_step=last,
            last_step=last,
            title=f"Ends at step {last:,} of {planned:,.0f}",
            message=f"The log ends at step {last:,} of {planned:,.0f} planned, with no reason given: unfinished, "
            "stopped from outside, or its end is in another file.",
            confidence=0.5,
            evidence=(
                Evidence("last step", rows.metric, last, last, last, planned, options.early * planned, "steps",
                         "crash.early", place=total.place if total else None),
            ),
            actions=("Look at the scheduler's record of the job for its end",),
        )
    ]  # fmt: skip
