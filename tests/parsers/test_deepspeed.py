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
        (STEP.format(10), {"skipped": (10, 6.0), "lr": (10, 9.6e-06), "lr/1": (10, 9.5e-06),
                           "mom/0": (10, 0.9), "mom/1": (10, 0.95)}),
        (TIMER.format(10), {"RunningAvgSamplesPerSec": (10, 173.4), "CurrSamplesPerSec": (10, 171.25),
                            "MemAllocated": (10, 3.96), "MaxMemAllocated": (10, 22.95)}),
        ("[2021-01-01 10:00:00,000] [timer.py:157:stop] 0/10, SamplesPerSec=1.88\n", {"SamplesPerSec": (10, 1.88)}),
        (PIPE.format(1), {"loss": (1, 12.7902), "iter time (s)": (1, 150.471), "samples/sec": (1, 6.805)}),
        ("epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0\naverage reward score: -0.75\n",
         {"epoch": (3, 0.0), "ppo_ep": (3, 1.0), "act_loss": (3, 0.25), "cri_loss": (3, 0.5), "unsuper_loss": (3, 0.0),
          "average reward score": (3, -0.75)}),
        ("chosen_last_scores (higher is better) : 2.81, acc (higher is better) : 0.49\n" + STEP.format(10),
         {"chosen_last_scores": (None, 2.81), "acc": (None, 0.49),
          "skipped": (10, 6.0), "lr": (10, 9.6e-06), "lr/1": (10, 9.5e-06), "mom/0": (10, 0.9), "mom/1": (10, 0.95)}),
        ("Model Parameters: 0.331 B, Latency: 0.27s, TFLOPs: 1.02, Samples/sec: 7.28, Time/seq 0.14s, Batch Size: 2\n",
         {"Model Parameters": (None, 0.331), "Latency": (None, 0.27), "TFLOPs": (None, 1.02),
          "Samples/sec": (None, 7.28), "Time/seq": (None, 0.14), "Batch Size": (None, 2.0)}),
        ("|E2E latency=3.80s |Gather latency=0.00s (0.50%) |CurSamplesPerSec=16.84 |AvgSamplesPerSec=8.01\n",
         {"E2E latency": (None, 3.8), "Gather latency": (None, 0.0), "Gather latency (%)": (None, 0.5),
          "CurSamplesPerSec": (None, 16.84), "AvgSamplesPerSec": (None, 8.01)}),
        ("[2023-04-18 01:46:59,171] [Rank 0] step=5, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]\n"
         "MA 3.96 GB         Max_MA 4.9 GB         CA 5.02 GB         Max_CA 5 GB \n"
         "[2023-04-18 01:47:00,000] [utils.py:786:see] CPU Virtual Memory:  used = 91.24 GB, percent = 6.0%\n",
         {"skipped": (5, 0.0), "lr": (5, 5e-05), "mom/0": (5, 0.9), "mom/1": (5, 0.999), "MA (GB)": (5, 3.96),
          "Max_MA (GB)": (5, 4.9), "CA (GB)": (5, 5.02), "Max_CA (GB)": (5, 5.0),
          "CPU virtual memory used (GB)": (5, 91.24), "CPU virtual memory (%)": (5, 6.0)}),
        ("Epoch: 0 | Step: 3 | PPO Epoch: 1 | Actor Loss: 0.25 | Critic Loss: 0.5 | Unsupervised Loss: 0.0\n"
         "Generation => Latency: 2.5s, Per-token Latency 9.9 ms, BW: 200.0 GB/sec, Answer Seq. Length: 256\n"
         "Average reward score: 0.5 | EMA reward score: 0.25\n",
         {"Epoch": (3, 0.0), "PPO Epoch": (3, 1.0), "Actor Loss": (3, 0.25), "Critic Loss": (3, 0.5),
          "Unsupervised Loss": (3, 0.0), "Generation/Latency (s)": (3, 2.5),
          "Generation/Per-token Latency (ms)": (3, 9.9),
          "Generation/BW (GB/sec)": (3, 200.0), "Generation/Answer Seq. Length": (3, 256.0),
          "Average reward score": (3, 0.5), "EMA reward score": (3, 0.25)}),
        ("Epoch: 0, Step: 10, Rank: 1, loss = 0.693\nppl: 2.01, loss: 0.5\nEpoch 1/1 with loss 0.25\n",
         {"eval_ppl": (10, 2.01), "eval_loss": (10, 0.5), "loss": (10, 0.25)}),
    ],
)  # fmt: skip
def test_lines(text: str, expected: dict[str, Any]) -> None:
    found = {tag: rows[-1:] for tag, rows in door.rows(deepspeed, text).items()}
    assert found == {tag: [row] for tag, row in expected.items()}


def test_many_lines_are_read_alike() -> None:
    """The reading by learnt shapes gives what the reading line by line gives, in the order of the log."""
    text = "".join(STEP.format(step) + TIMER.format(step) + PIPE.format(step) for step in range(0, 5000, 10))
    found = door.rows(deepspeed, text)
    steps = list(range(0, 5000, 10))
    assert {tag: [step for step, _ in rows] for tag, rows in found.items()} == dict.fromkeys(found, steps)
    assert set(found["lr/1"]) == {(step, 9.5e-06) for step in steps}
    assert len(found) == 5 + 4 + 3
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


def test_two_engines_that_print_the_same_steps_are_two_curves() -> None:
    line = (
        f"{STAMP} [logging.py:96:log_dist] [Rank 0] step={{0}}, skipped={{1}}, lr=[{{2}}, {{2}}], mom=[(0.9, 0.95)]\n"
    )
    both = "".join(
        line.format(step, 4, step * 1e-7) + TIMER.format(step) + line.format(step, 3, step * 2e-7) + "words\n" * 30
        for step in range(10, 400, 10)
    )
    steps = list(range(10, 400, 10))
    found = door.rows(deepspeed, both)
    assert found["lr"] == [(step, step * 1e-7) for step in steps]
    assert found["engine1/lr"] == [(step, step * 2e-7) for step in steps]
    assert found["engine1/skipped"] == [(step, 3.0) for step in steps]
    alone = "".join(line.format(step, 4, step * 1e-7) * 2 for step in (10, 20, *range(20, 400, 10)))
    assert not any(tag.startswith("engine") for tag in door.rows(deepspeed, alone))  # told twice, word for word
    again = line.format(10, 4, 1e-6) + "words\n" * 30 + line.format(10, 0, 2e-6)  # a new run
    assert door.rows(deepspeed, again)["lr"] == [(10, 1e-6), (10, 2e-6)]


def test_the_table_of_the_flops_profiler_is_facts() -> None:
    text = (
        "-------------------------- DeepSpeed Flops Profiler --------------------------\n"
        "Profile Summary at step 10:\nworld size:            1\nparams per GPU:        336.23 M\n"
        "fwd latency:           76.67 ms\nfwd FLOPS per GPU = fwd flops per GPU / fwd latency:   81.9 TFLOPS\n"
        "----------------------------- Aggregated Profile per GPU -----------------------------\ndepth 0:    5 M\n"
    )
    assert door.facts(deepspeed, text) == {
        "flops profiler/world size": 1.0,
        "flops profiler/params per GPU (M)": 336.23,
        "flops profiler/fwd latency (ms)": 76.67,
        "flops profiler/fwd FLOPS per GPU = fwd flops per GPU / fwd latency (TFLOPS)": 81.9,
    }


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
