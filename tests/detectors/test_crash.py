from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, findings, run_of
from trainlens.diagnosis import NotApplicable
from trainlens.model import Event, EventKind, Place, Run, SourceReport

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
    ],
)
def test_fires(case: Run, words: str, severity: str) -> None:
    (found,) = findings("crash", case)
    assert found.severity == severity
    assert words in found.message
    assert found.confidence is None


def test_two_incidents_are_two_findings() -> None:
    first = run(("traceback", ERROR), step=100, rows=900, attempt=100)
    second = Event("killed", "Killed", step=900)
    found = findings("crash", replace(first, events=(*first.events, second)))
    assert [(one.first_step, one.severity) for one in found] == [(100, "warning"), (900, "error")]


def test_an_early_end_without_a_word_is_worth_a_line() -> None:
    (found,) = findings("crash", run(facts={"train_iters": 5000}))
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
