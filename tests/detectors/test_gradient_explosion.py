from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 1000
NORM = np.exp(0.2 * np.random.default_rng(9).normal(size=N))


def raised(first: int, last: int, factor: float) -> Any:
    step = np.arange(1, N + 1)
    return {"grad_norm": np.where((step >= first) & (step <= last), factor, 1.0) * NORM}


WITH_INF = raised(500, 600, 500)["grad_norm"].copy()
WITH_INF[520:525] = np.inf


@pytest.mark.parametrize(
    ("curves", "first", "last", "ongoing"),
    [
        (raised(500, 600, 500), 500, 600, False),
        (raised(700, N, 1e6), 700, N, True),
        (raised(400, 412, 400), 400, 412, False),
        ({"grad_norm": WITH_INF}, 500, 600, False),
    ],
)
def test_fires(curves: Any, first: int, last: int, ongoing: bool) -> None:
    (found,) = findings("gradient-explosion", curves)
    assert found.severity == "error"
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 1
    assert found.last_step is not None
    assert abs(found.last_step - last) <= 1
    assert found.ongoing == ongoing


FALLING = {"grad_norm": NORM * (1 + 300 * np.exp(-np.arange(N) / 5))}
OVERFLOWS = NORM.copy()
OVERFLOWS[::100] = np.inf
QUIET = {
    "steady": {"grad_norm": NORM},
    "falls from its first size": FALLING,
    "one spike": raised(500, 500, 5000),
    "a few steps": raised(500, 506, 500),
    "a few times as large": raised(500, 700, 6),
    "grows slowly": {"grad_norm": NORM * np.geomspace(0.5, 12, N)},
    "falls far": {"grad_norm": NORM * np.geomspace(30, 0.5, N)},
    "heavy tails": {"grad_norm": np.exp(0.5 * np.random.default_rng(3).standard_t(4, size=N))},
    "swings": {"grad_norm": NORM * np.exp(1.2 * np.sin(np.arange(N) / 40))},
    "skipped steps of half precision": {"grad_norm": OVERFLOWS},
    "around the bound": {"grad_norm": 80 * NORM},
    "gradient vanishes": raised(500, N, 1e-6),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("gradient-explosion", QUIET[case]) == []


@pytest.mark.parametrize(
    ("factor", "first", "last"), [(15, 500, N), (40, 500, 700), (60, 300, N), (90, 800, 830), (12, 500, 600)]
)
def test_a_sudden_lasting_rise_below_the_bound_is_a_warning(factor: float, first: int, last: int) -> None:
    (found,) = findings("gradient-explosion", raised(first, last, factor))
    assert found.severity == "warning"
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 3
    assert found.last_step is not None
    assert abs(found.last_step - last) <= 12
    assert found.ongoing == (last == N)


def test_above_all_along_is_an_unusual_scale() -> None:
    (found,) = findings("gradient-explosion", {"grad_norm": 3000 * NORM})
    assert found.severity == "info"
    assert "unusual scale" in found.title


def test_needs_points() -> None:
    assert isinstance(answer("gradient-explosion", run_of({"grad_norm": np.ones(20)})), NotEnoughData)
