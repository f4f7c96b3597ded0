from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Attempt, Run

STEP = np.arange(1, 1001)
LOSS = 3 - STEP / 1000 + 0.01 * np.random.default_rng(15).normal(size=1000)


def attempts(*spans: tuple[int, int], pause: float = 600.0) -> tuple[Attempt, ...]:
    begins = START + np.cumsum([0.0, *(2.0 * (last - first) + pause for first, last in spans[:-1])])
    return tuple(
        Attempt(first, last, float(at), float(at) + 2.0 * (last - first))
        for (first, last), at in zip(spans, begins, strict=True)
    )


def run(*spans: tuple[int, int], higher: float | None = None) -> Run:
    """A run of 1,000 steps in these attempts; the second pass over repeated steps is `higher` than the first."""
    made = run_of({"train/loss": LOSS, "step_time": np.full(1000, 2.0)}, attempts=attempts(*spans))
    if higher is None:
        return made
    first, last = spans[1][0], spans[0][1]
    loss = next(one for one in made.series if one.metric == "train/loss")
    again = (loss.step >= first) & (loss.step <= last)
    scatter = 0.01 * np.random.default_rng(16).normal(size=int(again.sum()))
    old = replace(loss, step=loss.step[again], raw=loss.raw[again] - higher + scatter, time=loss.time[again])
    return replace(made, series=tuple(replace(loss, replaced=old) if one is loss else one for one in made.series))


@pytest.mark.parametrize(
    ("case", "first", "last", "severity"),
    [
        (run((1, 467), (293, 1000)), 293, 467, "warning"),
        (run((1, 400), (396, 1000)), 396, 400, "info"),
        (run((1, 400), (1, 1000)), 1, 400, "warning"),
        (run((1, 400), (396, 1000), higher=0.0), 396, 400, "info"),
        (run((1, 420), (411, 1000), higher=0.5), 411, 420, "warning"),
    ],
)
def test_fires(case: Run, first: int, last: int, severity: str) -> None:
    (found,) = findings("rollback", case)
    assert (found.first_step, found.last_step, found.severity) == (first, last, severity)
    assert f"{last - first + 1:,} steps" in found.message


def test_cost_is_the_repeated_steps_and_the_pause() -> None:
    (found,) = findings("rollback", run((1, 467), (293, 1000)))
    assert found.cost is not None
    assert found.cost.seconds == pytest.approx(175 * 2 + 600)


def test_a_higher_second_pass_is_told() -> None:
    (found,) = findings("rollback", run((1, 467), (293, 1000), higher=0.4))
    assert "higher the second time" in found.message
    (clean,) = findings("rollback", run((1, 467), (293, 1000), higher=0.0))
    assert "higher" not in clean.message


@pytest.mark.parametrize(
    "case",
    [run((1, 1000)), run((1, 467), (468, 1000)), run((1, 467), (500, 1000)), run((1, 300), (301, 600), (601, 1000))],
)
def test_quiet(case: Run) -> None:
    assert findings("rollback", case) == []


def test_needs_steps() -> None:
    assert isinstance(answer("rollback", run_of(np.ones(10), positional=True)), NotApplicable)
