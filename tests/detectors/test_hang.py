from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Event, Place, Run

N = 500
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(8).normal(size=N)


def waits(usual: float = 2.0, **at: float) -> Run:
    """A run with rows `usual` seconds apart, but w300=900 means a wait of 900 s before step 300."""
    wait = usual * np.exp(0.05 * NOISE)
    for step, length in at.items():
        wait[int(step[1:]) - 1] = length
    return run_of({"train/loss": 2 + 0.01 * NOISE}, times={"train/loss": (START + np.cumsum(wait)).tolist()})


def split(run: Run, at: int, field: str) -> Run:
    part = (at <= STEP).astype(np.int16)
    if field == "attempt":
        return replace(run, series=tuple(replace(one, attempt=part) for one in run.series))
    return replace(run, series=tuple(replace(one, source=part) for one in run.series))


def evaluated(every: int, length: float) -> Run:
    """Evaluations at every so many steps, each holding up the next row."""
    wait = np.where(STEP % every == 1, length, 2.0)
    steps = STEP[every - 1 :: every]
    return run_of(
        {"train/loss": 2 + 0.01 * NOISE, "eval/loss": (steps, steps * 0 + 2.0)},
        times={"train/loss": (START + np.cumsum(wait)).tolist()},
    )


def paused(every: int, length: float, seldom: int, longer: float) -> Run:
    """Two kinds of pauses that come regularly, each at its own distance, and fall together now and then."""
    wait = 2.0 + np.where(STEP % every == 0, length, 0.0) + np.where(STEP % seldom == 0, longer, 0.0)
    return run_of({"train/loss": 2 + 0.01 * NOISE}, times={"train/loss": (START + np.cumsum(wait)).tolist()})


@pytest.mark.parametrize(
    ("run", "step", "seconds", "severity"),
    [
        (waits(w300=900), 299, 900, "warning"),
        (waits(usual=20.0, w300=700), 299, 700, "warning"),
        (waits(usual=0.1, w300=45), 299, 45, "warning"),
    ],
)
def test_fires(run: Run, step: int, seconds: float, severity: str) -> None:
    (found,) = findings("hang", run)
    assert (found.first_step, found.last_step, found.severity) == (step, step + 1, severity)
    assert found.evidence[0].observed == pytest.approx(seconds)
    assert found.cost is not None


def test_two_hangs_are_two_findings() -> None:
    assert [found.first_step for found in findings("hang", waits(w200=900, w350=600))] == [199, 349]


QUIET: dict[str, Any] = {
    "steady": waits(),
    "first row late": waits(w2=400),
    "29 times": waits(w300=50),
    "short": waits(usual=0.01, w300=20),
    "pause between two attempts": split(waits(w300=9000), 300, "attempt"),
    "first row of a new attempt": split(waits(w300=9000, w301=400), 300, "attempt"),
    "two files": split(waits(w300=7200), 300, "source"),
    "clock goes back": waits(w300=-3600),
    "a long evaluation now and then": evaluated(60, 120.0),
    "waits that come regularly": waits(**{f"w{at}": 120.0 for at in range(60, 500, 60)}),
    "evaluations and checkpoints": paused(50, 90.0, 110, 150.0),
    "evaluations and checkpoints that fall together": paused(50, 90.0, 100, 150.0),
    "milliseconds": run_of({"train/loss": 2 + 0 * NOISE}, times={"train/loss": (1000 * (START + 0.5 * STEP)).tolist()}),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("hang", QUIET[case]) == []


def test_rows_that_are_missing_do_not_make_a_hang() -> None:
    step = np.r_[1:200, 400:700]
    run = run_of({"train/loss": (step, step * 0 + 2.0)}, times={"train/loss": (START + 2.0 * step).tolist()})
    assert findings("hang", run) == []


def test_what_the_log_states_is_told() -> None:
    said = [Event("hang", "INFO: task python:280058 blocked for more than 120 seconds.", place=Place("dmesg", 7))] * 3
    (found,) = findings("hang", replace(waits(), events=tuple(said)))
    assert found.severity == "error"
    assert found.confidence is None
    assert "blocked for more than 120" in found.message


def barred(bar: str, run: Run | None = None) -> Run:
    said = Event("no-step", f"Training:   0%|          | {bar}, ?it/s]", place=Place("train.log", 90))
    return replace(run or run_of({}), events=(said,))


@pytest.mark.parametrize(("bar", "waited"), [("0/58 [07:16<?", "7\u00a0min"), ("0/1000 [2:00:00<?", "120\u00a0min")])
def test_a_bar_that_never_moved(bar: str, waited: str) -> None:
    (found,) = findings("hang", barred(bar))
    assert (found.severity, found.first_step) == ("warning", 0)
    assert waited in found.message


def test_a_bar_at_its_start_says_nothing_of_a_log_with_steps() -> None:
    assert findings("hang", barred("0/58 [07:16<?", waits())) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("hang", run_of(np.ones(100))), NotApplicable)
    few = run_of({"train/loss": np.ones(5)}, times={"train/loss": [START + at for at in range(5)]})
    assert isinstance(answer("hang", few), NotEnoughData)


def test_what_hangs_again_and_again_is_an_error() -> None:
    assert [found.severity for found in findings("hang", waits(w200=900, w400=900))] == ["error", "error"]
