"""A loss that never fell, or froze with a dead gradient; slow, resumed, reinforced and moving losses are not flat."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats

NAN = np.nan


def flat(points: int = 300, level: float = 10.4, slope: float = 0.0, seed: int = 0) -> Floats:
    noise = 0.02 * np.random.default_rng(seed).normal(size=points)
    return np.asarray(level + noise - slope * np.arange(points) / points)


@pytest.mark.parametrize("loss", [flat(), flat(level=2.3), flat(60), flat(slope=0.05), flat(5000, seed=3)])
def test_a_loss_that_never_fell_is_a_warning(loss: Floats) -> None:
    assert fires("flat-loss", loss) == [(1, len(loss), "warning")]


def test_the_level_of_guessing_is_named() -> None:
    run = run_of(flat(level=math.log(32_000)), facts={"vocab_size": 32_000})
    (found,) = findings("flat-loss", run)
    assert "guessing" in found.message
    assert "guessing" not in findings("flat-loss", run_of(flat(level=5.0), facts={"vocab_size": 32_000}))[0].message


def test_no_rate_at_all_makes_it_an_error() -> None:
    assert fires("flat-loss", {"train/loss": flat(), "lr": np.full(300, 1e-4)})[0][2] == "warning"
    assert fires("flat-loss", {"train/loss": flat(), "lr": np.zeros(300)})[0][2] == "error"
    assert fires("flat-loss", {"train/loss": flat(), "grad_norm": np.zeros(300)})[0][2] == "error"


@pytest.mark.parametrize(
    ("loss", "norms", "first"),
    [
        (np.r_[NAN, np.full(14, 10.40111)], np.r_[NAN, np.zeros(14)], 2),
        (np.r_[4.1, np.zeros(30)], np.full(31, NAN), 2),
        (np.r_[falling(200), np.full(50, 7.25)], np.r_[np.full(200, 0.4), np.zeros(50)], 201),
    ],
)
def test_a_frozen_loss_with_a_dead_gradient_is_an_error(loss: Floats, norms: Floats, first: int) -> None:
    assert fires("flat-loss", {"train/loss": loss, "grad_norm": norms}) == [(first, len(loss), "error")]


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(seed=seed) for seed in range(3)],
        flat(slope=0.6),
        np.r_[flat(150, level=10.8), falling(300, start=10.8)],
        falling() * np.r_[np.ones(500), np.linspace(1, 4, 500)],
        np.r_[falling(150), falling(150)[::-1]],
        np.random.default_rng(1).normal(0, 0.02, 300),
        np.full(40, 2.0),
        0.7 * np.exp(-np.arange(500) / 45) + 1e-5,
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_quiet(loss: Floats) -> None:
    assert fires("flat-loss", loss) == []


def test_a_resumed_run_may_be_flat() -> None:
    steps = np.arange(14_001, 15_550)
    assert fires("flat-loss", (steps, flat(len(steps), level=2.4))) == []


def test_an_equal_loss_with_living_gradients_is_not_dead() -> None:
    loss = np.r_[falling(200), np.full(50, 2.4)]
    assert fires("flat-loss", {"train/loss": loss, "grad_norm": np.full(250, 0.4)}) == []


def test_policies_and_few_points() -> None:
    assert isinstance(answer("flat-loss", run_of({"policy/loss": flat()})), NotApplicable)
    assert isinstance(answer("flat-loss", run_of(flat(30))), NotEnoughData)


def test_a_stricter_threshold_silences() -> None:
    assert fires("flat-loss", flat(slope=0.1)) != []
    assert fires("flat-loss", flat(slope=0.1), fall=0.0001) == []


IDLE = np.where(np.isin(np.arange(90), (8, 20, 41, 77)), -44.0, -48.0)


def test_a_reward_that_stands_at_its_lowest_is_told() -> None:
    (found,) = findings("flat-loss", {"reward": IDLE})
    assert (found.severity, found.first_step, found.last_step) == ("info", 1, 90)
    assert "exactly -48, its lowest, at 86 of 90 points" in found.message


@pytest.mark.parametrize(
    "reward",
    [
        -IDLE,
        IDLE[:30],
        np.r_[np.full(45, -48.0), np.linspace(-48, 0, 45)],
        np.where(np.arange(90) % 3 == 0, -40.0, -48.0),
        np.random.default_rng(1).normal(size=90),
        np.minimum(1.0, np.linspace(0, 8, 90)),
    ],
    ids=["at its highest", "few", "then learns", "a third above", "noise", "reaches its highest"],
)
def test_other_rewards_are_quiet(reward: Floats) -> None:
    assert findings("flat-loss", {"reward": reward}) == []
