"""What belongs to a run and is no fault: asked once a run, before anything is judged.

Restarts, changes of batch size, sequence length and logging interval, epochs, evaluations, checkpoints, steps of the
learning rate and its schedule. A move of a curve that one of them explains is told as explained, not flagged.
`judged` gives the run as the detectors see it: measurements, whatever way they were written (`readings`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from trainlens.context.readings import readings
from trainlens.diagnosis import Explained, Schedule
from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import rolling_median
from trainlens.signals.schedules import identify

_MOST = 5000  # marks of a kind; more explain nothing
_ONE = {
    "checkpoint": "checkpoints",
    "evaluation": "evaluations",
    "epoch": "epoch boundaries",
    "restart": "restarts",
    "batch size": "changes of the batch size",
    "sequence length": "changes of the sequence length",
    "learning rate": "steps of the learning rate",
    "logging interval": "changes of the logging interval",
}
_AT = {
    "checkpoint": "the checkpoint",
    "evaluation": "the evaluation",
    "epoch": "the epoch boundary",
    "restart": "the restart",
    "batch size": "the change of the batch size",
    "sequence length": "the change of the sequence length",
    "learning rate": "the step of the learning rate",
    "logging interval": "the change of the logging interval",
}


@dataclass(frozen=True, eq=False)
class Context:
    """The marks of a run: for each kind (see `_ONE`) the steps at which it happened, ascending."""

    schedule: Schedule | None
    marks: dict[str, Ints]

    def at(self, kind: str) -> Ints:
        return self.marks.get(kind, np.empty(0, np.int64))

    def why(self, step: int, before: float, after: float, kinds: Iterable[str] = tuple(_ONE)) -> str:
        """ "the change of the batch size at 670", of the nearest mark in [step - before, step + after]."""
        nearest: tuple[int, str] | None = None
        for kind in kinds:
            marks = self.at(kind)
            inside = marks[(marks >= step - before) & (marks <= step + after)]
            if len(inside):
                mark = int(inside[np.argmin(np.abs(inside - step))])
                if nearest is None or abs(mark - step) < abs(nearest[0] - step):
                    nearest = mark, kind
        return f"{_AT[nearest[1]]} at {nearest[0]:,}" if nearest else ""

    def logged_alike(self, step: Ints, at: int) -> slice:
        """The rows that were logged as often as row `at`: means of ten steps scatter less than single ones."""
        marks = self.at("logging interval")
        after = int(np.searchsorted(marks, step[at], side="right"))
        begin = int(np.searchsorted(step, marks[after - 1])) if after else 0
        return slice(begin, int(np.searchsorted(step, marks[after])) if after < len(marks) else len(step))

    def common(self, steps: Ints, slack: float, kinds: Iterable[str] = tuple(_ONE), share: float = 0.8) -> str:
        """ "checkpoints": the kind whose marks are within `slack` of most of the steps, not of the run."""
        for kind in kinds:
            marks = self.at(kind)
            if not len(marks) or not len(steps):
                continue
            right = np.clip(np.searchsorted(marks, steps), 0, len(marks) - 1)
            left = np.clip(right - 1, 0, None)
            apart = np.minimum(np.abs(marks[right] - steps), np.abs(marks[left] - steps))
            usual = float(np.median(np.diff(marks))) if len(marks) > 1 else np.inf
            if np.mean(apart <= slack) >= share and usual > 4 * slack:
                return _ONE[kind]
        return ""


def judged(run: Run) -> tuple[Run, list[Explained]]:
    """The run as it can be judged, and what in its values is no measurement; the run itself where all of it is."""
    starts = np.array(sorted({*_epochs(run.get("epoch")), *(one.first_step for one in run.attempts[1:])}), np.int64)
    series, away = list(run.series), list[Explained]()
    for at, one in enumerate(run.series):
        for reading in readings(one, starts):
            series[at] = reading.series
            first, last = int(reading.steps.min(initial=0)), int(reading.steps.max(initial=0))
            away.append(Explained("stale-metric", f"{one.metric} {reading.told}", first, last, one.metric))
    baseline = judged(run.baseline)[0] if run.baseline is not None else None
    changed = away or baseline is not run.baseline
    return (replace(run, series=tuple(series), baseline=baseline) if changed else run), away


_KNOWN: dict[int, Context] = {}


def of(run: Run) -> Context:
    """The context of a run, made when it is first asked for and forgotten with the run."""
    if id(run) not in _KNOWN:
        weakref.finalize(run, _KNOWN.pop, id(run), None)
        with np.errstate(all="ignore"):
            _KNOWN[id(run)] = _made(run)
    return _KNOWN[id(run)]


def _made(run: Run) -> Context:
    rate = run.get("lr")
    schedule = identify(rate.step[rate.finite], rate.value[rate.finite]) if rate is not None else None
    held_out = [one.step for one in run.with_role("eval-loss") if not one.positional]
    found: dict[str, list[int | None]] = {
        "checkpoint": [event.step for event in run.events if event.kind in ("checkpoint-begin", "checkpoint-end")],
        "evaluation": [
            *(event.step for event in run.events if event.kind == "evaluation"),
            *(int(step) for steps in held_out if len(steps) <= _MOST for step in steps),
        ],
        "restart": [attempt.first_step for attempt in run.attempts[1:]],
        "batch size": [*_moves(run.get("batch_size"))],
        "sequence length": [*_moves(run.get("sequence_length"))],
        "epoch": [*_epochs(run.get("epoch"))],
        "learning rate": [*_levels(rate, schedule)],
        "logging interval": [*_cadence(run.get("train/loss"))],
    }
    marks = {
        kind: np.unique(np.array([step for step in steps if step is not None], np.int64))
        for kind, steps in found.items()
    }
    return Context(
        schedule if schedule is not None and schedule.family != "unknown" else None,
        {kind: steps for kind, steps in marks.items() if 0 < len(steps) <= _MOST},
    )


def _moves(series: Series | None) -> list[int]:
    """Steps at which a size became another; none where it moves all the time, as in a ramp of many small steps."""
    if series is None or len(series) < 2:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs(np.diff(series.value)) > 0.01 * np.abs(series.value[:-1])
    steps: list[int] = series.step[1:][moved].tolist() if moved.mean() < 0.05 else []
    return steps


def _epochs(series: Series | None) -> list[int]:
    """First rows of each epoch but the first."""
    if series is None or len(series) < 4 or series.positional:
        return []
    whole = np.floor(np.where(series.finite, series.value, -1) + 1e-9)
    begun = np.flatnonzero(np.diff(whole) > 0) + 1
    steps: list[int] = series.step[begun].tolist() if len(begun) < len(series) / 4 else []
    return steps


def _levels(series: Series | None, schedule: Schedule | None) -> list[int]:
    """Where a multi-step schedule falls to its next level, where a plateau ends."""
    if series is None or schedule is None:
        return []
    if schedule.family == "multi-step":
        value = series.value
        moved = np.abs(np.diff(value)) > 0.02 * schedule.peak
        after = series.step[1:] > schedule.warmup_steps
        steps: list[int] = series.step[1:][moved & after].tolist()
        return steps
    return [schedule.decay_begin] if schedule.decay_begin is not None else []


def _cadence(series: Series | None) -> list[int]:
    """Where rows begin to be logged more or less often, and go on so for at least 20 rows."""
    if series is None or len(series) < 60 or series.positional:
        return []
    gaps = np.diff(series.step)
    usual = rolling_median(gaps.astype(float), 10)
    changed = np.flatnonzero(usual[1:] != usual[:-1]).tolist()
    inner = (at for at in changed if 10 <= at < len(usual) - 11)
    edges = [at for at in inner if _held(usual[at - 9 : at + 1]) and _held(usual[at + 1 : at + 11])]
    return [int(series.step[at + 1]) for at in edges]


def _held(values: Floats) -> bool:
    return bool((values == values[0]).all())
