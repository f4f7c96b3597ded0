"""Ends and near-ends of a run as its text says them: events of one moment make an incident, with one root cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.detectors._gpu_faults import of_hardware
from trainlens.model import Event, Run, Series

OUT_OF_MEMORY = ("out-of-memory", "host-out-of-memory")
PLANNED = ("preemption", "time-limit")
_HARDWARE = ("gpu-lost", "xid", "ecc", "node-failure")
_FATAL = (
    *OUT_OF_MEMORY, "disk-full", "gpu-lost", "segmentation-fault", "traceback", "nccl-error", "nccl-timeout", *PLANNED,
    "worker-killed", "killed", "exit-code", "device-error", "node-failure",
)  # fmt: skip
_FIRST = (*OUT_OF_MEMORY, "disk-full", *_HARDWARE)  # roots wherever they stand among the events
_VICTIMS = ("worker-killed", "killed", "exit-code")  # what launchers say of processes that ended for another reason
_BY_HAND = ("keyboardinterrupt", "sigint")
# Errors that follow from another process's end, that only pass on another error, or that a program expects.
_FOLLOWS = re.compile(
    r"nccl|hccl|DistBackendError|DistStoreError|process group|watchdog|barrier|gloo|connection (?:closed|reset|refused)"
    r"|broken ?pipe|EOFError|socket|store\b.{0,40}(?:timed|timeout)|sigterm|SignalException|ProcessRaisedException"
    r"|caught \w+ in |RayTaskError|TrainingFailedError|ActorUnavailable|^(?:_?queue\.)?(?:Empty|Full)\b",
    re.I,
)
_CLASS = re.compile(r"[\w.]{1,200}")
_SOON = 2  # rows that may still be written by other ranks after a failure


@dataclass(frozen=True)
class Incident:
    """Events of one moment. `step` is the last step before it; `went_on` when rows of the same attempt follow."""

    root: Event
    events: tuple[Event, ...]
    step: int | None
    went_on: bool = False
    resumed: bool = False
    finished: bool = False  # the log had said before that the run had ended

    @property
    def ranks(self) -> int:
        """On how many ranks the same happened."""
        return len({event.rank for event in self.events if said(event) == said(self.root)})

    @property
    def others(self) -> dict[str, int]:
        """What else was said: each kind or exception in the order of the log, with its number of ranks or lines."""
        found: dict[str, set[int]] = {}
        for at, event in enumerate(self.events):
            if (what := said(event)) != said(self.root):
                found.setdefault(what, set()).add(event.rank if event.rank >= 0 else -1 - at)
        return {what: len(ranks) for what, ranks in found.items()}

    @property
    def by_hand(self) -> bool:
        return any(word in self.root.text.lower() for word in _BY_HAND)


def said(event: Event) -> str:
    """The kind of an event; of a traceback the class of its exception."""
    if event.kind != "traceback":
        return event.kind
    found = _CLASS.match(event.text)
    return found[0].rpartition(".")[2] if found else event.kind


def tells_ends(run: Run) -> bool:
    """Whether the run has a source that would say how it ended, or an event that does."""
    return bool(run.events) or any(source.tells_end for source in run.sources if source.state == "read")


def incidents(run: Run) -> list[Incident]:
    """All incidents with a fatal event in them, in order of attempts and steps."""
    rows = main_series(run)
    groups: list[tuple[int, list[Event]]] = []
    early, late = list[Event](), list[Event]()
    events = [event for event in run.events if event.kind in _FATAL or event.kind in _HARDWARE]
    stepped = [(_attempt(run, rows, event), event) for event in events if event.step is not None]
    for own, event in sorted(stepped, key=lambda one: (one[0], one[1].step)):
        if groups and groups[-1][0] == own and _near(rows, groups[-1][1][-1].step, event.step or 0):
            groups[-1][1].append(event)
        else:
            groups.append((own, [event]))
    for event in events:
        if event.step is None:
            (early if _rows_after(run, rows, event) > _SOON else late).append(event)
    if late:
        groups = [*groups[:-1], (groups[-1][0], [*groups[-1][1], *late])] if groups else [(-1, late)]
    found = [_incident(run, rows, own, group) for own, group in groups if _fatal(group)]
    return [*([Incident(root(early), tuple(early), None, went_on=True)] if _fatal(early) else []), *found]


def main_series(run: Run) -> Series | None:
    """The series whose rows count the run's progress."""
    return run.get("train/loss") or max(run.series, key=len, default=None)


def _fatal(events: Sequence[Event]) -> bool:
    return any(event.kind in _FATAL for event in events)


def _near(rows: Series | None, first: int | None, second: int) -> bool:
    """At most two rows apart."""
    if rows is None or first is None:
        return first == second
    low, high = np.searchsorted(rows.step, [first, second], side="right")
    return bool(high - low <= _SOON)


def _attempt(run: Run, rows: Series | None, event: Event) -> int:
    """The attempt that an event belongs to: by its line where the file is the same, else by its step."""
    if event.place is not None and event.place.line is not None:
        begun = [at for at, one in enumerate(run.attempts) if one.place is not None and one.place.line is not None
                 and one.place.path == event.place.path and one.place.line <= event.place.line]  # fmt: skip
        if begun:
            return begun[-1]
    ended = [at for at, one in enumerate(run.attempts) if _near(rows, event.step, one.last_step)
             and one.last_step >= (event.step or 0)]  # fmt: skip
    if ended:
        return ended[-1]
    at = int(np.searchsorted(rows.step, event.step or 0, side="right")) if rows is not None else 0
    return int(rows.attempt[max(0, at - 1)]) if at and rows is not None and len(rows.attempt) == len(rows) else 0


def _rows_after(run: Run, rows: Series | None, event: Event) -> int:
    """How many rows stand behind an event in the same file."""
    if rows is None or event.place is None or event.place.line is None or len(rows.source) != len(rows.origin):
        return 0
    number = next((at for at, one in enumerate(run.sources) if one.path == event.place.path), -1)
    return int(np.count_nonzero((rows.source == number) & (rows.origin > event.place.line)))


def _incident(run: Run, rows: Series | None, own: int, events: Sequence[Event]) -> Incident:
    step = max((event.step for event in events if event.step is not None), default=None)
    went_on = resumed = False
    if rows is not None and step is not None and len(rows.attempt) == len(rows):
        parts = [one for one in (rows, rows.replaced) if one is not None and len(one.attempt) == len(one)]
        went_on = sum(int(np.count_nonzero((one.attempt == own) & (one.step > step))) for one in parts) > _SOON
        resumed = bool((rows.attempt > own).any())
    chosen = root(events)
    finished = not went_on and any(
        event.kind == "run-end" and event.place is not None and chosen.place is not None
        and event.place.path == chosen.place.path and (event.place.line or 0) < (chosen.place.line or 0)
        and event.step == chosen.step
        for event in run.events
    )  # fmt: skip
    return Incident(chosen, tuple(events), step, went_on, resumed and not went_on, finished)


def root(events: Sequence[Event]) -> Event:
    """The event that the others follow from: a fault of memory, disk or hardware, else the first that is no victim."""
    for kind in _FIRST:
        if found := [event for event in events if event.kind == kind and (kind != "xid" or of_hardware(event))]:
            return found[0]
    own = [event for event in events if event.kind not in (*_VICTIMS, "xid") and not (
        event.kind == "traceback" and (_FOLLOWS.search(event.text[:300]) or _stopped(event)))]  # fmt: skip
    if any(event.rank >= 0 for event in own):  # what a launcher's own helpers raise is no rank's fault
        own = [event for event in own if event.rank >= 0 or event.kind != "traceback"]
    if own and own[0].kind.startswith("nccl"):  # the other ranks wait in a collective for the one that failed
        own = [event for event in own if not event.kind.startswith("nccl") and event.kind not in PLANNED] or own
    if own:
        named = {event.rank for event in events if event.kind == "exit-code" and event.rank >= 0}
        return next((event for event in own if event.rank in named and event.kind == own[0].kind), own[0])
    workers = [event for event in events if event.kind == "worker-killed" and "Terminated" not in event.text]
    raised = [event for event in events if event.kind not in (*_VICTIMS, "xid")]
    victims = sorted(events, key=lambda event: event.kind != "exit-code" or "code -15" in event.text)
    return (workers or raised or victims)[0]


def _stopped(event: Event) -> bool:
    """Whether a process was stopped from outside, not failed."""
    return any(word in event.text.lower() for word in ("sigterm", "signalexception"))


def quoted(event: Event, most: int) -> str:
    """The event's text on one line, at most `most` characters."""
    text = " ".join(event.text.split())
    text = text[max(0, text.find("Watchdog caught collective")) :]  # what stands before it names file and process
    return text if len(text) <= most else text[: most - 1] + "…"
