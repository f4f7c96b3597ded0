"""JUnit XML, for the test pages of CI servers: a suite for each run, a case for each detector and each requirement.

A finding as grave as `--fail-on` (error, unless set) is a failure; a detector that broke, a file that could not be read
and a run that could not be judged are errors; a detector that lacked what it needs, or a target whose step was not
reached, is skipped with its reason; lesser findings stand in the output.
The form is the one that Jenkins' xUnit plug-in describes:
https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from trainlens.diagnosis import Check, Diagnosis, Finding, RunDiagnosis
from trainlens.model import SourceReport
from trainlens.reports import _gate
from trainlens.reports._words import confidence, steps

SUFFIX = ".xml"


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    suites = [_suite(diagnosis, run) for run in diagnosis.runs]
    unread = [source for source in diagnosis.unread if source.state == "not-read"]
    if unread or not suites:
        suites.append(_filled(Xml.Element("testsuite", name="files"), map(_unread, unread)))
    top = Xml.Element("testsuites", name="trainlens")
    for count in ("tests", "failures", "errors", "skipped"):
        total = sum(int(suite.get(count, "0")) for suite in suites)
        if count != "skipped":  # the form knows it on suites alone
            top.set(count, str(total))
    top.extend(suites)
    Xml.indent(top)
    written: bytes = Xml.tostring(top, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + written + b"\n"


def _suite(diagnosis: Diagnosis, run: RunDiagnosis) -> Xml.Element:
    name = _gate.plain(run.name)
    by_detector: dict[str, list[Finding]] = {}
    for finding in _gate.told(run):
        by_detector.setdefault(finding.detector, []).append(finding)
    aimed = next((one for one in run.checks if one.detector == "target-missed"), None)
    targets = [
        _target(diagnosis, run, text, aimed, by_detector.get("target-missed", [])) for text in _required(diagnosis)
    ]
    checks = [
        _case(diagnosis, run, check, by_detector.get(check.detector, []))
        for check in run.checks
        if not (targets and check.detector == "target-missed")
    ]
    if reason := _gate.unjudged(run):
        case = _named(name, "judged")
        Xml.SubElement(case, "error", message=_gate.plain(f"Not judged: {reason}"), type="not-judged")
        targets.append(case)
    files = [_unread(source, name) for source in run.sources if source.state == "not-read"]
    suite = Xml.Element("testsuite", name=name)
    if run.result.last_step is not None:
        properties = Xml.SubElement(suite, "properties")
        Xml.SubElement(properties, "property", name="last_step", value=str(run.result.last_step))
    for one in run.accepted:
        line = f"Accepted: {one.finding.title} ({one.reason})"
        checks.append(_skipped(_named(name, f"accepted {one.finding.id}"), line))
    return _filled(suite, [*targets, *checks, *files])


def _required(diagnosis: Diagnosis) -> Sequence[str]:
    required = diagnosis.settings.get("require", ())
    return list(dict.fromkeys(str(text) for text in required)) if isinstance(required, list | tuple) else []


def _target(
    diagnosis: Diagnosis, run: RunDiagnosis, text: str, check: Check | None, missed: Iterable[Finding]
) -> Xml.Element:
    if check is None:
        return _skipped(_named(run.name, text), "target-missed was not selected")
    words = " ".join(text.split())
    told = [one for one in missed if any(part.text == words for part in one.evidence)]
    if told and all(one.severity == "info" for one in told):
        return _skipped(_named(run.name, text), told[0].message)
    case = _case(diagnosis, run, check, told)
    case.set("name", _gate.plain(text))
    return case


def _case(diagnosis: Diagnosis, run: RunDiagnosis, check: Check, findings: Sequence[Finding]) -> Xml.Element:
    case = _named(run.name, check.detector, f"{check.seconds:.6f}")
    if check.status in ("not-applicable", "not-enough-data"):
        return _skipped(case, check.reason)
    if check.status == "failed":
        error = Xml.SubElement(case, "error", message=_gate.plain(check.reason), type="failed")
        error.text = "The detector itself failed; the other ones went on."
        return case
    _failures(case, diagnosis, run, findings)
    return case


def _failures(case: Xml.Element, diagnosis: Diagnosis, run: RunDiagnosis, findings: Iterable[Finding]) -> None:
    """One failure a case, as the form has it: the gravest finding's, with the text of all; the rest is output."""
    findings = list(findings)
    grave = [finding for finding in findings if _gate.fails(diagnosis, finding)]
    if grave:
        title = grave[0].title + (f" and {len(grave) - 1} more" if len(grave) > 1 else "")
        failure = Xml.SubElement(case, "failure", message=_gate.plain(title), type=grave[0].severity)
        failure.text = _gate.plain("\n\n".join(_text(run, finding) for finding in grave))
    lesser = [finding for finding in findings if finding not in grave]
    if lesser:
        Xml.SubElement(case, "system-out").text = _gate.plain("\n\n".join(_text(run, one) for one in lesser))


def _text(run: RunDiagnosis, finding: Finding) -> str:
    where = " · ".join(part for part in (steps(finding.first_step, finding.last_step), confidence(finding)) if part)
    lines = [f"{finding.severity}: {finding.title}", where, finding.message]
    lines += [f"{cause.verdict}: {cause.cause}: {cause.message}" for cause in finding.causes]
    lines += [f"do: {action}" for action in finding.actions]
    place = _gate.place(run, finding)
    return "\n".join([*lines, f"at: {place}"] if place else lines)


def _unread(source: SourceReport, run: str = "files") -> Xml.Element:
    case = _named(run, source.path)
    Xml.SubElement(case, "error", message=_gate.plain(source.reason or "could not be read"), type="not-read")
    return case


def _named(run: str, name: str, seconds: str = "0") -> Xml.Element:
    return Xml.Element("testcase", classname=_gate.plain(run), name=_gate.plain(name), time=seconds)


def _skipped(case: Xml.Element, reason: str) -> Xml.Element:
    Xml.SubElement(case, "skipped", message=_gate.plain(reason))
    return case


def _filled(suite: Xml.Element, cases: Iterable[Xml.Element]) -> Xml.Element:
    cases = list(cases)
    for count, part in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(part) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.extend(cases)
    return suite
