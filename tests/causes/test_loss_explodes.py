"""R-G2: learning rate, samples, gradients, overflow and hardware, each decided by the run's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.door import events, told, verdicts
from tests.detectors.door import run_of

N, AT = 1_000, 600


def curves(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    made: dict[str, Any] = {
        "train/loss": 2 + rng.normal(0, 0.02, N),
        "grad_norm": 0.5 + rng.normal(0, 0.03, N),
        "lr": np.full(N, 3e-4),
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def bumped(first: int, height: float) -> np.ndarray[Any, Any]:
    norm = 0.5 + np.random.default_rng(2).normal(0, 0.03, N)
    norm[first - 1 : first + 9] = height
    return norm


def rate(low: float, high: float, at: int) -> np.ndarray[Any, Any]:
    return np.where(np.arange(1, N + 1) < at, low, high)


@pytest.mark.parametrize(
    ("lr", "expected"),
    [
        (rate(3e-4, 6e-4, AT - 3) - rate(0.0, 3e-4, AT + 20), "supported"),  # leapt just before, and came down again
        (rate(3e-4, 6e-4, AT - 3), "ruled-out"),  # leapt just before, and was carried for long after
        (np.linspace(1e-6, 1e-3, N), "ruled-out"),  # rising: never so high before, but long after
        (np.interp(np.arange(N), [0, AT + 10, N], [1e-6, 1e-3, 1e-4]), "supported"),  # at its peak, never again
        (rate(0.0, 3e-4, AT - 10), "ruled-out"),
        (np.full(N, 3e-4), "ruled-out"),  # the same all along
        (np.linspace(1e-3, 1e-5, N), "ruled-out"),  # falling
        (rate(3e-4, 6e-4, 200), "ruled-out"),  # leapt long before
        (rate(3e-4, 6e-4, AT + 50), "ruled-out"),  # leapt after
        (np.zeros(N), "ruled-out"),
        (None, "not-measured"),
        (np.full(N, np.nan), "not-measured"),
    ],
)
def test_learning_rate(lr: Any, expected: str) -> None:
    assert verdicts("loss-spike", run_of(curves(lr=lr)), AT, AT + 10)["Learning rate too large"] == expected


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (bumped(AT - 6, 8.0), "supported"),
        (bumped(AT, 8.0), "supported"),
        (bumped(AT + 8, 8.0), "ruled-out"),  # only after the loss
        (bumped(100, 8.0), "ruled-out"),  # long before
        (bumped(AT - 40, 8.0), "ruled-out"),  # over before it began
        (bumped(AT - 6, 0.55), "ruled-out"),  # unusual, not large
        (bumped(AT - 6, 0.01), "ruled-out"),  # downward
        (np.full(N, 1.0), "ruled-out"),
        (None, "not-measured"),
        (([1, 2, 3], [0.5, 0.5, 0.5]), "not-measured"),
    ],
)
def test_gradient(norm: Any, expected: str) -> None:
    assert verdicts("loss-spike", run_of(curves(grad_norm=norm)), AT, AT + 10)["Gradient explosion"] == expected


def test_gradient_tells_when_and_how_much() -> None:
    run = run_of(curves(grad_norm=bumped(AT - 6, 8.0)), facts={"clip_grad": 1.0})
    verdict = told("loss-spike", run, AT, AT + 10)["Gradient explosion"]
    assert "at step 594, 6 steps before, and reached 8 (16" in verdict.message
    assert verdict.message.endswith("clipping at 1 was active.")
    assert verdict.remedy.startswith("Clip tighter than 1")
    assert verdict.evidence[0].observed == 8.0


@pytest.mark.parametrize(
    ("changes", "extra", "expected"),
    [
        ({"loss_scale": rate(65536.0, 1024.0, AT + 2)}, {}, "supported"),
        ({}, {"events": events("overflow", AT - 1, AT, AT + 1)}, "supported"),
        ({"grad_norm": bumped(AT - 12, np.inf)}, {}, "supported"),
        ({"loss_scale": np.full(N, 65536.0)}, {}, "ruled-out"),
        ({"loss_scale": rate(65536.0, 32768.0, AT)}, {}, "ruled-out"),  # one halving is how it searches
        ({"loss_scale": rate(65536.0, 1024.0, 100)}, {}, "ruled-out"),
        ({}, {"facts": {"params_dtype": "torch.bfloat16"}}, "ruled-out"),
        ({}, {"facts": {"bf16": True}}, "ruled-out"),
        ({}, {"events": events("overflow", 20, 30)}, "not-measured"),
        ({}, {}, "not-measured"),
    ],
)
def test_overflow(changes: dict[str, Any], extra: dict[str, Any], expected: str) -> None:
    run = run_of(curves(**changes), **extra)
    assert verdicts("loss-divergence", run, AT, N)["Numeric overflow"] == expected


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (events("xid", AT - 5), "supported"),
        (events("ecc", AT), "supported"),
        (events("xid", 20), "ruled-out"),
        (events("checkpoint-begin", AT), "ruled-out"),
        ([], "not-measured"),
    ],
)
def test_hardware(happened: list[Any], expected: str) -> None:
    assert verdicts("non-finite-value", run_of(curves(), events=happened), AT, AT)["Hardware fault"] == expected


def test_samples_are_never_proved_by_a_curve() -> None:
    run = run_of(curves(epoch=np.arange(N) // 300))
    verdict = told("loss-spike", run, AT + 2, AT + 9)["Bad samples"]
    assert verdict.verdict == "not-measured"
    assert "An epoch began at step 601, 1 step before" in verdict.message
    assert "epoch" not in told("loss-spike", run, AT - 50, AT - 40)["Bad samples"].message


def test_at_the_very_start_nothing_is_claimed_of_gradients() -> None:
    assert verdicts("loss-spike", run_of(curves()), 2, 4)["Gradient explosion"] == "not-measured"


def test_a_gradient_does_not_explain_itself() -> None:
    assert "Gradient explosion" not in verdicts("gradient-explosion", run_of(curves()), AT, AT + 10, "grad_norm")
