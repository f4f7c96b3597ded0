"""JUnit XML: the form that CI servers read, and which case fails, is skipped, or broke."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Accepted, Check, Diagnosis, Evidence, Finding
from trainlens.model import SourceReport
from trainlens.reports.junit import Options, render

ALL = [
    diagnoses.faulty, diagnoses.broken, diagnoses.healthy, diagnoses.unjudged, diagnoses.empty, diagnoses.hostile,
    diagnoses.fleet,
]  # fmt: skip
# Element → its attributes (required ones marked) and children, as Jenkins' xUnit plug-in has them in junit-10.xsd.
FORM: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name"}, {"name", "time", "classname"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def suites(diagnosis: Diagnosis) -> Xml.Element:
    return Xml.fromstring(render(diagnosis, Options()))


def case(diagnosis: Diagnosis, name: str) -> Xml.Element:
    (found,) = [one for one in suites(diagnosis).iter("testcase") if one.get("name") == name]
    return found


def outcome(diagnosis: Diagnosis, name: str) -> list[tuple[str, str]]:
    return [(part.tag, part.get("message", "")) for part in case(diagnosis, name)]


@pytest.mark.parametrize("made", ALL)
def test_the_form(made: Any) -> None:
    top = suites(made())
    assert top.tag == "testsuites"
    for element in top.iter():
        required, known, children = FORM[element.tag]
        assert required <= set(element.attrib) <= known, element.tag
        assert {child.tag for child in element} <= children, element.tag
        assert not len(element) or not (element.text or "").strip()


@pytest.mark.parametrize("made", ALL)
def test_the_counts(made: Any) -> None:
    top = suites(made())
    for suite in top:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "-1")) == len(cases)
        for count, part in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(count, "-1")) == sum(one.find(part) is not None for one in cases)
    for count in ("tests", "failures", "errors"):
        assert int(top.get(count, "-1")) == sum(int(suite.get(count, "-1")) for suite in top)


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [(None, []), ("never", []), ("error", []), ("warning", ["slowdown", "loss-spike"]),
     ("info", ["slowdown", "loss-spike", "rollback"])],
)  # fmt: skip
def test_findings_as_grave_as_the_gate_asks_fail(fail_on: str | None, failing: list[str]) -> None:
    made = diagnoses.faulty()
    if fail_on is not None:
        made = replace(made, settings={"fail_on": fail_on})
    found = {one.get("name") for one in suites(made).iter("testcase") if one.find("failure") is not None}
    assert found == set(failing)
    assert case(made, "slowdown").find("failure" if "slowdown" in failing else "system-out") is not None


def test_a_failure_tells_numbers_causes_and_what_to_do() -> None:
    made = replace(diagnoses.faulty(), settings={"fail_on": "warning"})
    failure = case(made, "loss-spike").find("failure")
    finding = next(one for one in made.runs[0].findings if one.detector == "loss-spike")
    assert failure is not None
    assert failure.text is not None
    assert finding.message in failure.text
    assert "supported: " in failure.text
    assert f"do: {finding.actions[0]}" in failure.text


def test_what_did_not_run_is_skipped_with_its_reason_and_what_broke_is_an_error() -> None:
    run = replace(
        diagnoses.unjudged().runs[0],
        checks=(
            Check("a", "not-applicable", "no x"), Check("b", "not-enough-data", "3 of 9"),
            Check("c", "failed", "ups"), Check("d", "clean"),
        ),
    )  # fmt: skip
    made = diagnoses.told(run)
    assert outcome(made, "a") == [("skipped", "no x")]
    assert outcome(made, "b") == [("skipped", "3 of 9")]
    assert outcome(made, "c") == [("error", "ups")]
    assert outcome(made, "d") == []


def test_each_requirement_is_a_case() -> None:
    missed = Finding(
        "target-missed", "error", "eval/loss", 9, 9, "Target missed", "It is 3.", evidence=(Evidence("eval/loss <= 2"),)
    )
    run = replace(diagnoses.healthy().runs[0], findings=(missed,), checks=(Check("target-missed", "found"),))
    made = replace(diagnoses.told(run), settings={"require": ["eval/loss  <= 2", "train/loss <= 2"]})
    assert outcome(made, "eval/loss  <= 2") == [("failure", "Target missed")]
    assert outcome(made, "train/loss <= 2") == []


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ((Check("target-missed", "failed", "ups"),), ("error", "ups")),
        ((Check("target-missed", "not-enough-data", "not there yet"),), ("skipped", "not there yet")),
        ((), ("skipped", "target-missed was not selected")),
    ],
)
def test_a_target_that_was_not_judged_does_not_pass(checks: tuple[Check, ...], expected: tuple[str, str]) -> None:
    run = replace(diagnoses.healthy().runs[0], checks=(*checks, Check("crash", "clean")))
    made = replace(diagnoses.told(run), settings={"require": ["eval/loss <= 2"]})
    assert outcome(made, "eval/loss <= 2") == [expected]


def test_a_target_that_waits_beside_a_missed_one_is_skipped() -> None:
    waits = Finding(
        "target-missed", "info", "a", None, None, "Not judged yet", "Not there.", evidence=(Evidence("a <= 2 at 9"),)
    )
    run = replace(diagnoses.healthy().runs[0], findings=(waits,), checks=(Check("target-missed", "found"),))
    made = replace(diagnoses.told(run), settings={"require": ["a <= 2 at 9", "a <= 2 at 9"]})
    assert outcome(made, "a <= 2 at 9") == [("skipped", "Not there.")]


FEW = Check("loss-spike", "not-enough-data", "2 points, 40 are needed")


@pytest.mark.parametrize(
    ("checks", "error"),
    [
        ((FEW,), True),
        ((FEW, Check("target-missed", "clean")), False),
        ((Check("loss-spike", "clean"), Check("baseline-drift", "not-enough-data", "no steps in common")), True),
        ((Check("loss-spike", "clean"), Check("baseline-drift", "not-applicable", "no baseline")), False),
    ],
)
def test_a_run_that_was_not_judged_is_an_error(checks: tuple[Check, ...], error: bool) -> None:
    made = diagnoses.told(replace(diagnoses.unjudged().runs[0], checks=checks))
    found = [one for one in suites(made).iter("testcase") if one.get("name") == "judged"]
    assert [one.find("error") is not None for one in found] == [True] * error


def test_accepted_findings_are_skipped_with_their_reason() -> None:
    finding = diagnoses.broken().runs[0].findings[0]
    run = replace(diagnoses.healthy().runs[0], accepted=(Accepted(finding, "known"),))
    assert outcome(diagnoses.told(run), f"accepted {finding.id}") == [("skipped", f"Accepted: {finding.title} (known)")]


def test_files_that_could_not_be_read_are_errors() -> None:
    assert outcome(diagnoses.empty(), "run.wandb") == [("error", "not a W&B file")]
    run = replace(diagnoses.healthy().runs[0], sources=(SourceReport("a.log", "", state="not-read", reason="broken"),))
    assert outcome(diagnoses.told(run), "a.log") == [("error", "broken")]
