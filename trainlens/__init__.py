"""trainlens reads everything a training run wrote and says what went wrong, where, since when, why, and what to do.

    import trainlens

    diagnosis = trainlens.analyze(["runs/atlas-7b"])
    for finding in diagnosis.runs[0].findings:
        print(finding.severity, finding.title)

`analyze` and `read` take paths and, if wanted, Settings; they raise `trainlens.errors.TrainlensError` for what the user
can mend. Nothing heavy is imported before one of them is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlens.diagnosis import Diagnosis
    from trainlens.model import Run
    from trainlens.reading import Reading
    from trainlens.settings import Settings

__version__ = "0.1.0"
__all__ = ["Diagnosis", "Run", "__version__", "analyze", "read"]


def analyze(paths: Sequence[str | Path], settings: Settings | None = None) -> Diagnosis:
    """The diagnosis of all runs under these paths."""
    from trainlens import analysis
    from trainlens.settings import Settings

    return analysis.analyze(paths, settings or Settings())


def read(paths: Sequence[str | Path], settings: Settings | None = None) -> Reading:
    """All runs under these paths as columns, unjudged, and the files that could not be read."""
    from trainlens import reading
    from trainlens.settings import Settings

    return reading.read(paths, settings or Settings())


def __getattr__(name: str) -> object:
    if name == "Diagnosis":
        from trainlens.diagnosis import Diagnosis

        return Diagnosis
    if name == "Run":
        from trainlens.model import Run

        return Run
    raise AttributeError(f"module 'trainlens' has no attribute {name!r}")
