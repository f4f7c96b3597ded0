"""Values that are no measurement a row: what a detector said of them as logged, and its silence once they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.detectors.door import falling, findings, run_of
from trainlens import context
from trainlens.model import Run

N = 2000
CHANCE = np.random.default_rng(1)
LOSS = falling(N, scatter=0.03, seed=3)
TIME = np.exp(0.02 * CHANCE.normal(size=N))
NORM = 0.6 * np.exp(0.1 * CHANCE.normal(size=N))
RARE = np.arange(99, N, 100)
EVALS = falling(20, seed=8, start=4)


def mean_since(values: Any, rows: int) -> Any:
    """The running mean that begins anew each so many rows."""
    parts = [values[at : at + rows] for at in range(0, len(values), rows)]
    return np.concatenate([np.cumsum(part) / np.arange(1, len(part) + 1) for part in parts])


def sum_since(values: Any, rows: int) -> Any:
    return mean_since(values, rows) * np.tile(np.arange(1, rows + 1), -(-len(values) // rows))[: len(values)]


def at(values: Any, rows: Any, value: float) -> Any:
    changed = np.array(values, float)
    changed[rows] = value
    return changed


def _spread() -> Any:
    spread = np.zeros(N)
    spread[RARE] = EVALS
    return spread


FOOLED: list[tuple[str, str, Any, str]] = [
    ("loss-spike", "train/loss", mean_since(LOSS, 400), "is a mean since each of 5 resets"),
    ("slowdown", "step_time", mean_since(at(TIME, slice(0, None, 500), 20.0), 500), "is a mean since each of 4 resets"),
    ("loss-divergence", "train/loss", np.cumsum(LOSS), "is a sum since the start"),
    ("loss-divergence", "train/loss", sum_since(LOSS, 400), "is a sum since resets"),
    ("slowdown", "step_time", np.cumsum(TIME), "is a sum since the start"),
    ("slowdown", "step_time", sum_since(TIME, 500), "is a sum since resets"),
    ("data-loading-wait", "data_time", np.cumsum(0.02 * TIME), "is a sum since the start"),
    ("loss-spike", "train/loss", at(LOSS, [0, 700, 1200], 1e9), "has 3 values of 1000000000"),
    ("learning-rate-jump", "lr", at(1e-3 * (1 - np.arange(N) / N), [400, 800], -1.0), "has 2 values of -1"),
    (
        "gradient-vanishing",
        "grad_norm",
        at(np.zeros(N), slice(9, None, 10), 1.0) * NORM,
        "is filled with 0 between 200",
    ),
    ("non-finite-value", "eval/loss", np.where(_spread() > 0, _spread(), np.nan), "is filled with NaN between 20"),
    ("non-finite-value", "eval/loss", np.r_[np.full(99, np.nan), np.repeat(EVALS, 100)[: N - 99]], "is carried on"),
]


@pytest.mark.parametrize(("detector", "metric", "values", "why"), FOOLED)
def test_what_fools_a_detector_is_explained(detector: str, metric: str, values: Any, why: str) -> None:
    run = run_of({"train/loss": LOSS, "step_time": TIME, metric: values})
    assert [one for one in findings(detector, run) if one.severity != "info" or detector == "loss-spike"] != []
    judged, away = context.judged(run)
    assert [one for one in findings(detector, judged) if one.severity != "info"] == []
    assert [one.message for one in away if one.metric == metric and why in one.message] != []


def test_rows_between_measurements_do_not_hide_an_overfitting() -> None:
    rises = np.r_[np.linspace(3.0, 2.0, 10), np.linspace(2.02, 2.6, 30)] + 0.003 * CHANCE.normal(size=40)
    run = run_of({"train/loss": LOSS, "eval/loss": np.repeat(rises, N // 40)})
    judged, _ = context.judged(run)
    assert len(judged.get("eval/loss") or ()) == 40
    assert [one.detector for one in findings("overfitting", judged)] == ["overfitting"]


@pytest.mark.parametrize("rows", [100, 400, N])
def test_a_spike_behind_a_mean_is_found(rows: int) -> None:
    spiked = at(LOSS, slice(1300, 1306), 8.0)
    judged, _ = context.judged(run_of(np.round(mean_since(spiked, rows), 4)))
    (found,) = [one for one in findings("loss-spike", judged) if one.severity == "warning"]
    assert abs((found.first_step or 0) - 1301) <= 20


HONEST: list[tuple[str, Any]] = [
    ("train/loss", LOSS),
    ("train/loss", falling(N, scatter=0.001)),
    ("train/loss", falling(N, scatter=0.0)),
    ("train/loss", falling(N, scatter=0.02) - 6),  # below zero
    ("train/loss", 1 / (1 + np.arange(N) / 5) * np.exp(0.3 * CHANCE.normal(size=N))),  # falls with its scatter
    ("train/loss", at(LOSS, slice(1500, None), 0.0)),  # a hidden NaN
    ("train/loss", at(LOSS, [300, 700], 65504.0)),  # half precision's largest: a fault
    ("train/loss", np.cumsum(np.exp(0.1 * CHANCE.normal(size=N))) * 0.001 + 2 + 0.01 * CHANCE.normal(size=N)),
    ("train/loss", np.r_[LOSS[:1000], LOSS[999] * 1.01 ** np.arange(1000)]),  # a divergence without scatter
    ("train/accuracy", 1 - 1 / (1 + np.arange(N) / 20)),
    ("eval/accuracy", np.repeat([0.5, 0.6, 0.6, 0.7, 0.6], 400)),
    ("eval/loss", at(LOSS, slice(1500, None), np.nan)),
    ("eval/loss", at(LOSS, slice(0, None, 2), np.nan)),
    ("grad_norm", at(NORM, slice(0, None, 2), 0.0)),
    ("grad_norm", at(NORM, slice(1000, None), 0.0)),
    ("step_time", TIME * np.linspace(1, 3, N)),
    ("step_time", np.r_[np.full(1000, 1.0), np.full(1000, 2.0)]),
    ("reward", at(CHANCE.normal(size=N), slice(0, None, 50), -1.0)),
    ("policy/loss", at(CHANCE.normal(size=N), slice(0, None, 50), -1.0)),
    ("lr", np.r_[np.linspace(0, 1e-3, 100), np.full(N - 100, 1e-3)]),
]


@pytest.mark.parametrize(("metric", "values"), HONEST)
def test_measurements_are_left_alone(metric: str, values: Any) -> None:
    run = run_of({metric: values})
    judged, away = context.judged(run)
    assert judged is run
    assert away == []


def test_a_loss_that_freezes_among_carried_values_stays_frozen() -> None:
    rare = np.repeat(LOSS[::40], 10)
    values = np.r_[rare, np.full(200, rare[-1])]
    run = run_of({"train/loss": values, "grad_norm": np.r_[NORM[: len(rare)], np.zeros(200)]})
    judged, _ = context.judged(run)
    assert [one.severity for one in findings("flat-loss", judged)] == ["error"]


def test_the_run_that_it_is_held_against_is_read_alike() -> None:
    baseline = run_of({"step_time": np.cumsum(TIME)})
    run: Run = replace(run_of({"step_time": TIME}), baseline=baseline)
    judged, away = context.judged(run)
    assert away == []
    assert judged.baseline is not None
    series = judged.baseline.get("step_time")
    assert series is not None
    assert np.allclose(series.value[1:], TIME[1:])


def test_rows_that_are_means_of_ten_do_not_make_single_ones_spikes() -> None:
    every = falling(10_000, scatter=0.05, seed=2)
    values = np.r_[every[:500], every[500:9990].reshape(-1, 10).mean(axis=1)]
    run = run_of((np.r_[np.arange(1, 501), np.arange(510, 10_000, 10)], values))
    assert len(context.of(run).at("logging interval")) == 1
    assert findings("loss-spike", run) == []
    spiked = at(values, [400, 401], values[400] * 1.8)
    found = findings("loss-spike", run_of((run.series[0].step, spiked)))
    assert [one.first_step for one in found] == [401]


@given(st.lists(st.floats(width=32) | st.sampled_from([-1.0, 0.0, 1e9]), min_size=0, max_size=90), st.integers(0, 3))
def test_anything_can_be_read(values: list[float], which: int) -> None:
    metric = ("train/loss", "eval/loss", "grad_norm", "step_time")[which]
    run = run_of({metric: values})
    judged, away = context.judged(run)
    (series,) = judged.series
    assert len(series.step) == len(series.raw) == len(series.time) == len(series.origin) <= len(values)
    assert (np.diff(series.step) > 0).all()
    assert (judged is run) == (away == [])
