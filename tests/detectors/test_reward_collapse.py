"""A reward that loses what it had gained is told; rewards that rise, saturate, wander or never rose are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Floats


def rising(points: int = 500, noise: float = 0.1, seed: int = 0) -> Floats:
    time = np.linspace(0, 1, points)
    return np.asarray(1 - np.exp(-5 * time) + noise * np.random.default_rng(seed).normal(size=points))


@pytest.mark.parametrize("points", [100, 500, 5000])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e3, -5e3), (1e-3, 1.0)])
def test_a_fall_to_the_start_that_stays_is_an_error(points: int, scale: float, offset: float) -> None:
    reward = rising(points)
    reward[round(0.7 * points) :] -= 0.9
    ((first, last, severity),) = fires("reward-collapse", {"reward": scale * reward + offset})
    assert severity == "error"
    assert first is not None
    assert abs(first - 0.7 * points) < 0.06 * points
    assert last == points


def test_one_that_is_learned_again_is_a_warning() -> None:
    reward = rising()
    reward[250:330] -= 0.8
    (found,) = findings("reward-collapse", {"reward": reward})
    assert (found.severity, found.ongoing) == ("warning", False)
    assert "recovered" in found.message


def test_half_of_the_gain_is_info() -> None:
    reward = rising()
    reward[250:330] -= 0.45
    assert [one[2] for one in fires("reward-collapse", {"reward": reward})] == ["info"]


@pytest.mark.parametrize("points", [60, 300, 3000])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.05, 0.4])
def test_healthy_rewards_are_silent(points: int, seed: int, noise: float) -> None:
    assert fires("reward-collapse", {"reward": rising(points, noise, seed)}) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_reward_that_never_rose_has_nothing_to_lose(seed: int) -> None:
    assert fires("reward-collapse", {"reward": np.random.default_rng(seed).normal(size=400)}) == []


def test_single_low_rewards_are_silent() -> None:
    reward = rising()
    reward[[200, 300, 301, 400]] = -1.0
    assert fires("reward-collapse", {"reward": reward}) == []


def test_few_points_say_nothing() -> None:
    assert isinstance(answer("reward-collapse", run_of({"reward": [1.0, 0.0, 1.0]})), NotEnoughData)
