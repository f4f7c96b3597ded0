"""What reports for machines share: which findings fail the gate, and where in the files they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.model import Place

_SEVERITIES = ("info", "warning", "error")
# Characters that XML 1.0 has no place for: https://www.w3.org/TR/xml/#charsets
_NO_TEXT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fails(diagnosis: Diagnosis, finding: Finding) -> bool:
    """Whether a finding is as grave as the gate asks; where it asks nothing, whether it is an error."""
    least = str(diagnosis.settings.get("fail_on", "error"))
    if least not in _SEVERITIES:
        least = "error"
    return _SEVERITIES.index(finding.severity) >= _SEVERITIES.index(least)


def told(run: RunDiagnosis) -> Iterator[Finding]:
    """The findings that stand for themselves: none that is told inside of another."""
    known = {finding.id for finding in run.findings}
    return (finding for finding in run.findings if finding.part_of is None or finding.part_of not in known)


def place(run: RunDiagnosis, finding: Finding) -> Place | None:
    """Where in a file the finding is first seen, by the path it was called with; the first file where none is known."""
    found = next((one.place for one in finding.evidence if one.place is not None), None)
    if found is None:
        found = Place(run.sources[0].path) if run.sources else None
    return None if found is None else Place(file(run, found.path), found.line, found.byte)


def file(run: RunDiagnosis, name: str) -> str:
    """The path of a source of the run: its name stands below the run's path, unless that is the file itself."""
    base = PurePosixPath(run.path.replace("\\", "/"))
    return base.as_posix() if base.name == name else (base / name).as_posix()


def plain(text: str) -> str:
    """Text without what XML cannot hold and without what steers a terminal."""
    return _NO_TEXT.sub("\ufffd", text)
