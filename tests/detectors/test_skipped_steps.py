from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Event

N = 1000
STEP = np.arange(1, N + 1)
DRAW = np.random.default_rng(14).random(N)


def skipped(share: float, first: int = 1, last: int = N) -> Any:
    return {"skipped_steps": ((share > DRAW) & (first <= STEP) & (last >= STEP)).astype(float)}


def told(steps: Any, ranks: int = 1) -> list[Event]:
    return [
        Event(
            "overflow", f"OVERFLOW! Rank {rank} Skipping step {step}.", step=int(step), rank=rank if ranks > 1 else -1
        )
        for step in steps
        for rank in range(ranks)
    ]


@pytest.mark.parametrize(
    ("run", "first", "last"),
    [
        (run_of(skipped(0.34, 601, 900)), 601, 900),
        (run_of({"skipped_steps": np.cumsum(skipped(0.34, 601, 900)["skipped_steps"])}), 601, 900),
        (run_of({"train/loss": np.ones(N)}, events=told(range(600, 640))), 600, 640),
        (run_of({"train/loss": np.ones(N)}, events=told(range(600, 640), ranks=8)), 600, 640),
        (run_of({"skipped_steps": (STEP * 10, np.where((STEP > 500) & (STEP < 520), 8.0, 0.0))}), 5010, 5190),
    ],
)
def test_fires(run: Any, first: int, last: int) -> None:
    (found,) = findings("skipped-steps", run)
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 15
    assert found.last_step is not None
    assert abs(found.last_step - last) <= 15
    assert found.severity in ("warning", "error")


SEARCH = {"skipped_steps": np.where(STEP <= 8, 1.0, 0.0)}
QUIET: dict[str, Any] = {
    "none": run_of(skipped(0.0)),
    "search at the start": run_of(SEARCH),
    "search in rows of ten": run_of({"skipped_steps": (STEP[:60] * 10, np.r_[10.0, 8.0, 1.0, np.zeros(57)])}),
    "one in five hundred": run_of({"skipped_steps": (STEP % 500 == 499).astype(float)}),
    "one in a hundred": run_of({"skipped_steps": (STEP % 100 == 99).astype(float)}),
    "two together": run_of({"skipped_steps": np.isin(STEP, (500, 501)).astype(float)}),
    "a counter that stands still": run_of({"skipped_steps": np.where(STEP > 5, 7.0, STEP)}),
    "one overflow told by 16 ranks": run_of({"train/loss": np.ones(N)}, events=told([500], ranks=16)),
    "isolated overflows": run_of({"train/loss": np.ones(N)}, events=told([90, 400, 800])),
}  # fmt: skip


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("skipped-steps", QUIET[case]) == []


@pytest.mark.parametrize(
    ("skips", "every", "severity", "last", "says"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1, "info", 4, "4 of 4 steps"),
        (np.full(6, 10.0), 10, "warning", 60, "60 of 60 steps"),
        (np.r_[10.0, 8.0, 1.0, np.zeros(17)], 10, "info", 30, "19 of 200 steps"),
        (np.r_[np.ones(12), np.zeros(88)], 1, "info", 12, "12 of 100 steps"),
    ],
)
def test_a_search_that_takes_much_of_the_log_is_worth_a_line(
    skips: Any, every: int, severity: str, last: int, says: str
) -> None:
    (found,) = findings("skipped-steps", run_of({"skipped_steps": (every * np.arange(1, len(skips) + 1), skips)}))
    assert (found.severity, found.last_step) == (severity, last)
    assert says in found.message


def test_a_log_that_begins_in_the_middle_has_no_search_at_its_start() -> None:
    skips = np.r_[np.ones(12), np.zeros(88)]
    (found,) = findings("skipped-steps", run_of({"skipped_steps": (np.arange(90_001, 90_101), skips)}))
    assert (found.severity, found.first_step) == ("error", 90_001)


def test_needs_points() -> None:
    assert isinstance(answer("skipped-steps", run_of({"skipped_steps": np.zeros(5)})), NotEnoughData)
