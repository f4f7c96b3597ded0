from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import START, falling, run_of
from trainlens import analysis, scores
from trainlens.diagnosis import Diagnosis, RunDiagnosis, Summary
from trainlens.model import Event, Run, SourceReport
from trainlens.reports import html, json, markdown, terminal
from trainlens.settings import load

N = 4000


def of(run: Run) -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {one.name: one.value for one in scores.scores(run)}


def test_share_of_spikes_is_counted_as_the_paper_counts_it() -> None:
    loss = 2 + 0.01 * np.random.default_rng(0).normal(size=N)
    loss[[1500, 2500, 3000]] = 4.0  # 3 of the 3,200 points in the middle
    loss[[5, 3990]] = 9.0  # outside of it
    assert of(run_of(loss))["spike score of the loss"] == pytest.approx(3 / 3200)


def test_clipping_from_norms_and_the_threshold_that_is_stated() -> None:
    norm = np.where(np.arange(N) % 10 == 0, 1.5, 0.5)
    assert of(run_of({"grad_norm": norm}, facts={"clip_grad": 1.0}))["clipped steps"] == pytest.approx(0.1)
    assert "clipped steps" not in of(run_of({"grad_norm": norm}))


def test_mfu_without_placeholders() -> None:
    found = of(run_of({"mfu": np.r_[np.zeros(100), np.full(1000, 0.4), np.full(900, 0.5)]}))
    assert found["median MFU"] == 0.4
    assert found["mean MFU"] == pytest.approx(0.447, abs=2e-3)


def test_steps_tokens_and_time_to_the_final_loss() -> None:
    steps = np.arange(1, N + 1)
    loss = 2 + 4 * np.exp(-steps / 500)  # within 5 % of 2.0013 from step 1,843 on
    curves = {"train/loss": loss, "tokens": 1000.0 * steps}
    found = of(run_of(curves, times={"train/loss": list(START + 2.0 * steps)}))
    assert found["steps to the final loss"] == pytest.approx(1830, abs=20)
    assert found["tokens to the final loss"] == 1000 * found["steps to the final loss"]
    assert found["time to the final loss"] == 2 * (found["steps to the final loss"] - 1)
    assert "steps to the final loss" not in of(run_of(np.full(N, 2.0)))


def test_skips_of_a_counter_and_of_overflows() -> None:
    counter = np.floor(np.arange(N) / 100)
    assert of(run_of({"train/loss": falling(N), "skipped_steps": counter}))["skipped steps"] == pytest.approx(39 / N)
    events = [Event("overflow", f"overflow at {step}", step=step) for step in (100, 900)]
    assert of(run_of(falling(N), events=events))["skipped steps"] == pytest.approx(2 / N, rel=0.01)
    assert "skipped steps" not in of(run_of(falling(N)))


def test_effective_training_time_of_a_run_that_stood_still() -> None:
    clock = START + np.arange(N, dtype=float)
    clock[2000:] += N / 3  # a quarter of the wall time
    run = run_of({"train/loss": falling(N)}, times={"train/loss": list(clock)})
    assert of(run)["effective training time"] == pytest.approx(0.75, abs=0.001)
    assert "effective training time" not in of(run_of(falling(N)))


@pytest.mark.parametrize("curves", [{}, {"train/loss": [1.0]}, {"mfu": [0.0, np.nan]}, {"train/loss": [np.nan] * 300}])
def test_what_is_not_logged_has_no_score(curves: Any) -> None:
    assert of(run_of(curves)) == {}


def diagnosed(run: Run) -> Diagnosis:
    settings = load({}, environ={})
    told: RunDiagnosis = analysis.diagnose(replace(run, sources=(SourceReport("m.jsonl", "jsonl"),)), settings, 0.0)
    return Diagnosis("0", Summary(0, 0, 0, 1, N, 0.1), (told,))


def test_every_report_tells_them_and_none_where_there_are_none() -> None:
    diagnosis = diagnosed(run_of({"train/loss": falling(N), "mfu": np.full(N, 0.412)}))
    assert json.parse(json.render(diagnosis, json.Options())).runs[0].scores == diagnosis.runs[0].scores
    assert "median MFU 41.2\u00a0%" in terminal.render(diagnosis, terminal.Options(width=400, verbose=True)).decode()
    assert "median MFU" not in terminal.render(diagnosis, terminal.Options(width=400)).decode()
    assert "Published scores" in markdown.render(diagnosis, markdown.Options()).decode()
    assert "Published scores" in html.render(diagnosis, html.Options()).decode()
    without = diagnosed(run_of(falling(50)))
    assert without.runs[0].scores == ()
    assert "Published scores" not in html.render(without, html.Options()).decode()
    assert "Published scores" not in markdown.render(without, markdown.Options()).decode()


def test_what_is_explained_stands_in_markdown() -> None:
    diagnosis = diagnosed(run_of({"train/loss": falling(N), "step_time": np.cumsum(np.full(N, 0.5))}))
    assert "is a sum since the start: its differences are judged" in markdown.render(
        diagnosis, markdown.Options()
    ).decode().replace("\\_", "_")
