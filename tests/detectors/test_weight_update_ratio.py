from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 700
STEP = np.arange(1, N + 1)
SCATTER = np.exp(0.1 * np.random.default_rng(24).normal(size=N))
COSINE = 0.5e-3 * (1 + np.cos(np.pi * STEP / N))


def ratio(level: Any, rate: Any = None) -> dict[str, Any]:
    curves = {"update_ratio": level * SCATTER}
    return curves if rate is None else curves | {"lr": rate}


@pytest.mark.parametrize(
    ("curves", "name", "severity"),
    [
        (ratio(0.4), "high", "warning"),
        (ratio(np.where(STEP > 500, 0.3, 0.01)), "high", "warning"),
        (ratio(8e-7), "still", "warning"),
        (ratio(np.where(STEP > 120, 3e-7, 0.01), np.where(STEP > 120, 3e-8, 3e-3)), "still", "warning"),
        (ratio(1.3e-4), "low", "info"),
    ],
)
def test_fires(curves: Any, name: str, severity: str) -> None:
    (found,) = findings("weight-update-ratio", curves)
    assert (found.severity, found.evidence[0].limit_name) == (severity, f"weight-update-ratio.{name}")


QUIET = {
    "usual": ratio(0.004),
    "falls with the rate": ratio(10 * COSINE, COSINE),
    "large in the first steps": ratio(np.where(STEP < 50, 0.5, 0.01)),
    "one glitch": ratio(np.where((STEP > 300) & (STEP < 305), 0.5, 0.01)),
    "zero where the rate is": ratio(np.where(STEP > 600, 0.0, 0.01), np.where(STEP > 600, 0.0, 1e-3)),
    "skipped steps": ratio(np.where(STEP % 30 == 0, 0.0, 0.01)),
    "near the upper end": ratio(0.07),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("weight-update-ratio", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("weight-update-ratio", run_of({"update_ratio": np.ones(15)})), NotEnoughData)
