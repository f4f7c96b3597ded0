from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable, NotEnoughData


def rows(steps: Any) -> Any:
    return (np.asarray(steps), np.linspace(3, 2, len(steps)))


@pytest.mark.parametrize(
    ("steps", "first", "last"),
    [
        (np.r_[1:400, 480:1000], 399, 480),
        (np.r_[10:5000:10, 5100:9000:10], 4990, 5100),
        (np.r_[1:50, 54:100], 49, 54),
    ],
)
def test_fires(steps: Any, first: int, last: int) -> None:
    (found,) = findings("logging-gap", {"train/loss": rows(steps)})
    assert (found.first_step, found.last_step, found.severity) == (first, last, "warning")


def test_loss_that_is_no_longer_logged() -> None:
    curves = {"train/loss": rows(np.r_[5210:5233]), "grad_norm": rows(np.r_[5210:5251])}
    (found,) = findings("logging-gap", curves)
    assert (found.first_step, found.last_step, found.ongoing) == (5232, 5250, True)


QUIET = {
    "even": rows(np.r_[0:5000:10]),
    "first row alone": rows(np.r_[1, 10:5000:10]),
    "last row alone": rows(np.r_[0:5000:10, 5003]),
    "interval changes": rows(np.r_[0:1000:10, 1000:20000:50]),
    "interval gets finer": rows(np.r_[0:20000:50, 20000:21000:10]),
    "ever wider": rows(np.unique(np.geomspace(1, 100_000, 300).astype(int))),
    "one row missing": rows(np.delete(np.r_[0:5000:10], 200)),
    "uneven by design": rows(np.cumsum(np.random.default_rng(1).integers(1, 12, 500))),
    "two missing of fine rows": rows(np.delete(np.r_[1:500], [200, 201])),
}


@pytest.mark.parametrize("case", QUIET)
def test_quiet(case: str) -> None:
    assert findings("logging-gap", {"train/loss": QUIET[case]}) == []


@pytest.mark.parametrize(
    "other",
    [
        {"eval/loss": rows(np.r_[100:2000:100])},
        {"grad_norm": rows(np.r_[1:1004])},
        {"lr": rows(np.r_[1:3000:100])},
    ],
)
def test_other_metrics_may_go_on_a_little_or_have_rows_of_their_own(other: Any) -> None:
    assert findings("logging-gap", {"train/loss": rows(np.r_[1:1001]), **other}) == []


def test_says_what_is_missing() -> None:
    assert isinstance(answer("logging-gap", run_of(np.ones(100), positional=True)), NotApplicable)
    assert isinstance(answer("logging-gap", run_of(np.ones(5))), NotEnoughData)
