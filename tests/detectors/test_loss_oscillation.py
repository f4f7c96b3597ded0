"""One narrow line in the spectrum is an oscillation; noise, staircases, spikes and drifts are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats


def swinging(period: float, amplitude: float, points: int = 1200, begin: int = 0, shape: str = "sine") -> Floats:
    phase = np.arange(points) * 2 * np.pi / period
    wave = np.sin(phase) if shape == "sine" else np.sign(np.sin(phase))
    return np.asarray(falling(points, scatter=0.02) + amplitude * wave * (np.arange(points) >= begin))


@pytest.mark.parametrize(
    ("loss", "period"),
    [
        (swinging(44, 0.15), 44),
        (swinging(12, 0.15), 12),
        (swinging(110, 0.2), 110),
        (swinging(60, 0.15, shape="square"), 60),
        (swinging(60, 0.1, points=6000), 60),
    ],
)
def test_a_swing_is_found_with_its_period(loss: Floats, period: float) -> None:
    (found,) = findings("loss-oscillation", loss)
    assert found.severity == "warning"
    (told,) = [one.observed for one in found.evidence if one.text == "period"]
    assert isinstance(told, float)
    assert told == pytest.approx(period, rel=0.05)


def test_the_onset_is_where_the_swing_begins() -> None:
    ((first, last, _),) = fires("loss-oscillation", swinging(30, 0.25, points=2000, begin=1000))
    assert first is not None
    assert 880 < first < 1120
    assert last == 2000


def test_the_period_is_in_steps() -> None:
    steps = np.arange(1200) * 10
    (found,) = findings("loss-oscillation", (steps, swinging(44, 0.15)))
    assert "440 steps" in found.title or "every 4" in found.title


def staircase() -> Floats:
    """Ten epochs, each a step down: periodic, but no swing."""
    return np.asarray(3.0 - 0.15 * (np.arange(1200) // 120) + 0.03 * np.random.default_rng(1).normal(size=1200))


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(1200, seed=seed) for seed in range(5)],
        *[falling(1200, scatter=0.1, tails=5, seed=seed) for seed in range(5)],
        swinging(44, 0.01),
        staircase(),
        falling(1200) * np.where(np.arange(1200) == 600, 5.0, 1.0),
        falling(1200) + 0.3 * np.sin(np.arange(1200) / 380),
        np.cumsum(np.random.default_rng(2).normal(0, 0.01, 1200)) + 3,
        np.full(400, 2.0),
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_quiet(loss: Floats) -> None:
    assert fires("loss-oscillation", loss) == []


def test_policies_and_few_points() -> None:
    assert isinstance(answer("loss-oscillation", run_of({"policy/loss": swinging(44, 0.2)})), NotApplicable)
    assert isinstance(answer("loss-oscillation", run_of(falling(100))), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("line", 1e9), ("share", 0.999), ("size", 0.9)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    assert fires("loss-oscillation", swinging(44, 0.15), **{option: value}) == []
