"""The JSON answer: the promised fields, strict JSON, and the way back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.reports import diagnoses
from tests.reports.golden import golden
from trainlens.diagnosis import Diagnosis, Evidence
from trainlens.errors import InputError
from trainlens.model import Event, Fact
from trainlens.reports.json import Options, parse, render, schema

ALL = [
    diagnoses.faulty,
    diagnoses.broken,
    diagnoses.healthy,
    diagnoses.unjudged,
    diagnoses.empty,
    diagnoses.hostile,
    diagnoses.fleet,
]


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Read by a parser that refuses what strict JSON has not."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    found: dict[str, Any] = json.loads(render(diagnosis, Options()), parse_constant=refuse)
    return found


def test_golden() -> None:
    golden("unjudged.json", render(diagnoses.unjudged(), Options()))


@pytest.mark.parametrize("made", ALL)
def test_it_is_what_the_schema_says(made: Any) -> None:
    jsonschema.Draft202012Validator(json.loads(schema())).validate(document(made()))


@pytest.mark.parametrize(
    ("where", "what"),
    [("findings", {"severity": "fatal"}), ("checks", {"status": "maybe"}), ("facts", {"name": 3}),
     ("events", {"line": "3"})],
)  # fmt: skip
def test_the_schema_refuses_other_shapes(where: str, what: dict[str, Any]) -> None:
    answer = document(diagnoses.faulty())
    answer["runs"][0][where][0] |= what
    validator = jsonschema.Draft202012Validator(json.loads(schema()))
    assert not validator.is_valid(answer)
    validator.check_schema(json.loads(schema()))


PROMISED = {
    "document": "schema_version trainlens settings summary runs",
    "summary": "error warning info runs points seconds",
    "runs": "name path sources metrics facts events checks result findings curves",
    "sources": "path format points first_step last_step bytes notes",
    "notes": "kind message",
    "metrics": "name raw unit better panel rank points first_step last_step first last min max median non_finite",
    "facts": "name value source",
    "events": "kind step time rank text source line",
    "checks": "detector status reason seconds",
    "result": "state last_step total_steps ranks gpus",
    "findings": "id detector severity confidence metric rank first_step last_step first_time last_time ongoing part_of "
    "title message cost evidence causes actions",
    "causes": "cause verdict message evidence remedy",
}


@pytest.mark.parametrize("make", ALL)
def test_the_promised_fields(make: Any) -> None:
    found = document(make())
    assert found["schema_version"] == 1
    unseen = [("document", found)]
    while unseen:
        kind, value = unseen.pop()
        assert set(PROMISED[kind].split()) <= set(value), kind
        for name, part in value.items():
            if name in PROMISED:
                unseen += [(name, one) for one in (part if isinstance(part, list) else [part]) if isinstance(one, dict)]


def test_places_of_notes_and_events() -> None:
    run = document(diagnoses.faulty())["runs"][0]
    assert {"kind": "cut-off", "message": "the last record is cut off", "byte": 3_999_812, "count": 1} in run[
        "sources"
    ][1]["notes"]
    assert all(event["rank"] is None for event in run["events"])
    event = document(diagnoses.hostile())["runs"][0]["events"][0]
    assert (event["source"], event["line"], event["step"]) == (diagnoses.EVIL, 2, 100)


@pytest.mark.parametrize("make", ALL)
def test_there_and_back(make: Any) -> None:
    diagnosis = make()
    content = render(diagnosis, Options(indent=0))
    assert parse(content) == diagnosis
    assert render(parse(content), Options(indent=0)) == content


def test_numbers_that_are_not_finite() -> None:
    run = diagnoses.faulty().runs[0]
    evidence = (
        Evidence("peak", observed=math.nan, expected=-math.inf, limit=float("inf")),
        Evidence("level", observed="NaN"),
    )
    curve = replace(run.curves[0], value=(math.nan, *run.curves[0].value[1:]))
    odd = replace(
        run,
        findings=(replace(run.findings[0], evidence=evidence),),
        facts=(Fact("limit", math.inf),),
        events=(Event("overflow", "overflow", time=math.nan),),
        curves=(curve,),
    )
    found = document(diagnoses.told(odd))["runs"][0]
    first, second = found["findings"][0]["evidence"]
    assert (first["observed"], first["expected"], first["limit"]) == ("NaN", "-Infinity", "Infinity")
    assert second["observed"] == "NaN"
    assert found["facts"][0]["value"] == "Infinity"
    assert found["events"][0]["time"] is None
    assert found["curves"][0]["value"][0] is None
    assert math.isnan(parse(render(diagnoses.told(odd), Options())).runs[0].curves[0].value[0])


def test_numbers_of_numpy() -> None:
    run = diagnoses.faulty().runs[0]
    finding = replace(run.findings[0], evidence=(Evidence("peak", observed=np.float64(2.5)),), first_step=np.int64(7))  # type: ignore[arg-type]
    found = document(diagnoses.told(replace(run, findings=(finding,))))["runs"][0]["findings"][0]
    assert (found["evidence"][0]["observed"], found["first_step"]) == (2.5, 7)


def test_a_name_that_is_no_text() -> None:
    run = replace(diagnoses.unjudged().runs[0], name="run \udcff", path="runs/\udcff")
    assert document(diagnoses.told(run))["runs"][0]["path"] == "runs/\ufffd"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"loss": 1}', "no schema_version"),
        (b"[1]", "no schema_version"),
        (b'{"schema_version": 2}', "has schema version 2, this trainlens reads version 1"),
        (b'{"schema_version": 1}', "is not a diagnosis: 'runs'"),
        (b'{"schema_version": 1, "trainlens": "1", "runs": [{"name": "a"}], "summary": {}}', "is not a diagnosis"),
        (b'{"schema_version": 1, "trainlens": "1", "runs": 3, "summary": {}}', "is not a diagnosis"),
        (b'{"schema_version": 1, "trainlens": 1, "runs": [], "summary": {}}', "is not a diagnosis"),
    ],
)
def test_what_is_no_diagnosis_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says) as problem:
        parse(content)
    assert problem.value.hint
