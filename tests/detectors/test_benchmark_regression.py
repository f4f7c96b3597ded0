"""A score that is lost, a checkpoint that is bad at most tasks, guessing: told. Noise and single tasks: not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats

STEPS = np.arange(1, 21) * 1000


def rising(seed: int, low: float = 0.3, high: float = 0.5, error: float = 0.005, points: int = 20) -> Floats:
    chance = np.random.default_rng(seed)
    return np.asarray(low + (high - low) * np.linspace(0, 1, points) ** 0.5 + error * chance.normal(size=points))


def scores(*curves: Floats, error: float | None = 0.005, scale: float = 1.0) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for at, curve in enumerate(curves):
        told[f"bench/task{at}"] = (STEPS[: len(curve)], scale * curve)
        if error is not None:
            told[f"stderr/task{at}"] = (STEPS[: len(curve)], np.full(len(curve), scale * error))
    return told


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("error", [0.005, None])
def test_a_score_that_falls_and_stays_is_found(scale: float, error: float | None) -> None:
    fallen = rising(1)
    fallen[14:] -= 0.1
    ((first, last, severity),) = fires("benchmark-regression", scores(fallen, rising(2), error=error, scale=scale))
    assert (first, last, severity) == (15_000, 20_000, "warning")


def test_most_tasks_falling_for_good_is_an_error_and_one_finding() -> None:
    curves = [rising(seed) for seed in range(4)]
    for curve in curves:
        curve[12:] -= 0.1
    (found,) = findings("benchmark-regression", scores(*curves))
    assert found.severity == "error"
    assert "3 other tasks" in found.message
    assert found.ongoing


def test_a_checkpoint_bad_at_most_tasks_is_found_once() -> None:
    curves = [rising(seed) for seed in range(4)]
    for curve in curves[:3]:
        curve[10] -= 0.06
    (found,) = findings("benchmark-regression", scores(*curves))
    assert (found.first_step, found.last_step, found.severity) == (11_000, 11_000, "warning")
    assert found.title.startswith("Bad checkpoint at 11,000: 3 of 4")


def test_the_last_checkpoint_is_judged_when_most_tasks_fall() -> None:
    curves = [rising(seed) for seed in range(4)]
    for curve in curves:
        curve[-1] -= 0.08
    (found,) = findings("benchmark-regression", scores(*curves))
    assert found.first_step == 20_000
    assert found.ongoing


def test_perplexities_are_judged_the_other_way_round() -> None:
    worse = np.exp(3.5 - 1.2 * np.linspace(0, 1, 20) ** 0.5)
    worse[14:] *= 1.6
    run = run_of({"bench/lambada/ppl": (STEPS, worse)}, about={"bench/lambada/ppl": ("score", "lower")})
    ((first, _, severity),) = fires("benchmark-regression", run)
    assert (first, severity) == (15_000, "warning")


def test_guessing_at_every_checkpoint_is_info() -> None:
    chance = 0.25 + 0.004 * np.random.default_rng(3).normal(size=20)
    curves = {"bench/mmlu": (STEPS, chance), "stderr/mmlu": (STEPS, np.full(20, 0.01))}
    (found,) = findings("benchmark-regression", curves)
    assert found.severity == "info"
    assert "guessing" in found.title


def test_results_of_one_model_that_disagree() -> None:
    curves: dict[str, Any] = {}
    for at in range(3):
        curves[f"bench/task{at}"] = [0.8, 0.33]
        curves[f"stderr/task{at}"] = [0.005, 0.005]
    (found,) = findings("benchmark-regression", run_of(curves, positional=True))
    assert (found.severity, found.first_step) == ("warning", None)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("error", [0.005, None])
def test_rising_noisy_and_flat_scores_are_silent(seed: int, error: float | None) -> None:
    curves = [rising(10 * seed + at, high=0.3 + 0.05 * at, error=0.005) for at in range(5)]
    assert fires("benchmark-regression", scores(*curves, error=error)) == []


def test_one_task_that_moves_alone_at_one_checkpoint_is_silent() -> None:
    curves = [rising(seed) for seed in range(4)]
    curves[0][10] -= 0.1
    assert fires("benchmark-regression", scores(*curves)) == []


def test_the_first_checkpoints_of_a_training_are_lawfully_low() -> None:
    curves = [0.25 + 0.3 * (1 - np.exp(-STEPS / 3000)) for _ in range(4)]
    assert fires("benchmark-regression", scores(*curves)) == []


def test_too_little_is_said_to_be_too_little() -> None:
    assert isinstance(answer("benchmark-regression", run_of(scores(rising(1)[:3], error=None))), NotEnoughData)
    assert isinstance(answer("benchmark-regression", run_of({"eval/accuracy": [0.1] * 9})), NotApplicable)
