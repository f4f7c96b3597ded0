from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData

N = 1000
STEP = np.arange(1, N + 1)
SCATTER = np.exp(0.05 * np.random.default_rng(25).normal(size=N))


def layers(*levels: Any) -> dict[str, Any]:
    return {f"act_std/layer{at}": level * SCATTER for at, level in enumerate(levels)}


def grown(first: int, factor: float) -> Any:
    return np.geomspace(1, factor, N - first + 1)[np.maximum(STEP - first, 0)]


@pytest.mark.parametrize(
    ("curves", "metric", "first", "severity"),
    [
        (layers(1.0, 1.3, grown(500, 30)), "act_std/layer2", 540, "error"),
        (layers(1.0, grown(400, 5)), "act_std/layer1", 480, "warning"),
        (layers(grown(400, 5), grown(300, 50)), "act_std/layer1", 340, "error"),
        (layers(1.0, np.where(STEP > 600, 1e-6, 1.0)), "act_std/layer1", 600, "warning"),
    ],
)
def test_fires(curves: Any, metric: str, first: int, severity: str) -> None:
    (found,) = findings("activation-drift", curves)
    assert (found.metric, found.severity, found.ongoing) == (metric, severity, True)
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 50


QUIET = {
    "steady": layers(1.0, 1.3, 1.6),
    "doubles": layers(grown(100, 2.0)),
    "grows in the warmup": layers(np.minimum(1 + STEP / 10, 10.0)),
    "a hump that goes back": layers(np.where((STEP > 400) & (STEP < 500), 8.0, 1.0)),
    "one spike at the end": layers(np.where(STEP == 990, 50.0, 1.0)),
    "falls to half": layers(np.linspace(1, 0.5, N)),
    "tiny from the start": layers(np.full(N, 5e-5)),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("activation-drift", QUIET[case]) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("activation-drift", run_of({"act_mean/layer0": SCATTER})), NotApplicable)
    assert isinstance(answer("activation-drift", run_of({"act_std/layer0": np.ones(20)})), NotEnoughData)
