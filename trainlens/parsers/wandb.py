"""W&B run files (`run-ID.wandb`): recognised, and refused with the way out.

The file is a LevelDB log of protobuf records behind the seven bytes ":W&B" and a version:
https://github.com/wandb/wandb/blob/main/wandb/sdk/internal/datastore.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint
from trainlens.sources import Source

_HEADER = b":W&B"
_WAY_OUT = (
    "Export the run's history to CSV or JSON (run page, or wandb.Api().run(PATH).history().to_csv(FILE); "
    "`wandb sync` uploads an offline run first), or log to TensorBoard or JSON lines beside W&B"
)


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a W&B run file; one with a damaged header is known by its name."""
    if head.startswith(_HEADER):
        return 1.0
    return 0.95 if path.suffix == ".wandb" and head else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  nothing is read
    """Always raises InputError."""
    if source.head(len(_HEADER)) == _HEADER:
        raise InputError("a binary W&B run file (wandb), which is not supported yet", where=source.name, hint=_WAY_OUT)
    raise InputError("a wandb run file whose header is damaged; it cannot be read", where=source.name, hint=_WAY_OUT)
    yield
