"""A run that departs from its baseline is told where; noise, other seeds and other grids of steps are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import Curve, answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Run


def against(now: Mapping[str, Curve], before: Mapping[str, Curve]) -> Run:
    return replace(run_of(now), baseline=run_of(before))


def loss(seed: int, **changed: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return falling(1000, seed=seed, **changed)


@pytest.mark.parametrize(("factor", "severity"), [(1.03, "warning"), (1.2, "error")])
def test_a_loss_that_ends_higher(factor: float, severity: str) -> None:
    worse = loss(1) * np.where(np.arange(1000) < 400, 1.0, factor)
    ((first, last, how),) = fires("baseline-drift", against({"train/loss": worse}, {"train/loss": loss(2)}))
    assert (last, how) == (1000, severity)
    assert first is not None
    assert 350 <= first <= 450


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"step_time": np.full(500, 1.1)}, {"step_time": np.full(500, 1.0)}),
        ({"tokens_per_second": np.full(500, 90.0)}, {"tokens_per_second": np.full(500, 100.0)}),
        ({"eval/accuracy": ([10, 20, 30, 40, 50], [0.5] * 5)}, {"eval/accuracy": ([10, 20, 30, 40, 50], [0.6] * 5)}),
        ({"bench/gsm8k": ([10, 20, 30, 40, 50], [0.5] * 5)}, {"bench/gsm8k": ([10, 20, 30, 40, 50], [0.6] * 5)}),
    ],
)
def test_slower_or_worse_in_its_own_direction(now: Mapping[str, Curve], before: Mapping[str, Curve]) -> None:
    assert len(fires("baseline-drift", against(now, before))) == 1
    assert fires("baseline-drift", against(before, now)) == []


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"train/loss": loss(1)}, {"train/loss": loss(1)}),
        ({"train/loss": loss(1)}, {"train/loss": loss(2)}),
        ({"train/loss": loss(1, scatter=0.08)}, {"train/loss": loss(2, scatter=0.08)}),
        ({"train/loss": loss(1, scatter=0.05, tails=4)}, {"train/loss": loss(2, scatter=0.05, tails=4)}),
        ({"train/loss": loss(1) * 0.9}, {"train/loss": loss(2)}),
        ({"train/loss": loss(1)}, {"train/loss": (np.arange(1, 1001, 7), loss(2)[::7])}),
        ({"train/loss": loss(1)}, {"train/loss": (np.arange(3, 1000, 10), loss(2)[2:999:10])}),
        ({"train/loss": loss(1)[:995]}, {"train/loss": loss(2)}),
        ({"step_time": np.full(500, 1.03)}, {"step_time": np.full(500, 1.0)}),
        ({"step_time": np.where(np.arange(500) % 50, 1.0, 9.0)}, {"step_time": np.full(500, 1.0)}),
        ({"train/loss": loss(1), "grad_norm": np.full(1000, 5.0)}, {"train/loss": loss(2), "grad_norm": np.ones(1000)}),
        ({"train/loss": loss(1), "other": np.full(9, 5.0)}, {"train/loss": loss(2), "other": np.full(9, 1.0)}),
        ({"train/loss": np.where(np.arange(1000) == 500, 20.0, loss(1))}, {"train/loss": loss(2)}),
    ],
)
def test_quiet(now: Mapping[str, Curve], before: Mapping[str, Curve]) -> None:
    assert fires("baseline-drift", against(now, before)) == []


def test_exact_is_exact() -> None:
    run = against({"train/loss": loss(1)}, {"train/loss": loss(1)})
    assert fires("baseline-drift", run, exact=True) == []
    changed = loss(1)
    changed[700:] *= 1.00001
    assert fires("baseline-drift", against({"train/loss": changed}, {"train/loss": loss(1)}), exact=True) == [
        (701, 1000, "error")
    ]
    assert fires("baseline-drift", against({"step_time": loss(1)}, {"step_time": loss(2)}), exact=True) == []
    broken = loss(1)
    broken[500] = np.nan
    run = against({"train/loss": broken}, {"train/loss": loss(1)})
    assert fires("baseline-drift", run, exact=True) == [(501, 1000, "error")]
    assert "where it is no number" in findings("baseline-drift", run, exact=True)[0].message


def test_a_metric_that_was_lost() -> None:
    (found,) = findings("baseline-drift", against({"train/loss": loss(1)}, {"train/loss": loss(2), "eval/loss": [3.0]}))
    assert (found.metric, found.severity, found.first_step) == ("eval/loss", "warning", None)


def test_a_run_that_ends_before_the_baseline_is_told_so() -> None:
    (found,) = findings("baseline-drift", against({"train/loss": loss(1)[:300]}, {"train/loss": loss(2)}))
    assert (found.severity, found.title) == ("info", "Ends at step 300, the baseline at 1,000")


def test_nothing_to_be_held_against() -> None:
    assert isinstance(answer("baseline-drift", run_of(loss(1))), NotApplicable)
    apart = against({"train/loss": (np.arange(10), np.ones(10))}, {"train/loss": (np.arange(100, 110), np.ones(10))})
    assert isinstance(answer("baseline-drift", apart), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("loss", 0.5), ("speed", 0.5)])
def test_a_wider_limit_silences(option: str, value: float) -> None:
    now = {"train/loss": loss(1) * 1.2, "step_time": np.full(1000, 1.2)}
    before = {"train/loss": loss(2), "step_time": np.ones(1000)}
    assert len(fires("baseline-drift", against(now, before))) == 2
    assert len(fires("baseline-drift", against(now, before), **{option: value})) == 1
