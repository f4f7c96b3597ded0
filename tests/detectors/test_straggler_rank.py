from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData

N = 400
STEP = np.arange(1, N + 1)
RNG = np.random.default_rng(17)


def ranks(count: int = 8, scatter: float = 0.01, **slow: Any) -> dict[str, Any]:
    """Step times of ranks; r3=(200, 1.2) makes rank 3 1.2 times as slow from step 200 on."""
    times = {f"step_time@{rank}": 0.6 * np.exp(scatter * RNG.normal(size=N)) for rank in range(count)}
    for name, (first, factor) in slow.items():
        times[f"step_time@{name[1:]}"] *= np.where(first <= STEP, factor, 1.0)
    return times


def barrier(rank: int, more: float) -> dict[str, Any]:
    """All ranks take as long as the slowest; those that are quick wait in communication."""
    own = {one: 0.5 * np.exp(0.005 * RNG.normal(size=N)) * (1 + more * (one == rank)) for one in range(8)}
    whole = np.max(list(own.values()), axis=0) + 0.05
    times: dict[str, Any] = {f"step_time@{one}": whole for one in own}
    return times | {f"comm_time@{one}": whole - own[one] for one in own}


@pytest.mark.parametrize(
    ("curves", "rank", "first", "severity"),
    [
        (ranks(r2=(200, 1.19)), 2, 200, "warning"),
        (ranks(r4=(100, 1.6)), 4, 100, "error"),
        (ranks(r1=(1, 1.1)), 1, 2, "warning"),
        (ranks(count=64, scatter=0.002, r37=(200, 1.06)), 37, 200, "warning"),
        (barrier(5, 0.15), 5, 2, "warning"),
    ],
)
def test_fires(curves: Any, rank: int, first: int, severity: str) -> None:
    (found,) = findings("straggler-rank", curves)
    assert (found.rank, found.severity, found.ongoing) == (rank, severity, True)
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 10
    assert found.cost is not None


SINGLE = ranks()
SINGLE["step_time@3"][::50] *= 5
QUIET = {
    "alike": ranks(),
    "3 % slower": ranks(r3=(1, 1.03)),
    "wide scatter": ranks(scatter=0.2),
    "single slow steps": SINGLE,
    "half of the ranks, by design": ranks(r0=(1, 1.2), r1=(1, 1.2), r2=(1, 1.2), r3=(1, 1.2)),
    "one rank is faster": ranks(r3=(100, 0.8)),
    "all get slower": {name: time * np.where(STEP >= 200, 1.5, 1.0) for name, time in ranks().items()},
    "barrier, none slow": barrier(5, 0.0),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("straggler-rank", QUIET[case]) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("straggler-rank", run_of({"step_time": np.ones(N)})), NotApplicable)
    few = {f"step_time@{rank}": np.ones(10) for rank in range(4)}
    assert isinstance(answer("straggler-rank", run_of(few)), NotEnoughData)
