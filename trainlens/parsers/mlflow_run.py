"""MLflow runs of a file store: `mlruns/EXPERIMENT/RUN/meta.yaml` and the tags beside it. Names, settings, the end.

The status says how the run ended, as a word or, in most files, as a number; a run that MLflow still takes to be
running has none. A tag becomes a fact unless it is a long text.

The format: https://github.com/mlflow/mlflow/blob/master/mlflow/store/tracking/file_store.py, and for the numbers
https://github.com/mlflow/mlflow/blob/master/mlflow/protos/service.proto (RunStatus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, EventKind, Fact, Note, Place
from trainlens.parsers._yaml import loaded
from trainlens.sources import HEAD, Source

TELLS_END = True

ENDS: dict[str, tuple[EventKind, str]] = {
    "FINISHED": ("run-end", "MLflow: the run is FINISHED"),
    "FAILED": ("exit-code", "MLflow: the run FAILED"),
    "KILLED": ("killed", "MLflow: the run was KILLED"),
}
_NUMBERS = {"3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_LONGEST = 500  # letters of a tag that is a fact
READS_TEXT = True
READS_BESIDE = True  # the run's meta.yaml: whether it is deleted

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_OF_RUN = re.compile(rb"^(run_id|run_uuid):", re.M)
_KEPT = {"run_name": "run_name", "experiment_id": "experiment_id", "source_name": "source_name"}
_DELETED = re.compile(rb"^lifecycle_stage:\s*['\"]?deleted\b", re.M)


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is the meta file of a run, or one of its tags."""
    if path.name == "meta.yaml":
        return 1.0 if _OF_RUN.search(head) else 0.0
    if b"\0" in head or path.parent.name != "tags" or not _RUN_ID.fullmatch(path.parent.parent.name):
        return 0.0
    return 0.6 if path.name not in ("mlflow.user", "mlflow.runName") else 0.0  # nobody's name; the latter is told twice


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """The run's name and end, or the fact of one tag."""
    text, place = source.head(HEAD).decode("utf-8", "replace"), Place(source.name)
    if source.path.name != "meta.yaml":
        if 0 < len(text.strip()) <= _LONGEST:
            yield Fact(source.path.name, text.strip(), place)
        return
    if deleted(source.path.parent):
        yield Note("limit", "the run is deleted in MLflow and left out: `mlflow runs restore` brings it back")
        return
    try:
        told = loaded(text)
    except ValueError as problem:
        raise InputError(f"is no well-formed meta file: {problem}", where=source.name) from None
    told = told if isinstance(told, dict) else {}
    yield from (Fact(name, told[key], place) for key, name in _KEPT.items() if told.get(key) not in (None, ""))
    status = str(told.get("status", ""))
    if found := ENDS.get(_NUMBERS.get(status, status)):
        end = told.get("end_time")
        yield Event(*found, time=end / 1000 if isinstance(end, int) else None, place=place)


def deleted(run: Path) -> bool:
    """Whether MLflow counts the run of this directory as deleted; its files are kept until `mlflow gc`."""
    try:
        with Path(run, "meta.yaml").open("rb") as meta:
            return _DELETED.search(meta.read(HEAD)) is not None
    except OSError:
        return False
