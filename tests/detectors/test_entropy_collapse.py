"""Entropy that is gone while the reward stands is told; certainty that came with learning is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats

TIME = np.linspace(0, 1, 400)


def noisy(level: Floats, scatter: float = 0.03, seed: int = 0) -> Floats:
    return np.asarray(level + scatter * np.random.default_rng(seed).normal(size=len(level)))


def fallen(at: float = 0.3) -> Floats:
    return np.asarray(2.0 * np.where(at > TIME, 1.0, 0.02) * np.exp(0.05 * np.random.default_rng(1).normal(size=400)))


def run(entropy: Floats, reward: Floats | None) -> dict[str, Any]:
    return {"entropy": entropy} if reward is None else {"entropy": entropy, "reward": reward}


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_a_fall_while_the_reward_stands_is_a_warning(scale: float) -> None:
    reward = noisy(np.minimum(TIME, 0.3))
    ((first, last, severity),) = fires("entropy-collapse", run(scale * fallen(), 10 * reward - 3))
    assert (last, severity) == (400, "warning")
    assert first is not None
    assert 110 <= first <= 135


def test_without_a_reward_it_is_info() -> None:
    (found,) = findings("entropy-collapse", run(fallen(), None))
    assert found.severity == "info"
    assert found.evidence[0].limit_name == "entropy-collapse.share"


@pytest.mark.parametrize("seed", range(8))
def test_certainty_that_comes_with_reward_is_silent(seed: int) -> None:
    learned = 1 - np.exp(-4 * TIME)
    entropy = 2.0 * (1 - 0.99 * learned / learned[-1]) * np.exp(0.05 * np.random.default_rng(seed).normal(size=400))
    assert fires("entropy-collapse", run(entropy, noisy(learned, 0.05, seed))) == []


def test_a_reward_that_still_rises_is_silent() -> None:
    assert fires("entropy-collapse", run(fallen(), noisy(TIME))) == []


@pytest.mark.parametrize("left", [0.3, 0.5, 1.0])
def test_entropy_that_is_only_lower_is_silent(left: float) -> None:
    assert fires("entropy-collapse", run(2.0 - 2.0 * (1 - left) * TIME, noisy(0 * TIME))) == []


def test_one_that_comes_back_is_silent() -> None:
    entropy = fallen()
    entropy[300:] = 1.5
    assert fires("entropy-collapse", run(entropy, noisy(np.minimum(TIME, 0.3)))) == []


def test_entropies_below_zero_and_few_points_are_not_judged() -> None:
    assert isinstance(answer("entropy-collapse", run_of({"entropy": 1 - 3 * TIME})), NotApplicable)
    assert isinstance(answer("entropy-collapse", run_of({"entropy": [1.0, 0.0]})), NotEnoughData)
