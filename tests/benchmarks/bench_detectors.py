"""Speed of the loss detectors: 20 metrics of 50,000 points within a second of CPU, one of a million in 0.6 s.

Run with `pytest -m benchmark tests/benchmarks/bench_detectors.py`.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.detectors.door import answer, run_of
from trainlens.model import Floats, Run

LOSS_DETECTORS = (
    "eval-shift",
    "flat-loss",
    "loss-divergence",
    "loss-floor",
    "loss-oscillation",
    "loss-plateau",
    "loss-shift",
    "loss-spike",
    "non-finite-value",
    "overfitting",
    "stale-metric",
    "train-eval-gap",
)
OTHERS = ("lr", "grad_norm", "step_time", "tokens_per_second", "mfu", "gpu/utilization", "gpu/power", "clipped")


def power_law(n: int, seed: int) -> Floats:
    noise = np.random.default_rng(seed).normal(0, 0.012, n)
    return np.asarray((3.0 + 7.9 * (np.arange(n) / (0.004 * n) + 1) ** -0.6) * np.exp(noise))


def run_with(points: int) -> Run:
    """Twenty metrics: the training loss, three parts of it, eight other roles and eight activations."""
    parts = {f"loss/part{i}": power_law(points, i) for i in range(3)}
    others = {name: np.random.default_rng(7).uniform(0.4, 0.6, points) for name in OTHERS}
    layers = {f"act_std/layer{i}": np.random.default_rng(i).uniform(0.9, 1.1, points) for i in range(8)}
    about = dict.fromkeys(parts, ("loss", "lower"))
    return run_of({"train/loss": power_law(points, 11), **parts, **others, **layers}, about=about)  # type: ignore[arg-type]


def cpu_seconds(run: Run, detectors: tuple[str, ...]) -> float:
    begin = time.process_time()
    for name in detectors:
        answer(name, run)
    return time.process_time() - begin


@pytest.mark.benchmark
def test_twenty_metrics_of_fifty_thousand_points_take_a_second() -> None:
    cpu_seconds(run_with(2_000), LOSS_DETECTORS)  # imports
    assert cpu_seconds(run_with(50_000), LOSS_DETECTORS) < 1.0


@pytest.mark.benchmark
def test_spikes_among_a_million_points_take_little_more_than_reading_them() -> None:
    run = run_of(power_law(1_000_000, 3))
    cpu_seconds(run_of(power_law(2_000, 3)), ("loss-spike",))
    assert cpu_seconds(run, ("loss-spike",)) < 0.6
