"""Ends and near-ends of a run as its text says them: events of one moment make an incident, with one root cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.model import Event, Run, Series

OUT_OF_MEMORY = ("out-of-memory", "host-out-of-memory")
PLANNED = ("preemption", "time-limit")
_HARDWARE = ("gpu-lost", "xid", "ecc")
_FATAL = (
    *OUT_OF_MEMORY, "disk-full", "gpu-lost", "segmentation-fault", "traceback", "nccl-error", "nccl-timeout", *PLANNED,
    "worker-killed", "killed", "exit-code",
)  # fmt: skip
_FIRST = (*OUT_OF_MEMORY, "disk-full", *_HARDWARE, "segmentation-fault")  # roots wherever they stand among the events
_VICTIMS = ("worker-killed", "killed", "exit-code")  # what launchers say of processes that ended for another reason
_BY_HAND = ("keyboardinterrupt", "sigint")
_SIGNALS = ("sigterm", "signalexception", *_BY_HAND)


@dataclass(frozen=True)
class Incident:
    """Events of one moment. `step` is the last step before it; `went_on` when rows of the same attempt follow."""

    root: Event
    events: tuple[Event, ...]
    step: int | None
    went_on: bool = False
    resumed: bool = False

    @property
    def ranks(self) -> int:
        return len({event.rank for event in self.events if event.kind == self.root.kind})

    @property
    def by_hand(self) -> bool:
        return any(word in self.root.text.lower() for word in _BY_HAND)


def tells_ends(run: Run) -> bool:
    """Whether the run has a source that would say how it ended, or an event that does."""
    return bool(run.events) or any(source.tells_end for source in run.sources if source.state == "read")


def incidents(run: Run) -> list[Incident]:
    """All incidents with a fatal event in them, in order of steps."""
    rows = main_series(run)
    groups: list[list[Event]] = []
    stepless: list[Event] = []
    events = [event for event in run.events if event.kind in _FATAL or event.kind in _HARDWARE]
    for event in sorted(events, key=lambda one: np.inf if one.step is None else one.step):
        if event.step is None:
            stepless.append(event)
        elif groups and _near(rows, groups[-1][-1].step, event.step):
            groups[-1].append(event)
        else:
            groups.append([event])
    if stepless:
        groups = [*groups[:-1], [*groups[-1], *stepless]] if groups else [stepless]
    return [_incident(rows, group) for group in groups if any(event.kind in _FATAL for event in group)]


def main_series(run: Run) -> Series | None:
    """The series whose rows count the run's progress."""
    return run.get("train/loss") or max(run.series, key=len, default=None)


def _near(rows: Series | None, first: int | None, second: int) -> bool:
    """At most two rows apart."""
    if rows is None or first is None:
        return first == second
    low, high = np.searchsorted(rows.step, [first, second], side="right")
    return bool(high - low <= 2)


def _incident(rows: Series | None, events: Sequence[Event]) -> Incident:
    step = max((event.step for event in events if event.step is not None), default=None)
    went_on = resumed = False
    if rows is not None and step is not None and len(rows.attempt) == len(rows):
        at = int(np.searchsorted(rows.step, step, side="right"))
        own = int(rows.attempt[max(0, at - 1)]) if at else 0
        went_on = int(np.count_nonzero(rows.attempt[at:] == own)) > 2
        resumed = bool((rows.attempt > own).any())
    return Incident(root(events), tuple(events), step, went_on, resumed and not went_on)


def root(events: Sequence[Event]) -> Event:
    """The event that the others follow from: a fault of memory, disk or hardware, else the first that is no victim."""
    for kind in _FIRST:
        if found := [event for event in events if event.kind == kind]:
            return found[0]
    ranked = [event for event in events if event.rank >= 0]
    events = ranked or list(events)  # what a launcher's own helpers print is no rank's fault
    own = [event for event in events if event.kind not in _VICTIMS and not (
        event.kind == "traceback" and any(word in event.text.lower() for word in _SIGNALS))]  # fmt: skip
    traced = [event for event in own if event.kind == "traceback"]
    if own and own[0].kind.startswith("nccl") and traced and "nccl" not in traced[0].text.lower():
        return traced[0]  # the other ranks wait in a collective for the one that failed
    return (own or events)[0]


def quoted(event: Event, most: int) -> str:
    """The event's text on one line, at most `most` characters."""
    text = " ".join(event.text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
