"""Crash: the run was ended by an error, a signal or its scheduler, or ended early without a word.

Why it matters
The steps since the last checkpoint are lost, and the job's place in the queue; the first error among hundreds of
lines is the one to mend.

How it is found
Tracebacks, broken or timed-out collectives, signals, full disks and exit codes that the log holds. Those of one
moment are one finding, told by the first that does not follow from another: killed workers, waiting collectives and
lost connections are victims; the exit codes of launchers name the rank at fault. The same error on many ranks is
counted, and what else was said is named. It is an error when it ended the run, a warning when a restart followed, a
scheduler ended it or the run had finished before, and worth a line when somebody stopped it by hand or training went
on. A log that ends before the planned number of steps, with no reason given, is worth a line. Running out of memory
is told by its own detector; a crash from a broken GPU is told inside of gpu-hardware-error.

What to do
Read the quoted line in its place; mend its cause before restarting from the last checkpoint.

When it is wrong
Where an error was caught and the process ended for another reason that is not in these files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.citations import JUDGEMENT
from trainlens.detectors import _incidents
from trainlens.diagnosis import Evidence, Finding, NotApplicable, Severity
from trainlens.model import Event, Run
from trainlens.plugins import threshold

NEEDS = ()
TOLD_INSIDE = ("gpu-hardware-error",)
_TOTAL = (
    "train_iters", "max_steps", "total_steps", "num_training_steps", "max_iters", "num_iterations", "total_iterations",
    "max_train_steps", "training_steps", "max_update", "total_num_steps", "end_step",
)  # fmt: skip
_WORDS = {
    "traceback": "An error ended the run",
    "nccl-error": "A collective failed", "nccl-timeout": "A collective timed out",
    "gpu-lost": "A GPU was lost", "xid": "A GPU reported a fault", "ecc": "GPU memory had uncorrectable errors",
    "segmentation-fault": "A segmentation fault", "disk-full": "The disk was full", "killed": "The run was killed",
    "worker-killed": "A worker was killed", "exit-code": "The run ended with an error code",
    "preemption": "The scheduler ended the run", "time-limit": "The time limit ended the run",
    "device-error": "A program failed on a GPU", "node-failure": "A node failed",
}  # fmt: skip
_SHORT = {
    "nccl-timeout": "NCCL timeout", "nccl-error": "NCCL error", "killed": "killed", "exit-code": "exit code",
    "worker-killed": "worker killed", "segmentation-fault": "segmentation fault", "device-error": "GPU error",
    "time-limit": "time limit", "preemption": "cancelled", "gpu-lost": "GPU lost", "xid": "Xid",
}  # fmt: skip
_LAUNCHERS = ("killed", "exit-code", "worker-killed")
_MOST_NAMED = 3  # other things said that are named
_SEQUENCE = re.compile(r"SeqNum=(\d{1,18})")
_TIMEOUT = re.compile(r"Timeout\(ms\)=(\d{1,12})")
_KILLED = re.compile(r"(?:exit|return) ?code\W{0,4}(?:-9|137)\b|\bKilled\b|SIGKILL")
_READ = "Read the quoted line in its place and mend its cause before restarting"


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
    return "warning" if found.resumed or found.finished else "error"


def _finding(found: _incidents.Incident) -> Finding:
    event = found.root
    words, after = _words(found), f" after step {found.step:,}" if found.step is not None else ""
    who = f" on rank {event.rank}" if event.rank >= 0 else ""
    who = f" on {found.ranks} ranks{who and ', first' + who}" if found.ranks > 1 else who
    tail = ", training went on" if found.went_on else ", a restart followed" if found.resumed else ""
    tail += ", after the run had finished" if found.finished else ""
    tail += _desync(found) or _followers(found)
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
        last_time=max((one.time for one in found.events if one.time is not None), default=None) if event.time else None,
        evidence=tuple(
            Evidence(one.kind, first_step=one.step, place=one.place) for one in (event, *_others(found))[:5]
        ),
        actions=(_action(event),),
    )


def _words(found: _incidents.Incident) -> str:
    event = found.root
    if found.by_hand:
        return "Stopped by hand"
    if event.kind == "traceback" and (found.went_on or found.finished):
        return "An error was reported"
    if event.kind == "disk-full" and "quota" in event.text:
        return "The disk quota was used up"
    if "Bus error" in event.text:
        return "A bus error, shared memory may be full"
    if "task was killed" in event.text.lower() or "died unexpectedly" in event.text:
        return "A worker died"
    return _WORDS[event.kind]


def _action(event: Event) -> str:
    waited = _TIMEOUT.search(event.text)
    if event.kind == "nccl-timeout" and waited:
        return f"Look for what happened up to {int(waited[1]) / 1000:,.0f} s before on the rank that did not come"
    if "Bus error" in event.text:
        return "Give the container more shared memory (/dev/shm), or use fewer workers of the data loader"
    if event.kind in ("killed", "exit-code") and _KILLED.search(event.text):
        return "Look into the kernel's log: memory of the host that ran out is what kills a process without a word"
    if event.kind in _incidents.PLANNED:
        return "Go on from the last checkpoint; save one when the scheduler's signal comes"
    if event.kind == "node-failure":
        return "Take the node out of the next job's list, and go on from the last checkpoint"
    if event.kind == "device-error":
        return "Run it again with CUDA_LAUNCH_BLOCKING=1: the error is reported later than it happens"
    return _READ


def _followers(found: _incidents.Incident) -> str:
    """What else was said, each with its number: errors first, what launchers add to them last."""
    order = sorted(found.others.items(), key=lambda one: (one[0] in _SHORT, one[0] in _LAUNCHERS, -one[1]))
    named = [f"{_SHORT.get(what, what[:30])}{f' ({count}×)' if count > 1 else ''}" for what, count in order]
    if not named:
        return ""
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return f"; then {', '.join(named[:_MOST_NAMED])}{more}"


def _desync(found: _incidents.Incident) -> str:
    """Which rank stood at an earlier collective than the others, when they timed out."""
    if found.root.kind != "nccl-timeout":
        return ""
    at = {event.rank: int(seen[1]) for event in found.events
          if event.rank >= 0 and (seen := _SEQUENCE.search(event.text))}  # fmt: skip
    if len(set(at.values())) < 2 or max(at.values()) - min(at.values()) > 1000:  # groups count for themselves
        return ""
    rank = min(at, key=lambda one: (at[one], one))
    return f"; rank {rank} stood at collective {at[rank]:,}, others at {max(at.values()):,}"


def _others(found: _incidents.Incident) -> list[Event]:
    """The first of each other thing said, then the same on other ranks."""
    first: dict[str, Event] = {_incidents.said(found.root): found.root}
    for event in found.events:
        first.setdefault(_incidents.said(event), event)
    told = list(first.values())
    return [*told[1:], *[event for event in found.events if event not in told][:5]]


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
