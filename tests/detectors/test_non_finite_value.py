"""Every NaN and infinity that matters is told once an episode; place-holders and normal overflows are no alarms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.door import falling, findings, fires, run_of
from trainlens.model import Floats

NAN, INF = np.nan, np.inf


def holed(*at: int, points: int = 200, value: float = NAN) -> Floats:
    loss = falling(points)
    loss[list(at)] = value
    return loss


@pytest.mark.parametrize(
    ("loss", "spans"),
    [
        (holed(100), [(101, 101)]),
        (holed(100, 150), [(101, 101), (151, 151)]),
        (holed(40, 41, 42, 43, 44, 45), [(41, 46)]),
        (holed(*range(150, 200)), [(151, 200)]),
        (holed(60, value=-INF), [(61, 61)]),
        (holed(0), [(1, 1)]),
        (np.full(6, NAN), [(1, 6)]),
        (holed(*range(10, 190, 20)), [(11, 171)]),
    ],
    ids=lambda it: f"{len(it)}",
)
def test_a_loss_that_is_no_number_is_an_error(loss: Floats, spans: list[tuple[int, int]]) -> None:
    assert fires("non-finite-value", loss) == [(*span, "error") for span in spans]


def test_what_became_of_it_is_told() -> None:
    (back,) = findings("non-finite-value", holed(100))
    assert "back at 102" in back.title
    assert not back.ongoing
    (dead,) = findings("non-finite-value", holed(*range(150, 200)))
    assert "to the end" in dead.title
    assert dead.ongoing
    (mixed,) = findings("non-finite-value", np.r_[falling(20), NAN, INF, falling(20)])
    assert "NaN and infinity" in mixed.message
    assert mixed.evidence[0].observed == "NaN"


def test_a_gradient_norm_may_be_the_only_trace() -> None:
    norms = np.full(80, 0.5)
    norms[36] = NAN
    curves = {"train/loss": falling(80), "grad_norm": norms}
    assert fires("non-finite-value", curves) == [(37, 37, "warning")]
    norms[30:] = NAN
    assert fires("non-finite-value", curves)[0][2] == "error"


def test_the_first_infinity_of_a_short_log_is_told() -> None:
    norms = np.full(20, 0.5)
    norms[3] = INF
    assert fires("non-finite-value", {"grad_norm": norms}) == [(4, 4, "warning")]


@pytest.mark.parametrize(("every", "severity"), [(400, "info"), (20, "warning")])
def test_rare_overflows_under_a_loss_scale_are_normal(every: int, severity: str) -> None:
    norms = np.full(2000, 0.5)
    norms[200::every] = INF
    found = fires("non-finite-value", {"grad_norm": norms, "loss_scale": np.full(2000, 65536.0)})
    assert {one[2] for one in found} == {severity}
    without = fires("non-finite-value", {"grad_norm": norms})
    assert {one[2] for one in without} == {"warning"}


def test_rows_without_any_measurement_are_place_holders() -> None:
    loss, times = holed(*range(150, 200)), np.full(200, 0.4)
    times[150:] = NAN
    assert fires("non-finite-value", {"train/loss": loss, "step_time": times}) == []


@pytest.mark.parametrize(
    ("metric", "value"),
    [("value", holed(3)), ("value", np.full(50, NAN)), ("train/loss", falling()), ("grad_norm", np.full(9, 0.0))],
)
def test_quiet(metric: str, value: Floats) -> None:
    assert fires("non-finite-value", {metric: value}) == []


def test_an_unknown_series_that_is_mostly_no_number_is_told() -> None:
    value = np.full(50, NAN)
    value[::5] = 1.0
    assert fires("non-finite-value", {"value": value}) == [(2, 50, "warning")]


def test_ranks_with_the_same_fault_make_one_finding() -> None:
    run = run_of({f"train/loss@{rank}": holed(100) for rank in range(4)})
    assert len(findings("non-finite-value", run)) == 1
