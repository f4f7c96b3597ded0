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


NEWER = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of 32.00 GiB "
    "of which 512.00 MiB is free. Process 7 has 2.00 GiB memory in use. Process 8 has 1.00 GiB memory in use. "
    "Including non-PyTorch memory, this process has 28.50 GiB memory in use. Of the allocated memory 26.00 GiB "
    "is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated. If reserved but unallocated"
)
OLDER = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 16.00 GiB total capacity; 14.00 GiB already "
    "allocated; 10.00 MiB free; 15.00 GiB reserved in total by PyTorch)"
)
ALONE = (
    "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 32.00 GiB of which 5.00 MiB is "
    "free. Process 7 has 31.00 GiB memory in use."
)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (NEWER, {"memory wanted": 1024, "memory free": 512, "memory of the GPU": 32768, "held by this process": 29184,
                 "held by other processes": 3072, "allocated by PyTorch": 26624,
                 "reserved but unused by PyTorch": 1536}),
        (OLDER, {"memory wanted": 20, "memory free": 10, "memory of the GPU": 16384, "allocated by PyTorch": 14336,
                 "reserved but unused by PyTorch": 1024}),
        (ALONE, {"memory wanted": 1024, "memory free": 5, "memory of the GPU": 32768}),  # it may be the process itself
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory trying to allocate 1048576 bytes", {"memory wanted": 1}),
        ("CUDA out of memory. Tried to allocate 1.2.3 GiB", {}),
        ("MemoryError", {}),
    ],
)  # fmt: skip
def test_the_figures_of_the_message(text: str, figures: dict[str, int]) -> None:
    (found,) = findings("out-of-memory", run(("out-of-memory", text, 3)))
    said = {one.text: one.observed for one in found.evidence if one.unit == "bytes"}
    assert said == {what: size * 2**20 for what, size in figures.items()}


def test_the_message_says_what_was_lacking() -> None:
    (found,) = findings("out-of-memory", run(("out-of-memory", NEWER, 3)))
    assert "1 GiB wanted, 512 MiB of 32 GiB free, 3 GiB held by other processes" in found.message.replace("\xa0", " ")


def test_a_batch_size_that_is_tried_before_the_first_step_is_worth_a_line() -> None:
    tried = replace(run(("out-of-memory", CUDA, -1), step=None), sources=(SourceReport("train.log", "megatron"),))
    (found,) = findings("out-of-memory", tried)
    assert found.severity == "info"


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
