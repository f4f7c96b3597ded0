from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import findings

N = 1000
STEP = np.arange(1, N + 1)
BASE = np.exp(0.01 * np.random.default_rng(5).normal(size=N))


def slow(*at: int, time: float = 95.0) -> Any:
    return {"step_time": np.where(np.isin(STEP, at), time, BASE)}


@pytest.mark.parametrize(
    ("curves", "first", "last", "severity"),
    [
        (slow(447, time=20), 447, 447, "info"),
        (slow(447), 447, 447, "info"),
        (slow(40, 170, 221, 555), 40, 555, "warning"),
    ],
)
def test_fires(curves: Any, first: int, last: int, severity: str) -> None:
    (found,) = findings("slow-step", curves)
    assert (found.first_step, found.last_step, found.severity) == (first, last, severity)
    assert f"{len(np.flatnonzero(curves['step_time'] > 2)):,} slow step" in found.title


QUIET = {
    "steady": {"step_time": BASE},
    "periodic": slow(*range(100, 1001, 100)),
    "first step": slow(1, time=346.0),
    "under twice": slow(300, time=1.8),
    "noise": {"step_time": np.exp(0.3 * np.random.default_rng(6).standard_t(5, N))},
    "lasting": {"step_time": np.where(STEP > 500, 3 * BASE, BASE)},
    "one step of ten thousand": slow(300, time=1.5),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("slow-step", QUIET[case]) == []
