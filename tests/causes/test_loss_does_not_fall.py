"""R-G1: why a loss does not fall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.door import told, verdicts
from tests.detectors.door import run_of

N = 400


def found(curves: dict[str, Any], facts: dict[str, Any] | None = None) -> dict[str, str]:
    run = run_of({"train/loss": np.full(N, 4.2), **curves}, facts=facts)
    return verdicts("flat-loss", run, 100, N)


@pytest.mark.parametrize(
    ("lr", "expected"),
    [
        (np.zeros(N), "supported"),
        (np.full(N, 1e-8), "supported"),
        (np.r_[np.full(80, 3e-4), np.full(N - 80, 1e-6)], "supported"),
        (np.full(N, 3e-4), "ruled-out"),
        (np.linspace(3e-4, 1e-4, N), "ruled-out"),
        (([1, 50], [1e-9, 1e-9]), "not-measured"),  # not logged while it lay flat
    ],
)
def test_learning_rate(lr: Any, expected: str) -> None:
    assert found({"lr": lr})["Learning rate too small"] == expected


@pytest.mark.parametrize(
    ("first", "vocabulary", "expected"),
    [(40.0, 50_257, "supported"), (10.9, 50_257, "ruled-out"), (10.9, 65, "supported"), (4.2, None, "not-measured")],
)
def test_initialisation(first: float, vocabulary: int | None, expected: str) -> None:
    facts = {} if vocabulary is None else {"model.vocab_size": vocabulary}
    assert found({"train/loss": np.r_[first, np.full(N - 1, 4.2)]}, facts)["Bad initialisation"] == expected


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (np.full(N, 2e-5), "supported"),
        (np.r_[np.full(50, 3.0), np.full(N - 50, 0.01)], "supported"),
        (np.full(N, 0.4), "ruled-out"),
        (np.r_[np.full(50, 3.0), np.full(N - 50, 0.4)], "ruled-out"),
    ],
)
def test_vanishing_gradients(norm: Any, expected: str) -> None:
    assert found({"grad_norm": norm})["Vanishing gradients"] == expected


def test_gradients_of_a_solved_task_have_not_vanished() -> None:
    curves = {
        "train/loss": np.r_[np.full(50, 10.0), np.full(N - 50, 0.005)],
        "grad_norm": np.r_[np.full(50, 3.0), np.full(N - 50, 0.01)],
    }
    assert found(curves)["Vanishing gradients"] == "ruled-out"


def test_dead_activations() -> None:
    alive = {f"act_std/layer{at}": np.full(N, 0.8) for at in range(4)}
    assert found(alive)["Dead activations"] == "ruled-out"
    assert found({**alive, "act_std/layer2": np.full(N, 1e-5)})["Dead activations"] == "supported"


def test_nothing_logged_but_the_loss() -> None:
    assert set(found({}).values()) == {"not-measured"}


def test_the_remedy_begins_with_a_verb_and_names_the_numbers() -> None:
    run = run_of({"train/loss": np.full(N, 4.2), "lr": np.full(N, 1e-8)})
    verdict = told("loss-plateau", run, 100, N)["Learning rate too small"]
    assert verdict.message.startswith("lr is 1e-8 in it")
    assert verdict.remedy.startswith("Raise")
