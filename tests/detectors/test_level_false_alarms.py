"""Healthy runs, simulated over lengths and noises, raise no more than 0.02 warnings a run and kind of level fault."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import findings
from trainlens.model import Floats

RUNS = 60
MOST = 0.02  # warnings or errors for each healthy run: one in 60


def scattered(random: np.random.Generator, n: int, kind: str) -> Floats:
    """n points of noise of about unit size: normal, heavy-tailed, correlated a little or much."""
    if kind == "heavy":
        return np.asarray(random.standard_t(4, n) / 2**0.5)
    noise = random.normal(size=n)
    memory = {"correlated": 0.6, "wandering": 0.9}.get(kind, 0.0)
    for at in range(1, n if memory else 0):
        noise[at] = memory * noise[at - 1] + (1 - memory**2) ** 0.5 * noise[at]
    return np.asarray(noise)


def law(random: np.random.Generator, x: Floats) -> Floats:
    floor, height, power = random.uniform(0.3, 2.5), random.uniform(2, 8), random.uniform(0.3, 0.8)
    return np.asarray(floor + height * (1 + x / random.uniform(0.01, 0.1)) ** -power)


def alarms(detector: str, curves: object) -> int:
    return sum(one.severity != "info" for one in findings(detector, curves))


@pytest.mark.parametrize("noise", ["normal", "heavy", "correlated", "wandering"])
@pytest.mark.parametrize("detector", ["loss-plateau", "flat-loss", "loss-shift", "loss-oscillation"])
def test_training_losses(detector: str, noise: str) -> None:
    random = np.random.default_rng(1)
    told = 0
    for _ in range(RUNS):
        n = int(random.choice([100, 300, 1000]))
        loss = law(random, np.linspace(0, 1, n)) * np.exp(
            random.choice([0.005, 0.02, 0.05]) * scattered(random, n, noise)
        )
        told += alarms(detector, {"train/loss": loss, "lr": np.full(n, 3e-4)})
    assert told <= MOST * RUNS


@pytest.mark.parametrize("evaluations", [6, 10, 30])
@pytest.mark.parametrize("converged", [False, True])
@pytest.mark.parametrize("detector", ["overfitting", "eval-shift"])
def test_held_out_losses(detector: str, converged: bool, evaluations: int) -> None:
    random = np.random.default_rng(2)
    told = 0
    for _ in range(RUNS):
        steps = np.arange(30, 30 * evaluations + 1, 30)
        train = law(random, np.linspace(0, 1, 30 * evaluations))
        held_out = 1.03 * (np.maximum(train, train[len(train) // 2]) if converged else train)[steps - 1]
        held_out = held_out * np.exp(random.choice([0.001, 0.004, 0.02]) * random.normal(size=evaluations))
        curves = {"train/loss": train * np.exp(0.02 * random.normal(size=len(train))), "eval/loss": (steps, held_out)}
        told += alarms(detector, curves)
    assert told <= MOST * RUNS


@pytest.mark.parametrize("noise", ["normal", "heavy", "correlated"])
def test_rewards_that_rise_and_saturate(noise: str) -> None:
    random = np.random.default_rng(3)
    told = 0
    for _ in range(RUNS):
        n = int(random.choice([60, 200, 800]))
        gained = random.uniform(0.5, 5) * (1 - np.exp(-np.linspace(0, random.uniform(1, 8), n)))
        told += alarms(
            "reward-collapse", {"reward": gained + random.choice([0.1, 0.4, 1]) * scattered(random, n, noise)}
        )
    assert told <= MOST * RUNS
