from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(19).normal(size=N)


def mfu(level: Any, scatter: float = 0.01) -> dict[str, Any]:
    return {"mfu": level + scatter * NOISE}


@pytest.mark.parametrize(
    ("curves", "first", "last", "severity"),
    [
        (mfu(0.24), 11, N, "warning"),
        (mfu(0.12), 11, N, "error"),
        (mfu(np.where(STEP >= 300, 0.25, 0.45)), 300, N, "warning"),
        (mfu(np.where((STEP >= 300) & (STEP <= 350), 0.25, 0.45)), 300, 350, "warning"),
        (mfu(0.85), 11, N, "info"),
        (mfu(1.4), 11, N, "warning"),
    ],
)
def test_fires(curves: Any, first: int, last: int, severity: str) -> None:
    (found,) = findings("low-mfu", curves)
    assert found.severity == severity
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 3
    assert found.last_step is not None
    assert abs(found.last_step - last) <= 3


QUIET = {
    "good": mfu(0.42),
    "excellent": mfu(0.62),
    "just enough": mfu(0.33),
    "slow first steps": mfu(np.where(STEP <= 8, 0.02, 0.42)),
    "placeholder in the first steps": mfu(np.where(STEP <= 20, -1.0, 0.42)),
    "evaluations between": mfu(np.where(STEP % 20 == 0, 0.1, 0.42)),
    "a few steps": mfu(np.where((STEP >= 300) & (STEP <= 308), 0.1, 0.42)),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("low-mfu", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("low-mfu", run_of(mfu(-1.0, 0.0))), NotEnoughData)
