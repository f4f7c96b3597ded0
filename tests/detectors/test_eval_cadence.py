from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.detectors.door import answer, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Event, Run


def evaluated(steps: Iterable[int], last: int = 10_000, every: int = 10) -> Run:
    step, at = np.arange(every, last + 1, every), np.array([*steps])
    return run_of({"train/loss": (step, 2 + 0 * step), "eval/loss": (at, 2 + 0 * at)})


EACH = [*range(500, 10_001, 500)]
LINES = run_of(
    {"train/loss": (np.arange(10, 10_001, 10), np.full(1000, 2.0))},
    events=[Event("evaluation", "validating", step=step) for step in range(500, 4001, 500)],
)


@pytest.mark.parametrize(
    ("run", "first", "last", "severity"),
    [
        (evaluated([at for at in EACH if at <= 5000]), 5000, 10_000, "warning"),
        (LINES, 4000, 10_000, "warning"),
        (evaluated([at for at in EACH if at not in (3000, 3500)]), 2500, 4000, "info"),
        (evaluated(range(8000, 80_001, 8000), 80_000), 8000, 80_000, "info"),
        (evaluated(range(2000, 80_001, 2000), 80_000, 2000), 2000, 80_000, "info"),
    ],
)
def test_fires(run: Run, first: int, last: int, severity: str) -> None:
    assert fires("eval-cadence", run) == [(first, last, severity)]


@pytest.mark.parametrize(
    "run",
    [
        evaluated(EACH),
        evaluated([*EACH, 1, 9_990]),
        evaluated([at for at in EACH if at <= 8600]),
        evaluated([*range(100, 1001, 100), *range(2000, 10_001, 1000)]),  # rarer later
        evaluated([100, 200, 400, 800, 1600, 3200]),  # on purpose further and further apart
        evaluated([500, 1000, 1500]),
        run_of({"train/loss": ([1000, 2000, 3000, 4000, 5000, 6000], [2.0] * 6)}),
        run_of({"train/loss": (np.arange(1, 20) * 50_000, np.ones(19)), "reward": (np.arange(1, 20), np.ones(19))},
               about={"reward": ("reward", "higher")}),
    ],
)  # fmt: skip
def test_quiet(run: Run) -> None:
    assert fires("eval-cadence", run) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("eval-cadence", run_of([2.0, 1.9, 1.8])), NotApplicable)
    assert isinstance(answer("eval-cadence", evaluated([500, 1000])), NotEnoughData)
