from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(23).normal(size=N)


def power(level: Any, busy: Any = None, heat: float | None = None) -> dict[str, Any]:
    curves: dict[str, Any] = {"gpu/power": level + 8 * NOISE}
    if busy is not None:
        curves["gpu/utilization"] = busy + 0 * NOISE
    return curves | ({} if heat is None else {"gpu/temperature": np.full(N, heat)})


FALLS = np.where(STEP >= 250, 430.0, 630.0)


@pytest.mark.parametrize(
    ("curves", "rank"),
    [
        (power(FALLS), None),
        (power(FALLS, busy=0.97), None),
        ({f"gpu/power@{g}": (FALLS if g == 2 else 630.0) + NOISE for g in range(8)}, 2),
    ],
)
def test_fires(curves: Any, rank: int | None) -> None:
    (found,) = findings("power-throttling", curves)
    assert (found.rank, found.severity, found.ongoing) == (rank, "warning", True)
    assert found.first_step is not None
    assert abs(found.first_step - 250) <= 3


def test_the_temperature_is_told() -> None:
    (found,) = findings("power-throttling", power(FALLS, busy=0.97, heat=86))
    assert "86\u00a0°C" in found.message or "86 °C" in found.message


QUIET = {
    "steady": power(630.0),
    "10 % less": power(np.where(STEP >= 250, 570.0, 630.0)),
    "rises": power(np.where(STEP >= 250, 690.0, 500.0)),
    "waits, which is another fault": power(FALLS, busy=np.where(STEP >= 250, 0.5, 0.97)),
    "single samples": power(np.where(STEP % 20 == 0, 200.0, 630.0)),
    "a short pause": power(np.where((STEP >= 300) & (STEP <= 308), 100.0, 630.0)),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("power-throttling", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("power-throttling", run_of({"gpu/power": np.ones(12)})), NotEnoughData)
