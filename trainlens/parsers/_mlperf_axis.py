"""What counts the steps of an MLPerf log: `step`, `samples_count` or `epoch_num` of the metadata, key by key.

One run has one axis if that can be proven: samples become steps where a record states both and their ratio is the
batch size; fractions of an epoch become steps by the size of the training set. A key whose counts are fractions that
nothing explains has no steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from trainlens.model import Floats, Ints, Points

_STEPS = ("step", "step_num")
_SAMPLES = "samples_count"


@dataclass(frozen=True, slots=True)
class Measured:
    line: int
    value: float
    time: float | None  # Unix seconds
    counts: Mapping[str, float]  # what the metadata say of where in the run it is


class Axis:
    """Chooses what counts the steps, from all that the records of a file state."""

    NAMES: ClassVar = ("samples_count", "epoch_num", "step_num", "step")

    def __init__(self) -> None:
        self._stated: dict[str, float] = {}  # sizes of the batch and of the training set
        self._both: set[tuple[float, float]] = set()  # samples and steps of one record

    def see(self, metadata: Mapping[str, Any]) -> None:
        samples = metadata.get(_SAMPLES)
        for name in _STEPS:
            step = metadata.get(name)
            if isinstance(samples, (int, float)) and isinstance(step, (int, float)) and step > 0:
                self._both.add((samples, step))

    def state(self, key: str, value: str | float) -> None:
        if key in ("global_batch_size", "train_samples") and not isinstance(value, str) and value > 0:
            self._stated.setdefault(key, float(value))

    def steps(self, rows: Sequence[Measured]) -> Ints | None:
        """The step of each row, counted by what most of them state; None when that is no whole number."""
        covered = {name: sum(name in row.counts for row in rows) for name in self.NAMES}
        name = max(self.NAMES, key=lambda one: (covered[one], one in _STEPS))
        if not covered[name]:
            return None
        counts = np.array([row.counts.get(name, np.nan) for row in rows])
        known = np.isfinite(counts)
        counts[~known] = np.interp(np.flatnonzero(~known), np.flatnonzero(known), counts[known])
        scaled = self._scaled(name, counts)
        return None if scaled is None else np.round(scaled).astype(np.int64)

    def _scaled(self, name: str, counts: Floats) -> Floats | None:
        batch, samples = (self._stated.get(key) for key in ("global_batch_size", "train_samples"))
        if name == _SAMPLES and batch and any(pair[0] == batch * pair[1] for pair in self._both):
            return counts / batch
        if (counts == np.round(counts)).all():
            return counts
        return counts * (samples / batch) if name == "epoch_num" and samples and batch else None


def table(measured: Mapping[str, Sequence[Measured]], axis: Axis, *, runs: int) -> Iterator[Points]:
    """The points of each tag in order of time; a value that two records tell alike comes once.

    A counter that goes back inside of a run counts the batches of an evaluation: those points lie on the step that the
    best-told counter has reached by then. `runs` is how often the log says that a run starts.
    """
    columns = {tag: _column(tag, rows, axis) for tag, rows in measured.items()}
    forward = [one for one in columns.values() if one.time is not None and one.step is not None and _rises(one.step)]
    usual = max(forward, key=lambda one: len(one.value), default=None)
    for one in columns.values():
        if runs < 2 and one.step is not None and not _rises(one.step):
            yield replace(one, step=_reached(one, usual))
        else:
            yield one


def _column(tag: str, rows: Sequence[Measured], axis: Axis) -> Points:
    rows = sorted(rows, key=lambda row: -np.inf if row.time is None else row.time)
    step = axis.steps(rows)
    time = np.array([np.nan if row.time is None else row.time for row in rows])
    value, line = np.array([row.value for row in rows]), np.array([row.line for row in rows], np.int64)
    if step is not None and len(step) > 1:
        again = np.concatenate([[False], (np.diff(step) == 0) & (np.diff(value) == 0)])
        step, time, value, line = step[~again], time[~again], value[~again], line[~again]
    return Points(tag, step, value, time if np.isfinite(time).any() else None, origin=line)


def _rises(step: Ints) -> bool:
    return bool((np.diff(step) >= 0).all())


def _reached(one: Points, usual: Points | None) -> Ints | None:
    if usual is None or usual.step is None or usual.time is None or one.time is None:
        return None
    at = np.searchsorted(usual.time, one.time, "right") - 1
    reached: Ints = usual.step[at.clip(min=0)]
    return reached
