"""The one timeline of a run: where its findings and events stand between its first and last step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainlens.diagnosis import RunDiagnosis
from trainlens.model import Event
from trainlens.reports._panels import extent


@dataclass(frozen=True)
class Tick:
    """An event or a step at `at`, a share of the axis; `text` is "" when there is no room for it."""

    at: float
    text: str = ""
    big: bool = False


QUIET_EVENTS = frozenset({"checkpoint-begin", "checkpoint-end", "evaluation", "run-start", "run-end", "overflow"})


def place(run: RunDiagnosis, step: float) -> float:
    """Where a step stands on the run's axis, 0 to 1."""
    first, last = extent(run)
    return min(1.0, max(0.0, (step - first) / (last - first)))


def event_ticks(run: RunDiagnosis, room: float = 0.1) -> list[Tick]:
    """One tick an event (200 at most of the quiet kinds); loud ones are named where `room` is free."""
    ticks: list[Tick] = []
    end = -1.0
    loud = sorted((one for one in _stepped(run.events) if one.kind not in QUIET_EVENTS), key=lambda one: one.step or 0)
    for event in loud[:200]:
        at = place(run, event.step or 0)
        text = event.kind.replace("-", " ") if at >= end and at < 1 - room else ""
        end = at + room if text else end
        ticks.append(Tick(at, text, big=True))
    quiet = sorted({round(place(run, one.step or 0), 3) for one in _stepped(run.events) if one.kind in QUIET_EVENTS})
    thin = quiet[:: len(quiet) // 200 + 1]
    return [*(Tick(at) for at in thin), *ticks]


def quiet_words(run: RunDiagnosis) -> str:
    """ "thin lines: 48 checkpoints, 12 evaluations"."""
    kinds = [one.kind for one in _stepped(run.events) if one.kind in QUIET_EVENTS]
    checkpoints = max(kinds.count("checkpoint-begin"), kinds.count("checkpoint-end"))
    named = [
        (checkpoints, "checkpoint"),
        (kinds.count("evaluation"), "evaluation"),
        (kinds.count("overflow"), "overflow"),
    ]
    told = ", ".join(f"{count:,} {noun}{'s' * (count > 1)}" for count, noun in named if count)
    return f"thin lines: {told}" if told else ""


def _stepped(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.step is not None]


def step_ticks(run: RunDiagnosis, parts: int = 4) -> list[Tick]:
    first, last = extent(run)
    return [Tick(index / parts, f"{round(first + (last - first) * index / parts):,}") for index in range(parts + 1)]
