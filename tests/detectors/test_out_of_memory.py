from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Event, EventKind, Place, Run, SourceReport

CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def run(*events: tuple[EventKind, str, int], step: int | None = 500, rows: int = 500) -> Run:
    """A run of `rows` rows; the events (kind, text, rank) all come after `step`."""
    told = [Event(kind, text, step=step, rank=rank, place=Place("train.log", 9)) for kind, text, rank in events]
    return run_of(np.ones(rows), events=told)


@pytest.mark.parametrize(
    ("case", "step", "severity"),
    [
        (run(("out-of-memory", CUDA, 3)), 500, "error"),
        (run(*[("out-of-memory", CUDA, rank) for rank in range(8)]), 500, "error"),
        (run(("nccl-timeout", "watchdog", 1), ("killed", "Killed", -1), ("out-of-memory", CUDA, 3)), 500, "error"),
        (run(("traceback", "RuntimeError: x", 0), ("host-out-of-memory", "oom-kill: task python", -1)), 500, "error"),
        (run(("out-of-memory", CUDA, -1), rows=900), 500, "warning"),
        (run(("out-of-memory", CUDA, -1), step=None), None, "error"),
    ],
)
def test_fires(case: Run, step: int | None, severity: str) -> None:
    (found,) = findings("out-of-memory", case)
    assert (found.first_step, found.severity, found.confidence) == (step, severity, None)
    assert findings("crash", case) == []


def test_ranks_are_counted_and_the_line_quoted() -> None:
    (found,) = findings("out-of-memory", run(*[("out-of-memory", CUDA, rank) for rank in range(8)]))
    assert "on 8 ranks" in found.message
    assert "Tried to allocate" in found.message


def test_two_moments_are_two_findings() -> None:
    first, second = run(("out-of-memory", CUDA, 0), step=100), run(("out-of-memory", CUDA, 0))
    both = replace(second, events=(*first.events, *second.events))
    assert [found.first_step for found in findings("out-of-memory", both)] == [100, 500]


@pytest.mark.parametrize(
    "case",
    [
        run(("traceback", "ValueError: x", 0)),
        run(("killed", "Killed", -1)),
        run(("checkpoint-end", "saved", -1)),
        run(("xid", "NVRM: Xid 63", -1)),
    ],
)
def test_quiet(case: Run) -> None:
    assert answer("out-of-memory", case) == []


def test_a_text_without_it_is_clean_and_a_table_cannot_tell() -> None:
    text = replace(run_of(np.ones(9)), sources=(SourceReport("train.log", "megatron", tells_end=True),))
    assert answer("out-of-memory", text) == []
    table = replace(text, sources=(SourceReport("events.out", "tensorboard"),))
    assert isinstance(answer("out-of-memory", table), NotApplicable)
