from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Run
from trainlens.signals import schedules

N = 1000
STEP = np.arange(N, dtype=float)
WARM = np.minimum((STEP + 1) / 50, 1)
PART = np.clip((STEP - 50) / (N - 51), 0, 1)
COSINE = WARM * 3e-4 * (0.1 + 0.45 * (1 + np.cos(np.pi * PART)))
CONSTANT = WARM * 3e-4
SPENT = WARM * 3e-4 * 0.5 * (1 + np.cos(np.pi * np.minimum(1, PART / 0.7)))
STRETCHED = WARM * 3e-4 * 0.5 * (1 + np.cos(np.pi * PART / 2))


def resumed(rate: Any, at: int) -> Run:
    """A run whose second attempt begins at a row."""
    run = run_of({"lr": rate})
    (series,) = run.series
    return replace(run, series=(replace(series, attempt=(np.arange(len(rate)) >= at).astype(np.int16)),))


@pytest.mark.parametrize(
    ("run", "first", "severity"),
    [
        (resumed(np.r_[COSINE[:600], COSINE[:400]], 600), 601, "warning"),
        (run_of({"lr": SPENT}), 717, "warning"),
        (run_of({"lr": CONSTANT}, facts={"lr_decay_style": "cosine", "train_iters": 1000}), 50, "warning"),
        (run_of({"lr": CONSTANT}, facts={"lr_scheduler_type": "linear", "max_steps": 2000}), 50, "warning"),
        (run_of({"lr": STRETCHED}, facts={"train_iters": 1000, "lr_decay_iters": 2000}), 1000, "warning"),
        (run_of({"lr": COSINE}, facts={"lr_decay_style": "linear", "train_iters": 1000}), 1, "info"),
    ],
)
def test_fires(run: Run, first: int, severity: str) -> None:
    (found,) = findings("schedule", run)
    assert found.first_step is not None
    assert abs(found.first_step - first) <= 15
    assert found.severity == severity


@pytest.mark.parametrize(
    "run",
    [
        run_of({"lr": COSINE}),
        run_of({"lr": COSINE}, facts={"lr_decay_style": "cosine", "train_iters": 1000, "lr_decay_iters": 1000}),
        run_of({"lr": COSINE[:500]}, facts={"lr_decay_style": "cosine", "train_iters": 1000}),
        run_of({"lr": CONSTANT}),
        run_of({"lr": CONSTANT}, facts={"lr_scheduler_type": "constant_with_warmup", "max_steps": 1000}),
        run_of({"lr": CONSTANT}, facts={"lr_scheduler_type": "warmup_stable_decay", "max_steps": 1200}),
        run_of({"lr": CONSTANT[:200]}, facts={"lr_scheduler_type": "cosine", "max_steps": 1000}),
        run_of({"lr": CONSTANT}, facts={"lr_scheduler_type": "SchedulerType.COSINE", "max_steps": -1}),
        run_of({"lr": STRETCHED}),
        run_of({"lr": STRETCHED[:400]}, facts={"train_iters": 1000, "lr_decay_iters": 2000}),
        run_of({"lr": WARM * 3e-4 * (1 - 0.9 * np.minimum(1, PART / 0.7))}),  # held at a tenth: still trains
        run_of({"lr": 3e-4 * np.where(STEP < 800, 1, np.where(STEP < 900, 0.316, 0.1))}),
        run_of({"lr": 3e-4 * 0.5 * (1 + np.cos(np.pi * (STEP % 250) / 250))}),
        resumed(COSINE, 600),
        resumed(np.full(N, 3e-4), 600),
        resumed(np.r_[COSINE[:20], COSINE[5:]], 20),
    ],
)
def test_quiet(run: Run) -> None:
    assert findings("schedule", run) == []


def test_needs_points() -> None:
    assert isinstance(answer("schedule", run_of({"lr": np.ones(5)})), NotEnoughData)


ONE_CYCLE = 1e-5 + np.where(
    STEP < 300, 0.04 + 0.48 * (1 - np.cos(np.pi * STEP / 300)), 0.5 * (1 + np.cos(np.pi * (STEP - 300) / 700))
)
TRIANGLES = 0.1 + 0.9 * (1 - np.abs(2 * ((STEP / 200) % 1) - 1))


@pytest.mark.parametrize(
    ("rate", "family"),
    [
        (ONE_CYCLE, "one-cycle"),
        (TRIANGLES, "cyclic"),
        (0.5 * (1 + np.cos(np.pi * (STEP % 200) / 200)), "restarts"),
        (WARM * (1 - PART) ** 2, "polynomial"),
        (WARM * np.minimum(1, (1 - PART) / 0.8), "warmup-stable-decay"),
        (WARM * (1 - np.sqrt(np.clip((PART - 0.7) / 0.3, 0, 1))), "warmup-stable-decay"),
        (np.where(STEP == 500, 10, 1) * COSINE, "cosine"),
    ],
)
def test_more_schedules_are_recognised(rate: Any, family: str) -> None:
    assert schedules.identify(np.arange(1, N + 1), np.asarray(rate, float)).family == family


@pytest.mark.parametrize("form", ["%.1e", "%.3E", "%.6f", "%.8f"])
@pytest.mark.parametrize("every", [1, 7])
def test_rates_as_printed_are_recognised(form: str, every: int) -> None:
    """Two figures, fixed decimals: the steps of rounding are no multi-step schedule."""
    for rate, family in ((COSINE, "cosine"), (WARM * 3e-4 * (1 - PART), "linear"), (CONSTANT, "constant")):
        printed = np.array([float(form % one) for one in rate[::every]])
        assert schedules.identify(1 + every * np.arange(len(printed)), printed).family == family


def test_where_it_stands_still_at_the_end() -> None:
    found = schedules.identify(np.arange(1, N + 1), SPENT)
    assert found.family == "cosine"
    assert found.held_from is not None
    assert abs(found.held_from - 716) <= 10
    assert schedules.identify(np.arange(1, N + 1), COSINE).held_from is None


def test_a_schedule_without_a_warmup_that_begins_again() -> None:
    rate = 1e-3 * (0.1 + 0.45 * (1 + np.cos(np.pi * np.arange(1000) / 1000)))
    run = run_of({"lr": np.r_[rate[:600], rate[:400]]})
    attempt = (np.arange(1000) >= 600).astype(np.int16)
    run = replace(run, series=(replace(run.series[0], attempt=attempt),))
    assert [one.title for one in findings("schedule", run)] == ["The schedule begins again at step 601"]
