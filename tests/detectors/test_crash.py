from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.detectors import crash
from trainlens.diagnosis import NotApplicable
from trainlens.model import Attempt, Event, EventKind, Place, Run, SourceReport

ERROR = "TypeError: iteration over a 0-d tensor"
EIGHT: list[tuple[EventKind, str]] = [("traceback", ERROR)] * 8


def run(
    *events: tuple[EventKind, str], step: int | None = 500, rows: int = 500, attempt: int | None = None, **more: Any
) -> Run:
    """A run of `rows` rows; the events (kind, text) come after `step`; another attempt begins after row `attempt`."""
    told = [Event(kind, text, step=step, place=Place("train.log", 10 + at)) for at, (kind, text) in enumerate(events)]
    made = run_of(np.ones(rows), events=told, **more)
    if attempt is not None:
        second = (np.arange(rows) >= attempt).astype(np.int16)
        made = replace(made, series=tuple(replace(one, attempt=second) for one in made.series))
    return made


@pytest.mark.parametrize(
    ("case", "words", "severity"),
    [
        (run(("traceback", ERROR)), "TypeError", "error"),
        (run(*EIGHT, ("exit-code", "exitcode: 1"), ("killed", "Killed")), "TypeError", "error"),
        (run(("nccl-timeout", "Watchdog caught"), ("traceback", ERROR)), "TypeError", "error"),
        (run(("nccl-timeout", "Watchdog caught"), ("traceback", "NCCL communicator was aborted")), "Watchdog", "error"),
        (run(("killed", "Killed")), "Killed", "error"),
        (run(("traceback", ERROR), ("disk-full", "No space left on device")), "No space left", "error"),
        (run(("traceback", ERROR), rows=900, attempt=500), "a restart followed", "warning"),
        (run(("traceback", ERROR), rows=900), "training went on", "info"),
        (run(("traceback", "KeyboardInterrupt")), "by hand", "info"),
        (run(("time-limit", "DUE TO TIME LIMIT"), ("traceback", "SignalException: SIGTERM")), "TIME LIMIT", "warning"),
        (run(("preemption", "CANCELLED AT"), ("killed", "Killed")), "CANCELLED", "warning"),
        (run(("preemption", "CANCELLED AT"), rows=900, attempt=500), "CANCELLED", "info"),
        (run(("exit-code", "exited with code 255"), step=None), "255", "error"),
        (
            run(("node-failure", "srun: error: Node failure on n1"), ("traceback", "ConnectionError: x")),
            "A node",
            "error",
        ),
        (run(("device-error", "CUDA error: device-side assert triggered"), ("killed", "Aborted")), "a GPU", "error"),
        (run(("traceback", "_queue.Empty"), ("traceback", "ValueError: y")), "ValueError: y", "error"),
        (
            run(
                ("traceback", "RuntimeError: Caught KeyError in DataLoader worker process 0."),
                ("traceback", "KeyError: 'x'"),
            ),
            "KeyError: 'x'",
            "error",
        ),
        (run(("traceback", "DistBackendError: NCCL error in: x"), ("traceback", ERROR)), "TypeError", "error"),
        (
            run(("traceback", "ConnectionResetError: [Errno 104] Connection reset by peer"), ("traceback", ERROR)),
            "TypeError",
            "error",
        ),
        (run(("traceback", "torch.distributed.DistStoreError: x"), ("killed", "Killed")), "DistStoreError", "error"),
        (run(("nccl-timeout", "Watchdog caught"), ("preemption", "CANCELLED AT")), "timed out", "error"),
        (run(("killed", "Received SIGTERM"), ("preemption", "DUE TO PREEMPTION")), "scheduler", "warning"),
        (run(("xid", "NVRM: Xid (PCI:0000:44:00): 79, x"), ("traceback", ERROR)), "A GPU reported a fault", "error"),
        (run(("xid", "NVRM: Xid (PCI:0000:44:00): 31, x"), ("traceback", ERROR)), "TypeError", "error"),
        (run(("traceback", "_queue.Empty"), ("worker-killed", "is killed by signal: Bus error.")), "memory", "error"),
        (
            run(("worker-killed", "is killed by signal: Terminated."), ("traceback", "DistStoreError: timed out")),
            "DistStoreError",
            "error",
        ),
        (
            run(("nccl-timeout", "[E321 x.cpp:7] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(Seq")),
            "“Watchdog",
            "error",
        ),
        (run(("disk-full", "OSError: [Errno 122] Disk quota exceeded")), "quota", "error"),
        (run(("worker-killed", "is killed by signal: Bus error. It is possible")), "shared memory", "error"),
        (
            run(("run-end", "training finished"), ("segmentation-fault", "Segmentation fault")),
            "had finished",
            "warning",
        ),
    ],
)
def test_fires(case: Run, words: str, severity: str) -> None:
    (found,) = findings("crash", case)
    assert found.severity == severity
    assert words in found.message
    assert found.confidence is None


def on_ranks(kind: EventKind, text: str, ranks: Iterable[int], step: int | None = 500) -> list[Event]:
    return [Event(kind, text, step, rank=rank, place=Place("train.log", 10 + rank)) for rank in ranks]


def test_the_same_on_many_ranks_is_counted_and_what_followed_is_named() -> None:
    events = [
        *on_ranks("traceback", ERROR, range(3, 8)),
        *on_ranks("traceback", "RuntimeError: Connection closed by peer", range(8, 12)),
        *on_ranks("nccl-timeout", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7", range(2)),
        *on_ranks("killed", "Killed", range(9)),
    ]
    (found,) = findings("crash", replace(run(), events=tuple(events)))
    assert "on 5 ranks, first on rank 3" in found.message
    assert "; then RuntimeError (4×), NCCL timeout (2×), killed (9×)" in found.message
    assert (found.rank, found.evidence[0].place) == (3, Place("train.log", 13))
    assert [one.text for one in found.evidence[1:4]] == ["traceback", "nccl-timeout", "killed"]


def test_the_launcher_names_the_rank_at_fault() -> None:
    events = [*on_ranks("traceback", "ValueError: a", (0, 5)), *on_ranks("exit-code", "root cause: rank 5", (5,))]
    (found,) = findings("crash", replace(run(), events=tuple(events)))
    assert found.rank == 5


def test_the_rank_that_did_not_come_to_a_collective() -> None:
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE, Timeout(ms)=600000)"
    events = [
        *on_ranks("nccl-timeout", text.format(1580), (0, 1, 2)),
        *on_ranks("nccl-timeout", text.format(1578), (3,)),
    ]
    (found,) = findings("crash", replace(run(), events=tuple(events)))
    assert "; rank 3 stood at collective 1,578, others at 1,580" in found.message
    assert "600 s" in found.actions[0]


@pytest.mark.parametrize(("step", "attempt"), [(500, 0), (502, 0), (650, 1)])
def test_an_attempt_that_was_done_again_from_before_the_end_did_not_go_on(step: int, attempt: int) -> None:
    """The first attempt ended at 500, the second began again at 401; the rows up to 500 are of the second now."""
    rows = np.arange(1, 901)
    made = run_of((rows, np.ones(900)), attempts=(
        Attempt(1, 500, place=Place("train.log", 100)), Attempt(401, 900, place=Place("train.log", 700))))  # fmt: skip
    second = (rows > 400).astype(np.int16)
    made = replace(made, series=tuple(replace(one, attempt=second) for one in made.series))
    event = Event("traceback", ERROR, step, place=Place("train.log", 650 if attempt == 0 else 800))
    (found,) = findings("crash", replace(made, events=(event,)))
    assert ("a restart followed" in found.message, "training went on" in found.message) == (attempt == 0, attempt == 1)


def test_an_error_before_the_first_row_of_its_file_did_not_end_the_run() -> None:
    made = run(("traceback", "ModuleNotFoundError: No module named 'x'"), step=None)
    source = SourceReport("train.log", "megatron", tells_end=True)
    (found,) = findings("crash", replace(made, sources=(source,)))
    assert (found.severity, found.first_step) == ("info", None)


def test_a_process_killed_without_a_word_points_to_the_kernel() -> None:
    for text in ("root cause: rank 3, exit code -9 (pid: 7)", "x exits with return code = -9", "exit code: 137"):
        (found,) = findings("crash", run(("exit-code", text)))
        assert "kernel" in found.actions[0]
    (found,) = findings("crash", run(("exit-code", "x exits with return code = 1")))
    assert "kernel" not in found.actions[0]


def test_a_crash_is_told_inside_of_the_fault_of_a_gpu() -> None:
    assert crash.TOLD_INSIDE == ("gpu-hardware-error",)


def test_two_incidents_are_two_findings() -> None:
    first = run(("traceback", ERROR), step=100, rows=900, attempt=100)
    second = Event("killed", "Killed", step=900)
    found = findings("crash", replace(first, events=(*first.events, second)))
    assert [(one.first_step, one.severity) for one in found] == [(100, "warning"), (900, "error")]


@pytest.mark.parametrize("name", ["train_iters", "end_step"])
def test_an_early_end_without_a_word_is_worth_a_line(name: str) -> None:
    (found,) = findings("crash", run(facts={name: 5000}))
    assert (found.first_step, found.severity) == (500, "info")


@pytest.mark.parametrize(
    "case",
    [
        run(),
        run(facts={"train_iters": 500}),
        run(facts={"max_steps": 501}),
        run(facts={"train_iters": 5000}, ongoing=True),
        run(("run-end", "training finished"), facts={"train_iters": 5000}),
        run(facts={"max_steps": -1}),
        run(("xid", "NVRM: Xid 63")),
        run(("checkpoint-end", "saved"), ("evaluation", "eval")),
        run(("overflow", "OVERFLOW")),
    ],
)
def test_quiet(case: Run) -> None:
    assert findings("crash", case) == []


def test_a_table_cannot_tell() -> None:
    table = replace(run(), sources=(SourceReport("metrics.csv", "csv"),))
    assert isinstance(answer("crash", table), NotApplicable)
    assert answer("crash", replace(run(), sources=(SourceReport("train.log", "megatron", tells_end=True),))) == []
