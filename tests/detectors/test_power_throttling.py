from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Better, Role

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


def stated(**curves: Any) -> Any:
    """What the driver says: "name_1" is the reason `name` on GPU 1."""
    named = {f"gpu/throttled/{key.rpartition('_')[0]}@{key.rpartition('_')[2]}": value for key, value in curves.items()}
    about: dict[str, tuple[Role, Better]] = {name.partition("@")[0]: ("throttle", "none") for name in named}
    return run_of(named, about=about)


HOT = (STEP >= 300).astype(float)
NEVER = np.zeros(N)


@pytest.mark.parametrize(
    ("run", "rank", "severity", "says"),
    [
        (stated(hw_thermal_slowdown_0=NEVER, hw_thermal_slowdown_1=HOT), 1, "warning", "GPU 1 slowed down: too hot"),
        (stated(active_0=64.0 * HOT, active_1=NEVER), 0, "warning", "GPU 0 slowed down: too hot"),
        (stated(active_0=np.full(N, 0x8C), active_1=NEVER), 0, "error", "GPU 0 slowed down: external power brake"),
        (stated(hw_slowdown_0=HOT, hw_thermal_slowdown_0=HOT), 0, "warning", "GPU 0 slowed down: too hot"),
        (stated(hw_slowdown_0=HOT, hw_slowdown_1=HOT), None, "warning", "GPU 0 and 1 other of 2 slowed down: hardware"),
    ],
)
def test_reasons_of_the_driver(run: Any, rank: int | None, severity: str, says: str) -> None:
    (found,) = findings("power-throttling", run)
    assert (found.rank, found.severity, found.ongoing) == (rank, severity, True)
    assert found.title.startswith(says)


@pytest.mark.parametrize(
    "run",
    [
        stated(active_0=np.full(N, 0x4)),
        stated(active_0=np.full(N, 0x1), sw_power_cap_1=np.ones(N)),
        stated(hw_slowdown_0=(STEP % 50 == 0).astype(float)),
        stated(hw_thermal_slowdown_0=NEVER),
        stated(active_0=np.full(N, np.nan)),
    ],
    ids=["power limit", "idle", "single samples", "never", "not a number"],
)
def test_reasons_that_are_no_fault(run: Any) -> None:
    assert findings("power-throttling", run) == []


def test_few_samples_say_nothing() -> None:
    assert isinstance(answer("power-throttling", stated(hw_slowdown_0=np.ones(5))), NotEnoughData)


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
