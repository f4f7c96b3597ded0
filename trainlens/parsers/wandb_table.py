"""The table of runs that W&B's page exports: a row for each run, its last values, no curves. Refused with the way out.

The columns are those of the page: https://docs.wandb.ai/guides/runs/manage-runs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint
from trainlens.sources import Source

READS_TEXT = True

_OF_A_RUN = frozenset(("Notes", "User", "Tags", "Created", "Runtime", "Sweep"))
_WAY_OUT = (
    "Export the curves: `wandb.Api().run(PATH).history(samples=1_000_000).to_csv(FILE)` for each run, or the menu of a "
    "chart (Export, CSV)"
)


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  the header says it
    """How sure it is that this is such a table."""
    line = head[:65536].partition(b"\n")[0].decode("utf-8-sig", "replace").strip()
    if not line.startswith(('"Name"', "Name,")):
        return 0.0
    names = next(csv.reader([line]), [])
    return 0.97 if "State" in names and len(_OF_A_RUN.intersection(names)) >= 3 else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  nothing is read
    """InputError: where the curves are."""
    yield from ()
    what = "a table of W&B runs, one row for each: it holds their last values and no curves"
    raise InputError(what, where=source.name, hint=_WAY_OUT)
