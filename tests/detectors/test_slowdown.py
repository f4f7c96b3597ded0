from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import START, answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Run

N = 1000
STEP = np.arange(1, N + 1)
NOISE = np.random.default_rng(7).normal(size=N)


def times(level: Any = 0.5, scatter: float = 0.01) -> Any:
    return level * np.exp(scatter * NOISE)


def after(step: int, factor: float, end: int = N) -> Any:
    return np.where((step <= STEP) & (end >= STEP), factor, 1.0)


def clocked(waits: Any, **more: Any) -> Run:
    """A run whose only sign of speed is the time stamps of its loss."""
    curves = {"train/loss": 2 + 0.01 * NOISE, **more.pop("curves", {})}
    return run_of(curves, times={"train/loss": (START + np.cumsum(waits)).tolist()}, **more)


FIRES: Mapping[str, tuple[Any, int, int, str]] = {
    "sudden, to the end": ({"step_time": times() * after(600, 1.2)}, 600, N, "warning"),
    "a third slower": ({"step_time": times() * after(600, 1.5)}, 600, N, "error"),
    "half as slow again, and over": ({"step_time": times() * after(300, 1.5, 600)}, 300, 600, "warning"),
    "6 % of a quiet cluster": ({"step_time": times(7.1, 0.004) * after(880, 1.06)}, 880, N, "warning"),
    "6.5 % for a while": ({"step_time": times(1.43, 0.003) * after(530, 1.065, 700)}, 530, 700, "warning"),
    "3.5-fold growth from the start": ({"step_time": np.linspace(0.4, 1.4, N) * times(1, 0.02)}, 215, N, "error"),
    "throughput falls too": (
        {"step_time": times() * after(600, 1.2), "tokens_per_second": 1000 / times() / after(600, 1.2)},
        600, N, "warning",
    ),
    "throughput only": ({"tokens_per_second": 1000 / times() / after(600, 1.2)}, 600, N, "warning"),
    "time stamps only": (clocked(times() * after(600, 2.0)), 600, N, "error"),
}  # fmt: skip


@pytest.mark.parametrize("case", FIRES)
def test_fires(case: str) -> None:
    curves, first, last, severity = FIRES[case]
    (found,) = findings("slowdown", curves)
    assert found.severity == severity
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 15
    assert found.last_step is not None
    assert abs(found.last_step - last) <= 15
    assert found.ongoing == (last == N)


def test_running_clock_goes_before_a_running_mean() -> None:
    step = np.arange(10, 10_001, 10)
    elapsed = np.cumsum(np.where(step <= 6000, 10.0, 20.0))
    curves = {"elapsed_s": (step, elapsed), "samples_per_second": (step, step / elapsed)}
    (found,) = findings("slowdown", run_of(curves, about={"elapsed_s": ("clock", "none")}))
    assert found.metric == "elapsed_s"
    assert found.first_step is not None
    assert 5900 <= found.first_step <= 6100
    assert found.evidence[0].observed == pytest.approx(2.0)


def test_the_time_of_each_row_is_no_running_clock() -> None:
    curves = {"time": times() * after(600, 2.0)}
    run = run_of({"train/loss": 2 + 0.01 * NOISE, **curves}, about={"time": ("clock", "none")})
    assert isinstance(answer("slowdown", run), NotApplicable)


def test_cost_is_the_time_beyond_the_earlier_level() -> None:
    (found,) = findings(
        "slowdown", run_of({"step_time": 0.5 * after(601, 1.4) * times(1, 0.002)}, facts={"world_size": 8})
    )
    assert found.cost is not None
    assert found.cost.seconds == pytest.approx(400 * 0.2, rel=0.05)
    assert found.cost.gpu_seconds == pytest.approx(8 * 400 * 0.2, rel=0.05)


def resumed() -> Run:
    """Steady time stamps, while tokens per second are all tokens ever ÷ the time of the new session."""
    step = np.arange(10, 1001, 10)
    rate = np.where(step <= 500, 12_000.0, 24_000 * step / np.maximum(step - 500, 1))
    run = run_of(
        {"train/loss": (step, 3 - step / 1000), "tokens_per_second": (step, rate)},
        times={name: (START + 2.0 * step).tolist() for name in ("train/loss", "tokens_per_second")},
    )
    second = (step > 500).astype(np.int16)
    return replace(run, series=tuple(replace(one, attempt=second) for one in run.series))


def two_hosts() -> Run:
    run = clocked(np.where(STEP == 500, -7200.0, 0.5))
    return replace(run, series=tuple(replace(one, source=(STEP >= 500).astype(np.int16)) for one in run.series))


HEAVY = np.exp(0.1 * np.random.default_rng(3).standard_t(4, N))
QUIET: Mapping[str, Any] = {
    "steady": {"step_time": times()},
    "noisy": {"step_time": times(0.5, 0.1)},
    "heavy tails": {"step_time": 0.5 * HEAVY},
    "first steps compile": {"step_time": np.r_[38.1, 12.4, times()[2:]]},
    "a checkpoint every 100": {"step_time": np.where(STEP % 100 == 0, 9.6, times())},
    "gets faster": {"step_time": times() / after(500, 2)},
    "longer sequences, same tokens/s": {
        "step_time": times() * after(300, 2) * after(600, 2), "tokens_per_second": 164_000 * times(1),
    },
    "larger batches that are logged": {"step_time": times() * after(500, 2), "batch_size": 64 * after(500, 2)},
    "summer time ends": clocked(np.where(STEP == 500, -3590.0, 10.0)),
    "clocks of two hosts": two_hosts(),
    "milliseconds since 1970": run_of(
        {"train/loss": 2 + 0.01 * NOISE}, times={"train/loss": (1000 * (START + 0.5 * STEP)).tolist()}
    ),
    "whole seconds": clocked(0.3 + 0 * NOISE, curves={}),
    "throughput of a resumed session": resumed(),
    "evaluations between rows": clocked(
        np.where((STEP > 500) & (STEP % 5 == 1), 3.0, 0.5), curves={"eval/loss": (STEP[504::5], STEP[504::5] * 0 + 2.0)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert not [found for found in findings("slowdown", QUIET[case]) if found.severity != "info"]


def test_whole_second_stamps_are_read_over_many_rows() -> None:
    run = clocked(times(0.3, 0.05))
    rounded = tuple(replace(one, time=np.floor(one.time)) for one in run.series)
    assert findings("slowdown", replace(run, series=rounded)) == []


@pytest.mark.parametrize("seconds", [0.05, 1.0, 19.5, 20.5, 26.4])
def test_ticks_of_a_clock_are_no_slowdown(seconds: float) -> None:
    """A level that lies between two whole numbers of ticks moves from the one to the other by nothing."""
    points = 20_000
    noise = np.random.default_rng(8).normal(size=points)
    drift = 1 + 0.004 * np.sin(np.arange(points) / 3000)
    clock = np.floor(START + np.cumsum(seconds * drift * np.exp(0.002 * noise)))
    run = run_of({"train/loss": 2 + 0.01 * noise}, times={"train/loss": clock.tolist()})
    assert findings("slowdown", run) == []


def test_a_slowdown_shows_by_a_clock_of_whole_seconds() -> None:
    points = 20_000
    clock = np.floor(START + np.cumsum(np.where(np.arange(points) < 12_000, 0.5, 0.55)))
    run = run_of({"train/loss": 2 + 0.01 * np.ones(points)}, times={"train/loss": clock.tolist()})
    (found,) = findings("slowdown", run)
    assert found.severity == "warning"
    assert found.first_step is not None
    assert abs(found.first_step - 12_000) < 500


def test_a_burst_is_worth_a_line_only() -> None:
    bursts = findings("slowdown", {"step_time": times() * after(400, 1.4, 425)})
    assert [found.severity for found in bursts] in ([], ["info"])


@pytest.mark.parametrize(("points", "at", "factor", "severity"), [(40, 25, 2.0, "error"), (12, 6, 1.15, "warning")])
def test_two_levels_in_a_short_log(points: int, at: int, factor: float, severity: str) -> None:
    seconds = times()[:points] * np.where(np.arange(points) < at, 1.0, factor)
    (found,) = findings("slowdown", {"step_time": seconds})
    assert (found.severity, found.first_step, found.last_step, found.ongoing) == (severity, at + 1, points, True)
    work = {"step_time": seconds, "tokens_per_second": np.full(points, 5000.0)}
    assert isinstance(answer("slowdown", run_of(work)), NotEnoughData)  # longer sequences from there on


@pytest.mark.parametrize("points", [8, 20, 59])
@pytest.mark.parametrize("noise", ["normal", "exponential", "standard_t", "wandering"])
def test_scatter_of_a_short_log_is_no_slowdown(points: int, noise: str) -> None:
    rng = np.random.default_rng(5)
    fired = 0
    for _ in range(60):
        each = {
            "normal": rng.normal(size=points),
            "exponential": rng.exponential(size=points),
            "standard_t": rng.standard_t(3, size=points),
            "wandering": rng.normal(size=points).cumsum() / 3,
        }
        fired += not isinstance(answer("slowdown", run_of({"step_time": np.exp(0.05 * each[noise])})), NotEnoughData)
    assert fired <= 1 + 4 * (noise == "wandering")


def test_says_what_is_missing() -> None:
    assert isinstance(answer("slowdown", run_of({"lr": np.ones(100)})), NotApplicable)
    assert isinstance(answer("slowdown", run_of({"step_time": np.ones(30)})), NotEnoughData)
