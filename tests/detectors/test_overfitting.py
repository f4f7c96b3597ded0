"""Held-out loss up while training goes on is overfitting; noise, few evaluations, jumps and other axes are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats

STEPS = np.arange(50, 2001, 50)  # 40 evaluations


def turned(end: float, best: int = 15, scatter: float = 0.002, low: float = 2.0, seed: int = 0) -> Floats:
    """Held-out loss falling to `low` at evaluation `best`, rising to `end` times that."""
    path = np.r_[np.linspace(3, low, best + 1), np.linspace(low, low * end, 40 - best)[1:]]
    return np.asarray(path * (1 + scatter * np.random.default_rng(seed).normal(size=40)))


def with_training(held_out: Any, training: Any = None) -> dict[str, Any]:
    return {"train/loss": falling(2000, end=1.0) if training is None else training, "eval/loss": (STEPS, held_out)}


@pytest.mark.parametrize(
    ("end", "severity"),
    [(1.5, "error"), (1.25, "error"), (1.1, "warning"), (1.06, "warning"), (1.03, "warning"), (1.015, "info")],
)
def test_severity_follows_the_rise(end: float, severity: str) -> None:
    ((first, last, told),) = fires("overfitting", with_training(turned(end)))
    assert told == severity
    assert first is not None
    assert abs(first - STEPS[15]) <= 100
    assert last == 2000


def test_a_straight_rise_without_any_noise_is_found() -> None:
    held_out = np.r_[np.linspace(1.07, 0.92, 4), np.linspace(0.92, 1.45, 13)[1:]]
    curves = {"train/loss": falling(1600, end=0.3), "eval/loss": (np.arange(100, 1601, 100), held_out)}
    assert fires("overfitting", curves) == [(400, 1600, "error")]


def test_the_best_checkpoint_and_the_numbers_are_told() -> None:
    (found,) = findings("overfitting", with_training(turned(1.3)))
    assert "step 800" in found.actions[0] or "step 750" in found.actions[0]
    assert found.evidence[0].limit_name == "overfitting.loss"
    assert found.ongoing


def test_the_best_may_be_the_first_evaluation() -> None:
    assert fires("overfitting", with_training(np.linspace(1.1, 2.7, 40)))[0][0] == 50


def test_several_held_out_sets_make_one_finding() -> None:
    curves = {**with_training(turned(1.3)), "eval_books": (STEPS, turned(1.4, seed=2))}
    (found,) = findings("overfitting", run_of(curves, about={"eval_books": ("eval-loss", "lower")}))
    assert found.metric == "eval/loss"
    assert any(one.metric == "eval_books" for one in found.evidence)


def jumped() -> Floats:
    return np.asarray(np.r_[np.linspace(3, 2, 20), np.linspace(2.5, 2.3, 20)])


@pytest.mark.parametrize(
    ("held_out", "training"),
    [
        (np.linspace(3, 2, 40), None),
        (falling(40, end=2.0), None),
        (turned(1.005), None),
        (turned(1.05, scatter=0.08), None),
        (turned(1.0, scatter=0.1), None),
        (jumped(), None),
        (turned(1.3, best=37), None),
        (falling(40, end=2.0) + 1.5, None),
        (falling(40, end=2.0) - 1.0, None),
        (turned(1.5), falling(2000) * np.r_[np.ones(800), np.linspace(1, 2, 1200)]),
        (-turned(1.3), None),
        (np.full(40, 2.0), None),
    ],
)
def test_quiet(held_out: Floats, training: Floats | None) -> None:
    assert fires("overfitting", with_training(held_out, training)) == []


@pytest.mark.parametrize(
    "curves",
    [
        {
            "train/loss": falling(1000),
            "eval/loss": (np.arange(10), np.r_[np.linspace(1, 0.9, 4), np.linspace(0.95, 2, 6)]),
        },
        {"eval/loss": turned(1.5)},
        {"train/loss": falling(1000)},
        {"train/loss": falling(1000), "eval/accuracy": turned(1.5)},
    ],
    ids=["another axis", "no training", "no evaluation", "a score"],
)
def test_what_cannot_be_compared_is_not_judged(curves: dict[str, Any]) -> None:
    assert isinstance(answer("overfitting", run_of(curves)), NotApplicable)


def test_logs_without_steps_are_not_lined_up_by_position() -> None:
    assert isinstance(answer("overfitting", run_of(with_training(turned(1.5)), positional=True)), NotApplicable)


def test_three_evaluations_are_not_enough() -> None:
    curves = {"train/loss": falling(300), "eval/loss": ([100, 200, 300], [0.812, 0.790, 0.793])}
    assert isinstance(answer("overfitting", run_of(curves)), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("mild", 0.9), ("steadiness", 0.9999)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    assert fires("overfitting", with_training(turned(1.3, scatter=0.02)), **{option: value}) == []


def test_a_few_evaluations_that_are_all_worse_are_info() -> None:
    held_out = [3.0, 2.6, 2.4, 2.2, 2.1, 2.0, 2.05, 2.055, 2.05, 2.052, 2.055, 2.051]
    curves = {"train/loss": falling(1200, end=0.5), "eval/loss": (np.arange(100, 1201, 100), held_out)}
    assert [one[2] for one in fires("overfitting", curves)] in ([], ["info"])


def test_few_evaluations_in_order_are_held_against_the_very_best() -> None:
    held_out = [3.024, 2.356, 2.3755, 2.3805, 2.3817, 2.3899, 2.3939]
    curves = {"train/loss": falling(700, end=1.9), "eval/loss": (np.arange(100, 701, 100), held_out)}
    assert fires("overfitting", curves) == [(200, 700, "info")]


def staircase(falls: float, within: float = 0.0, epochs: int = 3, scatter: float = 0.05) -> dict[str, Any]:
    """300 rows an epoch; the loss falls by `falls` from one to the next, by `within` inside each but the first."""
    level = np.concatenate(
        [np.linspace(1, 1 - within, 300) * ((1 - falls) * (1 - within)) ** at for at in range(epochs)]
    )
    noise = 1 + scatter * np.random.default_rng(3).normal(size=300 * epochs)
    return {"train/loss": level * noise, "epoch": np.arange(1, 300 * epochs + 1) / 300}


@pytest.mark.parametrize(("falls", "epochs"), [(0.35, 3), (0.1, 2), (0.15, 5)])
def test_a_loss_that_falls_with_each_repetition_is_told_where_nothing_evaluates_it(falls: float, epochs: int) -> None:
    (found,) = findings("overfitting", staircase(falls, epochs=epochs))
    assert (found.severity, found.first_step) == ("info", 300)


@pytest.mark.parametrize(
    "curves",
    [
        staircase(0.02),
        staircase(0.0, within=0.2),
        staircase(0.1, within=0.2),
        staircase(0.2, epochs=1),
        {**staircase(0.35), "lr": np.repeat([1e-3, 1e-4, 1e-5], 300)},
        {"train/loss": staircase(0.35)["train/loss"]},
        {**staircase(0.35), "train/loss": -staircase(0.35)["train/loss"]},
    ],
    ids=["small", "smooth", "falls within", "one epoch", "rate steps down", "no epochs", "below zero"],
)
def test_other_falls_are_not_called_remembered(curves: dict[str, Any]) -> None:
    answered = answer("overfitting", run_of(curves))
    assert isinstance(answered, NotApplicable)


def test_evaluations_that_fall_answer_the_question() -> None:
    curves = {**staircase(0.35), "eval/loss": (np.arange(90, 901, 90), np.linspace(2, 1.5, 10))}
    assert findings("overfitting", curves) == []
