"""Several runs in one file: each that began anew is a run of its own; a restart from a checkpoint is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.test_store import falling, points, runs
from trainlens.model import Batch, Event, Fact, Place, Points, Run


def told(*batches: Batch) -> list[Run]:
    return runs(("train.log", batches), form="megatron")


def lengths(found: Sequence[Run]) -> list[int]:
    return [sum(len(one) for one in run.series if one.metric == "train/loss") for run in found]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([*range(1, 21)], [20]),
        ([*range(1, 21), *range(1, 21)], [20, 20]),
        ([*range(1, 21), *range(1, 31), *range(1, 11)], [20, 30, 10]),
        ([*range(5, 21), *range(1, 21)], [16, 20]),  # from before the first step of the file
        ([*range(1, 21), *range(11, 31)], [30]),  # from a checkpoint
        ([*range(1, 21), *range(2, 31)], [30]),
        ([*range(1, 21), *range(11, 31), *range(1, 6)], [30, 5]),  # a restart inside the first run
        ([*range(700, 10_500, 700), *range(1400, 14_000, 1400)], [14, 9]),  # after one interval of its own
        ([*range(700, 10_500, 700), *range(1400, 14_000, 700)], [19]),
        ([0, *range(1000, 9000, 1000), *range(1000, 12_000, 1000)], [12]),  # another would begin at 0 too
        ([1, 2, *range(1, 21)], [20]),  # too short to be a run: tried again
        ([*range(1, 41), 1, 2], [40]),
    ],
)
def test_where_a_run_begins(steps: list[int], expected: list[int]) -> None:
    assert lengths(told(points(steps, falling(len(steps))))) == expected


def test_names_and_words() -> None:
    first, second = told(points([*range(1, 21), *range(1, 21)], falling(40)))
    assert (first.name, second.name) == ("run/1", "run/2")
    assert [event.text for event in first.events] == []
    assert [event.text for event in second.events] == ["restarted from step 1: run 2 of 2 in this file"]


def test_nothing_is_lost_and_nothing_doubled() -> None:
    steps = [*range(1, 21), *range(1, 31)]
    found = told(points(steps, falling(50)), points(steps, falling(50), tag="grad norm"))
    assert lengths(found) == [20, 30]
    whole = np.concatenate([one.raw for run in found for one in run.series if one.metric == "train/loss"])
    assert whole.tolist() == falling(50)


def test_rows_between_two_stretches_belong_where_their_steps_say() -> None:
    """An evaluation after the last row is of the run that ends, a first row of another kind of the one that begins."""
    rows = points([*range(1, 21), *range(1, 21)], falling(40))
    lines = np.r_[np.arange(10, 30), np.arange(40, 60)]
    main = Points("lm loss", rows.step, rows.value, None, -1, lines)
    late = Points("validation lm loss", np.array([20, 20]), np.array([2.5, 2.4]), None, -1, np.array([31, 61]))
    early = Points("loss", np.array([1, 1]), np.array([3.1, 3.2]), None, -1, np.array([9, 38]))
    first, second = told(main, late, early)
    assert [one.raw.tolist() for run in (first, second) for one in run.series if one.metric == "eval/loss"] == [
        [2.5],
        [2.4],
    ]
    assert [one.step.tolist() for run in (first, second) for one in run.series if one.tag == "loss"] == [[1], [1]]


def test_what_the_file_says_goes_with_its_run() -> None:
    rows = points([*range(1, 21), *range(1, 21)], falling(40))
    lines = np.r_[np.arange(10, 30), np.arange(40, 60)]
    place = [Place("train.log", line) for line in (5, 32, 35, 70)]
    said: list[Batch] = [
        Fact("seed", 1, place[0]),
        Event("traceback", "ValueError: no", 20, place=place[1]),
        Fact("seed", 2, place[2]),
        Event("killed", "Killed", 20, place=place[3]),
    ]
    first, second = told(Points("lm loss", rows.step, rows.value, None, -1, lines), *said)
    assert [fact.value for fact in first.facts] == [1]
    assert [fact.value for fact in second.facts] == [2]
    assert [event.kind for event in first.events] == ["traceback"]
    assert sorted(event.kind for event in second.events) == ["killed", "run-start"]


def test_without_lines_a_file_is_one_run() -> None:
    rows = points([*range(1, 21), *range(1, 21)], falling(40))
    (run,) = told(Points(rows.tag, rows.step, rows.value))
    assert lengths([run]) == [20]
