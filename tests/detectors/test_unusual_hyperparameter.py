from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, run_of
from trainlens.detectors import _memory_estimate
from trainlens.diagnosis import NotApplicable

N = 500
STEP = np.arange(N, dtype=float)
RATE = np.minimum((STEP + 1) / 25, 1) * 3e-4 * (0.1 + 0.45 * (1 + np.cos(np.pi * STEP / N)))
# A pre-training of 6.9 G weights as it is usually set.
USUAL = {
    "num_layers": 32, "hidden_size": 4096, "padded_vocab_size": 32000, "seq_length": 4096, "global_batch_size": 1024,
    "micro_batch_size": 1, "lr": 3e-4, "min_lr": 3e-5, "weight_decay": 0.1, "clip_grad": 1.0,
    "bf16": True, "fp16": False,
    "adam_beta1": 0.9, "adam_beta2": 0.95, "adam_eps": 1e-8, "optimizer": "adam", "lr_decay_style": "cosine",
    "world_size": 64, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2, "data_parallel_size": 8,
    "context_parallel_size": 1, "train_iters": 500, "loss_scale": "None",
}  # fmt: skip


def but(curves: Any = None, **changed: Any) -> Any:
    facts = {**USUAL, **changed}
    return run_of(
        {"train/loss": falling(N, start=10.5), "lr": RATE, **(curves or {})},
        facts={k: v for k, v in facts.items() if v != ""},
    )


@pytest.mark.parametrize(
    ("run", "about", "severity"),
    [
        (but(global_batch_size=16), "global batch", "info"),
        (but(global_batch_size=8192), "global batch", "info"),
        (but(seq_length=256, global_batch_size=16384), "sequence length", "info"),
        (but({"lr": RATE * 20}, lr=6e-3), "learning rate", "info"),
        (but({"lr": RATE / 60}, lr=5e-6, min_lr=5e-7), "learning rate", "info"),
        (but(weight_decay=1.0), "weight decay", "info"),
        (but(weight_decay=0.0), "weight decay", "info"),
        (but(clip_grad=0.0), "gradient clipping", "info"),
        (but(clip_grad=1000.0), "gradient clipping", "info"),
        (but(adam_beta2=0.5), "beta2", "info"),
        (but(adam_eps=0.01), "epsilon", "info"),
        (but(min_lr=2.9e-4), "least learning rate", "info"),
        (but(min_lr=2e-3), "least learning rate", "warning"),
        (but(bf16=False, fp16=True, loss_scale=1.0), "loss scale", "warning"),
        (but(bf16=False, params_dtype="torch.float32"), "precision", "info"),
        (but(tensor_model_parallel_size=16, data_parallel_size=2), "tensor-parallel size", "info"),
        (but(world_size=72), "world size", "warning"),
        (but(data_parallel_size="", world_size=60), "world size", "info"),
        (but(global_batch_size=64, pipeline_model_parallel_size=8, data_parallel_size=2), "pipeline bubble", "info"),
        (but(lr=3e-3, min_lr=3e-4), "learning rate", "warning"),
        (but(lr=4e-4), "learning rate", "info"),
        (but({"batch_size": np.full(N, 512.0)}), "global batch size", "info"),
        (but({"tokens": (STEP + 1) * 512 * 4096 * 3}), "tokens per step", "info"),
        (but(train_iters=400), "planned steps", "info"),
        (but({"grad_norm": np.minimum(0.5, 0.2 + np.arange(N) % 9 / 10)}), "gradient clipping", "info"),
        (but({"gpu/memory_total": np.full(N, 16 * 2.0**30)}), "estimated memory", "info"),
    ],
)
def test_fires(run: Any, about: str, severity: str) -> None:
    found = {one.evidence[0].text: one for one in findings("unusual-hyperparameter", run)}
    assert about in found
    assert found[about].severity == severity
    assert len(found) <= 2


@pytest.mark.parametrize(
    "run",
    [
        but(),
        but(fp16="", bf16="", precision="bf16-mixed"),
        but(bf16=False, fp16=True, loss_scale=0),  # 0 is dynamic
        but({"loss_scale": np.full(N, 65536.0)}, bf16=False, fp16=True),
        but({"lr": RATE * 2}, lr=6e-4, min_lr=6e-5),
        but({"lr": RATE * 100}, optimizer="muon", lr=0.03, min_lr=3e-3),
        but(finetune=True, global_batch_size=128, lr=3e-4),
        but({"lr": (np.arange(200, 500), RATE[200:])}),  # begins after the peak
        but({"lr": np.minimum((STEP + 1) / 2000, 1) * 3e-4}),  # still warms up
        but({"batch_size": np.full(N, 1024.0), "tokens": (STEP + 1) * 1024 * 4096}),
        but({"batch_size": np.linspace(64, 900, N)}, rampup_batch_size="['64', '32', '1000']"),
        but({"grad_norm": np.minimum(1.0, 0.2 + np.arange(N) % 13 / 10)}),  # measured after clipping at 1
        but({"gpu/memory_total": np.full(N, 80 * 2.0**30)}, use_distributed_optimizer=True),
        but(train_iters="None"),
        but(train_iters=2),
        but(min_lr=0.1),  # a share of the peak
        but({"lr": RATE / 30}, lr=1e-5, min_lr=1e-6),
        run_of({"train/loss": falling(N)}, facts={"learning_rate": 1e-3, "batch_size": 64, "block_size": 256}),
        run_of({"train/loss": falling(N)}, facts={"lr": "auto", "weight_decay": "auto", "gradient_clipping": "auto"}),
        run_of({"train/loss": falling(N)}, facts={"train_batch_size": 8, "max_steps": -1, "num_train_epochs": 3}),
    ],
)
def test_quiet(run: Any) -> None:
    assert [(one.title, one.message) for one in findings("unusual-hyperparameter", run)] == []


def test_needs_facts() -> None:
    assert isinstance(answer("unusual-hyperparameter", run_of(falling())), NotApplicable)


def test_each_finding_names_value_range_and_source() -> None:
    (found,) = findings("unusual-hyperparameter", but(weight_decay=1.0))
    assert found.message == "weight decay is 1; 0.01 to 0.1 is usual (the usual range in practice)."


def test_memory_of_seven_billion_weights() -> None:
    """Alone on a GPU with Adam in bfloat16: 16 bytes a weight, and activations of one sequence of 4,096 tokens."""
    facts = {
        "num_parameters": 7e9,
        "num_layers": 32,
        "hidden_size": 4096,
        "seq_length": 4096,
        "micro_batch_size": 1,
        "bf16": True,
    }
    need = _memory_estimate.estimate(run_of(falling(), facts=facts))
    assert need is not None
    assert (need.weights, need.gradients, need.optimizer) == (14e9, 14e9, 84e9)
    assert need.activations == 4096 * 4096 * 32 * 34
    sharded = _memory_estimate.estimate(run_of(falling(), facts={**facts, "zero_stage": 3, "world_size": 8}))
    assert sharded is not None
    assert sharded.weights == 14e9 / 8
    assert _memory_estimate.estimate(run_of(falling(), facts={**facts, "lora_rank": 8})) is None
