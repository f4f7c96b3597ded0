from __future__ import annotations

import json
from typing import Any

import pytest

from tests.parsers.door import batches, events, facts, points, sniffed
from trainlens.errors import InputError
from trainlens.parsers import sacred

RUN: dict[str, Any] = {
    "command": "main", "experiment": {"name": "mnist", "sources": []}, "heartbeat": "2024-01-01T00:00:09.5",
    "start_time": "2024-01-01T00:00:00", "stop_time": None, "status": "RUNNING", "result": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, []),
        ({"status": "COMPLETED", "stop_time": "2024-01-01T01:00:00"}, [("run-end", 1704070800.0, "status COMPLETED")]),
        ({"status": "INTERRUPTED"}, [("killed", 1704067209.5, "status INTERRUPTED")]),
        (
            {"status": "FAILED", "fail_trace": ["Traceback\n", "  x\n", "ValueError: no\n"]},
            [("traceback", 1704067209.5, "status FAILED: ValueError: no")],
        ),
        ({"status": "ODD"}, []),
    ],
)
def test_how_a_run_ended(more: dict[str, Any], expected: list[tuple[str, float, str]]) -> None:
    text = json.dumps({**RUN, **more})
    first, *rest = events(sacred, text, "run.json")
    assert (first.kind, first.time) == ("run-start", 1704067200.0)
    assert [(one.kind, one.time, one.text) for one in rest] == expected
    assert points(batches(sacred, text, "run.json")) == []


def test_what_was_run() -> None:
    text = json.dumps({**RUN, "result": 0.5})
    told = facts(sacred, text, "run.json")
    assert told == {"command": "main", "status": "RUNNING", "result": 0.5, "experiment.name": "mnist"}


def test_sniff() -> None:
    assert sniffed(sacred, json.dumps(RUN), "run.json") == 0.9
    assert sniffed(sacred, json.dumps(RUN), "x.json") == 0.0
    assert sniffed(sacred, '{"status": "RUNNING"}', "run.json") == 0.0


def test_a_cut_record_is_refused() -> None:
    with pytest.raises(InputError):
        batches(sacred, json.dumps(RUN)[:-9], "run.json")
