"""Stores of trackers that only their own tools open: Aim, Neptune and ClearML offline. Refused with the way out.

Aim keeps its numbers in RocksDB, ClearML in a zip to be uploaded, Neptune in a queue of operations.

The tools: https://aimstack.readthedocs.io/en/latest/using/query_runs.html,
https://docs.neptune.ai/usage/offline, https://clear.ml/docs/latest/docs/guides/set_offline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint
from trainlens.parsers import _sqlite
from trainlens.sources import HEAD, Source

_AIM = frozenset(("run", "experiment", "run_tag"))
_ZIP = b"PK\x03\x04"
_NEPTUNE = re.compile(rb'\s*\{"obj": ?\{"type": ?"(AssignFloat|LogFloats|AssignString|AssignInt|AssignDatetime)"')
_WAYS = {
    "an Aim repository": 'Export it with `aim`: Repo(PATH).query_metrics("").collect() gives a table; .to_csv(FILE)',
    "an offline run of Neptune": "`neptune sync` uploads it; then fetch_values().to_csv(FILE)",
    "an offline session of ClearML": "Task.import_offline_session(FILE) uploads it; then download the scalars as CSV",
}


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is one of these stores."""
    return 1.0 if _kind(head, path) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  nothing is read
    """InputError: how to get at the numbers."""
    yield from ()
    kind = _kind(source.head(HEAD), source.path) or "a store of a tracker"
    raise InputError(f"{kind}, which only its own tools open", where=source.name, hint=_WAYS.get(kind, ""))


def _kind(head: bytes, path: Path) -> str:
    """Which store it is, "" for none."""
    if head.startswith(_sqlite.MAGIC):
        of_aim = path.name == "run_metadata.sqlite" and _sqlite.columns(path).keys() >= _AIM
        return "an Aim repository" if of_aim else ""
    if head.startswith(_ZIP):
        names = _names(head)
        return "an offline session of ClearML" if names & {"task.json", "log.jsonl", "metrics.jsonl"} else ""
    return "an offline run of Neptune" if _NEPTUNE.match(head) and path.suffix == ".log" else ""


def _names(head: bytes) -> set[str]:
    """The names of the files whose beginnings stand in the head of a zip."""
    found: set[str] = set()
    for part in head.split(_ZIP)[1:]:
        size = int.from_bytes(part[22:24], "little")
        name = part[26 : 26 + size]
        if 0 < size == len(name) < 300:
            found.add(name.decode("utf-8", "replace").rpartition("/")[2])
    return found
