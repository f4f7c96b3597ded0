from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Attempt, Event, Run


def run(*spans: tuple[int, int], pause: float | None = 1500.0, events: tuple[Event, ...] = ()) -> Run:
    made, at = [], START
    for first, last in spans:
        end = at + last - first
        made.append(Attempt(first, last, at, end) if pause is not None else Attempt(first, last))
        at = end + (pause or 0.0)
    return run_of(np.ones(100), attempts=made, events=events)


def test_a_restart_is_worth_a_line_with_its_pause() -> None:
    (found,) = findings("restart", run((1, 50), (51, 100)))
    assert (found.first_step, found.last_step, found.severity) == (50, 51, "info")
    assert "25\u00a0min" in found.message
    assert found.cost is not None
    assert found.cost.seconds == 1500


def test_each_restart_is_told() -> None:
    assert [found.first_step for found in findings("restart", run((1, 30), (31, 60), (61, 100)))] == [30, 60]


@pytest.mark.parametrize("pause", [None, -7200.0])
def test_no_pause_is_made_up(pause: float | None) -> None:
    (found,) = findings("restart", run((1, 50), (51, 100), pause=pause))
    assert "pause" not in found.message
    assert found.cost is None


def test_lines_that_say_so_count_where_steps_do_not_tell() -> None:
    (found,) = findings("restart", run((1, 100), events=(Event("restart", "resuming from checkpoint 40", step=40),)))
    assert "resuming from checkpoint 40" in found.message


@pytest.mark.parametrize(
    "case", [run((1, 100)), run((1, 60), (41, 100)), run((1, 100), events=(Event("evaluation", "eval", step=4),))]
)
def test_quiet(case: Run) -> None:
    assert findings("restart", case) == []


def test_needs_attempts() -> None:
    assert isinstance(answer("restart", run_of(np.ones(10))), NotApplicable)
