"""Sacred: `run.json`, which tells how a run began and ended; its metrics and settings are read by other parsers.

The states COMPLETED, FAILED, INTERRUPTED, TIMEOUT and DIED end a run; of one that failed the last line of its traceback
is told. A run without a stop_time has its last heartbeat for the end of what is known.

The format: https://sacred.readthedocs.io/en/stable/observers.html (FileStorageObserver).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainlens.errors import InputError
from trainlens.later import Later
from trainlens.model import Batch, Checkpoint, Event, EventKind, Fact, Place
from trainlens.parsers import _texts
from trainlens.parsers._json_documents import document
from trainlens.parsers._json_rows import decoded
from trainlens.sources import Source

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

TELLS_END = True
READS_TEXT = True

_KEYS = (b'"heartbeat"', b'"start_time"', b'"status"')
_ENDS: dict[str, EventKind] = {
    "COMPLETED": "run-end", "FAILED": "traceback", "INTERRUPTED": "killed", "TIMEOUT": "time-limit", "DIED": "killed",
}  # fmt: skip
_TOLD = ("command", "status", "result")


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is the record of a run."""
    return 0.9 if path.name == "run.json" and all(key in head for key in _KEYS) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  rewritten as a whole
    """The events of start and end, and what was run, as facts."""
    whole, place = decoded(document(source)), Place(source.name)
    if not isinstance(whole, dict):
        hint = "Copy it again"
        raise InputError("a JSON document that is incomplete or malformed", where=source.name, hint=hint)
    for name in _TOLD:
        if isinstance(value := whole.get(name), (str, int, float)):
            yield Fact(name, value, place)
    experiment = whole.get("experiment")
    if isinstance(experiment, dict) and isinstance(title := experiment.get("name"), str):
        yield Fact("experiment.name", title, place)
    start, stop, beat = (_unix(whole.get(key)) for key in ("start_time", "stop_time", "heartbeat"))
    if start is not None:
        yield Event("run-start", "the run began", time=start, place=place)
    status = whole.get("status")
    if isinstance(status, str) and status in _ENDS:
        yield Event(_ENDS[status], _words(status, whole.get("fail_trace")), time=stop or beat, place=place)


def _words(status: str, trace: Any) -> str:
    lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
    last = "".join(lines).strip().rpartition("\n")[2][:500]
    return f"status {status}: {last}" if last else f"status {status}"


def _unix(date: object) -> float | None:
    if not isinstance(date, str):
        return None
    found = float(_texts.clock(pl.Series([date], dtype=pl.String))[0])
    return found if np.isfinite(found) else None
