"""SARIF: valid for its own model, each finding with its place, what did not run among the notifications."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sarif_pydantic import Sarif

from tests.reports import diagnoses
from trainlens.diagnosis import Accepted, Check, Diagnosis, Evidence
from trainlens.model import Place
from trainlens.reports.sarif import Options, render

ALL = [
    diagnoses.faulty, diagnoses.broken, diagnoses.healthy, diagnoses.unjudged, diagnoses.empty, diagnoses.hostile,
    diagnoses.fleet,
]  # fmt: skip


def run_of(diagnosis: Diagnosis) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render(diagnosis, Options()))
    Sarif.model_validate(document)
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    return dict(run)


@pytest.mark.parametrize("made", ALL)
def test_valid_and_whole(made: Any) -> None:
    run = run_of(made())
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted(set(rules))
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        for location in result.get("locations", ()):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert not set(uri) & set('<> "\x1b')


def test_a_finding_has_the_place_of_its_evidence() -> None:
    run = diagnoses.broken().runs[0]
    placed = replace(run.findings[0], evidence=(Evidence("x", place=Place("logs/a b.txt", line=7)),))
    (result,) = run_of(diagnoses.told(replace(run, path="runs/x", findings=(placed,))))["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "runs/x/logs/a%20b.txt"}, "region": {"startLine": 7}}
    in_bytes = replace(placed, evidence=(Evidence("x", place=Place("a", byte=9)),))
    (result,) = run_of(diagnoses.told(replace(run, path="runs/a", findings=(in_bytes,))))["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "runs/a"}, "region": {"byteOffset": 9, "byteLength": 0}}


def test_parts_are_told_inside_and_accepted_ones_are_suppressed() -> None:
    run = diagnoses.faulty().runs[0]
    results = run_of(diagnoses.told(run))["results"]
    assert [one["ruleId"] for one in results] == [one.detector for one in run.findings if one.part_of is None]
    accepted = replace(run, findings=(), accepted=(Accepted(run.findings[0], "known"),))
    (result,) = run_of(diagnoses.told(accepted))["results"]
    assert result["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "known"}]


def test_what_did_not_run_is_notified() -> None:
    checks = (Check("loss-spike", "failed", "ups"), Check("crash", "not-applicable", "no"))
    run = replace(diagnoses.unjudged().runs[0], checks=checks)
    (invocation,) = run_of(diagnoses.told(run))["invocations"]
    told = [(one["level"], one["message"]["text"]) for one in invocation["toolExecutionNotifications"]]
    assert told.pop()[1].startswith("nimbus-test was not judged: ")
    assert told == [("error", "nimbus-test: loss-spike failed: ups"), ("note", "nimbus-test: crash did not apply: no")]
    assert invocation["executionSuccessful"] is False
    assert run_of(diagnoses.empty())["invocations"][0]["executionSuccessful"] is False
    assert run_of(diagnoses.told(replace(run, checks=checks[1:])))["invocations"][0]["executionSuccessful"] is True


def test_the_same_finding_has_the_same_fingerprint() -> None:
    first, again = (run_of(diagnoses.faulty())["results"] for _ in range(2))
    prints = [one["partialFingerprints"]["episode/v1"] for one in first]
    assert prints == [one["partialFingerprints"]["episode/v1"] for one in again]
    assert len(set(prints)) == len(prints)
