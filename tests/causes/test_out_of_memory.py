"""R-G5: what took the memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.causes.door import events, finding, told, verdicts
from tests.detectors.door import run_of
from trainlens.causes import out_of_memory
from trainlens.diagnosis import Evidence

N = 200
SAYS = events(
    "out-of-memory", N, text="Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which ..."
)


def found(curves: dict[str, Any] | None = None, facts: dict[str, Any] | None = None, said: Any = ()) -> dict[str, str]:
    run = run_of({"train/loss": np.full(N, 2.0), **(curves or {})}, facts=facts, events=said)
    return verdicts("out-of-memory", run, N, N, None)


@pytest.mark.parametrize(
    ("cause", "curves", "facts", "expected"),
    [
        ("Memory growth", {"gpu/memory_used": np.linspace(20e9, 79e9, N)}, {}, "supported"),
        ("Memory growth", {"gpu/memory_share": np.linspace(0.3, 0.99, N)}, {}, "supported"),
        ("Memory growth", {"gpu/memory_used": np.full(N, 70e9)}, {}, "ruled-out"),
        ("Memory growth", {"gpu/memory_used": np.where(np.arange(N) < N // 12, 40e9, 70e9)}, {}, "ruled-out"),
        ("Memory growth", {"gpu/memory_used": ([1, 2], [1e9, 2e9])}, {}, "not-measured"),
        ("Batch too large", {"gpu/memory_share": np.full(N, 0.93)}, {}, "supported"),
        ("Batch too large", {"gpu/memory_used": np.full(N, 76e9)}, {}, "supported"),
        ("Batch too large", {"batch_size": np.r_[np.full(N - 1, 32.0), 64.0]}, {}, "supported"),
        ("Batch too large", {"gpu/memory_share": np.full(N, 0.4)}, {}, "ruled-out"),
        ("Batch too large", {}, {}, "not-measured"),
        ("Sequence too long", {"sequence_length": np.r_[np.full(N - 1, 2048.0), 8192.0]}, {}, "supported"),
        ("Sequence too long", {"sequence_length": np.full(N, 2048.0)}, {}, "ruled-out"),
        ("Sequence too long", {}, {"seq_length": 4096}, "not-measured"),
        ("Activations too large", {}, {"gradient_checkpointing": False}, "supported"),
        ("Activations too large", {}, {"args.recompute_granularity": "None"}, "supported"),
        ("Activations too large", {}, {"gradient_checkpointing": True}, "ruled-out"),
        ("Activations too large", {}, {}, "not-measured"),
        ("Model too large", {}, {"num_parameters": 13e9}, "supported"),
        ("Model too large", {}, {"num_layers": 32, "hidden_size": 4096}, "supported"),
        ("Model too large", {}, {"num_parameters": 13e9, "tensor_model_parallel_size": 8}, "ruled-out"),
        ("Model too large", {}, {"num_parameters": 1e9}, "ruled-out"),
        ("Model too large", {}, {"num_parameters": 3.5e9}, "not-measured"),
        ("Model too large", {}, {}, "not-measured"),
    ],
)
def test_causes(cause: str, curves: dict[str, Any], facts: dict[str, Any], expected: str) -> None:
    assert found(curves, facts, SAYS)[cause] == expected


def test_the_estimate_is_told() -> None:
    run = run_of({"train/loss": np.full(N, 2.0)}, facts={"num_parameters": 13e9}, events=SAYS)
    message = told("out-of-memory", run, N, N, None)["Model too large"].message
    assert message.replace("\u00a0", " ").startswith(
        "13 G parameters with gradients and Adam's states take 194 GiB a GPU"
    )


def test_without_a_capacity_the_model_is_not_judged() -> None:
    assert found({}, {"num_parameters": 13e9})["Model too large"] == "not-measured"


def test_a_run_without_any_series() -> None:
    assert set(verdicts("out-of-memory", run_of({}), None, None, None).values()) == {"not-measured"}


@pytest.mark.parametrize(
    ("figures", "fragmentation", "others"),
    [
        ({}, "not-measured", "not-measured"),
        ({"memory wanted": 2e9, "reserved but unused by PyTorch": 3e9}, "supported", "not-measured"),
        ({"memory wanted": 2e9, "reserved but unused by PyTorch": 1e9}, "ruled-out", "not-measured"),
        ({"memory wanted": 2e9, "memory free": 1e9, "held by this process": 9e9}, "not-measured", "ruled-out"),
        ({"memory wanted": 2e9, "memory free": 1e9, "held by this process": 9e9, "held by other processes": 5e9},
         "not-measured", "supported"),
        ({"memory wanted": 2e9, "memory free": 1e9, "held by this process": 9e9, "held by other processes": 5e8},
         "not-measured", "ruled-out"),
    ],
)  # fmt: skip
def test_what_the_message_says_of_memory(figures: dict[str, float], fragmentation: str, others: str) -> None:
    evidence = tuple(Evidence(what, observed=size, unit="bytes") for what, size in figures.items())
    said = replace(finding("out-of-memory", N, N), evidence=evidence)
    run = run_of(np.full(N, 2.0))
    assert out_of_memory.fragments(said, run).verdict == fragmentation
    assert out_of_memory.neighbours(said, run).verdict == others
