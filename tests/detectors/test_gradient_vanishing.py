from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 600
NORM = np.exp(0.2 * np.random.default_rng(10).normal(size=N))
LEARNED = np.linspace(5, 2, N)
STUCK = 5 + 0.01 * np.sin(np.arange(N))


def lowered(first: int, last: int, factor: float) -> Any:
    step = np.arange(1, N + 1)
    return {"grad_norm": np.where((step >= first) & (step <= last), factor, 1.0) * NORM}


@pytest.mark.parametrize(
    ("curves", "first", "last", "severity"),
    [
        (lowered(300, N, 1e-5), 300, N, "error"),
        (lowered(300, 400, 1e-4), 300, 400, "error"),
        (lowered(300, N, 0.0), 300, N, "error"),
        ({**lowered(1, N, 1e-5), "train/loss": STUCK}, 13, N, "error"),
        ({**lowered(1, N, 1e-5), "train/loss": LEARNED}, 13, N, "warning"),
        ({**lowered(1, N, 0.0), "train/loss": LEARNED}, 13, N, "info"),
    ],
)
def test_fires(curves: Any, first: int, last: int, severity: str) -> None:
    (found,) = findings("gradient-vanishing", curves)
    assert (found.first_step, found.last_step, found.severity) == (first, last, severity)
    assert found.ongoing == (last == N)


QUIET = {
    "steady": {"grad_norm": NORM},
    "small": {"grad_norm": 0.01 * NORM},
    "a few steps": lowered(300, 305, 0.0),
    "single zeros": {"grad_norm": np.where(np.arange(N) % 50 == 0, 0.0, NORM)},
    "falls slowly below": {"grad_norm": np.geomspace(5e-3, 8e-4, N)},
    "explodes": lowered(300, N, 1e4),
    "not a number": lowered(300, N, np.nan),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("gradient-vanishing", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("gradient-vanishing", run_of({"grad_norm": np.zeros(20)})), NotEnoughData)
