"""A language model's loss below what text allows; classifiers, healthy and signed losses are not judged by that."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Floats


def memorised(points: int = 250, start: float = 10.5, end: float = 0.005) -> Floats:
    return np.asarray(end + start * np.exp(-np.arange(points) / 15))


def test_a_loss_near_zero_within_the_first_epoch_is_a_warning() -> None:
    (found,) = findings("loss-floor", memorised())
    assert found.severity == "warning"
    assert found.first_step is not None
    assert 65 < found.first_step < 80
    assert found.ongoing


@pytest.mark.parametrize(("epochs", "severity"), [(0.5, "warning"), (30.0, "info")])
def test_after_epochs_it_is_memorising(epochs: float, severity: str) -> None:
    curves = {"train/loss": memorised(), "epoch": np.linspace(0, epochs, 250)}
    assert [one[2] for one in fires("loss-floor", curves)] == [severity]


@pytest.mark.parametrize(
    "loss",
    [
        falling(),
        falling(end=0.3),
        memorised(start=0.7),
        memorised(start=2.3),
        memorised(end=0.2),
        np.r_[memorised(), np.full(250, 2.0)],
        memorised() - 1.0,
    ],
)
def test_quiet(loss: Floats) -> None:
    assert fires("loss-floor", loss) == []


def test_policies_and_few_points() -> None:
    assert isinstance(answer("loss-floor", run_of({"policy/loss": memorised()})), NotApplicable)
    assert isinstance(answer("loss-floor", run_of(memorised(10))), NotEnoughData)


@pytest.mark.parametrize(("option", "value"), [("floor", 1e-4), ("start", 50.0)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    assert fires("loss-floor", memorised(), **{option: value}) == []
