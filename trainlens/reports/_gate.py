"""What reports for machines share: which findings fail the gate, where in the files they are, what was not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.model import Place
from trainlens.reports import _words as words

SEVERITIES = ("info", "warning", "error")
_ASKED = ("target-missed", "baseline-drift")  # detectors that judge only what a user asks for
# Characters that XML 1.0 has no place for: https://www.w3.org/TR/xml/#charsets
_NO_TEXT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fails(diagnosis: Diagnosis, finding: Finding) -> bool:
    """Whether a finding is as grave as the gate asks; where it asks nothing, whether it is an error."""
    least = str(diagnosis.settings.get("fail_on", "error"))
    if least not in SEVERITIES:
        least = "error"
    return SEVERITIES.index(finding.severity) >= SEVERITIES.index(least)


def unjudged(run: RunDiagnosis) -> str:
    """Why silence about a run says nothing; "" where it was judged.

    What was asked for counts first: a target or a baseline that could not be held against the run, and, where they
    could, their answer is one, however little the other detectors had.
    """
    asked = [check for check in run.checks if check.detector in _ASKED]
    if lacks := [f"{check.detector}: {check.reason}" for check in asked if check.status == "not-enough-data"]:
        return "; ".join(lacks)
    answered = any(check.status in ("clean", "found") for check in asked)
    return words.verdict_text(run) if words.state(run) == "not-judged" and not answered else ""


def missing(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """What the answer lacks, as title, path and sentence: files not read, detectors that failed, runs not judged."""
    for source in diagnosis.unread:
        if source.state == "not-read":
            yield "File not read", source.path, f"{source.path}: {source.reason}"
    for run in diagnosis.runs:
        for source in run.sources:
            if source.state == "not-read":
                name = file(run, source.path)
                yield "File not read", name, f"{name}: {source.reason}"
        for check in run.checks:
            if check.status == "failed":
                yield "Detector failed", run.path, f"{run.name}: {check.detector}: {check.reason}"
        if reason := unjudged(run):
            yield "Not judged", run.path, f"{run.name}: {reason}"


def unmatched(diagnosis: Diagnosis, most: int = 10) -> str:
    """Accepted entries that no finding matches any more, in a sentence; "" without any."""
    left = diagnosis.summary.unmatched
    more = f" and {len(left) - most:,} more" if len(left) > most else ""
    return f"Accepted, but not found any more: {'; '.join(left[:most])}{more}. Take it out of the file." if left else ""


def told(run: RunDiagnosis) -> Iterator[Finding]:
    """The findings that stand for themselves: none that is told inside of another."""
    known = {finding.id for finding in run.findings}
    return (finding for finding in run.findings if finding.part_of is None or finding.part_of not in known)


def place(run: RunDiagnosis, finding: Finding) -> Place | None:
    """Where in a file the finding is first seen, by the path it was called with; the first file where none is known."""
    found = next((one.place for one in finding.evidence if one.place is not None), None)
    if found is None:
        found = Place(run.sources[0].path) if run.sources else None
    if run.path in ("-", "stdin"):  # not in the repository
        return None
    return None if found is None else Place(file(run, found.path), found.line, found.byte)


def file(run: RunDiagnosis, name: str) -> str:
    """The path of a source of the run: its name stands below the run's path, unless that is the file itself."""
    base = PurePosixPath(run.path.replace("\\", "/"))
    return base.as_posix() if base.name == name else (base / name).as_posix()


def plain(text: str) -> str:
    """Text without what XML cannot hold and without what steers a terminal."""
    return _NO_TEXT.sub("\ufffd", text)
