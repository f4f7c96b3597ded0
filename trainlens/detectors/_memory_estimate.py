"""How much memory of a GPU a training needs: weights, gradients, optimizer states, activations, in bytes.

16 bytes a weight with Adam in mixed precision: 2 for the weight, 2 for its gradient, 12 for the master copy and both
moments; 16 in full precision too (4, 4, 8). Activations are 34 bytes × sequence × micro-batch × width a layer, 2 where
all of a layer is computed again, with attention that does not keep its scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainlens.citations import ZERO
from trainlens.detectors import _setup
from trainlens.detectors._setup_ranges import told
from trainlens.diagnosis import Evidence, Finding
from trainlens.figures import number
from trainlens.model import Run


@dataclass(frozen=True)
class Estimate:
    """Bytes on one GPU."""

    weights: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def whole(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations


def estimate(run: Run) -> Estimate | None:
    """The estimate from what the run was set to; None where the model's size is not stated."""
    count = _setup.parameters(run)
    if count is None or run.fact("lora_rank", "lora_r", "lora_alpha", "peft_type") is not None:
        return None
    tensor, pipe = (_setup.value_of(run, name) or 1.0 for name in ("tensor", "pipeline"))
    world = _setup.value_of(run, "world") or 1.0
    shards = max(1.0, _setup.value_of(run, "data") or world / (tensor * pipe))
    zero = _setup.value_of(run, "zero") or 0
    if _setup.is_on(run, "use_distributed_optimizer"):
        zero = max(zero, 1)
    if _setup.is_on(run, "use_fsdp", "fsdp", "use_megatron_fsdp") or run.fact("fsdp_config") is not None:
        zero = 3
    own = count / (tensor * pipe)
    half = _setup.precision(run) in ("bf16", "fp16", "fp8")
    optimizer = _setup.word_of(run, "optimizer")
    states = 4 if "sgd" in optimizer or "lion" in optimizer or "muon" in optimizer else 8
    return Estimate(
        weights=own * (2 if half else 4) / (shards if zero >= 3 else 1),
        gradients=own * (2 if half else 4) / (shards if zero >= 2 else 1),
        optimizer=own * (states + (4 if half else 0)) / (shards if zero >= 1 else 1),
        activations=_activations(run, tensor, half),
    )


def _activations(run: Run, tensor: float, half: bool) -> float:
    """Of the first pipeline stage, which holds as many micro-batches as there are stages; 0 where not stated."""
    length, width, layers = (_setup.value_of(run, name) for name in ("length", "width", "layers"))
    if not length or not width or not layers:
        return 0.0
    micro = _setup.value_of(run, "micro batch") or 1.0
    again = _setup.word_of(run, "recompute") == "full" or _setup.is_on(
        run, "gradient_checkpointing", "activation_checkpointing"
    )
    each = 2.0 if again else 34.0
    return length / (_setup.value_of(run, "context") or 1) * micro * width * layers * each * (1 if half else 2) / tensor


def too_large(run: Run, share: float) -> Iterator[Finding]:
    """A finding where the estimate is more than a share of the GPU's memory."""
    total = run.get("gpu/memory_total")
    need = estimate(run)
    if need is None or total is None or not total.finite.any():
        return
    room = float(total.value[total.finite].max())
    if need.whole <= share * room:
        return
    parts = {
        "weights": need.weights,
        "gradients": need.gradients,
        "optimizer states": need.optimizer,
        "activations": need.activations,
    }
    found = told(
        "estimated memory",
        need.whole,
        f"the GPU has {number(room, 'bytes')}",
        ", ".join(f"{name} {number(size, 'bytes')}" for name, size in parts.items()),
        ZERO,
        expected=room,
        limit=share * room,
        option="memory",
        unit="bytes",
        confidence=0.5,
    )
    yield replace(
        found,
        evidence=(*found.evidence, *(Evidence(name, observed=size, unit="bytes") for name, size in parts.items())),
    )
