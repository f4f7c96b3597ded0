"""Targets are met or missed to the figure; what was not logged is a miss, a step not yet reached is not judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, run_of
from trainlens import catalog
from trainlens.detectors._requirements import parse
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Run

LOSS = np.linspace(4.0, 2.0, 1000)
RUN = run_of({
    "train/loss": LOSS,
    "eval/loss": ([250, 500, 750, 1000], [3.5, 3.0, 2.6, 2.9]),
    "tokens_per_second": np.r_[10.0, np.full(999, 1000.0)],
    "gpu/memory_share": np.r_[np.full(999, 0.5), 0.97],
    "bench/gsm8k": ([500, 1000], [0.4, 0.3]),
})  # fmt: skip
IN_UNITS = tuple(
    replace(series, about=catalog.metric(series.metric) or series.about)
    for series in run_of({"step_time": np.full(1000, 0.12), "gpu/memory_used": np.full(1000, 40.0 * 2**30)}).series
)
RUN = replace(RUN, series=(*RUN.series, *IN_UNITS))
BASELINE = run_of({"train/loss": LOSS * 0.9, "tokens_per_second": np.full(1000, 1100.0)})


def missed(*require: str, run: Run = RUN) -> list[str]:
    return [finding.evidence[0].text for finding in findings("target-missed", run, require=require)]


@pytest.mark.parametrize(
    "require",
    [
        "eval/loss <= 2.9",
        "eval/loss <= 2.9 at end",
        "eval/loss<=3.0 at 500",
        "eval/loss <= 3.0 at 749",
        "eval/loss <= 2.6 by 1000",
        "eval/loss == 2.9",
        "eval/loss == 2.85 +- 0.05",
        "eval/loss <= 2.85 ± 2%",
        "eval/loss > 2.8",
        "min(eval/loss) <= 2.6",
        "max(eval/loss) <= 3.5",
        "first(eval/loss) >= 3.5",
        "mean(eval/loss) <= 3.0",
        "p50(eval/loss) < 3",
        "train/loss <= 2.02",
        "fall(train/loss) >= 40 %",
        "tokens_per_second >= 1000",
        "gpu/memory_share < 98 %",
        "bench/gsm8k >= 0.4 by 1000",
        "median(bench/gsm8k) >= .35",
        "eval/loss ≤ 2.9 at 1k",
        "eval/loss <= 3.0 at 0.5k",
        "tokens_per_second >= 1_000",
        "min(tokens_per_second) <= 10 by 500",
        "fall(train/loss) >= 20 % by 500",
        "train/loss <= 2.0 at 1001",
        "eval/loss <= 2.9 at 1001",
        "step_time <= 120 ms",
        "gpu/memory_used <= 40 GiB",
    ],
)
def test_met(require: str) -> None:
    assert missed(require) == []


@pytest.mark.parametrize(
    "require",
    [
        "eval/loss <= 2.8",
        "eval/loss < 2.9",
        "eval/loss <= 2.9 at 500",
        "eval/loss <= 2.5 by 1000",
        "eval/loss == 2.8 +- 0.05",
        "min(eval/loss) <= 2.5",
        "fall(train/loss) >= 60 %",
        "tokens_per_second >= 1001",
        "gpu/memory_share < 95 %",
        "bench/gsm8k >= 0.35",
        "train/loss <= 1.9",
        "eval/loss <= 9 at 2000",
        "reward >= 1",
        "train/loss <= baseline",
        "fall(train/loss) >= 30 % by 500",
        "eval/loss <= 2.9 at 1002",
        "step_time <= 119 ms",
        "step_time <= 1 GiB",
        "eval/loss <= 9 s",
        "gpu/memory_used <= 39 GB",
    ],
)
def test_missed(require: str) -> None:
    assert missed(require) == [require]


@pytest.mark.parametrize(
    ("require", "met"),
    [
        ("tokens_per_second >= 0.9 * baseline", True),
        ("tokens_per_second >= 0.95 * baseline", False),
        ("tokens_per_second >= baseline - 100", True),
        ("tokens_per_second >= baseline - 50", False),
        ("tokens_per_second >= baseline +- 10%", True),
        ("train/loss <= 1.2 * baseline - 0.1", True),
        ("train/loss <= baseline * 1.2", True),
        ("train/loss <= 120 % of baseline", True),
        ("train/loss <= 105% * baseline", False),
        ("train/loss <= baseline", False),
        ("eval/loss <= baseline", False),
    ],
)
def test_against_a_baseline(require: str, met: bool) -> None:
    assert (missed(require, run=replace(RUN, baseline=BASELINE)) == []) is met


def test_several_targets_are_told_one_by_one() -> None:
    assert missed("eval/loss <= 2", "train/loss <= 3", "reward > 0") == ["eval/loss <= 2", "reward > 0"]


def test_a_step_that_a_running_run_has_not_reached_is_not_judged() -> None:
    running = replace(RUN, ongoing=True)
    answered = answer("target-missed", running, require=("eval/loss <= 2 at 5000",))
    assert answered == NotEnoughData("eval/loss has not reached step 5,000")
    assert missed("eval/loss <= 2 at 1000", run=running) == ["eval/loss <= 2 at 1000"]


def test_a_target_that_waits_is_told_beside_others() -> None:
    running = replace(RUN, ongoing=True)
    answered = findings("target-missed", running, require=("eval/loss <= 2 at 5000", "train/loss <= 3"))
    assert [(one.severity, one.title) for one in answered] == [("info", "Target not judged yet: eval/loss <= 2")]
    assert answered[0].message == "Eval/loss has not reached step 5,000; required is eval/loss <= 2 at 5000."
    unborn = findings("target-missed", running, require=("reward >= 1 at 5000", "reward >= 1"))
    assert [one.severity for one in unborn] == ["error", "info"]


def test_a_loss_that_is_no_number_meets_nothing() -> None:
    run = run_of({"train/loss": np.r_[falling(100), np.full(20, np.nan)]})
    assert missed("train/loss <= 100", run=run) == ["train/loss <= 100"]
    assert missed("train/loss >= 0", run=run) == ["train/loss >= 0"]
    assert missed("min(train/loss) <= 100", run=run) == []


def test_a_metric_by_its_name_in_the_log() -> None:
    series = replace(RUN.series[0], tag="lm loss")
    assert missed("lm loss <= 2.1", run=replace(RUN, series=(series,))) == []


def test_the_message_has_both_figures() -> None:
    (found,) = findings("target-missed", replace(RUN, baseline=BASELINE), require=("tokens_per_second >= baseline",))
    assert found.message == (
        "tokens_per_second is 1,000; required is tokens_per_second >= baseline, the baseline has 1,100."
    )
    (found,) = findings("target-missed", RUN, require=("eval/loss <= 2.5 at 5000",))
    assert found.message == "eval/loss ends at step 1,000, before step 5,000; required is eval/loss <= 2.5 at 5000."


def test_nothing_required() -> None:
    assert isinstance(answer("target-missed", RUN), NotApplicable)


@pytest.mark.parametrize(
    "text",
    ["", "loss", "loss <= ", "<= 2", "loss = 2", "loss <= two", "loss <= 2 at", "loss <= 2 at x", "best(loss) <= 2",
     "p0(loss) <= 1 <= 2", "loss <= 2 +- x", "loss <= baseline * x", "loss <= 2 2",
     "loss <= 1e999", "loss <= 2 +- -1", "loss <= 2 at 1.5", "loss <= 0 * baseline", "loss <= 2 parsecs",
     "loss =< 2", "2 >= loss", "loss != 2"],
)  # fmt: skip
def test_what_is_no_requirement(text: str) -> None:
    with pytest.raises(ValueError, match=r"requirement|statistic|finite|step|unit|baseline"):
        parse(text)
