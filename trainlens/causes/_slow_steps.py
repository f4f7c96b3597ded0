"""The slow steps of a finding, and how many of them stand where the run did something regular."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainlens.causes._measure import bounds, fact_number, finite, near, step_times
from trainlens.diagnosis import Finding
from trainlens.model import Ints, Run

_SLOW = 1.3  # times the median step
_RARE = 4  # logged points between two events, below which every point is near one


@dataclass(frozen=True, slots=True)
class SlowSteps:
    """Of a finding: its slow steps, and how many steps one logged point stands for."""

    step: Ints
    spacing: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Hits:
    hits: int
    slow: int
    source: str  # "events of the log", "save_interval is 1,000"


def slow_steps(finding: Finding, run: Run) -> SlowSteps | None:
    """Steps of 1.3 times the median and more during the finding; all of them when it is one long slow stretch."""
    series = step_times(run)
    if series is None or len(series) < 5:
        return None
    first, last = bounds(finding, run)
    step, value = finite(series)
    if len(value) < 5:
        return None
    inside = (step >= first) & (step <= last)
    slow = inside & (value > _SLOW * np.median(value))
    if not slow.any():
        slow = inside
    return SlowSteps(step[slow].astype(np.int64), max(1, int(np.median(np.diff(step)))), first, last)


def at_events(slow: SlowSteps, run: Run, kinds: Iterable[str]) -> Hits | None:
    """By events of the log; None when it has none of the kind near, or one at about every logged point."""
    wide = 2 * (slow.last - slow.first) + 10 * slow.spacing
    happened = near((one.step for one in run.events if one.kind in kinds), slow.first - wide, slow.last + wide)
    if not happened or not len(slow.step):
        return None
    # The pause falls into the step after the event, or into the logged point that spans it.
    at = np.unique(happened)
    if len(at) > 1 and np.median(np.diff(at)) <= _RARE * slow.spacing:
        return None
    before = at[np.clip(np.searchsorted(at, slow.step, side="right") - 1, 0, len(at) - 1)]
    hits = int(np.count_nonzero(np.abs(slow.step - before) <= slow.spacing))
    return Hits(hits, len(slow.step), "events of the log")


def at_interval(slow: SlowSteps, run: Run, settings: Iterable[str]) -> Hits | None:
    """By the stated interval; None when there is none, or when it is too short to tell anything."""
    for name in settings:
        interval = fact_number(run, name)
        if interval is not None and interval > _RARE * slow.spacing and len(slow.step):
            off = slow.step % int(interval)
            hits = int(np.count_nonzero(off <= slow.spacing))
            return Hits(hits, len(slow.step), f"{name} is {interval:,.0f}")
    return None
