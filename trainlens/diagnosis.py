"""The nouns of the answer: findings, verdicts, and the diagnosis that every report is told from.

Plain values only, so that it pickles, and its JSON is the promise that tools outside the project read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainlens.model import Attempt, Better, Event, Fact, Note, Panel, Place, SourceReport

Severity = Literal["info", "warning", "error"]
Outcome = Literal["supported", "ruled-out", "not-measured"]
Status = Literal["found", "clean", "not-applicable", "not-enough-data", "failed"]
Family = Literal[
    "constant", "linear", "cosine", "polynomial", "warmup-stable-decay", "multi-step", "inverse-sqrt", "exponential",
    "one-cycle", "cyclic", "restarts", "warmup-only", "unknown",
]  # fmt: skip
State = Literal["finished", "running", "stopped", "unknown"]
Number = float | Literal["NaN", "Infinity", "-Infinity"] | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measurement that carries a finding or verdict, in the metric's unit."""

    text: str  # what the number is: "peak", "level before", "share of steps clipped"
    metric: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    observed: Number = None
    expected: Number = None
    limit: Number = None
    unit: str = ""
    limit_name: str = ""  # the option the limit is, e.g. "loss-spike.size"
    limit_origin: str = ""  # default, a settings file, a flag; filled by the analysis
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cause for one finding, tested on the run's own data."""

    cause: str  # a noun: "Learning rate too large"
    verdict: Outcome
    message: str  # the numbers that decide it, or what to log to know
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""  # begins with a verb; only told when supported


@dataclass(frozen=True, slots=True)
class Cost:
    """What an episode cost: wall time, and GPU time when the number of GPUs is known."""

    seconds: float | None = None
    gpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One episode of one ailment.

    A detector fills all but `id`, `part_of` and `causes`. `first_step` is None only where the log tells no step.
    `confidence` is a share, None where the log itself states the thing.
    """

    detector: str
    severity: Severity
    metric: str | None
    first_step: int | None
    last_step: int | None
    title: str  # ailment, step, outcome; at most 60 characters
    message: str  # one sentence with metric, from, to, steps, what became of it; at most 200 characters
    confidence: float | None = None
    rank: int | None = None
    first_time: float | None = None
    last_time: float | None = None
    ongoing: bool = False
    cost: Cost | None = None
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[str, ...] = ()
    causes: tuple[Verdict, ...] = ()
    part_of: str | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that someone looked at and accepted, and why. It changes no verdict."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Explained:
    """What a detector saw and did not flag, with the reason that it found in the run. It changes no verdict."""

    detector: str
    message: str  # "12 slow steps at checkpoints"
    first_step: int | None = None
    last_step: int | None = None
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """What a detector returns when its question cannot be asked of this run."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotEnoughData:
    """What a detector returns when the run has too little to answer: "12 points, 40 are needed"."""

    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    detector: str
    status: Status
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MetricReport:
    """A series in numbers, in its unit; of its finite values."""

    name: str
    raw: tuple[str, ...]
    unit: str
    better: Better
    panel: Panel
    rank: int | None
    points: int
    first_step: int | None
    last_step: int | None
    first: float | None
    last: float | None
    min: float | None
    max: float | None
    median: float | None
    non_finite: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A series thinned for drawing: block median as a line, smallest and largest value as a range.

    Where a block is one point, low = value = high. `of` is the id of the finding that a close-up belongs to, "" for the
    whole run. `gaps` are indices before which the curve is broken. `left_out` counts known slow steps not drawn.
    """

    metric: str
    rank: int | None
    unit: str
    panel: Panel
    step: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    time: tuple[float | None, ...] = ()
    non_finite: tuple[int, ...] = ()  # steps, at most 50
    gaps: tuple[int, ...] = ()
    of: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """How far the run came."""

    state: State
    last_step: int | None = None
    total_steps: int | None = None
    ranks: int | None = None
    gpus: int | None = None
    seconds: float | None = None  # wall time from first to last point, when the log has a clock


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning rate's schedule as its points show it. Rates are as logged; `error` is the misfit against the peak.

    `decay_begin`: the last step of a plateau; `held_from`: from where it stands at its lowest before the end of the
    log; `period`: steps of a cycle.
    """

    family: Family
    peak: float
    final: float
    warmup_steps: int = 0  # steps until the peak, 0 without a warmup
    error: float = 0.0
    decay_begin: int | None = None
    held_from: int | None = None
    period: int | None = None


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A figure that papers report of their runs, of this one. It changes no verdict."""

    name: str  # "spike score of the loss"
    value: float
    unit: str  # "share", "steps", "tokens", "s"
    metric: str
    about: str  # how it is counted
    source: str  # where it is defined, with its address


@dataclass(frozen=True, slots=True)
class RunDiagnosis:
    name: str
    path: str
    result: Result
    sources: tuple[SourceReport, ...] = ()
    metrics: tuple[MetricReport, ...] = ()
    facts: tuple[Fact, ...] = ()
    events: tuple[Event, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()  # in the order they are told; numbered 1, 2, 3 by reports
    curves: tuple[Curve, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[Note, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    schedule: Schedule | None = None  # of the learning rate, None where it is not logged or follows none that is known
    explained: tuple[Explained, ...] = ()  # what detectors saw and did not flag
    scores: tuple[PublishedScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    error: int
    warning: int
    info: int
    runs: int
    points: int
    seconds: float
    accepted: int = 0  # findings that someone accepted; the counts above are without them
    unmatched: tuple[str, ...] = ()  # entries of the file of accepted findings that no finding matches any more


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer; every report is a telling of it."""

    version: str
    summary: Summary
    runs: tuple[RunDiagnosis, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    unread: tuple[SourceReport, ...] = ()  # files that could not be read and belong to no run
