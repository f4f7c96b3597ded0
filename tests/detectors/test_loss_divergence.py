"""A loss that leaves its best level for good diverges; one that wobbles, steps or is held out does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats


def diverging(factor: float = 2.5, points: int = 1000, at: int = 800) -> Floats:
    loss = falling(points)
    loss[at:] *= np.linspace(1, factor, points - at)
    return loss


def exploding(points: int = 1000) -> Floats:
    loss = falling(points)
    loss[-20:-8] *= np.geomspace(1.5, 20, 12)
    loss[-8:] = np.nan
    return loss


def crept(rise: float, points: int = 1000, at: int = 600) -> Floats:
    """Little of the progress since the start is lost, and in the end it rises no more."""
    path = 2.8 + 7.2 / (1 + np.arange(points) / 5)
    loss = np.asarray(path * (1 + 0.02 * np.random.default_rng(4).normal(size=points)))
    loss[at:] *= 1 + rise * (1 - np.exp(-np.arange(points - at) / 50))
    return loss


RISES = [
    (crept(0.6), 600, 40),
    (diverging(), 800, 60),
    (diverging(1.3), 800, 80),
    (np.r_[falling(600), np.full(400, 9.0)], 601, 12),
    (exploding(), 981, 5),
    (np.array([12.5, 12.5, 40.75, 39.0]), 3, 0),
    (np.r_[-0.5 - 7.5 * np.linspace(0, 1, 300), -8 + 4 * np.linspace(0, 1, 40), np.full(60, -4.0)], 301, 20),
]


@pytest.mark.parametrize(
    ("loss", "onset", "slack"), RISES, ids=lambda it: len(it) if isinstance(it, np.ndarray) else ""
)
def test_a_divergence_runs_from_its_onset_to_the_end(loss: Floats, onset: int, slack: int) -> None:
    ((first, last, severity),) = fires("loss-divergence", loss)
    assert severity == "error"
    assert last == len(loss)
    assert first is not None
    assert abs(first - onset) <= slack


def wave(amplitude: float, period: float) -> Floats:
    return np.asarray(falling(1000) + amplitude * np.sin(np.arange(1000) * 2 * np.pi / period))


def spike_at(at: int) -> Floats:
    loss = falling(1000)
    loss[at:] *= 1 + 1.5 * np.exp(-np.arange(1000 - at) / 20)
    return loss


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(seed=seed) for seed in range(4)],
        *[falling(3000, scatter=0.1, tails=5, seed=seed) for seed in range(4)],
        wave(0.25, 44.0),
        wave(0.2, 370.0),
        spike_at(500),
        falling() * 1.0 + np.r_[np.zeros(700), np.full(300, 0.05)],
        np.full(300, 2.0),
        np.r_[np.full(40, 10.8), falling(500, start=10.8)],
        np.r_[falling(500), falling(500) * 0.8],
        np.array([3.0, 3.1, 3.4, 3.2]),
        np.array([5.0, 4.0, 3.0, 9.0, 3.0, 2.5]),
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_healthy_and_recovered_losses_do_not_diverge(loss: Floats) -> None:
    assert fires("loss-divergence", loss) == []


def score(points: int = 100, drop: float = 0.02, at: int = 60) -> Floats:
    rising = 0.45 * np.linspace(0, 1, at) + 0.01 * np.random.default_rng(1).normal(size=at)
    return np.asarray(
        np.r_[rising, np.full(points - at, drop) + 0.005 * np.random.default_rng(2).normal(size=points - at)]
    )


def test_a_score_collapses_downward() -> None:
    (found,) = findings("loss-divergence", {"reward": score()})
    assert found.title.startswith("Collapse")
    assert found.metric == "reward"
    assert "fell" in found.message


@pytest.mark.parametrize("drop", [0.44, 0.36, 0.5])
def test_a_score_may_give_back_a_part(drop: float) -> None:
    assert fires("loss-divergence", {"reward": score(drop=drop)}) == []


def test_a_noisy_reward_that_comes_back_is_no_collapse() -> None:
    chance = np.random.default_rng(3)
    reward = np.interp(np.arange(480), [0, 110, 150, 220, 280, 480], [-0.5, 3.9, 2.2, 4.2, 3.1, 4.5])
    assert fires("loss-divergence", {"reward": reward + chance.normal(0, 0.6, 480)}) == []


def test_a_held_out_loss_is_left_to_overfitting_when_training_is_logged() -> None:
    rising: dict[str, Any] = {
        "eval/loss": (np.arange(10, 1001, 10), np.r_[np.linspace(3, 2, 50), np.linspace(2, 4, 50)])
    }
    assert fires("loss-divergence", {"train/loss": falling(), **rising}) == []
    assert len(fires("loss-divergence", rising)) == 1


def test_parts_diverge_with_their_sum() -> None:
    run = run_of({"train/loss": diverging(), "reward": score(1000, at=800)})
    (found,) = findings("loss-divergence", run)
    assert found.metric == "train/loss"
    assert any(one.metric == "reward" for one in found.evidence)


def test_policy_losses_and_too_few_points_are_not_judged() -> None:
    assert isinstance(answer("loss-divergence", run_of({"policy/loss": diverging()})), NotApplicable)
    assert isinstance(answer("loss-divergence", run_of(np.array([3.0, 9.0]))), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("size", 3.0), ("errors", 1e4)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    assert fires("loss-divergence", diverging(1.5), **{option: value}) == []
