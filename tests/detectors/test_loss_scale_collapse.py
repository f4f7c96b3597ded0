from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Event, Place

N = 1000


def scale(*moves: tuple[int, float]) -> Any:
    """2^16, and from each step (0-based) on 2 to the power given."""
    power = np.full(N, 16.0)
    for at, level in moves:
        power[at:] = level
    return {"loss_scale": 2.0**power}


def falling(first: int, every: int, count: int) -> Any:
    return scale(*((first + every * i, 16.0 - i - 1) for i in range(count)))


@pytest.mark.parametrize(
    ("curves", "first", "last", "severity"),
    [
        (falling(500, 1, 10), 501, 510, "error"),
        (falling(500, 5, 26), 501, 626, "error"),
        (scale((500, 11), (501, 10)), 501, 502, "error"),
        (scale((500, 12), (600, 16)), 501, 501, "warning"),
    ],
)
def test_fires(curves: Any, first: int, last: int, severity: str) -> None:
    (found,) = findings("loss-scale-collapse", curves)
    assert (found.first_step, found.last_step, found.severity) == (first, last, severity)


QUIET = {
    "constant": scale(),
    "search at the start": scale(*((i, 16.0 - i) for i in range(1, 9))),
    "search in rows of ten steps": {"loss_scale": np.r_[2.0**23, 2.0**14, 2.0**13, np.full(60, 2.0**13)]},
    "isolated overflows": scale((200, 15), (400, 16), (600, 15), (800, 16)),
    "halved now and then": scale((200, 15), (400, 14), (600, 13), (800, 12)),
    "doubles": scale((200, 17), (400, 18), (600, 19)),
    "three halvings": scale((500, 15), (501, 14), (502, 13)),
    "down and up": scale((500, 15), (502, 16), (504, 15), (506, 16), (508, 15)),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("loss-scale-collapse", QUIET[case]) == []


def test_what_the_log_states_is_told() -> None:
    events = [Event("overflow", "OVERFLOW! Skipping step.", step=240 + i) for i in range(12)]
    events.append(Event("loss-scale-floor", "Current loss scale already at minimum", step=252, place=Place("log", 99)))
    (found,) = findings("loss-scale-collapse", run_of(np.ones(25), events=events))
    assert (found.first_step, found.last_step, found.severity, found.confidence) == (240, 252, "error", None)


def test_needs_points() -> None:
    assert isinstance(answer("loss-scale-collapse", run_of({"loss_scale": np.ones(5)})), NotEnoughData)


@pytest.mark.parametrize(
    ("powers", "begins", "found"),
    [
        ([16, 16, 13, 12, 12], 29_010, 1),
        ([20, 19, 18, 17, 16, 15, 15], 17_061, 1),
        ([16, 15, 15, 16, 15, 15], 29_010, 0),
        ([16, 16, 16, 16, 16, 16], 29_010, 0),
        ([18, 12, 19, 19, 20, 19, 18, 17, 16, 15], 17_061, 1),
        ([32, 31, 30, 29, 28, 27, 26], 1, 0),
    ],
)
def test_a_short_log_from_the_middle_of_a_run(powers: list[int], begins: int, found: int) -> None:
    run = run_of({"loss_scale": (np.arange(begins, begins + len(powers)), 2.0 ** np.array(powers))})
    assert isinstance(answer("loss-scale-collapse", run), NotEnoughData) == (begins == 1)
    assert len(findings("loss-scale-collapse", run)) == found
