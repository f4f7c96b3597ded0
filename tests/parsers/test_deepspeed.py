"""DeepSpeed logs: optimiser steps, timers, the pipeline engine, DeepSpeed-Chat, skipped steps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parsers import door
from trainlens.parsers import deepspeed

STAMP = "[2023-04-18 01:46:59,171] [INFO]"
STEP = f"{STAMP} [logging.py:96:log_dist] [Rank 0] step={{0}}, skipped=6, lr=[9.6e-06, 9.5e-06], mom=[(0.9, 0.95)]\n"
TIMER = (
    f"{STAMP} [timer.py:199:stop] epoch=0/micro_step={{0}}/global_step={{0}}, RunningAvgSamplesPerSec=173.4,"
    " CurrSamplesPerSec=171.25, MemAllocated=3.96GB, MaxMemAllocated=22.95GB\n"
)
PIPE = "steps: {0} loss: 12.7902 iter time (s): 150.471 samples/sec: 6.805\n"
OVERFLOW = f"{STAMP} [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {{0}}, reducing to 1\n"  # noqa: E501


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STEP.format(10), {"skipped": (10, 6.0), "lr": (10, 9.6e-06), "lr/1": (10, 9.5e-06)}),
        (TIMER.format(10), {"RunningAvgSamplesPerSec": (10, 173.4), "CurrSamplesPerSec": (10, 171.25),
                            "MemAllocated": (10, 3.96), "MaxMemAllocated": (10, 22.95)}),
        ("[2021-01-01 10:00:00,000] [timer.py:157:stop] 0/10, SamplesPerSec=1.88\n", {"SamplesPerSec": (10, 1.88)}),
        (PIPE.format(1), {"loss": (1, 12.7902), "iter time (s)": (1, 150.471), "samples/sec": (1, 6.805)}),
        ("epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0\naverage reward score: -0.75\n",
         {"epoch": (3, 0.0), "ppo_ep": (3, 1.0), "act_loss": (3, 0.25), "cri_loss": (3, 0.5), "unsuper_loss": (3, 0.0),
          "average reward score": (3, -0.75)}),
        ("chosen_last_scores (higher is better) : 2.81, acc (higher is better) : 0.49\n" + STEP.format(10),
         {"chosen_last_scores": (None, 2.81), "acc": (None, 0.49),
          "skipped": (10, 6.0), "lr": (10, 9.6e-06), "lr/1": (10, 9.5e-06)}),
        ("Model Parameters: 0.331 B, Latency: 0.27s, TFLOPs: 1.02, Samples/sec: 7.28, Time/seq 0.14s, Batch Size: 2\n",
         {"Model Parameters": (None, 0.331), "Latency": (None, 0.27), "TFLOPs": (None, 1.02),
          "Samples/sec": (None, 7.28), "Time/seq": (None, 0.14), "Batch Size": (None, 2.0)}),
        ("|E2E latency=3.80s |Gather latency=0.00s (0.50%) |CurSamplesPerSec=16.84 |AvgSamplesPerSec=8.01\n",
         {"E2E latency": (None, 3.8), "Gather latency": (None, 0.0), "Gather latency (%)": (None, 0.5),
          "CurSamplesPerSec": (None, 16.84), "AvgSamplesPerSec": (None, 8.01)}),
    ],
)  # fmt: skip
def test_lines(text: str, expected: dict[str, Any]) -> None:
    assert door.rows(deepspeed, text) == {tag: [row] for tag, row in expected.items()}


def test_many_lines_are_read_alike() -> None:
    """The reading by learnt shapes gives what the reading line by line gives, in the order of the log."""
    text = "".join(STEP.format(step) + TIMER.format(step) + PIPE.format(step) for step in range(0, 5000, 10))
    found = door.rows(deepspeed, text)
    steps = list(range(0, 5000, 10))
    assert {tag: [step for step, _ in rows] for tag, rows in found.items()} == dict.fromkeys(found, steps)
    assert set(found["lr/1"]) == {(step, 9.5e-06) for step in steps}
    assert len(found) == 3 + 4 + 3
    assert door.lines(deepspeed, text)["loss"] == list(range(3, 1501, 3))
    times = [one.time for one in door.points(door.batches(deepspeed, text)) if one.tag == "lr"]
    assert times[0] is not None
    assert set(times[0].tolist()) == {1681782419.171}


def test_the_two_optimisers_of_chat_do_not_count_for_its_loop() -> None:
    text = "".join(
        f"|E2E latency=3.72s |CurSamplesPerSec=17.18\nepoch: 0|step: {step}|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.5\n"
        + (STEP.format(step + 1) * 2 if step % 10 == 9 else "")
        for step in range(30)
    )
    found = [step for step, _ in door.rows(deepspeed, text)["E2E latency"]]
    assert found == [None, *range(29)] or found == [0, *range(29)]


def test_each_skipped_step_is_an_event() -> None:
    text = OVERFLOW.format(65536) + OVERFLOW.format(32768) + STEP.format(10) + OVERFLOW.format(16384)
    found = door.events(deepspeed, text)
    assert [(event.kind, event.step) for event in found] == [("overflow", None), ("overflow", None), ("overflow", 10)]


def test_an_overflow_told_by_every_rank_is_one() -> None:
    line = f"{STAMP} [fused_optimizer.py:362:_update_scale] \nGrad overflow on iteration {{0}}\n"
    text = "".join(line.format(at) * 16 + f"{STAMP} [Rank 0] Overflow detected. Skipping step.\n" for at in (0, 1, 482))
    assert [event.step for event in door.events(deepspeed, text)] == [0, 1, 482]


def test_the_floor_of_the_loss_scale_is_told_by_the_exception() -> None:
    text = OVERFLOW.format(1) + (
        'Traceback (most recent call last):\n  File "loss_scaler.py", line 175, in update_scale\n    raise Exception(\n'
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n"
    )
    assert [event.kind for event in door.events(deepspeed, text)] == ["overflow", "loss-scale-floor", "traceback"]


@pytest.mark.parametrize(
    ("head", "score"),
    [
        (STEP.format(1), 0.75),
        (OVERFLOW.format(1), 0.75),
        ("[2026-03-28 00:09:20,352] [INFO] [launch.py:168:main] nnodes=2\n", 0.7),
        ("step=10 loss=2.5 lr=0.1\n", 0.0),
        ("", 0.0),
    ],
)
def test_sniff(head: str, score: float) -> None:
    assert door.sniffed(deepspeed, head) == score
