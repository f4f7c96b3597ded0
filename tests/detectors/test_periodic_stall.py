from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 1000
STEP = np.arange(1, N + 1)
BASE = 0.5 * np.exp(0.01 * np.random.default_rng(2).normal(size=N))


def every(period: int, extra: float, base: Any = BASE) -> Any:
    return {"step_time": np.where(STEP % period == 0, base + extra, base)}


MISSED = every(100, 9.0)["step_time"].copy()
MISSED[499] = 0.5


@pytest.mark.parametrize(
    ("curves", "period", "severity"),
    [
        (every(100, 9.0), 100, "warning"),
        (every(100, 20.0), 100, "error"),
        (every(50, 0.4), 50, "info"),
        ({"step_time": MISSED}, 100, "warning"),
        (every(250, 15.0), 250, "warning"),
    ],
)
def test_fires(curves: Any, period: int, severity: str) -> None:
    (found,) = findings("periodic-stall", curves)
    assert found.severity == severity
    assert f"every {period:,} steps" in found.title
    assert found.first_step == period
    assert found.cost is not None


IRREGULAR = BASE.copy()
IRREGULAR[[40, 170, 220, 555, 600, 871]] = 9.0
QUIET = {
    "steady": {"step_time": BASE},
    "irregular stalls": {"step_time": IRREGULAR},
    "three stalls": {"step_time": np.where(np.isin(STEP, (250, 500, 750)), 9.0, BASE)},
    "tiny stalls": every(100, 0.2),
    "noise": {"step_time": 0.5 * np.exp(0.2 * np.random.default_rng(4).standard_t(4, N))},
    "alternating rows": {"step_time": np.where(STEP % 2 == 0, 0.9, 0.5)},
    "slow first step": {"step_time": np.r_[40.0, BASE[1:]]},
    "throughput only": {"tokens_per_second": 1 / BASE},
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("periodic-stall", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("periodic-stall", run_of({"step_time": np.ones(20)})), NotEnoughData)
