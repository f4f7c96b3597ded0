"""The gradient's own explosion: the causes of an exploding loss, but for the gradient, which is what is to be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.door import events, verdicts
from tests.detectors.door import run_of

N, AT = 800, 500


def found(detector: str, rate: Any = None, said: Any = (), **curves: Any) -> dict[str, str]:
    norm = np.full(N, 0.5)
    norm[AT - 1 :] = 400.0
    given = {"grad_norm": norm, "lr": rate, **curves}
    run = run_of({name: value for name, value in given.items() if value is not None}, events=said)
    return verdicts(detector, run, AT, N, "grad_norm")


@pytest.mark.parametrize("detector", ["gradient-explosion", "gradient-spike"])
def test_the_gradient_does_not_explain_itself(detector: str) -> None:
    names = set(found(detector))
    assert names == {"Learning rate too large", "Bad samples", "Numeric overflow", "Hardware fault"}


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (np.where(np.arange(1, N + 1) < AT - 2, 1e-4, 1e-2), "supported"),
        (np.linspace(0, 1e-3, N), "supported"),
        (np.full(N, 1e-4), "ruled-out"),
        (np.linspace(1e-3, 0, N), "ruled-out"),
        (None, "not-measured"),
    ],
)
def test_learning_rate(rate: Any, expected: str) -> None:
    assert found("gradient-explosion", rate)["Learning rate too large"] == expected


def test_bad_samples_are_never_proven_from_a_curve() -> None:
    assert found("gradient-explosion", np.full(N, 1e-4))["Bad samples"] == "not-measured"


def test_a_hardware_fault_that_the_log_states() -> None:
    assert found("gradient-explosion", said=events("xid", AT - 3))["Hardware fault"] == "supported"


def test_overflow_needs_a_loss_scale() -> None:
    falling = np.where(np.arange(N) < AT - 10, 65536.0, 1.0)
    assert found("gradient-explosion")["Numeric overflow"] == "not-measured"
    assert found("gradient-explosion", loss_scale=falling)["Numeric overflow"] == "supported"
