"""A lasting gap or a constant factor is told as info and never more; a small or falling gap is not told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats

STEPS = np.arange(50, 2001, 50)
TRAINING = falling(2000, start=4, end=1.2, scatter=0.002)


def curves(held_out: Floats, training: Floats = TRAINING) -> dict[str, Any]:
    return {"train/loss": training, "eval/loss": (STEPS, held_out)}


def test_a_growing_gap_is_info() -> None:
    held_out = TRAINING[STEPS - 1] + 0.4 * (1 - np.exp(-np.arange(40) / 8))
    (found,) = findings("train-eval-gap", curves(held_out))
    assert found.severity == "info"
    assert "above" in found.title


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_a_constant_factor_is_named(factor: float) -> None:
    (found,) = findings("train-eval-gap", curves(TRAINING[STEPS - 1] * factor))
    assert found.severity == "info"
    assert "constant factor" in found.message


@pytest.mark.parametrize(
    "held_out",
    [
        TRAINING[STEPS - 1],
        TRAINING[STEPS - 1] * 1.1,
        TRAINING[STEPS - 1] * 0.8,
        TRAINING[STEPS - 1] * np.linspace(2.0, 1.1, 40),
        np.r_[np.linspace(3, 1.6, 15), np.linspace(1.6, 2.6, 25)],
    ],
)
def test_quiet(held_out: Floats) -> None:
    assert fires("train-eval-gap", curves(held_out)) == []


def test_other_axes_and_few_evaluations_are_not_judged() -> None:
    other = {"train/loss": falling(1000), "eval/loss": (np.arange(10), np.linspace(3, 2, 10))}
    assert isinstance(answer("train-eval-gap", run_of(other)), NotApplicable)
    few = {"train/loss": falling(1000), "eval/loss": ([500, 1000], [3.0, 2.9])}
    assert isinstance(answer("train-eval-gap", run_of(few)), NotEnoughData)


def test_the_limits_are_settings() -> None:
    held_out = TRAINING[STEPS - 1] * 8
    assert fires("train-eval-gap", curves(held_out), factor=10.0, gap=10.0) == []
