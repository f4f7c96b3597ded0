from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData

N = 600
STEP = np.arange(1, N + 1)
CHANCE = np.random.default_rng(32)
JITTER = CHANCE.exponential(size=N)
OTHER = np.exp(0.02 * CHANCE.normal(size=N))


def waits(part: Any, compute: Any = 0.4) -> dict[str, Any]:
    """The step waits for data: its time holds both."""
    return {"data_time": part, "step_time": part + compute * OTHER}


@pytest.mark.parametrize(
    ("curves", "first", "severity"),
    [
        (waits(0.15 * OTHER), 11, "warning"),
        (waits(0.1 + 0.1 * JITTER), 11, "warning"),
        (waits(0.07 * OTHER), 11, "info"),
        (waits(0.9 * OTHER), 11, "error"),
        (waits(np.where(STEP > 300, 0.3, 0.01)), 301, "warning"),
        ({"data_time": 0.5 * OTHER, "step_time": 0.2 * OTHER}, 11, "error"),  # steps timed without it
        ({"profile/data_share": ([11, 12, 13], [0.4, 0.45, 0.38])}, 11, "warning"),
    ],
)
def test_fires(curves: Any, first: int, severity: str) -> None:
    ((begin, _, told),) = fires("data-loading-wait", curves)
    assert begin is not None
    assert abs(begin - first) <= 3
    assert told == severity


def test_cost_is_the_time_waited() -> None:
    (found,) = findings("data-loading-wait", waits(np.full(N, 0.2)))
    assert found.cost is not None
    assert found.cost.seconds == pytest.approx(0.2 * (N - 10), rel=0.02)


@pytest.mark.parametrize(
    "curves",
    [
        waits(0.02 * OTHER),
        waits(0.03 * OTHER),
        waits(np.where(STEP % 100 == 0, 5.0, 0.004)),
        waits(np.where(STEP < 10, 5.0, 0.004)),
        waits(np.where((STEP > 300) & (STEP < 310), 0.5, 0.004)),
        {"data_time": 0.1 + 0.1 * JITTER, "step_time": 0.5 * OTHER},  # hidden behind computation
        {"data_time": 0.2 * np.exp(0.3 * CHANCE.normal(size=N)), "step_time": 0.5 * OTHER},
        {"profile/data_share": ([11, 12, 13], [0.02, 0.05, 0.03])},
    ],
)
def test_quiet(curves: Any) -> None:
    assert findings("data-loading-wait", curves) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("data-loading-wait", run_of({"data_time": OTHER})), NotApplicable)
    few = {"data_time": OTHER[:15], "step_time": 3 * OTHER[:15]}
    assert isinstance(answer("data-loading-wait", run_of(few)), NotEnoughData)
    assert isinstance(answer("data-loading-wait", run_of({"profile/data_share": [0.5]})), NotEnoughData)
