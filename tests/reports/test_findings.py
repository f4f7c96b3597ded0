"""Findings as JSON lines: those of the JSON answer, each with its run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Accepted, Diagnosis
from trainlens.reports import json as json_report
from trainlens.reports.findings import Options, render

MADE = [diagnoses.faulty, diagnoses.broken, diagnoses.healthy, diagnoses.hostile, diagnoses.fleet]


def lines(diagnosis: Diagnosis, *, missing: bool = False) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in render(diagnosis, Options()).decode().split("\n") if line]
    return [one for one in found if ("missing" in one) is missing]


def test_what_was_not_read_is_a_line() -> None:
    (one,) = lines(diagnoses.empty(), missing=True)
    assert one == {"missing": "File not read", "message": "run.wandb: not a W&B file"}


@pytest.mark.parametrize("made", MADE)
def test_they_are_those_of_the_answer(made: Any) -> None:
    answer = json.loads(json_report.render(made(), json_report.Options()))
    wanted = [{"run": run["name"], **finding} for run in answer["runs"] for finding in run["findings"]]
    found = [{name: value for name, value in one.items() if name not in ("path", "accepted")} for one in lines(made())]
    assert found == wanted


def test_accepted_ones_have_their_reason() -> None:
    run = diagnoses.broken().runs[0]
    (one,) = lines(diagnoses.told(replace(run, findings=(), accepted=(Accepted(run.findings[0], "known"),))))
    assert one["accepted"] == "known"
