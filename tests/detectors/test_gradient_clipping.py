from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData

N = 1000
DRAW = np.random.default_rng(13).random(N)


def flagged(share: float) -> Any:
    return {"clipped": (share > DRAW).astype(float)}


@pytest.mark.parametrize(
    ("curves", "facts", "severity", "share"),
    [
        (flagged(0.07), {}, "info", 0.07),
        (flagged(0.29), {}, "warning", 0.29),
        (flagged(1.0), {}, "warning", 1.0),
        ({"clipped": np.full(N, 0.3)}, {}, "warning", 0.3),
        ({"grad_norm": 0.5 + DRAW}, {"clip_grad": 1.0}, "warning", 0.5),
    ],
)
def test_fires(curves: Any, facts: Any, severity: str, share: float) -> None:
    (found,) = findings("gradient-clipping", run_of(curves, facts=facts))
    assert found.severity == severity
    assert found.evidence[0].observed == pytest.approx(share, abs=0.03)


EARLY = np.zeros(N)
EARLY[:50] = 1
QUIET: dict[str, tuple[Any, Any]] = {
    "none": (flagged(0.0), {}),
    "one in a hundred": (flagged(0.01), {}),
    "four in a hundred": ({"clipped": (np.arange(N) % 25 == 0).astype(float)}, {}),
    "the first steps only": ({"clipped": EARLY}, {}),
    "norm below the threshold": ({"grad_norm": 0.5 * DRAW}, {"clip_grad": 1.0}),
    "no threshold": ({"grad_norm": 5 * DRAW}, {}),
    "clipping switched off": ({"grad_norm": 5 * DRAW}, {"max_grad_norm": 0.0}),
    "measured after clipping": ({"grad_norm": np.minimum(2 * DRAW, 1.0)}, {"clip_grad": 1.0}),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    curves, facts = QUIET[case]
    assert findings("gradient-clipping", run_of(curves, facts=facts)) == []


def test_says_why_it_cannot_judge() -> None:
    assert isinstance(answer("gradient-clipping", run_of({"clipped": np.ones(20)})), NotEnoughData)
    after = answer("gradient-clipping", run_of({"grad_norm": np.minimum(2 * DRAW, 1.0)}, facts={"clip_grad": 1.0}))
    assert isinstance(after, NotApplicable)
    assert "after clipping" in after.reason
