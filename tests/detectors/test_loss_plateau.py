"""A kink into a flat stretch is a plateau; power laws, schedules, converged and noisy runs are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats


def law(steps: Floats, scatter: float = 0.01, seed: int = 0, level: float = 2.0) -> Floats:
    noise = np.random.default_rng(seed).normal(size=len(steps))
    return np.asarray((level + 8 * (steps + 20) ** -0.4) * np.exp(scatter * noise))


def stuck(at: int = 600, points: int = 4000, until: int | None = None) -> Floats:
    steps = np.arange(points, dtype=float)
    held = points if until is None else until
    return law(np.r_[steps[:at], np.full(held - at, at), steps[at : points - held + at]])


CONSTANT = np.full(4000, 3e-4)


@pytest.mark.parametrize("at", [300, 600, 1200])
def test_a_kink_into_a_flat_rest_is_a_plateau(at: int) -> None:
    ((first, last, severity),) = fires("loss-plateau", {"train/loss": stuck(at), "lr": CONSTANT})
    assert severity == "warning"
    assert last == 4000
    assert first is not None
    assert 0.8 * at < first < 1.6 * at + 100


def test_a_plateau_that_ends_is_found_within_the_run() -> None:
    (found,) = findings("loss-plateau", {"train/loss": stuck(1800, 4000, until=2900), "lr": CONSTANT})
    assert found.severity == "warning"
    assert not found.ongoing
    assert found.first_step is not None
    assert found.last_step is not None
    assert 1500 < found.first_step < 2200
    assert 2500 < found.last_step < 3100


def late(points: int, begin: float, end: float, scatter: float, seed: int = 0) -> Floats:
    """A loss that falls, stands from `begin` to `end` (shares of the run), then falls all along to 2."""
    x = np.linspace(0, 1, points)
    fall = np.where(x < begin, 1 + 0.5 * np.exp(-6 * x / begin), np.exp(-5 * np.maximum(0, x - end)))
    noise = np.random.default_rng(seed).normal(size=points)
    return np.asarray((2 + 4 * fall) * np.exp(scatter * noise))


@pytest.mark.parametrize(("points", "begin"), [(100, 0), (100, 0.1), (250, 0), (4000, 0)])
@pytest.mark.parametrize("scatter", [0.003, 0.02])
def test_learning_that_sets_in_late_is_told_as_info(points: int, begin: float, scatter: float) -> None:
    (found,) = findings("loss-plateau", late(points, begin or 1e-9, 0.4, scatter))
    assert found.severity == "info"
    assert not found.ongoing
    assert found.first_step is not None
    assert found.last_step is not None
    assert found.first_step < 0.25 * points
    assert 0.3 * points < found.last_step < 0.55 * points


@pytest.mark.parametrize(
    "rate",
    [np.r_[np.linspace(0, 1, 100), np.ones(150)], np.r_[np.ones(100), np.geomspace(0.4, 0.01, 150)]],
    ids=["it was warming up", "it decays after the stretch"],
)
def test_a_rate_that_explains_it_silences(rate: Floats) -> None:
    assert fires("loss-plateau", {"train/loss": late(250, 1e-9, 0.4, 0.003), "lr": rate}) == []


def healthy(points: int, scatter: float, shape: str, seed: int) -> Floats:
    """A power law as a schedule shapes it, with heavy tails."""
    random = np.random.default_rng(seed)
    x = np.linspace(0, 1, points)
    law = 2 + random.uniform(2, 8) * (1 + x / random.uniform(0.01, 0.1)) ** -random.uniform(0.3, 0.8)
    by_rate = {
        "constant": np.ones(points),
        "cosine": 1 - 0.04 * (1 - np.cos(np.pi * x)),
        "stable, decay": 1 - 0.06 * np.clip((x - 0.8) / 0.2, 0, 1),
        "warmup": np.where(x < 0.05, law[0] / law, 1),
    }[shape]
    return np.asarray(law * by_rate * np.exp(scatter * random.standard_t(4, points) / 2**0.5))


@pytest.mark.parametrize("shape", ["constant", "cosine", "stable, decay", "warmup"])
@pytest.mark.parametrize("scatter", [0.005, 0.02, 0.06])
@pytest.mark.parametrize("points", [60, 200, 1000])
def test_simulated_healthy_runs_stay_quiet(points: int, scatter: float, shape: str) -> None:
    found = [fires("loss-plateau", healthy(points, scatter, shape, seed)) for seed in range(6)]
    assert found == [[]] * 6


def test_a_dead_learning_rate_makes_it_an_error() -> None:
    rate = np.r_[np.full(600, 3e-4), np.zeros(3400)]
    assert [one[2] for one in fires("loss-plateau", {"train/loss": stuck(600), "lr": rate})] == ["error"]


def stages() -> Floats:
    """A constant phase that still falls, then a decay that falls fast."""
    steps = np.arange(1000)
    return np.asarray(3.4 - 0.5 * steps / 800 + 3 * np.exp(-steps / 25) - 0.3 * np.clip((steps - 800) / 200, 0, 1)) + (
        0.02 * np.random.default_rng(1).normal(size=1000)
    )


def epochs() -> Floats:
    parts = [
        level + 0.03 * np.random.default_rng(level_seed).normal(size=300)
        for level_seed, level in enumerate((1.1, 0.72, 0.41))
    ]
    return np.concatenate([np.linspace(3, 1.1, 100), *parts])


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(seed=seed) for seed in range(4)],
        *[falling(4000, scatter=0.08, tails=5, seed=seed) for seed in range(4)],
        *[law(np.arange(4000.0), seed=seed) for seed in range(4)],
        law(np.arange(400.0), scatter=0.08),
        stages(),
        epochs(),
        np.r_[np.full(300, 10.8), falling(2000, start=10.8)] + 0.02 * np.random.default_rng(2).normal(size=2300),
        stuck(2000) * np.r_[np.ones(2000), np.linspace(1, 1.6, 2000)],
        0.7 * np.exp(-np.arange(500) / 45) + 1e-5,
        -falling(),
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_no_warning_on_what_still_learns_or_was_never_flat(loss: Floats) -> None:
    found = fires("loss-plateau", {"train/loss": loss, "lr": np.full(len(loss), 3e-4)})
    assert [one for one in found if one[2] != "info"] == []


def test_the_end_of_a_decayed_rate_is_left_out() -> None:
    steps = np.arange(2000.0)
    rate = np.where(steps < 1500, 3e-4, 3e-6)
    loss = law(np.r_[steps[:1500], np.full(500, 1500)])
    assert fires("loss-plateau", {"train/loss": loss, "lr": rate}) == []


def test_a_flat_last_quarter_is_info_only_while_the_rate_is_high() -> None:
    loss = falling(500, start=3.2, end=2.5, scatter=0.1)
    high = fires("loss-plateau", {"train/loss": loss, "lr": np.full(500, 3e-4)})
    assert [one[2] for one in high] == ["info"]
    decayed = np.r_[np.full(300, 3e-4), np.linspace(3e-4, 0, 200)]
    assert fires("loss-plateau", {"train/loss": loss, "lr": decayed}) == []


def test_policies_and_few_points_are_not_judged() -> None:
    assert isinstance(answer("loss-plateau", run_of({"policy/loss": stuck()})), NotApplicable)
    assert isinstance(answer("loss-plateau", run_of(falling(50))), NotEnoughData)


def test_a_stricter_threshold_silences() -> None:
    assert fires("loss-plateau", {"train/loss": stuck(), "lr": CONSTANT}, slope=-1.0, quarter=-1.0) == []
