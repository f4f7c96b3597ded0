"""R-G4: what GPUs wait for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.causes.door import verdicts
from tests.detectors.door import run_of

N = 200


def found(**levels: float) -> dict[str, str]:
    curves = {name.replace("__", "/"): np.full(N, level) for name, level in levels.items()}
    return verdicts(
        "low-gpu-utilization", run_of({"gpu/utilization": np.full(N, 0.4), **curves}), 50, N, "gpu/utilization"
    )


@pytest.mark.parametrize(
    ("cause", "levels", "expected"),
    [
        ("Data loading", {"data_time": 0.5, "step_time": 1.0}, "supported"),
        ("Data loading", {"data_time": 0.02, "step_time": 1.0}, "ruled-out"),
        ("Data loading", {"data_time": 0.5}, "not-measured"),
        ("Data loading", {"profile/data_share": 0.3}, "supported"),
        ("Data loading", {"profile/data_share": 0.03}, "ruled-out"),
        ("CPU preprocessing", {"cpu": 98.0}, "supported"),
        ("CPU preprocessing", {"cpu": 0.3}, "ruled-out"),
        ("CPU preprocessing", {}, "not-measured"),
        ("Waiting on communication", {"comm_share": 0.35}, "supported"),
        ("Waiting on communication", {"comm_time": 0.5, "step_time": 1.0}, "supported"),
        ("Waiting on communication", {"comm_share": 0.1}, "ruled-out"),
        ("Waiting on communication", {}, "not-measured"),
        ("Small batch", {"gpu__memory_share": 0.3}, "supported"),
        ("Small batch", {"gpu__memory_used": 2e9, "gpu__memory_total": 8e9}, "supported"),
        ("Small batch", {"gpu__memory_share": 0.6}, "ruled-out"),
        ("Small batch", {"gpu__memory_share": 0.9}, "ruled-out"),
        ("Small batch", {"gpu__memory_used": 2e9}, "not-measured"),
    ],
)
def test_causes(cause: str, levels: dict[str, float], expected: str) -> None:
    assert found(**levels)[cause] == expected
