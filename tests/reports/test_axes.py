"""What x can count beside steps: only what rises with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.reports._axes import axes


def run_of(*curves: Curve) -> RunDiagnosis:
    return replace(diagnoses.unjudged().runs[0], curves=curves)


def curve(metric: str, value: tuple[float, ...], time: tuple[float | None, ...] = ()) -> Curve:
    return Curve(
        metric, None, "", "overview", tuple(range(10, 10 * len(value) + 1, 10)), value, value, value, time=time
    )


@pytest.mark.parametrize(
    ("passed", "unit", "last"), [(40.0, "seconds", 40), (600.0, "minutes", 10), (36_000.0, "hours", 10)]
)
def test_time_is_told_in_a_unit_that_suits_it(passed: float, unit: str, last: float) -> None:
    times = (1.7e9, None, 1.7e9 + passed / 2, 1.7e9 + passed)
    (axis,) = axes(run_of(curve("train/loss", (4.0, 3.0, 2.0, 1.0), times)))
    assert (axis.name, axis.unit, axis.step) == ("time", unit, (10, 30, 40))
    assert axis.at == pytest.approx((0, last / 2, last))


def test_tokens_and_epochs_that_rise_are_axes_and_what_jumps_back_is_none() -> None:
    found = axes(run_of(curve("tokens", (1e9, 2e9, 3e9)), curve("epoch", (0.1, 0.2, 0.2))))
    assert [(axis.name, axis.unit, axis.at) for axis in found] == [
        ("tokens", "billion tokens", (1, 2, 3)), ("epoch", "epochs", (0.1, 0.2)),
    ]  # fmt: skip
    assert axes(run_of(curve("epoch", (3.0, 1.0, 2.0)), curve("tokens", (5.0, 5.0, 5.0)))) == []
