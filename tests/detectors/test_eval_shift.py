"""One jump of the evaluation that stays is a shift; rises, noise, peaks and drops are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Attempt, Floats


def jumped(size: float, at: int = 20, scatter: float = 0.003, points: int = 40) -> Floats:
    held_out = falling(points, start=4, end=2.5, scatter=scatter)
    held_out[at:] += size
    return held_out


@pytest.mark.parametrize(("size", "at"), [(0.4, 20), (0.12, 20), (0.4, 10), (0.4, 34), (2.0, 25)])
def test_a_jump_that_stays_is_found(size: float, at: int) -> None:
    assert fires("eval-shift", {"eval/loss": jumped(size, at)}) == [(at + 1, 40, "warning")]


def test_a_jump_that_is_learned_away_still_counts() -> None:
    held_out = 2.6 + 1.5 * (np.arange(40) + 1) ** -0.7
    held_out[17:] += np.linspace(0.1, 0.02, 23)
    assert fires("eval-shift", {"eval/loss": held_out})[0][0] == 18


@pytest.mark.parametrize(
    "held_out",
    [
        falling(40, start=4, end=2.5),
        falling(40, start=4, end=2.5, scatter=0.05),
        np.r_[np.linspace(1.07, 0.92, 4), np.linspace(0.92, 1.45, 13)[1:]],
        np.r_[np.linspace(3, 2, 15), np.linspace(2, 3, 25)],
        falling(40, start=4, end=2.5) * np.where(np.arange(40) == 20, 1.5, 1.0),
        jumped(-0.5),
        jumped(0.03, scatter=0.02),
        jumped(0.5, at=38),
        jumped(0.5, at=3),
        np.full(40, 2.0),
    ],
)
def test_quiet(held_out: Floats) -> None:
    assert fires("eval-shift", {"eval/loss": held_out}) == []


def test_a_restart_at_the_same_step_makes_it_info() -> None:
    run = run_of({"eval/loss": jumped(0.4)}, attempts=(Attempt(1, 20), Attempt(21, 40)))
    (found,) = findings("eval-shift", run)
    assert found.severity == "info"


def test_no_evaluation_or_too_few() -> None:
    assert isinstance(answer("eval-shift", run_of(falling(100))), NotApplicable)
    assert isinstance(answer("eval-shift", run_of({"eval/loss": jumped(0.4, 4, points=8)})), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("size", 0.5), ("deviations", 1e6)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    assert fires("eval-shift", {"eval/loss": jumped(0.4)}, **{option: value}) == []
