from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.signals import schedules

N = 1000
STEP = np.arange(N, dtype=float)
WARM = np.minimum((STEP + 1) / 50, 1)
COSINE = WARM * 3e-4 * (0.1 + 0.45 * (1 + np.cos(np.pi * STEP / N)))
CONSTANT = WARM * 3e-4


def but(curve: Any, first: int, last: int, change: Callable[[Any], Any]) -> Any:
    """The curve with the rows `first` to `last` (0-based, exclusive) changed."""
    made = np.array(curve)
    made[first:last] = change(made[first:last])
    return {"lr": made}


@pytest.mark.parametrize(
    ("curves", "first", "severity"),
    [
        (but(COSINE, 400, 420, lambda rate: rate * 10), 401, "warning"),
        (but(COSINE, 400, N, lambda rate: rate * 1.3), 401, "warning"),
        (but(COSINE, 400, 401, lambda rate: rate * 3), 401, "warning"),
        (but(COSINE, 400, 430, lambda rate: rate * np.linspace(0.01, 1, 30)), 401, "warning"),
        (but(COSINE, 400, N, lambda rate: rate * 1e-5), 401, "error"),
        (but(COSINE, 400, N, lambda rate: COSINE[: len(rate)]), 401, "warning"),
        (but(CONSTANT, 400, 500, lambda rate: rate * 0), 401, "warning"),
        ({"lr": 1e-7 * np.r_[np.ones(100), (np.arange(900) % 180) / 180]}, 101, "warning"),
        (but(CONSTANT, 0, N, lambda rate: rate * 0), 1, "error"),
        (but(CONSTANT, 0, 100, lambda rate: rate * 0), 1, "error"),
        (but(CONSTANT, 400, 450, lambda rate: rate / 50), 401, "warning"),
        (but(CONSTANT, 300, 310, lambda rate: rate * np.nan), 301, "error"),
    ],
)
def test_fires(curves: Any, first: int, severity: str) -> None:
    (found,) = findings("learning-rate-jump", curves)
    assert (found.first_step, found.severity) == (first, severity)


CYCLE = 0.5 * (1 + np.cos(np.pi * (STEP % 250) / 250))
DOUBLED = np.concatenate([0.5 * (1 + np.cos(np.pi * np.arange(k) / k)) for k in (140, 280, 580)])
QUIET = {
    "cosine": {"lr": COSINE},
    "constant": {"lr": np.full(N, 3e-4)},
    "linear to zero": {"lr": WARM * 3e-4 * (1 - STEP / (N - 1))},
    "zero in the first row": {"lr": np.minimum(STEP / 60, 1) * 3e-4},
    "warmup in four rows": {"lr": np.r_[0.0, 1, 2, 3, np.full(40, 4.0)] * 1e-4},
    "warmup of a third of the run": {"lr": np.minimum(STEP / 330, 1) * 3e-4},
    "multi-step": {"lr": 3e-4 * np.where(STEP < 800, 1, np.where(STEP < 900, 0.316, 0.1))},
    "halved each 100": {"lr": 3e-4 * 0.5 ** (STEP // 100)},
    "warmup, stable, decay": {"lr": WARM * 3e-4 * np.minimum(1, (N - STEP) / 100)},
    "inverse root": {"lr": 3e-4 * np.minimum((STEP + 1) / 100, (100 / (STEP + 1)) ** 0.5)},
    "exponential": {"lr": 3e-4 * 0.995**STEP},
    "cosine restarts": {"lr": 3e-4 * CYCLE},
    "restarts of double length": {"lr": 3e-4 * DOUBLED},
    "one restart": {"lr": 3e-4 * 0.5 * (1 + np.cos(np.pi * (STEP % 500) / 500))},
    "two figures printed": {"lr": np.array([float(f"{rate:.1e}") for rate in WARM * 3e-4 * (1 - STEP / N)])},
    "rows left out of a decay": {"lr": (np.r_[1:400, 440:1001], np.delete(COSINE, slice(399, 439)))},
    "rate range test": {"lr": 1e-6 * 1.01**STEP},
    "few rows, low at first": {"lr": np.r_[np.full(3, 1e-5), np.full(12, 1e-4)]},
    "few rows, cosine": {"lr": COSINE[::60]},
    "few rows, restarts": {"lr": 3e-4 * CYCLE[::50]},
    "zeros at first": {"lr": np.r_[np.zeros(5), np.linspace(0, 3e-4, 50), np.full(145, 3e-4)]},
    "decay by a twentieth each 50": {"lr": 3e-4 * 0.95 ** (STEP // 50)},
    "rows twice as far apart from the middle on": {
        "lr": (np.r_[1:500, 501:1001:2], np.r_[COSINE[:499], COSINE[500::2]])
    },
}


@pytest.mark.parametrize("share", [0.97, 0.9, 1.04])
def test_a_schedule_that_goes_on_from_another_rate_is_a_line(share: float) -> None:
    (found,) = findings("learning-rate-jump", {"lr": np.where(STEP < 400, COSINE, share * COSINE)})
    assert (found.severity, found.first_step) == ("info", 401)
    assert "goes on from another rate" in found.title


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("learning-rate-jump", QUIET[case]) == []


def test_needs_points() -> None:
    assert isinstance(answer("learning-rate-jump", run_of({"lr": np.ones(5)})), NotEnoughData)


@pytest.mark.parametrize(
    ("rate", "family", "warmup"),
    [
        (COSINE, "cosine", 50),
        (COSINE[:600], "cosine", 50),
        (CONSTANT, "constant", 50),
        (np.full(N, 3e-4), "constant", 0),
        (WARM * (1 - STEP / N), "linear", 50),
        (WARM * np.minimum(1, (N - STEP) / 100), "warmup-stable-decay", 50),
        (np.where(STEP < 800, 1, np.where(STEP < 900, 0.316, 0.1)), "multi-step", 0),
        (np.minimum((STEP + 1) / 100, (100 / (STEP + 1)) ** 0.5), "inverse-sqrt", 100),
        (0.995**STEP, "exponential", 0),
        (CYCLE, "restarts", 0),
        (STEP / N, "warmup-only", N),
        (np.random.default_rng(1).random(N), "unknown", None),
        (np.ones(5), "unknown", 0),
    ],
)
def test_schedules_are_recognised(rate: Any, family: str, warmup: int | None) -> None:
    schedule = schedules.identify(np.arange(1, len(rate) + 1), np.asarray(rate, float))
    assert schedule.family == family
    if warmup is not None:
        assert abs(schedule.warmup_steps - warmup) <= 5


def test_a_decay_goes_on_where_rows_are_missing() -> None:
    steps = np.r_[np.arange(1, 700), np.arange(860, 1001)]
    cosine = 1e-3 * (0.02 + 0.49 * (1 + np.cos(np.pi * steps / 1000)))
    assert cosine[699] < cosine[698] / 1.5
    assert findings("learning-rate-jump", {"lr": (steps, cosine)}) == []
    assert len(findings("learning-rate-jump", {"lr": (steps, np.where(steps >= 860, 5 * cosine, cosine))})) == 1
