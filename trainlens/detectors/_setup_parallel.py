"""Parallel sizes against the GPUs of a run: tensor size and nodes, the product of the sizes, the pipeline bubble."""

from __future__ import annotations

from collections.abc import Iterator

from trainlens.citations import ACTIVATIONS, MEGATRON_3D
from trainlens.detectors import _setup
from trainlens.detectors._setup_ranges import told
from trainlens.diagnosis import Finding
from trainlens.model import Run


def unusual(run: Run, most: int, share: float) -> Iterator[Finding]:
    world, tensor, pipe = (_setup.stated(run, name) for name in ("world", "tensor", "pipeline"))
    node = _setup.value_of(run, "node") or most
    if tensor and tensor.value > node:
        yield told(
            "tensor-parallel size",
            tensor.value,
            f"at most {node:,.0f} is usual",
            "beyond, every layer waits for the network between nodes",
            MEGATRON_3D,
            place=tensor.fact.place,
            limit=node,
            option="tensor",
        )
    yield from _unused(run, world, tensor, pipe)
    micro, data, batch = _setup.value_of(run, "micro batch"), _setup.value_of(run, "data"), _setup.batch(run)
    if not data and world and pipe:
        data = world.value / ((tensor.value if tensor else 1) * pipe.value * (_setup.value_of(run, "context") or 1))
    if pipe and pipe.value > 1 and micro and batch and data:
        count = max(1.0, batch / (micro * data)) * (_setup.value_of(run, "virtual") or 1)
        bubble = (pipe.value - 1) / count
        if bubble > share:
            yield told(
                "pipeline bubble",
                bubble,
                "below 10 % is usual",
                f"{pipe.value:,.0f} stages share {count:,.0f} micro-batches",
                ACTIVATIONS,
                place=pipe.fact.place,
                limit=share,
                option="bubble",
                unit="share",
            )


def _unused(
    run: Run, world: _setup.Stated | None, tensor: _setup.Stated | None, pipe: _setup.Stated | None
) -> Iterator[Finding]:
    """More or fewer GPUs than the product of the parallel sizes."""
    data = _setup.stated(run, "data")
    if world is None or tensor is None or pipe is None:
        return
    base, context = tensor.value * pipe.value, _setup.value_of(run, "context") or 1
    if data is None:
        if world.value % base:
            yield told(
                "world size",
                world.value,
                f"a multiple of {base:,.0f} is needed",
                "tensor × pipeline size",
                MEGATRON_3D,
                place=world.fact.place,
                severity="info",
            )
        return
    products = {base * data.value, base * context * data.value}
    if world.value not in products:
        product = max(products)
        idle = world.value > product
        yield told(
            "world size",
            world.value,
            f"{product:,.0f} is the product of the parallel sizes",
            f"{world.value - product:,.0f} GPUs are not used" if idle else "",
            MEGATRON_3D,
            place=world.fact.place,
            expected=product,
            severity="warning" if idle else "info",
            confidence=0.8,
            unit="GPUs",
        )
