"""Responses that grow without reward are told; those that grow with it, or hardly, are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Floats

TIME = np.linspace(0, 1, 400)


def noisy(level: Floats, scatter: float = 0.05, seed: int = 0) -> Floats:
    return np.asarray(level * np.exp(scatter * np.random.default_rng(seed).normal(size=len(level))))


def run(length: Floats, reward: Floats | None) -> dict[str, Any]:
    return {"response_length": length} if reward is None else {"response_length": length, "reward": reward}


def exploded(times: float = 6.0) -> Floats:
    return noisy(200 * (1 + (times - 1) * np.clip((TIME - 0.5) / 0.3, 0, 1)))


def saturated() -> Floats:
    return np.asarray(np.minimum(TIME, 0.4) + 0.01 * np.random.default_rng(2).normal(size=400))


def test_length_without_reward_is_a_warning() -> None:
    ((first, last, severity),) = fires("length-explosion", run(exploded(), saturated()))
    assert (last, severity) == (400, "warning")
    assert first is not None
    assert 190 <= first <= 225


def test_without_a_reward_it_is_info() -> None:
    assert [one[2] for one in fires("length-explosion", run(exploded(), None))] == ["info"]


def test_the_stated_limit_is_told() -> None:
    told = findings("length-explosion", run_of(run(exploded(), saturated()), facts={"max_completion_length": 1200}))
    assert "the limit is 1,200" in told[0].message


@pytest.mark.parametrize("seed", range(8))
def test_length_with_reward_is_silent(seed: int) -> None:
    reward = TIME + 0.05 * np.random.default_rng(seed).normal(size=400)
    assert fires("length-explosion", run(noisy(200 * (1 + 5 * TIME), seed=seed), reward)) == []


@pytest.mark.parametrize("times", [0.3, 1.0, 1.7])
def test_little_growth_is_silent(times: float) -> None:
    assert fires("length-explosion", run(exploded(times), saturated())) == []


def test_a_hump_is_silent_and_few_points_say_nothing() -> None:
    hump = noisy(np.where((TIME > 0.4) & (TIME < 0.6), 1200.0, 200.0))
    assert fires("length-explosion", run(hump, saturated())) == []
    assert isinstance(answer("length-explosion", run_of({"response_length": [10.0, 50.0]})), NotEnoughData)
