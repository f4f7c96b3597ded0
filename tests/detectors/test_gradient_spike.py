from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData

N = 1000
RNG = np.random.default_rng(11)
LOGS = 0.2 * RNG.normal(size=N)
NORM = np.exp(LOGS)
LOSS = np.linspace(3, 2, N) + 0.01 * RNG.normal(size=N)


def spiked(*at: int, factor: float = 50.0, norm: Any = NORM, loss: float = 0.0) -> Any:
    hit = np.isin(np.arange(1, N + 1), at)
    return {"grad_norm": np.where(hit, factor, 1.0) * norm, "train/loss": LOSS + loss * np.roll(hit, 3)}


@pytest.mark.parametrize(
    ("curves", "firsts", "severity"),
    [
        (spiked(500), [500], "warning"),
        (spiked(300, 500, 800), [300, 500, 800], "warning"),
        (spiked(500, factor=8.0), [500], "info"),
        (spiked(500, factor=8.0, loss=0.5), [500], "warning"),
        (spiked(500, 501, 502, 503), [500], "warning"),
        (spiked(950, norm=NORM * np.geomspace(10, 1, N)), [950], "warning"),
    ],
)
def test_fires(curves: Any, firsts: list[int], severity: str) -> None:
    found = findings("gradient-spike", curves)
    assert [one.first_step for one in found] == firsts
    assert {one.severity for one in found} == {severity}


OVERFLOW = NORM.copy()
OVERFLOW[[100, 300, 700]] = np.inf
QUIET = {
    "steady": {"grad_norm": NORM},
    "three times": spiked(500, factor=2.5),
    "heavy tails": {"grad_norm": np.exp(0.4 * RNG.standard_t(4, N))},
    "wide scatter": {"grad_norm": np.exp(0.9 * RNG.normal(size=N))},
    "falls at the start": {"grad_norm": NORM * (1 + 200 * np.exp(-np.arange(N) / 10))},
    "first step": spiked(1),
    "lasting": {"grad_norm": NORM * np.where(np.arange(N) > 500, 20, 1)},
    "infinite": {"grad_norm": OVERFLOW},
    "rises slowly": {"grad_norm": NORM * np.geomspace(1, 100, N)},
    "downwards": spiked(500, factor=0.01),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("gradient-spike", QUIET[case]) == []


def test_long_series_have_the_same_findings() -> None:
    norm = np.exp(0.2 * np.random.default_rng(12).normal(size=60_000))
    norm[40_000] *= 60
    assert [found.first_step for found in findings("gradient-spike", {"grad_norm": norm})] == [40_001]


def test_needs_points() -> None:
    assert isinstance(answer("gradient-spike", run_of({"grad_norm": np.ones(7)})), NotEnoughData)


@pytest.mark.parametrize("seed", range(4))
def test_peaks_that_the_run_has_all_along_are_its_scatter(seed: int) -> None:
    chance = np.random.default_rng(seed)
    norm = np.exp(0.1 * chance.normal(size=4000))
    norm[chance.integers(0, 4000, 160)] *= chance.uniform(4, 9, 160)
    assert fires("gradient-spike", {"grad_norm": norm}) == []


NOISE = np.exp(0.2 * np.random.default_rng(11).normal(size=300))


@pytest.mark.parametrize(("first", "told"), [((313_480.0,), 1), ((9e4, 2e3, 900.0), 3), ((40.0, 20.0), 0), ((), 0)])
def test_a_first_norm_of_another_size_is_worth_a_line(first: tuple[float, ...], told: int) -> None:
    norms = NOISE.copy()
    norms[: len(first)] = first
    found = [one for one in findings("gradient-spike", {"grad_norm": norms}) if one.title.startswith("First")]
    assert [(one.severity, one.first_step, one.last_step) for one in found] == [("info", 1, told)] * bool(told)
    later = {"grad_norm": (np.arange(5000, 5300), norms)}
    assert not any(one.title.startswith("First") for one in findings("gradient-spike", later))
