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


def late(begin: int, end: int, points: int = 4000, scatter: float = 0.02) -> Floats:
    """Fast to 6.2, slowly until `end`, and on from there by a power law."""
    step = np.arange(1, points + 1)
    first = 6.2 + 4 * np.exp(-step / (begin / 5))
    slow = 0.12 * np.log(np.minimum(step, end))
    then = slow + 2.2 * (1 - (end / np.maximum(step, end)) ** 0.7)
    return np.asarray((first - then) * (1 + scatter * np.random.default_rng(7).normal(size=points)))


@pytest.mark.parametrize(("begin", "end"), [(150, 1400), (100, 600), (300, 2000)])
def test_learning_that_sets_in_late_is_worth_a_line(begin: int, end: int) -> None:
    (found,) = findings("loss-plateau", late(begin, end))
    assert found.severity == "info"
    assert found.title.startswith("Learning set in late")
    assert found.last_step is not None
    assert abs(found.last_step - end) < 0.25 * end


@pytest.mark.parametrize("seed", range(3))
def test_a_power_law_never_sets_in_late(seed: int) -> None:
    scatter = 1 + 0.03 * np.random.default_rng(seed).standard_t(4, size=3000)
    path = 2 + 6 * (1 + np.arange(3000) / 30) ** -(0.3 + 0.2 * seed)
    stairs = path * np.repeat([1.0, 0.8, 0.6], 1000)
    assert findings("loss-plateau", path * scatter) == []
    assert not any(one.title.startswith("Learning set in") for one in findings("loss-plateau", stairs * scatter))
