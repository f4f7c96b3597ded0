from __future__ import annotations

import numpy as np

from tests.detectors.door import explained, falling, findings, run_of
from trainlens import context
from trainlens.model import Attempt, Event

N = 600
RATE = 3e-4 * np.where(np.arange(N) < 400, 1, 0.1)


def test_marks_of_a_run() -> None:
    run = run_of(
        {
            "train/loss": (np.r_[np.arange(1, 301), 300 + 10 * np.arange(1, 301)], falling(N)),
            "lr": RATE,
            "batch_size": np.where(np.arange(N) < 250, 64.0, 128.0),
            "sequence_length": np.full(N, 2048.0),
            "epoch": np.arange(N) / 200,
            "eval/loss": (np.arange(100, 601, 100), np.linspace(3, 2, 6)),
        },
        events=[Event("checkpoint-begin", "saving", step=step) for step in (200, 400)],
        attempts=[Attempt(1, 350), Attempt(351, 600)],
    )
    marks = context.of(run)
    assert marks.schedule is not None
    assert marks.schedule.family == "multi-step"
    assert marks.at("batch size").tolist() == [251]
    assert marks.at("sequence length").tolist() == []
    assert marks.at("epoch").tolist() == [201, 401]
    assert marks.at("evaluation").tolist() == [100, 200, 300, 400, 500, 600]
    assert marks.at("checkpoint").tolist() == [200, 400]
    assert marks.at("restart").tolist() == [351]
    assert marks.at("learning rate").tolist() == [401]
    assert len(marks.at("logging interval")) == 1
    assert marks.why(255, 10, 10) == "the change of the batch size at 251"
    assert marks.why(450, 10, 10) == ""
    assert context.of(run) is marks


def test_a_ramp_in_small_steps_is_no_mark() -> None:
    run = run_of({"train/loss": falling(N), "batch_size": np.linspace(64, 640, N)})
    assert context.of(run).at("batch size").tolist() == []


def test_slow_steps_at_checkpoints_are_explained() -> None:
    chance = np.random.default_rng(0)
    time = 1 + 0.01 * chance.normal(size=N)
    at = np.array([90, 170, 310, 420])
    time[at - 1] = 6.0
    events = [Event("checkpoint-end", "saved", step=int(step)) for step in at]
    assert findings("slow-step", run_of({"step_time": time})) != []
    run = run_of({"step_time": time}, events=events)
    assert findings("slow-step", run) == []
    assert explained("slow-step", run) == ["4 slow steps at checkpoints, 20\u00a0s in all"]


def test_what_a_dynamic_loss_scale_does_is_explained() -> None:
    scale = np.r_[2.0 ** np.arange(24, 16, -1), np.full(292, 2.0**17), np.full(300, 2.0**16)]
    (said,) = explained("loss-scale-collapse", run_of({"loss_scale": scale}))
    assert said == "7 halvings in the search at the start, 1 single halving after it, as a dynamic loss scale does"


def test_falls_of_a_multi_step_schedule_are_explained() -> None:
    (said,) = explained("learning-rate-jump", run_of({"lr": RATE}))
    assert said == "1 fall to a held level at 401, as a multi-step schedule has them"


def test_few_clipped_steps_are_explained() -> None:
    (said,) = explained("gradient-clipping", run_of({"clipped": (np.arange(N) % 50 == 0).astype(float)}))
    assert "of steps are clipped, up to 5" in said


def test_few_skipped_steps_are_explained() -> None:
    skips = np.zeros(N)
    skips[[2, 5, 300]] = 1
    (said,) = explained("skipped-steps", run_of({"skipped_steps": skips}))
    assert said == "3 skipped steps, 2 of them in the search at the start, as a dynamic loss scale does"
