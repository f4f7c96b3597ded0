"""The door of all detector tests: curves in, findings out.

`fires("loss-spike", curve)` takes one curve (it becomes train/loss at steps 1, 2, 3 …) or a mapping from canonical
metric to values or (steps, values); "step_time@3" is rank 3 of step_time. Extra words are thresholds of the detector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainlens import plugins
from trainlens.diagnosis import Explained, Finding, NotApplicable, NotEnoughData
from trainlens.model import (
    NO_RANK,
    Attempt,
    Better,
    Event,
    Fact,
    Metric,
    Role,
    Run,
    Series,
    Value,
)

Curve = Any  # values, or a pair (steps, values)
START = 1_700_000_000.0

_ABOUT: dict[str, tuple[Role, Better]] = {
    "train/loss": ("loss", "lower"),
    "eval/loss": ("eval-loss", "lower"),
    "policy/loss": ("policy-loss", "none"),
    "train/perplexity": ("perplexity", "lower"),
    "eval/perplexity": ("perplexity", "lower"),
    "train/accuracy": ("score", "higher"),
    "eval/accuracy": ("score", "higher"),
    "reward": ("reward", "higher"),
    "grad_norm": ("grad-norm", "none"),
    "lr": ("learning-rate", "none"),
    "loss_scale": ("loss-scale", "none"),
    "skipped_steps": ("skipped", "none"),
    "clipped": ("clipped", "none"),
    "step_time": ("step-time", "lower"),
    "data_time": ("duration", "lower"),
    "comm_time": ("duration", "lower"),
    "tokens_per_second": ("throughput", "higher"),
    "samples_per_second": ("throughput", "higher"),
    "tflops": ("throughput", "higher"),
    "mfu": ("utilization", "higher"),
    "gpu/utilization": ("utilization", "higher"),
    "comm_share": ("utilization", "lower"),
    "gpu/memory_used": ("memory", "none"),
    "gpu/memory_total": ("memory", "none"),
    "gpu/memory_share": ("memory", "none"),
    "gpu/power": ("power", "none"),
    "gpu/temperature": ("temperature", "none"),
    "update_ratio": ("update-ratio", "none"),
    "epoch": ("counter", "none"),
    "response_length": ("counter", "none"),
    "tokens": ("counter", "none"),
}
_BY_FOLDER: dict[str, tuple[Role, Better]] = {
    "act_mean": ("activation", "none"),
    "act_std": ("activation", "none"),
    "expert_load": ("expert-load", "none"),
    "lr": ("learning-rate", "none"),
    "bench": ("score", "higher"),
}


def run_of(
    curves: Curve | Mapping[str, Curve],
    *,
    facts: Mapping[str, Value] | None = None,
    events: Sequence[Event] = (),
    attempts: Sequence[Attempt] = (),
    times: Mapping[str, Sequence[float]] | None = None,
    about: Mapping[str, tuple[Role, Better]] | None = None,
    positional: bool = False,
    ongoing: bool = False,
) -> Run:
    """A Run from arrays. `times` gives Unix seconds by metric; `about` tells role and direction of other metrics."""
    given = curves if isinstance(curves, Mapping) else {"train/loss": curves}
    series = []
    for name, curve in given.items():
        metric, _, rank = name.partition("@")
        steps, values = _pair(curve)
        order = np.argsort(steps, kind="stable")
        clock = np.asarray(times[name], float) if times and name in times else np.full(len(steps), np.nan)
        role, better = {**_ABOUT, **(about or {})}.get(metric) or _BY_FOLDER.get(
            metric.split("/")[0], ("other", "none")
        )
        series.append(
            Series(
                metric=metric,
                tag=metric,
                about=Metric(name=metric, role=role, better=better),
                step=steps[order],
                raw=values[order],
                time=clock[order],
                rank=int(rank) if rank else NO_RANK,
                attempt=np.zeros(len(steps), np.int16),
                source=np.zeros(len(steps), np.int16),
                origin=np.arange(1, len(steps) + 1),
                positional=positional,
            )
        )
    return Run(
        name="run",
        path="run",
        series=tuple(series),
        events=tuple(events),
        facts=tuple(Fact(name, value) for name, value in (facts or {}).items()),
        attempts=tuple(attempts),
        ongoing=ongoing,
    )


def _pair(curve: Curve) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    if isinstance(curve, tuple):
        steps, values = curve
        return np.asarray(steps, np.int64), np.asarray(values, float)
    values = np.asarray(curve, float)
    return np.arange(1, len(values) + 1), values


def answer(detector: str, run: Run, **options: Any) -> Sequence[Finding | Explained] | NotApplicable | NotEnoughData:
    """What the detector says of a run, as the runner would ask it."""
    module = plugins.load("detectors", detector)
    found: Sequence[Finding | Explained] | NotApplicable | NotEnoughData = module.detect(run, module.Options(**options))
    return found


def findings(detector: str, curves: Curve | Mapping[str, Curve] | Run, **options: Any) -> list[Finding]:
    """The findings in full; none where the detector says that it cannot judge. Also holds them to the common form."""
    run = curves if isinstance(curves, Run) else run_of(curves)
    found = answer(detector, run, **options)
    if isinstance(found, NotApplicable | NotEnoughData):
        return []
    told = [one for one in found if isinstance(one, Finding)]
    for finding in told:
        assert finding.detector == detector
        assert len(finding.title) <= 60, finding.title
        assert len(finding.message) <= 200, finding.message
        assert finding.first_step is None or finding.last_step is None or finding.first_step <= finding.last_step
        assert all(not one.limit_name or one.limit_name.startswith(f"{detector}.") for one in finding.evidence)
    return told


def explained(detector: str, curves: Curve | Mapping[str, Curve] | Run, **options: Any) -> list[str]:
    """What the detector saw and did not flag."""
    found = answer(detector, curves if isinstance(curves, Run) else run_of(curves), **options)
    if isinstance(found, NotApplicable | NotEnoughData):
        return []
    return [one.message for one in found if isinstance(one, Explained)]


def fires(
    detector: str, curves: Curve | Mapping[str, Curve] | Run, **options: Any
) -> list[tuple[int | None, int | None, str]]:
    """(first step, last step, severity) of each finding."""
    return [(one.first_step, one.last_step, one.severity) for one in findings(detector, curves, **options)]


def falling(
    points: int = 1000, *, start: float = 8.0, end: float = 2.5, scatter: float = 0.012, seed: int = 0, tails: int = 0
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A healthy loss: a power law from start towards end; scatter is a share of it, normal or Student-t (`tails`)."""
    chance = np.random.default_rng(seed)
    noise = chance.standard_t(tails, points) if tails else chance.normal(size=points)
    steps = np.arange(points) / (0.004 * points)
    law = end + (start - end) * (steps + 1) ** -0.6
    return np.asarray(law * np.exp(scatter * noise))
