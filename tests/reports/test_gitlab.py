"""GitLab's code quality list: its five fields, fingerprints that stay, paths from where trainlens was called."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Accepted, Check, Diagnosis, Evidence
from trainlens.model import Place
from trainlens.reports.gitlab import Options, render

MADE = [diagnoses.faulty, diagnoses.broken, diagnoses.healthy, diagnoses.hostile, diagnoses.fleet]


def entries(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    return list(json.loads(render(diagnosis, Options())))


@pytest.mark.parametrize("made", MADE)
def test_the_form(made: Any) -> None:
    found = entries(made())
    assert len({one["fingerprint"] for one in found}) == len(found)
    for one in found:
        assert set(one) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert one["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert one["location"]["lines"]["begin"] >= 1
        assert not one["location"]["path"].startswith("./")


def test_place_and_severity() -> None:
    run = diagnoses.broken().runs[0]
    finding = replace(run.findings[0], evidence=(Evidence("x", place=Place("a.log", line=7)),))
    (one,) = entries(diagnoses.told(replace(run, path="runs/r", findings=(finding,), sources=())))
    assert (one["location"], one["severity"]) == ({"path": "runs/r/a.log", "lines": {"begin": 7}}, "critical")


def test_what_was_accepted_is_left_out() -> None:
    run = diagnoses.broken().runs[0]
    accepted = replace(run, findings=(), accepted=(Accepted(run.findings[0], "x"),), sources=())
    assert entries(diagnoses.told(accepted)) == []


def test_what_was_not_read_or_judged_is_an_entry() -> None:
    few = (Check("loss-spike", "not-enough-data", "2 points, 40 are needed"),)
    (one,) = entries(diagnoses.told(replace(diagnoses.unjudged().runs[0], path="runs/n", checks=few, sources=())))
    assert (one["check_name"], one["location"]["path"]) == ("not-judged", "runs/n")
    assert [one["check_name"] for one in entries(diagnoses.empty())] == ["file-not-read"]
