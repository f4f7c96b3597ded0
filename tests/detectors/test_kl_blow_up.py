"""A KL divergence that leaves its level or its target for long is told; growth from zero and single peaks are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Floats

TIME = np.linspace(0, 1, 500)


def growing(power: float = 0.5, scatter: float = 0.1, seed: int = 0) -> Floats:
    return np.asarray(TIME**power * np.exp(scatter * np.random.default_rng(seed).normal(size=500)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_a_blow_up_is_found_where_it_begins(scale: float) -> None:
    divergence = growing()
    divergence[350:] *= 15
    reward = np.minimum(TIME, 0.6) + 0.01 * np.random.default_rng(3).normal(size=500)
    ((first, last, severity),) = fires("kl-blow-up", {"kl": scale * divergence, "reward": reward})
    assert (last, severity) == (500, "warning")
    assert first is not None
    assert abs(first - 350) < 20


def test_with_a_falling_reward_it_is_an_error() -> None:
    divergence, reward = growing(), np.where(TIME < 0.7, TIME, 0.1)
    divergence[350:] *= 15
    (found,) = findings("kl-blow-up", {"kl": divergence, "reward": reward})
    assert found.severity == "error"


def test_with_a_rising_reward_or_none_it_is_info() -> None:
    divergence = growing()
    divergence[350:] *= 15
    assert [one[2] for one in fires("kl-blow-up", {"kl": divergence})] == ["info"]
    assert [one[2] for one in fires("kl-blow-up", {"kl": divergence, "reward": TIME})] == ["info"]


def test_a_stated_target_is_the_limit() -> None:
    run = run_of({"kl": 0.02 + 0.2 * (TIME > 0.5)}, facts={"target_kl": 0.03})
    (found,) = findings("kl-blow-up", run)
    assert found.evidence[0].limit_name == "kl-blow-up.above"
    assert fires("kl-blow-up", run_of({"kl": np.full(500, 0.06)}, facts={"target_kl": 0.03})) == []


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("scatter", [0.05, 0.3, 0.6])
def test_growth_from_zero_is_silent(power: float, scatter: float) -> None:
    assert fires("kl-blow-up", {"kl": growing(power, scatter)}) == []


@pytest.mark.parametrize("seed", range(6))
def test_single_peaks_are_silent(seed: int) -> None:
    divergence = growing(seed=seed)
    divergence[np.random.default_rng(seed).integers(60, 500, 6)] *= 50
    assert fires("kl-blow-up", {"kl": divergence}) == []


def test_estimates_around_zero_and_few_points_are_silent() -> None:
    assert fires("kl-blow-up", {"kl": 0.01 * np.random.default_rng(0).normal(size=500)}) == []
    assert isinstance(answer("kl-blow-up", run_of({"kl": [0.1, 0.2]})), NotEnoughData)
