"""Evaluations that chance moves more than training does are told with what would help; clear ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData

STEPS = np.arange(1, 41) * 50


def evaluations(noise: float, fall: float = 0.3, scale: float = 1.0, seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed).normal(size=40)
    level = 2.0 + fall * (1 - np.linspace(0, 1, 40) ** 0.5)
    return {"eval/loss": (STEPS, scale * level * (1 + noise * chance))}


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_noise_above_progress_is_info_with_advice(scale: float) -> None:
    (found,) = findings("eval-noise", evaluations(0.03, scale=scale))
    assert found.severity == "info"
    assert "cannot be ranked" in found.message


def test_noise_that_hides_all_progress_is_a_warning() -> None:
    (found,) = findings("eval-noise", evaluations(0.15, fall=0.01, seed=1))
    assert found.severity == "warning"


@pytest.mark.parametrize("seed", range(8))
def test_clear_evaluations_are_silent(seed: int) -> None:
    assert fires("eval-noise", evaluations(0.003, seed=seed)) == []


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_warning_while_the_loss_falls(seed: int) -> None:
    assert all(one[2] == "info" for one in fires("eval-noise", evaluations(0.06, fall=2.0, seed=seed)))


def test_a_sure_rise_can_be_ranked_and_is_another_ailment() -> None:
    rise = (STEPS, np.linspace(2, 3, 40) * (1 + 0.012 * np.random.default_rng(1).normal(size=40)))
    assert fires("eval-noise", {"eval/loss": rise}) == []


def test_accuracy_is_judged_too_and_one_set_told_once() -> None:
    noisy = 0.6 + 0.05 * np.random.default_rng(2).normal(size=40)
    curves = {**evaluations(0.05, fall=0.01), "eval/accuracy": (STEPS, noisy)}
    assert len(fires("eval-noise", curves)) == 1


def test_few_evaluations_say_nothing() -> None:
    assert isinstance(answer("eval-noise", run_of({"eval/loss": [2.0, 2.2, 1.9, 2.1]})), NotEnoughData)
