from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Attempt, Event, Note, Place, Run, SourceReport


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


def resumed(first: float = 9.0, *, gap: int = 200) -> Run:
    """A run of a second a step whose rows 501 to 500 + gap are missing, and whose next step took so long."""
    step = np.r_[1:501, 501 + gap : 1001]
    return run_of({"step_time": (step, np.where(step == 501 + gap, first, 1.0))}, events=[Event("run-start", "begin")])


def test_missing_rows_with_a_slow_step_behind_look_like_one() -> None:
    (found,) = findings("restart", resumed())
    assert (found.first_step, found.last_step, found.severity) == (500, 701, "info")


def test_launches_that_left_an_empty_file_are_told() -> None:
    empty = SourceReport("events.1", "tensorboard", notes=(Note("no-points", "only the version"),))
    full = SourceReport("events.2", "tensorboard", points=100, first_step=1, last_step=100)
    (found,) = findings("restart", replace(run((1, 100)), sources=(empty, full)))
    assert found.severity == "info"
    assert found.evidence[0].place == Place("events.1")
    assert findings("restart", replace(run((1, 100)), sources=(full,))) == []


@pytest.mark.parametrize("case", [resumed(1.0), resumed(2.0), resumed(gap=0)])
def test_neither_sign_alone_is_one(case: Run) -> None:
    assert findings("restart", case) == []


@pytest.mark.parametrize(
    "case", [run((1, 100)), run((1, 60), (41, 100)), run((1, 100), events=(Event("evaluation", "eval", step=4),))]
)
def test_quiet(case: Run) -> None:
    assert findings("restart", case) == []


def test_needs_attempts() -> None:
    assert isinstance(answer("restart", run_of(np.ones(10))), NotApplicable)
