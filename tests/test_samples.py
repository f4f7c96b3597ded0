"""Every story of sample_logs/ told right: what must be found is found where it is, and nothing else is raised.

`expected.toml` of a story holds `story` (one sentence), `may` (detectors that may be raised besides, as lawful side
effects), `quiet` (detectors that must judge the run and stay silent), `not_applicable` (those that must say so), and a
`[[finding]]` for each that must be there: `detector`, `metric`, `severity`, and `first_step`, where it may begin.
`[settings]` are those a user would set for it; a baseline is named from the story's folder.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from trainlens import analyze
from trainlens.diagnosis import RunDiagnosis
from trainlens.settings import load

ROOT = Path(__file__).parent.parent / "sample_logs"
STORIES = sorted(path.parent.name for path in ROOT.glob("*/expected.toml"))


def expected(story: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / story / "expected.toml").read_text("utf-8"))


@cache
def told(story: str) -> RunDiagnosis:
    settings = dict(expected(story).get("settings", {}))
    if "baseline" in settings:
        settings["baseline"] = str(ROOT / story / settings["baseline"])
    (run,) = analyze([ROOT / story], load(settings, environ={})).runs
    return run


def test_there_are_enough_stories() -> None:
    assert len(STORIES) >= 14
    assert sum(story.startswith("healthy_") for story in STORIES) >= 4
    assert {path.name for path in ROOT.iterdir()} == set(STORIES)


@pytest.mark.parametrize("story", STORIES)
def test_what_must_be_found_is_found(story: str) -> None:
    run = told(story)
    for want in expected(story).get("finding", []):
        low, high = want["first_step"]
        assert any(
            finding.detector == want["detector"]
            and finding.metric == want.get("metric", finding.metric)
            and finding.severity == want["severity"]
            and (finding.first_step is None or low <= finding.first_step <= high)
            for finding in run.findings
        ), (want, [(one.detector, one.metric, one.severity, one.first_step) for one in run.findings])


@pytest.mark.parametrize("story", STORIES)
def test_nothing_else_is_raised(story: str) -> None:
    wanted = expected(story)
    allowed = {finding["detector"] for finding in wanted.get("finding", [])} | set(wanted.get("may", []))
    raised = {finding.detector for finding in told(story).findings if finding.severity != "info"}
    assert raised <= allowed


@pytest.mark.parametrize("story", [story for story in STORIES if story.startswith("healthy_")])
def test_healthy_runs_are_silent(story: str) -> None:
    assert [finding.title for finding in told(story).findings if finding.severity != "info"] == []


@pytest.mark.parametrize("story", STORIES)
def test_the_quiet_detectors_did_judge(story: str) -> None:
    status = {check.detector: check.status for check in told(story).checks}
    assert {name: status[name] for name in expected(story).get("quiet", []) if status[name] != "clean"} == {}


@pytest.mark.parametrize("story", STORIES)
def test_what_is_not_logged_is_not_judged(story: str) -> None:
    status = {check.detector: check.status for check in told(story).checks}
    assert {status[name] for name in expected(story).get("not_applicable", [])} <= {"not-applicable"}


@pytest.mark.parametrize("story", STORIES)
def test_no_detector_fails(story: str) -> None:
    assert [check for check in told(story).checks if check.status == "failed"] == []
