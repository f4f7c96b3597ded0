from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData

N = 600
STEP = np.arange(1, N + 1)
RNG = np.random.default_rng(18)


def experts(weight: Any, count: int = 8, scatter: float = 0.03) -> dict[str, Any]:
    """Loads of experts that sum to 1; `weight` of expert 3, one a step."""
    loads = {f"expert_load/e{one}": np.exp(scatter * RNG.normal(size=N)) for one in range(count)}
    loads["expert_load/e3"] = loads["expert_load/e3"] * weight
    total = np.sum(list(loads.values()), axis=0)
    return {name: load / total for name, load in loads.items()}


@pytest.mark.parametrize(
    ("curves", "first", "severity"),
    [
        (experts(np.where(STEP >= 300, 3.0, 1.0)), 300, "warning"),
        (experts(np.where(STEP >= 300, 30.0, 1.0)), 300, "error"),
        (experts(2.0 + 0 * STEP), 13, "warning"),
        (experts(np.where((STEP >= 300) & (STEP < 350), 3.0, 1.0)), 300, "warning"),
    ],
)
def test_fires(curves: Any, first: int, severity: str) -> None:
    (found,) = findings("load-imbalance", curves)
    assert (found.metric, found.severity) == ("expert_load/e3", severity)
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 3


QUIET = {
    "even": experts(1.0),
    "1.4 times": experts(1.4 + 0 * STEP),
    "scatter": experts(1.0, scatter=0.12),
    "first steps": experts(np.where(STEP <= 10, 8.0, 1.0)),
    "single steps": experts(np.where(STEP % 20 == 0, 5.0, 1.0)),
    "idle expert": experts(0.3),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("load-imbalance", QUIET[case]) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("load-imbalance", run_of({"expert_load/e0": np.ones(N)})), NotApplicable)
    few = {f"expert_load/e{one}": np.ones(10) for one in range(4)}
    assert isinstance(answer("load-imbalance", run_of(few)), NotEnoughData)
