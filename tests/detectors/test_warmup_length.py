from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Run

N = 2000
STEP = np.arange(N, dtype=float)
LARGE = {"num_layers": 32, "hidden_size": 4096, "vocab_size": 32000, "seq_length": 4096}


def cosine(warmup: int) -> Any:
    part = np.clip((STEP - warmup) / (N - warmup), 0, 1)
    return np.minimum((STEP + 1) / max(1, warmup), 1) * 3e-4 * 0.5 * (1 + np.cos(np.pi * part))


def thrown() -> Any:
    loss = falling(N, start=10.5)
    loss[8:60] += np.linspace(8, 0, 52)
    return loss


def run(warmup: int, loss: Any = None, facts: Any = None) -> Run:
    return run_of({"lr": cosine(warmup), "train/loss": falling(N, start=10.5) if loss is None else loss}, facts=facts)


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        (run(500), "info"),
        (run(100, facts={"warmup_steps": 400}), "info"),
        (run(300, facts={"warmup_ratio": 0.03, "max_steps": 2000}), "info"),
        (run(0, thrown(), LARGE), "warning"),
    ],
)
def test_fires(given: Run, severity: str) -> None:
    (found,) = findings("warmup-length", given)
    assert found.severity == severity


@pytest.mark.parametrize(
    "given",
    [
        run(20),
        run(100),
        run(200),
        run(0),
        run(0, facts=LARGE),  # no warmup, and no trouble
        run(0, thrown()),  # trouble in a model of unknown size
        run(0, thrown(), {**LARGE, "finetune": True}),
        run(0, thrown(), {**LARGE, "lora_rank": 16}),
        run(0, thrown() / 5, LARGE),  # begins near 2 nats: trained weights
        run(100, facts={"warmup_steps": 100, "max_steps": 2000}),
        run(60, facts={"warmup_ratio": 0.03, "max_steps": 2000}),
        run(100, facts={"warmup_steps": 0, "warmup_ratio": 0.05, "max_steps": 2000}),
        run(100, facts={"lr_warmup_iters": "None"}),
    ],
)
def test_quiet(given: Run) -> None:
    assert findings("warmup-length", given) == []


@pytest.mark.parametrize(
    "curves",
    [
        {"lr": np.minimum((STEP + 1) / 3000, 1) * 3e-4},  # not done yet
        {"lr": (5000 + np.arange(N), cosine(300)), "train/loss": (5000 + np.arange(N), falling(N))},  # resumed
    ],
)
def test_not_applicable(curves: Any) -> None:
    assert isinstance(answer("warmup-length", run_of(curves)), NotApplicable)
