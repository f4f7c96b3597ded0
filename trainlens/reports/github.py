"""GitHub annotations: workflow commands that show each finding on the run's page and beside the log's line.

Print them in a step (`trainlens check runs/ --format github --output -`), from the root of the repository. GitHub shows
ten of each kind a step: the first of each run come first, and where there are more the tenth says so; the others are
lines of the log. For the job's summary page write the `markdown` report to `$GITHUB_STEP_SUMMARY`.
https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.reports import _gate
from trainlens.reports._words import verdict_of

SUFFIX = ".github.txt"
_COMMAND = {"error": "error", "warning": "warning", "info": "notice"}
MOST = 10  # annotations of a kind that GitHub shows


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    commands: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    told = [(at, run, finding) for run in diagnosis.runs for at, finding in enumerate(_gate.told(run))]
    for _, run, finding in sorted(told, key=lambda one: one[0]):
        commands[_COMMAND[finding.severity]].append(_annotation(run, finding))
    lacks = {"error": ("File not read", "Detector failed"), "warning": ("Not judged",)}
    lacking = list(_gate.missing(diagnosis))
    for kind, titles in lacks.items():
        found = [f"::{kind} title={title}::{_message(text)}" for title, _, text in lacking if title in titles]
        commands[kind][MOST // 2 : MOST // 2] = found  # none of both must push the other out of sight
    accepted = sum(len(run.accepted) for run in diagnosis.runs)
    last = verdict_of(diagnosis) + (f". {accepted} accepted" if accepted else "")
    lines = [line for kind, found in commands.items() for line in _shown(kind, found)]
    left = _gate.unmatched(diagnosis)
    return "\n".join([*lines, *([_log(left)] if left else []), _log(last), ""]).encode("utf-8", "replace")


def _shown(kind: str, commands: list[str]) -> Iterator[str]:
    """As many commands as GitHub shows; what is beyond them as lines of the log."""
    if len(commands) <= MOST:
        yield from commands
        return
    yield from commands[: MOST - 1]
    yield f"::{kind} title=trainlens::{len(commands) - MOST + 1} more, see the log of this step and the job's summary"
    yield from (_log(f"{kind}: {command.partition('title=')[2]}") for command in commands[MOST - 1 :])


def _log(text: str) -> str:
    """A line that is no command, neither of the form with `::` nor of the old one with `##[`."""
    return _message(text).replace("::", ": :").replace("##[", "# #[")


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
