from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import START, findings, run_of
from trainlens.figures import NBSP
from trainlens.model import Run

N = 1000
STEP = np.arange(1, N + 1)
BASE = np.exp(0.01 * np.random.default_rng(5).normal(size=N))


def slow(*at: int, time: float = 95.0) -> Any:
    return {"step_time": np.where(np.isin(STEP, at), time, BASE)}


@pytest.mark.parametrize(
    ("curves", "first", "last", "severity"),
    [
        (slow(447, time=20), 447, 447, "info"),
        (slow(447), 447, 447, "info"),
        (slow(40, 170, 221, 555), 40, 555, "warning"),
    ],
)
def test_fires(curves: Any, first: int, last: int, severity: str) -> None:
    (found,) = findings("slow-step", curves)
    assert (found.first_step, found.last_step, found.severity) == (first, last, severity)
    assert f"{len(np.flatnonzero(curves['step_time'] > 2)):,} slow step" in found.title


ODD = np.exp(0.3 * np.random.default_rng(6).standard_t(5, N))


@pytest.mark.parametrize("points", [20, N])
def test_time_that_scatters_is_worth_a_line(points: int) -> None:
    (found,) = findings("slow-step", {"step_time": 100 * ODD[:points]})
    assert found.severity == "info"
    assert "unsteady" in found.title


def paused(*at: int, wait: float = 20.0) -> Run:
    """Steps of a second, and a wait before some that no step's own time holds."""
    clock = START + np.cumsum(BASE + np.where(np.isin(STEP, at), wait, 0.0))
    return run_of({"step_time": BASE}, times={"step_time": clock.tolist()})


def test_pauses_between_steps_are_worth_a_line() -> None:
    (found,) = findings("slow-step", paused(200, 700))
    assert (found.first_step, found.last_step, found.severity) == (199, 700, "info")
    assert "2 pauses" in found.title


@pytest.mark.parametrize("run", [paused(), paused(200, wait=2.0), paused(*range(1, N, 5))])
def test_short_or_usual_pauses_are_not(run: Run) -> None:
    assert findings("slow-step", run) == []


QUIET = {
    "steady": {"step_time": BASE},
    "periodic": slow(*range(100, 1001, 100)),
    "first step": slow(1, time=5.0),
    "first step of a log from the middle of a run": {
        "step_time": (np.arange(5001, 5001 + N), slow(1, time=346.0)["step_time"])
    },
    "under twice": slow(300, time=1.8),
    "noise": {"step_time": np.exp(0.12 * np.random.default_rng(6).standard_t(5, N))},
    "batches of different length": {"step_time": ODD, "tokens_per_second": BASE * 1e5},
    "lasting": {"step_time": np.where(STEP > 500, 3 * BASE, BASE)},
    "one step of ten thousand": slow(300, time=1.5),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("slow-step", QUIET[case]) == []


@pytest.mark.parametrize(
    ("times", "last", "says"),
    [
        (slow(1, time=346.0)["step_time"], 1, "Step 1 took 6 min, later ones 1 s each: 6 min, 25.6 % of all time"),
        (np.r_[461.0, 231.0, 210.0, 12.0, 12.0, 12.0, 12.0, 12.0], 3, "Steps 1 to 3 took 15 min, later ones 12 s each"),
        (np.r_[300.0, 12.0], 1, "Step 1 took 5 min, later ones 12 s each"),
    ],
)
def test_a_slow_start_is_worth_a_line(times: Any, last: int, says: str) -> None:
    found = next(one for one in findings("slow-step", {"step_time": times}) if one.title.startswith("Start-up"))
    assert (found.severity, found.first_step, found.last_step) == ("info", 1, last)
    assert says in found.message.replace(NBSP, " ")


def test_small_excesses_far_beyond_the_noise_are_worth_a_line() -> None:
    times = {"step_time": 3.39 + 0.005 * np.sin(np.arange(N)) + np.where(np.arange(N) % 38 == 37, 0.5, 0.0)}
    (found,) = findings("slow-step", times)
    assert found.severity == "info"
    assert findings("slow-step", {"step_time": times["step_time"] / 100}) == []
