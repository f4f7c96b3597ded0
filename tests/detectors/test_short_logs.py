"""Logs of 8 to 59 rows: what nobody would overlook is found, and noise of any kind stays silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import START, answer, run_of
from trainlens import plugins
from trainlens.diagnosis import Finding
from trainlens.model import Run

LENGTHS = (10, 16, 25, 39, 59)
Curves = dict[str, Any]


def healthy(n: int, seed: int = 1) -> Curves:
    chance, step = np.random.default_rng(seed), np.arange(n)
    return {
        "train/loss": (2 + 3 * (step / (0.05 * n) + 1) ** -0.7) * np.exp(0.02 * chance.normal(size=n)),
        "grad_norm": np.exp(0.15 * chance.normal(size=n)),
        "lr": 1.5e-4 * (1 + np.cos(np.pi * step / n)),
        "step_time": 0.5 * np.exp(0.02 * chance.normal(size=n)),
        "eval/accuracy": 0.8 - 0.5 * np.exp(-step / (0.2 * n)),
        "gpu/utilization": 0.95 + 0.01 * chance.normal(size=n),
        "mfu": 0.45 + 0.01 * chance.normal(size=n),
    }


def late(change: Callable[[Any, Any], Any], metric: str) -> Callable[[int], Curves]:
    """Changes the last third of a metric: `change` gets its values and the number of each row since then, from 0."""

    def curves(n: int) -> Curves:
        found = healthy(n)
        since = np.arange(n) - 2 * n // 3
        found[metric] = np.where(since >= 0, change(found[metric], since), found[metric])
        return found

    return curves


def once(factor: float, metric: str) -> Callable[[int], Curves]:
    return late(lambda value, since: np.where(since == 0, factor * value, value), metric)


FAULTS: dict[str, tuple[str, Callable[[int], Curves], int]] = {
    "the loss is no number": ("non-finite-value", once(np.nan, "train/loss"), 10),
    "the loss leaps": ("loss-spike", once(4.0, "train/loss"), 10),
    "the loss leaps by a half": ("loss-spike", once(1.5, "train/loss"), 16),
    "the loss explodes": ("loss-divergence", late(lambda value, since: value * 1.5 ** (since + 1), "train/loss"), 10),
    "the gradient explodes": ("gradient-explosion", late(lambda value, _: 300 * value, "grad_norm"), 10),
    "the gradient rises": ("gradient-explosion", late(lambda value, _: 30 * value, "grad_norm"), 10),
    "the gradient leaps": ("gradient-spike", once(30.0, "grad_norm"), 10),
    "the gradient is gone": ("gradient-vanishing", late(lambda value, _: 1e-6 * value, "grad_norm"), 10),
    "the rate is tenfold": ("learning-rate-jump", late(lambda value, _: 10 * value, "lr"), 10),
    "the rate is zero": ("learning-rate-jump", late(lambda value, _: 0 * value, "lr"), 10),
    "steps take twice as long": ("slowdown", late(lambda value, _: 2 * value, "step_time"), 10),
    "one step takes long": ("slow-step", once(20.0, "step_time"), 16),
    "the score falls": ("loss-divergence", late(lambda value, _: 0.3 + 0 * value, "eval/accuracy"), 16),
    "the GPU idles": ("low-gpu-utilization", lambda n: {**healthy(n), "gpu/utilization": np.full(n, 0.3)}, 10),
    "little is computed": ("low-mfu", lambda n: {**healthy(n), "mfu": np.full(n, 0.1)}, 10),
    "memory leaks": ("memory-growth", lambda n: {**healthy(n), "gpu/memory_used": np.linspace(20e9, 70e9, n)}, 25),
    "the loss scale collapses": (
        "loss-scale-collapse", lambda n: {"loss_scale": 65536 * 0.5 ** np.maximum(0, np.arange(n) - 2 * n // 3)}, 16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_nobody_would_overlook(fault: str, length: int) -> None:
    detector, curves, least = FAULTS[fault]
    if length >= least:
        found = answer(detector, run_of(curves(length)))
        assert [one for one in found if isinstance(one, Finding)]  # type: ignore[union-attr]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_run_that_stood_still_for_an_hour(length: int) -> None:
    clock = START + np.cumsum(np.where(np.arange(length) == length // 2, 3600.0, 10.0))
    found = answer("hang", run_of(healthy(length), times={"train/loss": clock.tolist()}))
    assert [one.severity for one in found if isinstance(one, Finding)] == ["warning"]  # type: ignore[union-attr]


def noise(kind: str, chance: np.random.Generator, n: int) -> Any:
    if kind == "heavy-tailed":
        return chance.standard_t(3, n) / 3**0.5
    drawn = chance.exponential(size=n) - 1 if kind == "skewed" else chance.normal(size=n)
    for at in range(1, n if kind == "correlated" else 0):
        drawn[at] = 0.8 * drawn[at - 1] + 0.6 * drawn[at]
    return drawn


def drawn_run(kind: str, chance: np.random.Generator, n: int) -> Run:
    """A healthy run with scatter of all sizes: learning slow or fast, gradients that settle or do not."""
    step, scatter = np.arange(n), float(chance.choice([0.003, 0.01, 0.03, 0.1]))
    pace, power, floor = chance.choice([0.02, 0.1, 0.3]), chance.uniform(0.3, 1), chance.choice([0.1, 1, 2.5])
    law = floor + 3 * (step / (pace * n) + 1) ** -power
    settles = 1 + chance.choice([0, 5]) * np.exp(-step / (0.1 * n))

    def about(level: Any, share: float) -> Any:
        return level * np.exp(share * noise(kind, chance, n))

    curves = {
        "train/loss": about(law, scatter),
        "eval/loss": about(law + 0.2, scatter / 2),
        "eval/accuracy": np.clip(about(0.8 - 0.6 * np.exp(-step / (0.2 * n)), 0.03), 0, 1),
        "reward": 1 - np.exp(-step / (0.3 * n)) + 0.1 * noise(kind, chance, n),
        "grad_norm": about(settles, float(chance.choice([0.1, 0.2, 0.3]))),
        "step_time": about(0.5, float(chance.choice([0.005, 0.02, 0.1]))),
        "gpu/memory_used": about(4e10 * (1 - 0.3 * np.exp(-step / (0.1 * n))), 0.01),
        "gpu/utilization": np.clip(0.93 + 0.04 * noise(kind, chance, n), 0, 1),
        "mfu": about(0.42, 0.03),
        "lr": 1.5e-4 * (1 + np.cos(np.pi * step / n)),
    }
    return run_of(curves, times={"train/loss": (START + np.cumsum(about(10.0, 0.3))).tolist()})


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "skewed", "correlated"])
def test_noise_stays_silent(kind: str) -> None:
    chance = np.random.default_rng(6)
    runs = [drawn_run(kind, chance, int(n)) for n in chance.integers(6, 60, 100)]
    alarms: Counter[str] = Counter()
    for run in runs:
        for detector in plugins.names("detectors"):
            found = answer(detector, run)
            told = [one for one in found if isinstance(one, Finding)] if isinstance(found, list | tuple) else []
            alarms[detector] += any(one.severity != "info" for one in told)
    assert max(alarms.values()) <= 2, alarms  # in 100 runs
    assert alarms.total() <= 4, alarms


def odd(chance: np.random.Generator, n: int) -> Any:
    """Values that no formula likes: constants, zeros, NaN and infinities, counts, leaps of many powers of ten."""
    kinds = (
        np.zeros(n), np.full(n, 3.0), chance.normal(size=n), np.exp(20 * chance.normal(size=n)),
        np.where(chance.random(n) < 0.3, np.nan, chance.random(n)), np.full(n, np.nan),
        np.where(chance.random(n) < 0.2, np.inf, chance.random(n)), chance.integers(0, 3, n).astype(float),
        np.repeat([1.0, 1e-300], [n // 2, n - n // 2]), np.repeat([1.0, -1.0], [n // 2, n - n // 2]),
    )  # fmt: skip
    return kinds[int(chance.integers(len(kinds)))]


METRICS = (
    "train/loss", "eval/loss", "eval/accuracy", "reward", "kl", "grad_norm", "lr", "step_time", "tokens_per_second",
    "gpu/utilization", "gpu/memory_used", "mfu", "loss_scale", "skipped_steps", "clipped", "data_time",
)  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8, 9, 12, 20, 39, 40, 59, 60, 61])
def test_no_values_make_a_detector_fail(length: int) -> None:
    chance = np.random.default_rng(length)
    for _ in range(6):
        run = run_of({name: odd(chance, length) for name in chance.choice(METRICS, 8, replace=False)})
        for detector in plugins.names("detectors"):
            answer(detector, run)
