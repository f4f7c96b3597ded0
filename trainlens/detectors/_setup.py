"""What a run was set to: the parameters of a training by all names that trainers give them, as numbers.

Facts are values as written ("None", "1e-4", "auto"); the first name that holds a usable value decides.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from trainlens.model import Fact, Run

# parameter: its names, the most telling first. Case and punctuation do not matter, nor do the folders before a name.
NAMES: dict[str, tuple[str, ...]] = {
    "total steps": (
        "train_iters",
        "max_steps",
        "total_steps",
        "max_train_steps",
        "total_iters",
        "max_iters",
        "num_iterations",
        "num_training_steps",
        "total_train_steps",
        "total_num_steps",
        "training_steps",
    ),
    "decay steps": ("lr_decay_iters", "lr_decay_steps", "opt_learning_rate_decay_steps", "decay_steps", "T_max"),
    "warmup steps": (
        "lr_warmup_iters",
        "warmup_steps",
        "warmup_iters",
        "num_warmup_steps",
        "warmup_num_steps",
        "lr_warmup_steps",
        "opt_learning_rate_warmup_steps",
        "warmup_iterations",
    ),
    "warmup share": ("warmup_ratio", "lr_warmup_fraction", "pct_start", "warmup_fraction"),
    "rate": ("learning_rate", "lr", "base_lr", "max_lr", "peak_lr", "opt_base_learning_rate", "warmup_max_lr"),
    "least rate": ("min_lr", "opt_end_learning_rate", "eta_min", "lr_min", "end_lr", "min_learning_rate"),
    "style": (
        "lr_decay_style",
        "lr_scheduler_type",
        "lr_scheduler",
        "scheduler_type",
        "opt_learning_rate_decay_schedule",
        "lr_schedule",
        "scheduler",
    ),
    "weight decay": ("weight_decay", "opt_adamw_weight_decay", "wd"),
    "clip": (
        "clip_grad",
        "max_grad_norm",
        "gradient_clipping",
        "grad_clip",
        "gradient_clip_val",
        "clip_grad_norm",
        "clip_norm",
        "opt_gradient_clip_norm",
    ),
    "batch": ("global_batch_size", "total_batch_size", "effective_batch_size", "gbs"),
    "micro batch": (
        "micro_batch_size",
        "per_device_train_batch_size",
        "train_micro_batch_size_per_gpu",
        "per_gpu_batch_size",
        "device_batch_size",
        "batch_size_per_gpu",
        "mbs",
    ),
    "accumulation": ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum_steps"),
    "length": (
        "seq_length",
        "sequence_length",
        "max_sequence_length",
        "max_seq_length",
        "encoder_seq_length",
        "seq_len",
        "block_size",
        "context_length",
        "cutoff_len",
    ),
    "beta1": ("adam_beta1", "beta1", "opt_adamw_beta_1"),
    "beta2": ("adam_beta2", "beta2", "opt_adamw_beta_2"),
    "epsilon": ("adam_eps", "adam_epsilon", "opt_adamw_epsilon", "optimizer.params.eps"),
    "optimizer": ("optimizer", "optim", "optimizer.type", "optimizer_name"),
    "world": ("world_size", "num_gpus", "n_gpus", "num_processes", "ngpu"),
    "tensor": ("tensor_model_parallel_size", "tensor_parallel_size", "model_parallel_size", "tp_size"),
    "pipeline": ("pipeline_model_parallel_size", "pipeline_parallel_size", "pipe_parallel_size", "pp_size"),
    "context": ("context_parallel_size", "cp_size", "ds_sequence_parallel_size"),
    "data": ("data_parallel_size", "dp_size"),
    "virtual": ("virtual_pipeline_model_parallel_size",),
    "node": ("gpus_per_node", "nproc_per_node", "local_world_size", "devices_per_node"),
    "parameters": (
        "num_parameters",
        "n_params",
        "total_params",
        "num_params",
        "total_parameters",
        "n_parameters",
        "model_parameters",
    ),
    "layers": ("num_layers", "n_layer", "num_hidden_layers", "n_layers", "encoder_num_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim", "n_embed"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("padded_vocab_size", "vocab_size"),
    "inner": ("ffn_hidden_size", "intermediate_size"),
    "zero": ("zero_stage", "zero_optimization.stage"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "recompute": ("recompute_granularity",),
    "scale": ("loss_scale", "fp16.loss_scale"),
}
# What only a run that begins from trained weights is told.
_BEGUN = (
    "finetune",
    "lora_rank",
    "lora_r",
    "lora_alpha",
    "peft_type",
    "finetuning_type",
    "model_name_or_path",
    "_name_or_path",
    "pretrained_checkpoint",
    "init_from",
    "base_model",
    "load_in_4bit",
)
_PRECISIONS = (("fp8", "fp8"), ("bf16|bfloat16", "bf16"), ("fp16|^16|float16|half", "fp16"), ("32", "fp32"))
_FIRST, _TRAINED = 10, 5.0  # a language model that begins from random weights has about ln(vocabulary) nats at first
_SCRATCH = ("", "none", "null", "scratch", "false", "resume", "pt", "pretrain", "0")


@dataclass(frozen=True)
class Stated:
    """A number that the run was set to, and the fact that says so."""

    value: float
    fact: Fact


def facts_of(run: Run, name: str) -> list[Fact]:
    """The facts of a parameter, one for each of its names."""
    return [fact for alias in NAMES[name] if (fact := run.fact(alias)) is not None]


def stated(run: Run, name: str, least: float = 0.0) -> Stated | None:
    """The first finite number above `least` that one of a parameter's names has; flags and words are none."""
    for fact in facts_of(run, name):
        if isinstance(fact.value, bool):
            continue
        try:
            value = float(fact.value)
        except ValueError:
            continue
        if math.isfinite(value) and value > least:
            return Stated(value, fact)
    return None


def value_of(run: Run, name: str) -> float | None:
    """The number alone."""
    found = stated(run, name)
    return found.value if found else None


def word_of(run: Run, name: str) -> str:
    """The first text that a parameter is set to, in lower case; "" where there is none."""
    words = (str(fact.value).strip().lower() for fact in facts_of(run, name))
    return next((word for word in words if word not in ("none", "null", "", "auto", "true", "false")), "")


def is_on(run: Run, *names: str) -> bool | None:
    """Whether a switch is on; None where it is not stated."""
    for name in names:
        if (fact := run.fact(name)) is not None and str(fact.value).lower() in ("true", "false", "1", "0"):
            return str(fact.value).lower() in ("true", "1")
    return None


def parameters(run: Run) -> float | None:
    """Weights of the model: as stated, else of a transformer's blocks and embeddings, for no experts."""
    whole = value_of(run, "parameters")
    if whole is not None:
        return whole
    layers, width = value_of(run, "layers"), value_of(run, "width")
    if not layers or not width or (value_of(run, "experts") or 0) > 1:
        return None
    inner = value_of(run, "inner") or 4 * width
    gated = is_on(run, "swiglu") or run.fact("intermediate_size") is not None
    block = 4 * width**2 + (3 if gated else 2) * width * inner
    return layers * block + (value_of(run, "vocabulary") or 0) * width


def batch(run: Run) -> float | None:
    """Sequences of a step over all GPUs: as stated, else micro-batch × accumulation × data-parallel size."""
    whole = value_of(run, "batch")
    if whole is not None:
        return whole
    micro, data = value_of(run, "micro batch"), value_of(run, "data")
    return micro * (value_of(run, "accumulation") or 1) * data if micro and data else None


def begun_from_weights(run: Run) -> bool:
    """Whether the run says that it goes on from trained weights: a fine-tuning, which other ranges are usual for."""
    for name in _BEGUN:
        fact = run.fact(name)
        if fact is not None and str(fact.value).strip().lower() not in _SCRATCH:
            return True
    loss = run.get("train/loss")
    if loss is None or not loss.finite.any() or loss.step[0] > _FIRST:
        return False
    return float(loss.value[loss.finite][0]) < _TRAINED


def precision(run: Run) -> str:
    """ "fp16", "bf16", "fp8" or "fp32"; "" where it is not stated."""
    for name in ("fp8", "bf16", "fp16"):
        if is_on(run, name, f"{name}.enabled"):
            return name
    for name in ("precision", "params_dtype", "mixed_precision", "torch_dtype", "dtype"):
        fact = run.fact(name)
        word = str(fact.value).lower() if fact is not None else ""
        for pattern, told in (
            ("fp8", "fp8"),
            ("bf16|bfloat16", "bf16"),
            ("fp16|^16|float16|half", "fp16"),
            ("32", "fp32"),
        ):
            if re.search(pattern, word):
                return told
    return ""
