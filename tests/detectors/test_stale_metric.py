"""Metrics that stop or repeat are stale; coarse, clipped, zero, rare and last-row differences are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Floats

NORMS = 0.5 + 0.1 * np.random.default_rng(1).random(200)


def ended(missing: int, norms: Floats = NORMS) -> dict[str, Any]:
    return {"train/loss": falling(200)[: 200 - missing], "grad_norm": norms}


def test_a_loss_that_stops_is_a_warning() -> None:
    (found,) = findings("stale-metric", ended(40))
    assert (found.metric, found.first_step, found.last_step, found.severity) == ("train/loss", 161, 200, "warning")
    assert "grad_norm" in found.message


def test_with_a_dead_gradient_it_is_an_error() -> None:
    norms = NORMS.copy()
    norms[160:] = np.nan
    assert fires("stale-metric", ended(40, norms)) == [(161, 200, "error")]


def test_repeated_values_are_told_with_their_steps() -> None:
    norms = NORMS.copy()
    norms[100:107] = 464441.887
    assert fires("stale-metric", {"grad_norm": norms}) == [(101, 107, "warning")]
    norms[107:110] = 879946.622
    assert fires("stale-metric", {"grad_norm": norms}) == [(101, 107, "warning")]


def held(value: float, *at: int) -> Floats:
    norms = NORMS.copy()
    for first in at:
        norms[first : first + 6] = value
    return norms


@pytest.mark.parametrize(
    "curves",
    [
        ended(0),
        ended(5),
        {"train/loss": falling(200), "grad_norm": NORMS},
        {"train/loss": (np.arange(0, 2000, 200), falling(10)), "lr": np.full(2000, 1e-3)},
        {"train/loss": (np.arange(1, 2000), falling(1999)), "lr": (np.arange(1, 4000, 400), np.full(10, 1e-3))},
        {"train/loss": falling(50), "gpu/utilization": np.full(400, 0.9)},
        {"grad_norm": np.zeros(200)},
        {"grad_norm": held(1.0, 50, 100)},
        {"grad_norm": held(0.3, 50, 100)},
        {"grad_norm": np.round(NORMS, 1)},
        {"eval/accuracy": np.repeat(np.linspace(0.1, 0.9, 20), 10)},
        {"train/loss": np.r_[falling(150), np.full(50, 2.5)], "grad_norm": np.r_[NORMS[:150], np.full(50, np.nan)]},
    ],
    ids=range(12),
)
def test_quiet(curves: dict[str, Any]) -> None:
    assert fires("stale-metric", curves) == []


def test_nothing_to_ask() -> None:
    assert isinstance(answer("stale-metric", run_of({"lr": np.ones(50)})), NotEnoughData)


@pytest.mark.parametrize(("curves", "option"), [(ended(40), "missing"), ({"grad_norm": held(9.9, 50)}, "repeats")])
def test_a_stricter_threshold_silences(curves: dict[str, Any], option: str) -> None:
    assert fires("stale-metric", curves) != []
    assert fires("stale-metric", curves, **{option: 60}) == []
