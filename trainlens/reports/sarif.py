"""SARIF 2.1.0, for code scanning pages and editors: each finding with its place in the log.

Rules are the detectors, their help is their page. Accepted findings are results with a suppression; what did not run,
and why, stands in the notifications of the invocation.
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trainlens import plugins
from trainlens.diagnosis import Check, Diagnosis, Finding, RunDiagnosis
from trainlens.errors import PluginError
from trainlens.model import Place
from trainlens.reports import _gate
from trainlens.reports._words import steps

SUFFIX = ".sarif"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    findings = [(run, finding, None) for run in diagnosis.runs for finding in _gate.told(run)]
    accepted = [(run, one.finding, one.reason) for run in diagnosis.runs for one in run.accepted]
    told = [*findings, *accepted]
    names = sorted({finding.detector for _, finding, _ in told} | {one.detector for one in _checks(diagnosis)})
    driver = {
        "name": "trainlens",
        "version": diagnosis.version,
        "semanticVersion": diagnosis.version,
        "rules": [_rule(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(diagnosis)],
        "results": [_result(run, finding, names.index(finding.detector), reason) for run, finding, reason in told],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _checks(diagnosis: Diagnosis) -> Iterator[Check]:
    return (check for run in diagnosis.runs for check in run.checks)


def _rule(name: str) -> dict[str, Any]:
    try:
        page = plugins.page(plugins.load("detectors", name))
    except PluginError:  # an answer that another installation made, with a detector of its own
        page = name
    summary, _, rest = page.partition("\n")
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in name.split("-")),
        "shortDescription": {"text": summary},
        "fullDescription": {"text": summary},
        "help": {"text": rest.strip() or summary},
    }


def _result(run: RunDiagnosis, finding: Finding, rule: int, accepted: str | None) -> dict[str, Any]:
    lines = [f"{finding.title}. {finding.message}"]
    lines += [f"Cause: {cause.cause}: {cause.message}" for cause in finding.causes if cause.verdict == "supported"]
    lines += [f"Do: {action}" for action in finding.actions]
    result: dict[str, Any] = {
        "ruleId": finding.detector,
        "ruleIndex": rule,
        "level": _LEVEL[finding.severity],
        "message": {"text": _gate.plain("\n".join(lines))},
        "partialFingerprints": {"episode/v1": f"{run.name}/{finding.detector}/{finding.metric}/{finding.first_step}"},
        "properties": {
            "run": run.name,
            "metric": finding.metric,
            "first_step": finding.first_step,
            "last_step": finding.last_step,
            "confidence": finding.confidence,
        },
    }
    if place := _gate.place(run, finding):
        result["locations"] = [_location(run, finding, place)]
    if accepted is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": accepted}]
    return result


def _location(run: RunDiagnosis, finding: Finding, place: Place) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(place.path.encode("utf-8", "surrogateescape"))}}
    if place.line is not None:
        physical["region"] = {"startLine": max(1, place.line)}
    elif place.byte is not None:
        physical["region"] = {"byteOffset": place.byte, "byteLength": 0}
    where = steps(finding.first_step, finding.last_step)
    logical = {"fullyQualifiedName": f"{run.name}: {finding.metric or 'run'}{f', {where}' if where else ''}"}
    return {"physicalLocation": physical, "logicalLocations": [logical]}


def _invocation(diagnosis: Diagnosis) -> dict[str, Any]:
    notes = [
        _notification("note" if check.status != "failed" else "error", f"{run.name}: {check.detector} {words}")
        for run in diagnosis.runs
        for check in run.checks
        if (words := _not_judged(check))
    ]
    notes += [
        _notification("warning", f"{run.name} was not judged: {reason}")
        for run in diagnosis.runs
        if (reason := _gate.unjudged(run))
    ]
    sources = [*diagnosis.unread, *(source for run in diagnosis.runs for source in run.sources)]
    unread = [source for source in sources if source.state == "not-read"]
    notes += [_notification("error", f"{source.path} was not read: {source.reason}") for source in unread]
    if left := _gate.unmatched(diagnosis):
        notes.append(_notification("note", left))
    failed = any(check.status == "failed" for check in _checks(diagnosis))
    return {"executionSuccessful": not failed and not unread, "toolExecutionNotifications": notes}


def _not_judged(check: Check) -> str:
    words = {"not-applicable": "did not apply", "not-enough-data": "had too little", "failed": "failed"}
    return f"{words[check.status]}: {check.reason}" if check.status in words else ""


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _gate.plain(text)}}
