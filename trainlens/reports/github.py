"""GitHub annotations: workflow commands that show each finding on the run's page and beside the log's line.

Print them in a step (`trainlens check runs/ --format github --output -`); GitHub shows ten of each kind a step. For the
job's summary page write the `markdown` report to `$GITHUB_STEP_SUMMARY`.
https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from dataclasses import dataclass

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.reports import _gate
from trainlens.reports._words import verdict_of

SUFFIX = ".github.txt"
_COMMAND = {"error": "error", "warning": "warning", "info": "notice"}


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    lines = [_annotation(run, finding) for run in diagnosis.runs for finding in _gate.told(run)]
    sources = [*diagnosis.unread, *(source for run in diagnosis.runs for source in run.sources)]
    lines += [
        f"::error title={_property('File not read')}::{_message(f'{source.path}: {source.reason}')}"
        for source in sources
        if source.state == "not-read"
    ]
    lines += [
        f"::error title={_property('Detector failed')}::{_message(f'{check.detector}: {check.reason}')}"
        for run in diagnosis.runs
        for check in run.checks
        if check.status == "failed"
    ]
    accepted = sum(len(run.accepted) for run in diagnosis.runs)
    last = verdict_of(diagnosis) + (f". {accepted} accepted" if accepted else "")
    return "\n".join([*lines, _message(last).replace("::", ": :"), ""]).encode("utf-8", "replace")


def _annotation(run: RunDiagnosis, finding: Finding) -> str:
    place = _gate.place(run, finding)
    where = {"file": place.path, "line": place.line} if place is not None else {}
    properties = {**where, "title": f"{run.name}: {finding.title}"}
    told = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    message = "\n".join([finding.message, *(f"→ {action}" for action in finding.actions[:1])])
    return f"::{_COMMAND[finding.severity]} {told}::{_message(message)}"


def _message(text: str) -> str:
    return _gate.plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
