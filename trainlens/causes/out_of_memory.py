"""Why memory ran out: it grew, or batch, sequence, activations or model are too large.

What the message itself says ("Tried to allocate … total capacity …") is read beside the memory series and the stated
configuration. *Memory growth*: the used memory rose by more than 10 % from the second tenth of the points (in the
first allocators warm up) to the last. *Model too large*: parameters, gradients and optimizer states (16 bytes a
parameter with Adam in mixed precision) take more than 80 % of the GPU. *Batch too large*: a larger batch than before,
or memory that stood above 85 % all along.
*Sequence too long*: a longer one than before. *Activations too large*: activations are not recomputed.
*Fragmentation*: PyTorch had reserved more than was wanted, in pieces that were too small. *Another process on the
GPU*: what others held would have sufficed.
"""

from __future__ import annotations

import re

import numpy as np

from trainlens.causes._measure import bounds, fact_number, finite, missing, ruled_out, supported, unmeasured
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import number
from trainlens.model import Run, Series

EXPLAINS = ("out-of-memory", "memory-pressure")

BYTES_A_PARAMETER = 16  # bf16 weights and gradients, fp32 weights and two moments (ZeRO, section 3.1)
_GROWTH = 0.10
_TIGHT, _ROOMY = 0.85, 0.70
_TOO_LARGE, _FITS = 0.8, 0.5
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_RECOMPUTE = (
    "recompute_granularity", "gradient_checkpointing", "activation_checkpointing", "checkpoint_activations",
    "recompute_activations", "activation_checkpoint", "recompute_method",
)  # fmt: skip


def growth(finding: Finding, run: Run) -> Verdict:
    cause = "Memory growth"
    series = _memory(run)
    if series is None or series.finite.sum() < 20:
        return missing(cause, "gpu/memory_used")
    _, last = bounds(finding, run)
    step, value = finite(series)
    value = value[step <= last] if (step <= last).sum() >= 20 else value
    tenth = max(5, len(value) // 10)
    begin, end = float(np.median(value[tenth : 2 * tenth])), float(np.median(value[-tenth:]))
    rise = end / begin - 1 if begin > 0 else 0.0
    unit = series.about.unit
    told = f"{series.metric} went from {number(begin, unit)} to {number(end, unit)} by step {last:,}"
    evidence = Evidence("rise of the used memory", series.metric, int(step[0]), last, rise, 0.0, _GROWTH, "share")
    if rise > _GROWTH:
        remedy = "Look for tensors that are kept from step to step, such as losses summed with their graph"
        return supported(cause, f"{told} (+{number(rise, 'share')}).", remedy, evidence)
    return ruled_out(cause, f"{told}: it did not grow.", evidence)


def model(finding: Finding, run: Run) -> Verdict:
    cause = "Model too large"
    parameters, total = _parameters(run), _capacity(finding, run)
    if parameters is None:
        return unmeasured(cause, "the logs do not state the number of parameters. Log it to know.")
    if total is None:
        return missing(cause, "gpu/memory_total", "the GPU's total memory")
    shards = _shards(run)
    states = parameters * BYTES_A_PARAMETER / shards
    share = states / total
    split = f" over {shards:,.0f} GPUs" if shards > 1 else ""
    told = (
        f"{number(parameters)} parameters with gradients and Adam's states take {number(states, 'bytes')} a GPU{split}"
        f", {number(share, 'share')} of its {number(total, 'bytes')}."
    )
    evidence = Evidence("model states, share of the GPU's memory", None, observed=share, limit=_TOO_LARGE, unit="share")
    if share > _TOO_LARGE:
        return supported(cause, told, "Shard the optimizer states (ZeRO), or split the model over more GPUs", evidence)
    if share < _FITS:
        return ruled_out(cause, told, evidence)
    return unmeasured(cause, f"{told} What is left may not hold the activations: log memory by its parts to know.")


def batch(finding: Finding, run: Run) -> Verdict:
    cause = "Batch too large"
    if grown := _grown(run.get("batch_size"), finding, run):
        before, now = grown
        told = f"batch_size was {number(now)} when memory ran out, {number(before)} before."
        evidence = Evidence("batch size", "batch_size", *bounds(finding, run), now, before)
        return supported(cause, told, f"Go back to a batch of {number(before)}, and accumulate gradients", evidence)
    used = _used_share(finding, run)
    if used is None:
        return missing(cause, "gpu/memory_share", "used and total GPU memory for each step")
    where = ("gpu/memory_share", None, bounds(finding, run)[1])
    evidence = Evidence("share of memory used before", *where, used, None, _TIGHT, "share")
    told = f"{number(used, 'share')} of the GPU's memory was in use before"
    if used >= _TIGHT:
        remedy = "Halve the micro-batch and accumulate gradients over twice as many"
        return supported(cause, f"{told} (limit {number(_TIGHT, 'share')}): no room for a peak.", remedy, evidence)
    if used < _ROOMY:
        return ruled_out(cause, f"{told}: the usual batch left room.", evidence)
    return unmeasured(cause, f"{told}. Log the peak of memory in each step to know.")


def sequence(finding: Finding, run: Run) -> Verdict:
    cause = "Sequence too long"
    series = run.get("sequence_length")
    if grown := _grown(series, finding, run):
        before, now = grown
        told = f"sequence_length was {number(now)} when memory ran out, {number(before)} before."
        evidence = Evidence("sequence length", "sequence_length", *bounds(finding, run), now, before, unit="tokens")
        return supported(cause, told, "Cap the sequence length, or sort batches by length", evidence)
    if series is not None and series.finite.sum() > 1:
        usual = number(float(np.median(finite(series)[1])))
        return ruled_out(cause, f"sequence_length was {usual} as before when memory ran out.")
    stated = fact_number(run, "seq_length", "sequence_length", "max_seq_length", "block_size", "max_length", "seq_len")
    if stated is not None:
        told = f"the configuration states one length, {stated:,.0f}, but not the batches'. Log sequence_length to know."
        return unmeasured(cause, told)
    return missing(cause, "sequence_length")


def activations(_finding: Finding, run: Run) -> Verdict:
    cause = "Activations too large"
    stated = run.fact(*_RECOMPUTE)
    if stated is None:
        return unmeasured(cause, "the logs do not state whether activations are recomputed. Log the setting to know.")
    evidence = Evidence(f"{stated.name} = {stated.value}", place=stated.place)
    if str(stated.value).lower() in ("false", "none", "0", "", "off", "no"):
        told = f"{stated.name} is {stated.value}: every activation is kept for the backward pass."
        return supported(cause, told, "Recompute activations (activation checkpointing)", evidence)
    return ruled_out(cause, f"{stated.name} is {stated.value}: activations are recomputed already.", evidence)


def fragments(finding: Finding, _run: Run) -> Verdict:
    cause = "Fragmentation"
    wanted, spare = _stated(finding, "memory wanted"), _stated(finding, "reserved but unused by PyTorch")
    if wanted is None or spare is None:
        return unmeasured(cause, "no message says what PyTorch had reserved. Log torch.cuda.memory_stats() to know.")
    told = f"PyTorch held {number(spare, 'bytes')} that it did not use; {number(wanted, 'bytes')} were wanted."
    evidence = Evidence("reserved but unused by PyTorch", observed=spare, limit=wanted, unit="bytes")
    if spare >= wanted:
        return supported(cause, told, "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", evidence)
    return ruled_out(cause, told, evidence)


def neighbours(finding: Finding, _run: Run) -> Verdict:
    cause = "Another process on the GPU"
    own, held = _stated(finding, "held by this process"), _stated(finding, "held by other processes")
    if own is None:
        return unmeasured(cause, "no message says which processes held memory. Run `nvidia-smi` on the node to know.")
    if held is None:
        return ruled_out(cause, f"the message names no other process; this one held {number(own, 'bytes')}.")
    lacked = max(0.0, (_stated(finding, "memory wanted") or 0.0) - (_stated(finding, "memory free") or 0.0))
    told = f"other processes held {number(held, 'bytes')}; {number(lacked, 'bytes')} were lacking."
    evidence = Evidence("held by other processes", observed=held, limit=lacked, unit="bytes")
    if held >= lacked:
        return supported(cause, told, "End the other processes on the GPU (`nvidia-smi` names them)", evidence)
    return ruled_out(cause, told, evidence)


# ---- what the log says of memory -----------------------------------------------------------------------------------


def _stated(finding: Finding, what: str) -> float | None:
    """A figure of the message in bytes, which the detector took from it."""
    sizes = [one.observed for one in finding.evidence if one.text == what]
    return float(sizes[0]) if sizes and sizes[0] is not None else None


def _memory(run: Run) -> Series | None:
    return run.get("gpu/memory_used") or run.get("gpu/memory_share")


def _grown(series: Series | None, finding: Finding, run: Run) -> tuple[float, float] | None:
    """The usual value before and the value at the end, when that is larger by 5 % or more."""
    if series is None:
        return None
    _, last = bounds(finding, run)
    step, value = finite(series)
    value = value[step <= last]
    if len(value) < 3:
        return None
    before, now = float(np.median(value[:-1])), float(value[-1])
    return (before, now) if now > 1.05 * before else None


def _used_share(finding: Finding, run: Run) -> float | None:
    """The highest usual share of the memory: the 95th percentile up to the finding."""
    _, last = bounds(finding, run)
    share, used, total = run.get("gpu/memory_share"), run.get("gpu/memory_used"), _capacity(finding, run)
    series = share if share is not None else used
    if series is None or (share is None and total is None):
        return None
    step, value = finite(series)
    value = value[step <= last] if share is not None else value[step <= last] / (total or 1.0)
    return float(np.quantile(value, 0.95)) if len(value) else None


def _capacity(finding: Finding, run: Run) -> float | None:
    """The GPU's memory in bytes: from the message, else as logged."""
    said = [finding.message, *(event.text for event in run.events if event.kind == "out-of-memory")]
    for text in said:
        found = re.search(r"total capacity of ([\d.]+) ([KMGT]?i?B)|([\d.]+) ([KMGT]?i?B) total capacity", text)
        if found:
            size, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
            return float(size) * _UNITS.get(unit, 1)
    total = run.get("gpu/memory_total")
    values = finite(total)[1] if total is not None else np.empty(0)
    return float(values[-1]) if len(values) else None


def _parameters(run: Run) -> float | None:
    """As stated, else 12 × layers × width² of a transformer's blocks."""
    stated = fact_number(run, "num_parameters", "n_params", "total_params", "num_params", "parameters", "n_parameters")
    if stated is not None:
        return stated
    layers = fact_number(run, "num_layers", "n_layer", "num_hidden_layers", "n_layers")
    width = fact_number(run, "hidden_size", "n_embd", "d_model", "dim")
    return 12 * layers * width**2 if layers and width else None


def _shards(run: Run) -> float:
    """Over how many GPUs model states are split, as far as stated: tensor × pipeline parallel sizes; all for ZeRO 3."""
    split = 1.0
    for names in (("tensor_model_parallel_size", "tensor_parallel_size"), ("pipeline_model_parallel_size",)):
        split *= fact_number(run, *names) or 1.0
    if (fact_number(run, "zero_stage", "zero_optimization.stage") or 0) >= 3:
        split = max(split, fact_number(run, "world_size") or 1.0)
    return split


CAUSES = (growth, batch, sequence, activations, model, fragments, neighbours)
