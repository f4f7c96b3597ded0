"""Logs of machines and evaluations that no small training on one processor writes: made by rule, in the tools' shapes.

The shapes are those of `nvidia-smi --query-gpu=… --format=csv`, the kernel's log, lm-evaluation-harness' results and
json lines; the numbers are drawn from a fixed seed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
STEP = 4.0  # seconds
QUERY = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "temperature.gpu, clocks.current.sm [MHz]"
)


def training(folder: Path, steps: int, *, seed: int, communication: float = 0.08, until: int | None = None) -> None:
    """`metrics.jsonl` of a run on several GPUs, with what of each step was communication and waiting for data."""
    chance = np.random.default_rng(seed)
    rows = []
    clock = START.timestamp()
    for step in range(1, (until or steps) + 1):
        share = communication if step < 0.4 * steps else max(communication, 0.08)
        if communication > 0.2 and step < 0.4 * steps:
            share = 0.08
        seconds = STEP * (1 - 0.08) / (1 - share) * float(np.exp(0.01 * chance.normal()))
        clock += seconds
        loss = 2.1 + 6 * (1 + step / 6) ** -0.6
        rows.append({
            "step": step, "loss": round(loss * float(np.exp(0.01 * chance.normal())), 4),
            "grad_norm": round(0.5 * float(np.exp(0.1 * chance.normal())), 4), "step_time": round(seconds, 4),
            "comm_time": round(share * seconds * float(np.exp(0.02 * chance.normal())), 4),
            "data_time": round(0.01 * seconds * float(np.exp(0.1 * chance.normal())), 4),
            "tokens_per_sec": round(1048576 / seconds, 1), "mfu": round(0.43 * STEP / seconds, 4),
            "wall_time": round(clock, 3),
        })  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def gpus(folder: Path, samples: int, *, seed: int, sick_from: int | None = None) -> None:
    """`gpus.csv`: two GPUs, a sample each 8 s. From `sick_from` on the second draws little power and grows hot."""
    chance = np.random.default_rng(seed)
    lines = [QUERY]
    for at in range(samples):
        when = (START + timedelta(seconds=8 * at)).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        for gpu in range(2):
            sick = sick_from is not None and gpu == 1 and at >= sick_from
            power, heat, clock = (352, 91, 1080) if sick else (648, 66, 1755)
            used = 79_600 if sick_from is not None and gpu == 0 else 62_300
            lines.append(
                f"{when}, {gpu}, NVIDIA H100 80GB HBM3, {chance.integers(95, 101)} %, {used + chance.integers(0, 200)} "
                f"MiB, 81559 MiB, {power + 9 * chance.normal():.2f} W, {heat + chance.integers(-2, 3)}, {clock} MHz"
            )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpus.csv").write_text("\n".join(lines) + "\n", "utf-8")


def fallen_off(folder: Path, after_seconds: float) -> None:
    """`kernel.log`: the driver says that a GPU is gone."""
    when = (START + timedelta(seconds=after_seconds)).strftime("%b %e %H:%M:%S")
    head = f"{when} node-17 kernel: "
    (folder / "kernel.log").write_text(
        f"{head}pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received: 0000:44:00.0\n"
        f"{head}NVRM: Xid (PCI:0000:44:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        f"{head}NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.\n",
        "utf-8",
    )


def large_model(folder: Path, *, seed: int, resume: int | None = None) -> None:
    """A model of 1.3 billion weights without a warmup, which throws it up; its schedule may begin again at a resume."""
    chance = np.random.default_rng(seed)
    steps = 1000
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "learning_rate": 0.006, "lr_scheduler_type": "cosine", "warmup_steps": 0, "max_steps": steps,
        "weight_decay": 0.5, "max_grad_norm": 1.0, "num_parameters": 1_300_000_000, "seq_length": 2048,
        "global_batch_size": 256, "bf16": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
    rows: list[dict[str, float]] = []
    end = resume or steps
    for step in (*range(1, end + 1), *range(end - 19, steps + 1 if resume else 0)):
        at = step if len(rows) < end else step - end + 20
        rate = 0.006 * (0.1 + 0.45 * (1 + np.cos(np.pi * at / steps)))
        early = 1 + 0.9 * np.exp(-(((step - 14) / 5) ** 2))  # thrown up at its full rate
        loss = (2.3 + 8 * (1 + step / 10) ** -0.6) * early * float(np.exp(0.01 * chance.normal()))
        norm = 0.5 * (1 + 12 * np.exp(-(((step - 14) / 6) ** 2))) * float(np.exp(0.1 * chance.normal()))
        rows.append(
            {"step": step, "loss": round(loss, 4), "grad_norm": round(norm, 4), "learning_rate": round(rate, 8)}
        )
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text, "utf-8")


TASKS = {"hellaswag": (0.25, 0.62), "arc_challenge": (0.25, 0.44), "gsm8k": (0.0, 0.34), "mmlu": (0.25, 0.52),
         "winogrande": (0.5, 0.68)}  # fmt: skip


def benchmarks(folder: Path, *, seed: int, falls_from: int | None = None) -> None:
    """`results_….json` of ten checkpoints, as lm-evaluation-harness writes them; some scores fall again."""
    chance = np.random.default_rng(seed)
    for number in range(1, 11):
        results = {}
        for task, (guess, best) in TASKS.items():
            error = 0.006
            score = guess + (best - guess) * (1 - np.exp(-number / 3))
            if falls_from is not None and number >= falls_from and task in ("gsm8k", "mmlu", "arc_challenge"):
                score -= (0.5 if task == "gsm8k" else 0.35) * (score - guess)
            name = "exact_match,strict-match" if task == "gsm8k" else "acc,none"
            first, _, rest = name.partition(",")
            results[task] = {
                "alias": task, name: round(float(score + error * 0.7 * chance.normal()), 4),
                f"{first}_stderr,{rest}": error,
            }  # fmt: skip
        whole = {
            "results": results,
            "n-shot": dict.fromkeys(TASKS, 5),
            "config": {"model": "hf", "model_args": f"pretrained=out/checkpoint-{1000 * number},dtype=bfloat16"},
            "date": START.timestamp() + 3600.0 * number,
        }
        when = (START + timedelta(hours=number)).strftime("%Y-%m-%dT%H-%M-%S")
        place = folder / f"checkpoint-{1000 * number}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"results_{when}.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
