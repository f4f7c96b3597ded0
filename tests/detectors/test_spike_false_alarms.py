"""Healthy runs, simulated over lengths and noises, raise no more than 0.02 warnings a run and kind of early fault."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import findings
from trainlens.model import Floats

RUNS = {200: 50, 1000: 50, 10_000: 50, 100_000: 2, 1_000_000: 1}
MOST = 0.02  # warnings or errors for each healthy run: one in 50
CORRELATED = {"ar 0.8": 0.8, "ar 0.95": 0.95, "ar 0.99": 0.99}


def scattered(chance: np.random.Generator, n: int, kind: str) -> Floats:
    """n points of noise of unit size: normal, skewed upwards, or correlated from point to point."""
    if kind == "gamma":
        return np.asarray((chance.gamma(4, size=n) - 4) / 2)
    if kind not in CORRELATED:
        return chance.normal(size=n)
    keep = CORRELATED[kind]
    kernel = (1 - keep**2) ** 0.5 * keep ** np.arange(round(6 / (1 - keep)))
    size = n + 2 * len(kernel)
    spectrum = np.fft.rfft(chance.normal(size=size)) * np.fft.rfft(kernel, size)
    return np.asarray(np.fft.irfft(spectrum, size)[len(kernel) : len(kernel) + n])


def law(chance: np.random.Generator, n: int) -> Floats:
    floor, height, power = chance.uniform(0.3, 2.5), chance.uniform(2, 8), chance.uniform(0.3, 0.8)
    return np.asarray(floor + height * (1 + np.linspace(0, 1, n) / chance.uniform(0.01, 0.1)) ** -power)


@pytest.mark.parametrize("points", RUNS)
@pytest.mark.parametrize("noise", ["normal", "gamma", *CORRELATED])
def test_losses(noise: str, points: int) -> None:
    told = 0
    for seed in range(RUNS[points]):
        chance = np.random.default_rng([seed, points])
        loss = law(chance, points) * np.exp(
            chance.choice([0.005, 0.02, 0.06, 0.15, 0.25]) * scattered(chance, points, noise)
        )
        told += any(one.severity != "info" for one in findings("loss-spike", np.round(loss, 3)))
    assert told <= MOST * RUNS[points]


@pytest.mark.parametrize("points", RUNS)
@pytest.mark.parametrize("noise", ["normal", "gamma", *CORRELATED])
@pytest.mark.parametrize("detector", ["gradient-spike", "gradient-explosion"])
def test_gradient_norms(detector: str, noise: str, points: int) -> None:
    told = 0
    for seed in range(RUNS[points]):
        chance = np.random.default_rng([seed, points])
        norm = chance.uniform(0.1, 2) * (1 + 3 * (1 + np.linspace(0, 100, points)) ** -0.7)
        norm = norm * np.exp(chance.choice([0.1, 0.2, 0.3]) * scattered(chance, points, noise))
        told += any(one.severity != "info" for one in findings(detector, {"grad_norm": norm}))
    assert told <= MOST * RUNS[points]


@pytest.mark.parametrize("noise", ["normal", "gamma", *CORRELATED])
def test_and_spikes_of_such_runs_are_found(noise: str) -> None:
    found = {"loss-spike": 0, "gradient-spike": 0}
    for seed in range(20):
        chance = np.random.default_rng([seed, 7])
        leap = np.zeros(1000)
        at = int(chance.integers(200, 950))
        leap[at:] = np.exp(-np.arange(1000 - at) / 4)
        loss = law(chance, 1000) * np.exp(0.02 * scattered(chance, 1000, noise)) * (1 + 0.4 * leap)
        norm = np.exp(0.2 * scattered(chance, 1000, noise)) * (1 + 30 * leap)
        for detector, curves in (("loss-spike", loss), ("gradient-spike", {"grad_norm": norm})):
            told = [one for one in findings(detector, curves) if one.severity != "info"]
            found[detector] += any(one.first_step is not None and abs(one.first_step - at - 1) <= 5 for one in told)
    assert min(found.values()) >= 19
