from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(20).normal(size=N)


def busy(level: Any, scatter: float = 0.02) -> Any:
    return np.clip(level + scatter * NOISE, 0, 1)


@pytest.mark.parametrize(
    ("curves", "rank", "words", "severity"),
    [
        ({"gpu/utilization": busy(0.6)}, None, "59.8", "warning"),
        ({"gpu/utilization": busy(0.2)}, None, "19.8", "error"),
        ({"gpu/utilization": busy(np.where(STEP >= 200, 0.6, 0.95))}, None, "from step", "warning"),
        ({f"gpu/utilization@{g}": busy(0.5 if g == 5 else 0.97) for g in range(8)}, 5, "on rank 5", "warning"),
        ({f"gpu/utilization@{g}": busy(0.5) for g in range(8)}, None, "50", "warning"),
        ({f"gpu/utilization@{g}": busy(0.5 if g < 3 else 0.97) for g in range(8)}, None, "on 3 of 8 ranks", "warning"),
    ],
)
def test_fires(curves: Any, rank: int | None, words: str, severity: str) -> None:
    (found,) = findings("low-gpu-utilization", curves)
    assert (found.rank, found.severity) == (rank, severity)
    assert words in found.message


def test_gpus_that_never_work_are_a_line_and_no_fault() -> None:
    curves = {f"gpu/utilization@{g}": busy(0.97) if g > 1 else np.full(N, 0.02) for g in range(6)}
    (found,) = findings("low-gpu-utilization", curves)
    assert (found.severity, found.title) == ("info", "2 of 6 GPUs never work")
    assert "(0, 1)" in found.message
    (all_of_them,) = findings("low-gpu-utilization", {f"gpu/utilization@{g}": np.full(N, 0.02) for g in range(2)})
    assert all_of_them.severity == "error"


QUIET = {
    "busy": busy(0.96),
    "85 %": busy(0.86),
    "idle before and after": np.where((STEP < 100) | (STEP > 400), 0.0, 0.96),
    "single samples of a waiting GPU": busy(np.where(STEP % 10 == 0, 0.1, 0.96)),
    "a short pause": busy(np.where((STEP >= 300) & (STEP <= 310), 0.0, 0.96)),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("low-gpu-utilization", {"gpu/utilization": QUIET[case]}) == []


def test_needs_points() -> None:
    assert isinstance(answer("low-gpu-utilization", run_of({"gpu/utilization": np.ones(8)})), NotEnoughData)
