from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, fires, run_of
from trainlens.diagnosis import NotEnoughData
from trainlens.model import Run

N = 2000
STEP = np.arange(1, N + 1)
PART = STEP / N
CHANCE = np.random.default_rng(31)
NOISE = CHANCE.normal(size=N)
PEAKS = np.maximum.accumulate(20 + 5 * CHANCE.exponential(size=N))
GIB = 2.0**30
HOST = "system/host_memory_bytes"


def used(level: Any, **more: Any) -> Run:
    """GPU memory in GiB of a GPU that has 80."""
    curves = {"gpu/memory_used": level * GIB, "gpu/memory_total": np.full(N, 80 * GIB), **more.pop("curves", {})}
    return run_of(curves, **more)


LEAK = (40 + 25 * PART) * np.exp(0.003 * NOISE)


@pytest.mark.parametrize(
    ("run", "severity"),
    [
        (used(LEAK), "warning"),
        (used(LEAK, facts={"max_steps": 4500}), "warning"),
        (used(LEAK, facts={"max_steps": 2500}), "info"),
        (run_of({"gpu/memory_used": (40 + 20 * PART) * GIB}), "warning"),
        (run_of({"gpu/memory_used": (40 + 4 * PART) * GIB}), "info"),
        (run_of({HOST: (40 + 20 * PART) * GIB}, about={HOST: ("memory", "none")}), "warning"),
    ],
)
def test_fires(run: Run, severity: str) -> None:
    ((first, last, told),) = fires("memory-growth", run)
    assert (first, last, told) == (201, N, severity)


def test_says_when_it_is_full() -> None:
    (found,) = findings("memory-growth", used(40 + 25 * PART))
    assert "full at step 3," in found.message
    assert found.evidence[1].observed == pytest.approx(3250, abs=100)
    (late,) = findings("memory-growth", used(40 + 25 * PART, facts={"max_steps": 2500}))
    assert "not reached" in late.message


def test_ranks_are_one_finding() -> None:
    curves = {f"gpu/memory_used@{rank}": (40 + 20 * PART * (rank == 2)) * GIB for rank in range(4)}
    (found,) = findings("memory-growth", run_of(curves))
    assert found.rank == 2


@pytest.mark.parametrize(
    "run",
    [
        used(40 * np.exp(0.01 * NOISE)),
        used(40 - 30 * np.exp(-20 * PART)),
        used(PEAKS),
        used(40 * (1 + 0.3 * (PART > 0.5))),
        used(40 * (1 + 0.2 * (PART > 0.3) + 0.2 * (PART > 0.7))),
        used(40 + 20 * (3 * PART % 1)),
        used(40 + 20 * PART * (PART < 0.5) + 10 * (PART >= 0.5)),
        used(40 - 20 * PART),
        used(40 + PART),
        used(40 + 20 * PART, curves={"sequence_length": 1000 * (1 + PART)}),
        used(40 * np.exp(np.cumsum(NOISE) * 0.003)),
        run_of({"gpu/memory_total": (40 + 20 * PART) * GIB}),
    ],
)
def test_quiet(run: Run) -> None:
    assert findings("memory-growth", run) == []


def test_needs_points() -> None:
    assert isinstance(answer("memory-growth", run_of({"gpu/memory_used": np.arange(1, 20) * GIB})), NotEnoughData)
