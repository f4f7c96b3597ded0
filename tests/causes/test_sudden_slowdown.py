"""R-G6: what makes steps take longer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.door import events, told, verdicts
from tests.detectors.door import run_of

N, AT = 1_000, 600
STEPS = np.arange(1, N + 1)


def level(before: float, after: float) -> np.ndarray[Any, Any]:
    return np.where(STEPS < AT, before, after) * np.random.default_rng(3).normal(1, 0.002, N)


SLOW = level(1.0, 1.2)
STALLS = np.where(STEPS % 100 == 1, 3.0, 1.0)


def found(curves: dict[str, Any], **more: Any) -> dict[str, str]:
    return verdicts("slowdown", run_of({"step_time": SLOW, **curves}, **more), AT, N, "step_time")


@pytest.mark.parametrize(
    ("cause", "curves", "expected"),
    [
        ("Data reads", {"data_time": level(0.02, 0.2)}, "supported"),
        ("Data reads", {"data_time": level(0.02, 0.03)}, "ruled-out"),
        ("Communication", {"comm_time": level(0.1, 0.28)}, "supported"),
        ("Communication", {"comm_share": level(0.1, 0.24)}, "supported"),
        ("Communication", {"comm_time": level(0.1, 0.1)}, "ruled-out"),
        ("Communication", {"comm_share": level(0.1, 0.1)}, "ruled-out"),
        ("Clocks throttled", {"gpu/sm_clock": level(1_980, 1_700)}, "supported"),
        ("Clocks throttled", {"gpu/power": level(650, 500), "gpu/temperature": level(60, 88)}, "supported"),
        ("Clocks throttled", {"gpu/power": level(650, 500), "gpu/utilization": level(0.98, 0.7)}, "not-measured"),
        ("Clocks throttled", {"gpu/power": level(650, 500), "gpu/utilization": level(0.98, 0.97)}, "supported"),
        ("Clocks throttled", {"gpu/temperature": level(60, 91)}, "supported"),
        ("Clocks throttled", {"gpu/power": level(650, 650)}, "ruled-out"),
        ("Clocks throttled", {"gpu/temperature": level(60, 61)}, "not-measured"),
        ("Longer sequences or larger batches", {"sequence_length": level(2048, 4096)}, "supported"),
        ("Longer sequences or larger batches", {"tokens_per_second": level(1e5, 1e5)}, "supported"),
        ("Longer sequences or larger batches", {"tokens_per_second": level(1.2e5, 1e5)}, "ruled-out"),
        ("Log writing", {}, "not-measured"),
        ("Checkpoint saving", {}, "not-measured"),
    ],
)
def test_causes(cause: str, curves: dict[str, Any], expected: str) -> None:
    assert found(curves)[cause] == expected


def test_nothing_but_the_step_time() -> None:
    assert set(found({}).values()) == {"not-measured"}


@pytest.mark.parametrize(
    ("slow_before", "slow_after", "expected"),
    [(1.0, 1.12, "supported"), (1.12, 1.12, "ruled-out"), (1.0, 1.01, "ruled-out")],
)
@pytest.mark.parametrize("metric", ["compute_time", "step_time"])
def test_straggler(metric: str, slow_before: float, slow_after: float, expected: str) -> None:
    ranks = {f"{metric}@{rank}": level(1.0, 1.0) for rank in range(7)}
    run = run_of({**ranks, f"{metric}@7": level(slow_before, slow_after)})
    verdict = told("slowdown", run, AT, N, "step_time")["Straggling rank"]
    assert verdict.verdict == expected
    assert ("rank 7" in verdict.message) == (expected == "supported" or slow_before > 1.1 or slow_after > 1.005)


@pytest.mark.parametrize(
    ("happened", "facts", "expected"),
    [
        (events("checkpoint-begin", *range(100, N, 100)), {}, "supported"),
        ([], {"save_interval": 100}, "supported"),
        (events("checkpoint-begin", *range(150, N, 100)), {}, "ruled-out"),
        ([], {"save_interval": 77}, "ruled-out"),
        (events("checkpoint-begin", *range(1, N, 2)), {}, "not-measured"),  # at about every step
        ([], {"save_interval": 1}, "not-measured"),
        ([], {}, "not-measured"),
    ],
)
def test_checkpoints(happened: list[Any], facts: dict[str, Any], expected: str) -> None:
    run = run_of({"step_time": STALLS}, facts=facts, events=happened)
    assert verdicts("periodic-stall", run, 1, N, "step_time")["Checkpoint saving"] == expected


def test_evaluation() -> None:
    run = run_of({"step_time": STALLS}, events=events("evaluation", *range(100, N, 100)))
    assert verdicts("periodic-stall", run, 1, N, "step_time")["Evaluation"] == "supported"


def test_a_lasting_slowdown_is_not_its_checkpoints() -> None:
    run = run_of({"step_time": SLOW}, events=events("checkpoint-begin", *range(100, N, 100)))
    assert verdicts("slowdown", run, AT, N, "step_time")["Checkpoint saving"] == "ruled-out"


def test_step_times_from_time_stamps() -> None:
    clock = 1e9 + np.cumsum(STALLS)
    run = run_of({"train/loss": np.full(N, 2.0)}, times={"train/loss": list(clock)}, facts={"save_interval": 100})
    assert verdicts("periodic-stall", run, 1, N, None)["Checkpoint saving"] == "supported"
