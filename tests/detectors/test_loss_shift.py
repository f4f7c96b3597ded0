"""An upward step of the level is a shift; downward steps, spikes, slopes and lawful changes are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import Curve, answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Attempt, Floats


def shifted(size: float, at: int = 600, points: int = 1000) -> Floats:
    loss = falling(points)
    loss[at:] += size
    return loss


@pytest.mark.parametrize(("size", "at"), [(0.3, 600), (0.5, 400), (0.25, 800), (0.4, 250)])
def test_a_shift_is_found_at_its_step(size: float, at: int) -> None:
    ((first, last, severity),) = fires("loss-shift", shifted(size, at))
    assert severity == "warning"
    assert last == 1000
    assert first is not None
    assert abs(first - at) <= 12


@pytest.mark.parametrize(("scatter", "at"), [(0.05, 600), (0.05, 900), (0.08, 900)])
def test_a_shift_that_is_learned_away_again_is_found_too(scatter: float, at: int) -> None:
    steps = np.arange(3000)
    loss = (2 + 6 * (steps / 100 + 1) ** -0.5) * np.exp(scatter * np.random.default_rng(0).normal(size=3000))
    loss[at:] *= 1 + 0.25 * np.exp(-np.arange(3000 - at) / 900)
    ((first, _, severity),) = fires("loss-shift", loss)
    assert severity == "warning"
    assert first is not None
    assert abs(first - at) <= 20


def epochs() -> Floats:
    return np.concatenate([level + 0.03 * np.random.default_rng(4).normal(size=200) for level in (1.1, 0.72, 0.41)])


def towards_zero(seed: int, points: int = 600) -> Floats:
    """A classifier that learns all by heart: level and scatter fall together, by e^12."""
    scatter = 0.4 * np.random.default_rng(seed).normal(size=points)
    return 2.3 * np.exp(scatter - 12 * np.arange(points) / points)


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(seed=seed) for seed in range(4)],
        *[towards_zero(seed) for seed in range(8)],
        *[falling(3000, scatter=0.1, tails=5, seed=seed) for seed in range(4)],
        shifted(0.03),
        shifted(-0.5),
        epochs(),
        falling() * np.r_[np.ones(990), np.full(10, 1.4)],
        falling() * np.r_[np.ones(500), np.full(6, 3.0), np.ones(494)],
        falling() * np.r_[np.ones(800), np.linspace(1, 2.5, 200)],
        np.full(300, 1.0),
        falling(60),
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_no_shift_without_a_lasting_step_up(loss: Floats) -> None:
    assert fires("loss-shift", loss) == []


def test_a_lawful_change_makes_it_info() -> None:
    length = np.r_[np.full(600, 512.0), np.full(400, 2048.0)]
    (found,) = findings("loss-shift", {"train/loss": shifted(0.3), "sequence_length": length})
    assert found.severity == "info"
    assert "sequence length" in found.message
    restarted = run_of(shifted(0.3), attempts=(Attempt(1, 600), Attempt(601, 1000)))
    assert [one[2] for one in fires("loss-shift", restarted)] == ["info"]


def alone(held_out: list[float], points: int = 15, high: int = 2) -> dict[str, Curve]:
    """A training loss that jumps at its last points, with the same number of evaluations."""
    loss = 2.8 + 0.5 / np.arange(1, points + 1)
    loss[-high:] *= 1.7
    return {"train/loss": loss, "eval/loss": np.r_[2.85 + 0.2 / np.arange(1, points - high + 1), held_out]}


@pytest.mark.parametrize(("points", "high"), [(15, 2), (15, 4), (400, 40)])
def test_a_rise_that_the_held_out_loss_does_not_follow_is_of_the_measure(points: int, high: int) -> None:
    curves = alone([2.6] * high, points, high)
    (found,) = findings("loss-shift", curves)
    assert found.severity == "warning"
    assert "the measure changed" in found.message
    assert fires("loss-spike", curves) == fires("loss-divergence", curves) == []


@pytest.mark.parametrize("held_out", [[3.4, 3.4], [2.6, 4.1], []])
def test_a_rise_that_the_held_out_loss_follows_is_not(held_out: list[float]) -> None:
    curves = alone(held_out)
    assert isinstance(answer("loss-shift", run_of(curves)), NotEnoughData)
    assert [one[2] for one in fires("loss-divergence", curves)] == ["error"]


def test_a_slow_ramp_of_the_batch_size_explains_no_single_jump() -> None:
    ramp = np.linspace(100, 1000, 1000)
    assert [one[2] for one in fires("loss-shift", {"train/loss": shifted(0.3), "batch_size": ramp})] == ["warning"]


def test_held_out_and_policy_losses_are_not_judged() -> None:
    assert isinstance(answer("loss-shift", run_of({"policy/loss": shifted(1.0)})), NotApplicable)
    assert isinstance(answer("loss-shift", run_of(falling(20))), NotEnoughData)


@pytest.mark.parametrize("option", ["size", "jump"])
def test_a_stricter_threshold_silences(option: str) -> None:
    assert fires("loss-shift", shifted(0.3), **{"size": 0.5, "jump": 0.5, option: 0.9}) == []
