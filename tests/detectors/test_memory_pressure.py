from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(22).normal(size=N)
GIB = 2.0**30


def share(level: Any) -> dict[str, Any]:
    return {"gpu/memory_share": level + 0.002 * NOISE}


@pytest.mark.parametrize(
    ("curves", "first", "severity"),
    [
        (share(0.94), 11, "warning"),
        (share(0.995), 11, "error"),
        (share(np.where(STEP >= 300, 0.94, 0.7)), 300, "warning"),
        ({"gpu/memory_used": 76 * GIB + GIB * 0.1 * NOISE, "gpu/memory_total": np.full(N, 80 * GIB)}, 11, "warning"),
    ],
)
def test_fires(curves: Any, first: int, severity: str) -> None:
    (found,) = findings("memory-pressure", curves)
    assert found.severity == severity
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 3
    assert found.ongoing


@pytest.mark.parametrize(
    "curves",
    [
        share(0.8),
        share(0.88),
        share(np.where(STEP % 50 == 0, 0.97, 0.8)),
        share(np.where((STEP >= 300) & (STEP <= 308), 0.97, 0.8)),
        share(np.linspace(0.6, 0.85, N)),
        {"gpu/memory_used": np.full(N, 40 * GIB), "gpu/memory_total": np.full(N, 80 * GIB)},
    ],
)
def test_quiet(curves: Any) -> None:
    assert findings("memory-pressure", curves) == []


def test_needs_points() -> None:
    assert isinstance(answer("memory-pressure", run_of({"gpu/memory_share": np.ones(12)})), NotEnoughData)
