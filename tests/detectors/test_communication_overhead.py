from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(21).normal(size=N)


def share(level: Any) -> dict[str, Any]:
    return {"comm_share": level + 0.01 * NOISE}


def timed(level: Any) -> dict[str, Any]:
    whole = 2.0 + 0.02 * NOISE
    return {"comm_time": whole * level, "step_time": whole}


@pytest.mark.parametrize(
    ("curves", "first", "severity"),
    [
        (share(0.31), 11, "warning"),
        (share(0.62), 11, "error"),
        (share(np.where(STEP >= 300, 0.28, 0.12)), 300, "warning"),
        (timed(0.3), 11, "warning"),
    ],
)
def test_fires(curves: Any, first: int, severity: str) -> None:
    (found,) = findings("communication-overhead", curves)
    assert found.severity == severity
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 3
    assert found.evidence[0].limit == 0.2


@pytest.mark.parametrize(
    "curves",
    [
        share(0.12),
        share(0.17),
        share(np.where(STEP <= 10, 0.9, 0.12)),
        share(np.where(STEP % 25 == 0, 0.7, 0.12)),
        timed(0.1),
        share(np.where((STEP >= 300) & (STEP <= 308), 0.5, 0.12)),
    ],
)
def test_quiet(curves: Any) -> None:
    assert findings("communication-overhead", curves) == []


def test_needs_points() -> None:
    assert isinstance(answer("communication-overhead", run_of({"comm_share": np.ones(12)})), NotEnoughData)
