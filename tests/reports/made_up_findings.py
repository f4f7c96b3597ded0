"""The findings, checks and facts of the made-up runs."""

from __future__ import annotations

from collections.abc import Mapping

from trainlens.diagnosis import Check, Cost, Evidence, Finding, Verdict
from trainlens.model import Place

START = 1_775_000_000.0  # Unix seconds of step 0
STEPS = 60_000
SPIKE, SLOW = 24_310, 51_300

FACTS: Mapping[str, str | int | float | bool] = {
    "model.num_layers": 32,
    "model.hidden_size": 3072,
    "model.seq_length": 4096,
    "model.params_dtype": "bf16",
    "global_batch_size": 256,
    "optimizer.name": "AdamW",
    "optimizer.lr": 3e-4,
    "optimizer.weight_decay": 0.1,
    "clip_grad": 1.0,
    "train_iters": STEPS,
    "world_size": 16,
    "data_path": "/data/mix-v3/" + "shard_" * 30,
}

CHECKS = (
    Check("slowdown", "found", seconds=0.01),
    Check("loss-spike", "found", seconds=0.02),
    Check("gradient-spike", "found", seconds=0.01),
    Check("rollback", "found"),
    *(Check(name, "clean") for name in ("loss-divergence", "loss-plateau", "overfitting", "low-mfu", "hang")),
    Check("weight-update-ratio", "not-applicable", "no update_ratio in the logs"),
    Check("data-loading-wait", "not-applicable", "no data_time in the logs"),
    Check("benchmark-regression", "not-enough-data", "6 scores of each benchmark, 8 are needed"),
    Check("load-imbalance", "failed", "ZeroDivisionError: float division by zero"),
)

NON_FINITE = Finding(
    "non-finite-value",
    "error",
    "train/loss",
    9_120,
    9_400,
    title="Loss is NaN from 9,120 to the end",
    message="train/loss became NaN at step 9,120 and stayed so for 281 steps to the end of the log.",
    ongoing=True,
    evidence=(Evidence("last finite value", "train/loss", 9_119, 9_119, 2.31), Evidence("value", observed="NaN")),
    actions=("Restart from the checkpoint at step 8,000 with a smaller learning rate.",),
    id="non-finite-value-9120",
)


def slowdown_spike_rollback() -> tuple[Finding, ...]:
    slowdown = Finding(
        "slowdown",
        "warning",
        "step_time",
        SLOW,
        STEPS,
        title="Steps 6 % slower since 51,300: rank 11 lags",
        message="step_time rose from 7.1 s to 7.53 s (+6 %) at step 51,300 and stayed there to the end of the log.",
        confidence=0.99,
        first_time=START + 7.1 * SLOW,
        ongoing=True,
        cost=Cost(3_740.0, 59_840.0),
        evidence=(
            Evidence("level after", "step_time", SLOW, STEPS, 7.53, 7.1, 7.46, "s", "slowdown.rise", "trainlens.toml"),
        ),
        actions=("Take the node of rank 11 out of the pool and check its cooling.", "Alarm on SM clocks under load."),
        causes=(
            Verdict(
                "Straggling rank",
                "supported",
                "Rank 11 computes 5.45 s a step, the median rank 5 s (+9 %, limit 4 %).",
                (Evidence("rank 11 over the median", "compute_time", SLOW, STEPS, 1.09, 1.0, 1.04),),
                "Take the node of rank 11 out of the pool and check its cooling.",
            ),
            Verdict("Communication", "ruled-out", "Rank 11 waits no longer than before; the others wait for it."),
            Verdict("Data loading", "not-measured", "No data_time in the logs. Log it for each step to know."),
        ),
        id="slowdown-51300",
    )
    spike = Finding(
        "loss-spike",
        "warning",
        "train/loss",
        SPIKE,
        SPIKE + 33,
        title="Loss spike at 24,310, recovered in 34 steps",
        message="train/loss rose from 1.97 to 4.66 (step 24,318) and was back at its trend by step 24,343.",
        confidence=0.97,
        first_time=START + 7.1 * SPIKE,
        cost=Cost(241.0, 3_856.0),
        evidence=(
            Evidence("peak", "train/loss", SPIKE, SPIKE + 33, 4.66, 1.97, 2.17, "", "loss-spike.size", "default"),
        ),
        actions=("For this run, nothing: the loss is back on its trend.",),
        causes=(
            Verdict(
                "Gradient explosion",
                "supported",
                "grad_norm left 0.35 at step 24,306, 4 steps before the loss, and reached 5.1.",
                (Evidence("peak", "grad_norm", SPIKE - 4, SPIKE + 20, 5.1, 0.35, 1.05),),
            ),
            Verdict("Learning rate too large", "ruled-out", "lr was 2.6e-4, 87 % of its peak, and falling."),
        ),
        id="loss-spike-24310",
    )
    inside = Finding(
        "gradient-spike",
        "warning",
        "grad_norm",
        SPIKE - 4,
        SPIKE + 20,
        title="Gradient norm spike at 24,306",
        message="grad_norm rose from 0.35 to 5.1 and came back by step 24,330.",
        confidence=0.95,
        part_of="loss-spike-24310",
        id="gradient-spike-24306",
    )
    rollback = Finding(
        "rollback",
        "info",
        None,
        15_001,
        15_240,
        title="Restart at 15,240: 240 steps done twice",
        message="The run stopped after step 15,240 and went on from checkpoint 15,000: 240 steps were done twice.",
        cost=Cost(1_704.0, 27_264.0),
        evidence=(
            Evidence("steps done twice", None, 15_001, 15_240, 240.0, place=Place("logs/train.log", line=88_214)),
        ),
        actions=("Save checkpoints more often than every 4,000 steps.",),
        id="rollback-15001",
    )
    return slowdown, spike, inside, rollback
