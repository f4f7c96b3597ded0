"""How far a run came, and how it ended."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import run_of
from trainlens.digest import result
from trainlens.model import Event, EventKind


@pytest.mark.parametrize(
    ("kind", "step", "state"),
    [
        ("traceback", 500, "stopped"),
        ("traceback", 499, "stopped"),
        ("traceback", None, "stopped"),
        ("node-failure", 500, "stopped"),
        ("device-error", 500, "stopped"),
        ("out-of-memory", 200, "unknown"),  # rows follow: it ended nothing
        ("traceback", 200, "unknown"),
        ("run-end", 200, "finished"),
        ("overflow", 500, "unknown"),
    ],
)
def test_what_ended_a_run(kind: EventKind, step: int | None, state: str) -> None:
    run = run_of(np.ones(500), events=[Event(kind, "as the log says", step)])
    assert result(run, now=2e9).state == state
