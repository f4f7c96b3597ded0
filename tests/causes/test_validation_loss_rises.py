"""R-G3: overfitting, or validation data of another kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.door import verdicts
from tests.detectors.door import run_of

STEPS = np.arange(1, 1_001)
EVERY = np.arange(50, 1_001, 50)
FALLING = 3 - 2 * STEPS / 1_000
LEVEL = np.where(STEPS < 400, 3 - STEPS / 400, 2.0)


def found(train: Any, held_out: Any, epoch: Any = None) -> dict[str, str]:
    curves: dict[str, Any] = {"eval/loss": (EVERY, held_out)}
    if train is not None:
        curves["train/loss"] = train
    if epoch is not None:
        curves["epoch"] = epoch
    return verdicts("overfitting", run_of(curves), 500, 1_000, "eval/loss")


def beside(train: Any, gap: float = 0.02, rise: float = 0.002) -> Any:
    """A validation loss `gap` above the training loss that turns up after step 500."""
    return np.where(EVERY <= 500, train[EVERY - 1] + gap, train[499] + gap + rise * (EVERY - 500))


@pytest.mark.parametrize(("train", "expected"), [(FALLING, "supported"), (LEVEL, "ruled-out"), (None, "not-measured")])
def test_overfitting(train: Any, expected: str) -> None:
    assert found(train, beside(FALLING))["Overfitting"] == expected


@pytest.mark.parametrize(
    ("held_out", "expected"),
    [
        (beside(FALLING), "ruled-out"),
        (beside(FALLING, gap=1.0), "supported"),
        (np.where(EVERY < 700, FALLING[EVERY - 1], FALLING[EVERY - 1] + 2.0), "supported"),  # one leap
    ],
)
def test_distribution(held_out: Any, expected: str) -> None:
    assert found(FALLING, held_out)["Different distribution"] == expected


def test_too_few_evaluations_before_it() -> None:
    run = run_of({"train/loss": FALLING, "eval/loss": (EVERY, beside(FALLING, gap=1.0))})
    assert verdicts("overfitting", run, 50, 1_000, "eval/loss")["Different distribution"] == "not-measured"


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(STEPS / 100, "supported"), (STEPS / 2_000, "ruled-out"), (None, "not-measured")],
)
def test_repetition(epoch: Any, expected: str) -> None:
    assert found(FALLING, beside(FALLING), epoch)["Data seen repeatedly"] == expected
