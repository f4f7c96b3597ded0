"""The nouns of trainlens: what parsers yield and what a run is.

The first part (`Place` to `Batch`) is what parsers yield, the second (`Metric` to `Run`) what detectors and causes see.
The nouns of the answer are in `diagnosis.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_RANK = -1

# ---- what parsers yield ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a log something stands: a line (from 1) in a text, a byte (from 0) in a binary file."""

    path: str
    line: int | None = None
    byte: int | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.path} line {self.line:,}"
        return f"{self.path} byte {self.byte:,}" if self.byte is not None else self.path


@dataclass(frozen=True, slots=True)
class Points:
    """A column batch: points of one tag, in the order the log has them.

    Arrays have one length n and may be shared between batches (a parser hands the same `step` to all tags of its rows);
    nobody writes into them. `step` is None where the log has no step numbers: the position becomes the step.
    `time` is Unix seconds with NaN for unknown, None when the log has no clock. `origin` is the line (from 1) or byte
    of each point. `run` names the run when one source holds several, "" otherwise. `unit` is what a log writes behind
    the values ("time 32.9ms": "ms"), where the tag itself does not say it.
    """

    tag: str
    step: Ints | None
    value: Floats
    time: Floats | None = None
    rank: int = NO_RANK
    origin: Ints | None = None
    run: str = ""
    unit: str = ""


# What an Event can be. Detectors and reports know these words; a parser uses no other.
EventKind = Literal[
    "run-start", "run-end", "restart", "rollback", "checkpoint-begin", "checkpoint-end", "checkpoint-load",
    "evaluation", "overflow", "loss-scale-floor", "nan-reported",
    "out-of-memory", "host-out-of-memory", "nccl-timeout", "nccl-error", "xid", "ecc", "gpu-lost", "pcie", "traceback",
    "worker-killed", "killed", "preemption", "time-limit", "disk-full", "segmentation-fault", "exit-code", "hang",
    "device-error", "node-failure", "machine-check", "link-down", "thermal", "no-step",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """Something a log says happened. `step` is the last step logged before it, when the line itself names none."""

    kind: EventKind
    text: str
    step: int | None = None
    time: float | None = None
    rank: int = NO_RANK
    place: Place | None = None
    run: str = ""


Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Fact:
    """One configuration value that the log states, with its name as written."""

    name: str
    value: Value
    place: Place | None = None
    run: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """What reading could not use or had to mend. One Note for a kind of fault in a file, with its count.

    Kinds: cut-off, damaged, checksum, not-understood, encoding, no-steps, duplicate-steps, clock, unreadable,
    no-points, steps, disagreement, replaced, repeated, placeholder, limit.
    """

    kind: str
    message: str
    line: int | None = None
    byte: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a parser may go on when the file has grown: a byte offset and what it must remember (plain values).

    `torn` in the state says that something was told of a last line without an end, number `line`, which is read again.
    Where `stands` has become another value by the next checkpoint, the earlier reading no longer holds.
    """

    offset: int
    state: Mapping[str, object] = field(default_factory=dict)


Batch = Points | Event | Fact | Note | Checkpoint

# ---- what detectors and causes see -------------------------------------------------------------------------------

Better = Literal["lower", "higher", "none"]
Role = Literal[
    "loss", "eval-loss", "policy-loss", "score", "reward", "perplexity", "grad-norm", "learning-rate", "loss-scale",
    "skipped", "clipped", "step-time", "throughput", "duration", "clock", "counter", "utilization", "memory", "power",
    "temperature", "throttle", "update-ratio", "activation", "expert-load", "other",
]  # fmt: skip
Panel = Literal["overview", "efficiency", "resources", "stability", "distributed", "capability", "other"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity the catalogue knows, or what could be told of an unknown one from its name alone."""

    name: str
    unit: str = ""
    better: Better = "none"
    role: Role = "other"
    panel: Panel = "other"
    scale: float = 1.0  # value in the unit above = scale × value as written


@dataclass(frozen=True)
class Series:
    """One tag of one run and rank, ordered by step, one point a step (later attempts win).

    `raw`, `step`, `time`, `attempt`, `source`, `origin` have one length. `value` is `raw` in the metric's own unit.
    `time` is Unix seconds, NaN unknown. `attempt` counts restarts from 0, `source` indexes `Run.sources`, `origin` is
    the line or byte (−1 unknown). `replaced` holds the points that a later attempt did again, None when there are none.
    """

    metric: str
    tag: str
    about: Metric
    step: Ints
    raw: Floats
    time: Floats
    rank: int = NO_RANK
    attempt: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    source: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    origin: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    replaced: Series | None = None
    positional: bool = False  # the log has no step numbers; `step` counts the points

    @cached_property
    def value(self) -> Floats:
        return self.raw if self.about.scale == 1.0 else self.raw * self.about.scale

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        return np.isfinite(self.raw)

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One stretch from a start or restart to the next: steps and times are those of the log, before stitching."""

    first_step: int
    last_step: int
    first_time: float | None = None
    last_time: float | None = None
    place: Place | None = None  # of its first point


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One file that was read, or could not be."""

    path: str
    format: str
    points: int = 0
    first_step: int | None = None
    last_step: int | None = None
    bytes: int = 0
    notes: tuple[Note, ...] = ()
    state: Literal["read", "not-read", "ignored"] = "read"
    reason: str = ""  # why not read, or why this parser was chosen
    tells_end: bool = False  # such a file would say how the run ended
    first_time: float | None = None  # Unix seconds, of the earliest and the latest point that has a time
    last_time: float | None = None


@dataclass(frozen=True)
class Run:
    """Everything one run wrote, ready to be judged."""

    name: str
    path: str
    series: tuple[Series, ...]
    sources: tuple[SourceReport, ...] = ()
    events: tuple[Event, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()  # of the whole run: stitching, disagreement between sources
    attempts: tuple[Attempt, ...] = ()
    ongoing: bool = False  # the files were written to moments before the reading
    baseline: Run | None = None  # the run that this one is held against

    def get(self, metric: str) -> Series | None:
        """The series of a canonical name; where ranks differ, of no rank, else of the lowest."""
        found = self._by_metric.get(metric)
        return found[0] if found else None

    def all(self, metric: str) -> tuple[Series, ...]:
        """All series of a canonical name, by rank: the one without a rank first."""
        return self._by_metric.get(metric, ())

    def with_role(self, role: Role) -> tuple[Series, ...]:
        """One series a metric of that role (as `get` chooses), in order of name; the catalogue's own metric first."""
        return self._by_role.get(role, ())

    def fact(self, *names: str) -> Fact | None:
        """The first stated fact of one of these names, whatever their case and punctuation; its last part will do."""
        for name in names:
            if found := self._by_fact.get(_plain(name)):
                return found
        return None

    @cached_property
    def _by_role(self) -> dict[str, tuple[Series, ...]]:
        found: dict[str, list[Series]] = {}
        for one, *_ in self._by_metric.values():
            found.setdefault(one.about.role, []).append(one)
        return {role: tuple(series) for role, series in found.items()}

    @cached_property
    def _by_fact(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        for fact in self.facts:
            found.setdefault(_plain(fact.name), fact)
        for fact in self.facts:
            found.setdefault(_plain(fact.name.rpartition(".")[2].rpartition("/")[2]), fact)
        return found

    @cached_property
    def _by_metric(self) -> dict[str, tuple[Series, ...]]:
        found: dict[str, list[Series]] = {}
        for series in sorted(
            self.series, key=lambda one: (one.metric != one.about.name, one.metric, one.rank, one.tag)
        ):
            found.setdefault(series.metric, []).append(series)
        return {name: tuple(group) for name, group in found.items()}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in "-_. ")
