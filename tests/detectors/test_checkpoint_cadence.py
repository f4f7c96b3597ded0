from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Event, Run


def saves(steps: Iterable[int], last: int = 10_000, seconds: float = 1.0) -> Run:
    """A run that logs each tenth step and saves at these, with a line at the begin and one at the end."""
    step = np.arange(10, last + 1, 10)
    events = [Event(kind, "saving", step=int(at)) for at in steps for kind in ("checkpoint-begin", "checkpoint-end")]
    return run_of({"train/loss": (step, 2 + 0 * step), "step_time": (step, seconds + 0 * step)}, events=events)


EACH = [*range(500, 10_001, 500)]


@pytest.mark.parametrize(
    ("run", "first", "last", "severity"),
    [
        (saves([at for at in EACH if at <= 5000]), 5000, 10_000, "warning"),
        (saves([at for at in EACH if at <= 8500]), 8500, 10_000, "warning"),
        (saves([at for at in EACH if at not in (3000, 3500)]), 2500, 4000, "info"),
        (saves(range(2000, 10_001, 2000), seconds=9.0), 2000, 10_000, "info"),
        (saves([10_000], last=20_000, seconds=3.0), 10_000, 20_000, "info"),
    ],
)
def test_fires(run: Run, first: int, last: int, severity: str) -> None:
    assert fires("checkpoint-cadence", run) == [(first, last, severity)]


def test_says_what_a_crash_would_cost() -> None:
    (found,) = findings("checkpoint-cadence", saves(range(500, 3001, 500), seconds=2.0))
    assert "7,000 steps since" in found.message
    assert "3.89" in found.message  # hours


@pytest.mark.parametrize(
    "run",
    [
        saves(EACH),
        saves([*EACH, 730, 9_990]),
        saves([at for at in EACH if at <= 9000]),  # the next is due soon
        saves([*range(500, 5001, 500), *range(7000, 10_001, 2000)]),  # rarer from here on
        saves([500, 800, 900, 1500, 1700, 3100]),  # the best model only
        saves([500, 1000, 1500]),
        saves(range(2000, 10_001, 2000), seconds=7.0),
        saves([5000]),
    ],
)
def test_quiet(run: Run) -> None:
    assert findings("checkpoint-cadence", run) == []


def test_needs_steps() -> None:
    unknown = run_of({"train/loss": [2.0, 1.9]}, events=[Event("checkpoint-end", "saved")])
    assert isinstance(answer("checkpoint-cadence", unknown), NotEnoughData)
