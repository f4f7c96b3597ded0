"""Settings: defaults < file < environment < flags, each with its origin; unknown names refused with the nearest."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from trainlens import plugins
from trainlens.errors import SettingsError
from trainlens.settings import Settings, load


def made(
    folder: Path, *, file: str = "", environ: dict[str, str] | None = None, sets: Any = (), **flags: Any
) -> Settings:
    if file:
        (folder / "trainlens.toml").write_text(file, encoding="utf-8")
    return load(flags, sets, environ=environ or {}, folder=folder)


def test_precedence_and_origin(tmp_path: Path) -> None:
    file = "jobs = 2\nwidth = 90\nfail-on = 'info'\ncache = false\n"
    environ = {"TRAINLENS_WIDTH": "100", "TRAINLENS_FAIL_ON": "warning", "HOME": "/"}
    settings = made(tmp_path, file=file, environ=environ, fail_on="error", jobs=None, select=[])
    assert (settings.jobs, settings.origin("jobs")) == (2, "trainlens.toml")
    assert (settings.width, settings.origin("width")) == (100, "environment TRAINLENS_WIDTH")
    assert (settings.fail_on, settings.origin("fail_on")) == ("error", "--fail-on")
    assert (settings.cache, settings.origin("cache")) == (False, "trainlens.toml")
    assert (settings.output, settings.origin("output")) == ("trainlens-report", "default")
    assert (settings.select, settings.origin("select")) == ((), "default")


def test_thresholds_from_every_layer(tmp_path: Path) -> None:
    file = "[detectors.loss-spike]\nscore = 7\nsize = 0.5\nrule = 'olmo'\n"
    settings = made(
        tmp_path,
        file=file,
        environ={"TRAINLENS_SET": "loss-spike.size=0.4, slowdown.points=80"},
        sets=["loss-spike.rule=ratio3"],
    )
    options = settings.options_for("loss-spike", plugins.load("detectors", "loss-spike").Options)
    assert (options.score, options.size, options.rule) == (7.0, 0.4, "ratio3")
    assert settings.origin_of("loss-spike", "score") == "trainlens.toml"
    assert settings.origin_of("loss-spike", "size") == "environment TRAINLENS_SET"
    assert settings.origin_of("loss-spike", "rule") == "--set"
    assert settings.origin_of("loss-spike", "lone") == "default"
    assert settings.options["slowdown"]["points"] == 80
    assert isinstance(settings.options["slowdown"]["points"], int)


def test_pyproject_and_named_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.trainlens]\njobs = 3\n[tool.other]\nx = 1\n")
    assert made(tmp_path).origin("jobs") == "pyproject.toml"
    other = tmp_path / "other.toml"
    other.write_text("jobs = 4\n")
    assert load(config=other, environ={}, folder=tmp_path).jobs == 4
    assert load(config=tmp_path / "pyproject.toml", environ={}, folder=tmp_path).jobs == 3
    assert made(tmp_path, file="jobs = 5\n").jobs == 5


def test_another_projects_broken_pyproject_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff\n")
    assert made(tmp_path) == Settings()


@pytest.mark.parametrize(
    ("flags", "file", "environ", "sets", "says"),
    [
        ({}, "job = 2", {}, [], "trainlens.toml: there is no setting 'job'. Did you mean 'jobs'?"),
        ({}, "detector = 2", {}, [], "Did you mean 'detectors'?"),
        ({}, "", {"TRAINLENS_JOB": "2"}, [], "TRAINLENS_JOB: there is no setting 'job'. Did you mean 'jobs'?"),
        ({}, "jobs = 'many'", {}, [], "jobs cannot be 'many'. It must be a whole number"),
        ({}, "jobs = 2.5", {}, [], "jobs cannot be 2.5"),
        ({}, "jobs = true", {}, [], "jobs cannot be True"),
        ({"jobs": 0}, "", {}, [], "--jobs: jobs cannot be 0. It must be 1 or more"),
        ({}, "cache = 'perhaps'", {}, [], "It must be true or false"),
        ({}, "output = 3", {}, [], "It must be text"),
        ({}, "select = [[1]]", {}, [], "It must be a list"),
        ({"fail_on": "errors"}, "", {}, [], "--fail-on: fail_on cannot be 'errors'. Did you mean 'error'?"),
        (
            {"select": ["los-spike"]},
            "",
            {},
            [],
            "--select: there is no detector 'los-spike'. Did you mean 'loss-spike'?",
        ),
        ({"ignore": ["zzz*"]}, "", {}, [], "there is no detector 'zzz*'"),
        ({"formats": ["htm"]}, "", {}, [], "there is no report 'htm'"),
        ({"parser": ["jsonll"]}, "", {}, [], "there is no parser 'jsonll'"),
        ({"parser": ["*.log=jsonl", "*.out=megatrn"]}, "", {}, [], "there is no parser 'megatrn'"),
        ({"map": ["dt=step_tim"]}, "", {}, [], "--map: 'dt=step_tim': there is no metric 'step_tim'. Did you mean"),
        ({"map": ["dt=step_time:W"]}, "", {}, [], "step_time cannot be in 'W'"),
        ({"map": ["dt"]}, "", {}, [], "'dt': is no raw=canonical. Write raw=canonical"),
        ({}, '[map]\ndt = "bench/"', {}, [], "there is no metric 'bench/'"),
        ({}, "", {}, ["loss-spike.scor=3"], "loss-spike has no option 'scor'. Did you mean 'score'?"),
        ({}, "", {}, ["los-spike.score=3"], "Did you mean 'loss-spike'?"),
        ({}, "", {}, ["loss-spike.score=high"], "loss-spike.score cannot be 'high'. It must be a number"),
        ({}, "", {}, ["loss-spike.score=nan"], "loss-spike.score cannot be 'nan'"),
        ({}, "", {}, ["loss-spike.rule=robus"], "loss-spike.rule cannot be 'robus'. Did you mean 'robust'?"),
        ({}, "", {}, ["loss-spike.score"], "cannot make sense of 'loss-spike.score'. Write detector.option=value"),
        ({}, "", {}, ["=3"], "cannot make sense of '=3'"),
        ({}, "[detectors]\nloss-spike = 3", {}, [], "'detectors' must hold tables"),
        ({}, "[detectors.loss-spike]\nscores = 3", {}, [], "loss-spike has no option 'scores'"),
        ({}, "jobs = ", {}, [], "trainlens.toml: is not valid TOML"),
    ],
)
def test_refusals(tmp_path: Path, flags: Any, file: str, environ: Any, sets: Any, says: str) -> None:
    with pytest.raises(SettingsError) as problem:
        made(tmp_path, file=file, environ=environ, sets=sets, **flags)
    assert says in str(problem.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(config=tmp_path / "none.toml", environ={}, folder=tmp_path)


def test_which_detectors_run(tmp_path: Path) -> None:
    settings = made(tmp_path, select=["loss-*", "hang"], ignore=["loss-plateau"])
    judged = {name for name in plugins.names("detectors") if settings.judges(name)}
    assert {"loss-spike", "hang"} <= judged
    assert not {"loss-plateau", "slowdown"} & judged
    assert all(Settings().judges(name) for name in plugins.names("detectors"))


def test_lists_from_the_environment(tmp_path: Path) -> None:
    assert made(tmp_path, environ={"TRAINLENS_IGNORE": "hang, slow-*,"}).ignore == ("hang", "slow-*")


def test_settings_travel_to_other_processes(tmp_path: Path) -> None:
    settings = made(tmp_path, sets=["loss-spike.score=7"], jobs=2)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_told_in_plain_values(tmp_path: Path) -> None:
    told = made(tmp_path, sets=["loss-spike.score=7"], select=["hang"]).told()
    assert told["select"] == ["hang"]
    assert told["options"] == {"loss-spike": {"score": 7.0}}
    assert told["origins"] == {"loss-spike.score": "--set", "select": "--select"}


def test_patterns_come_from_all_layers(tmp_path: Path) -> None:
    pattern = r"it (?P<step>\d+), L=(?P<loss>\S+)"
    (tmp_path / "trainlens.toml").write_text(f"patterns = ['{pattern}']\n")
    assert load(folder=tmp_path, environ={}).patterns == (pattern,)
    assert load(folder=tmp_path, environ={"TRAINLENS_PATTERNS": r"a(?P<x>\d{1,3})"}).patterns == (r"a(?P<x>\d{1,3})",)
    given = load({"patterns": [r"b(?P<y>\d)"]}, folder=tmp_path, environ={})
    assert given.patterns == (r"b(?P<y>\d)",)
    assert given.origin("patterns") == "--pattern"


@pytest.mark.parametrize("wrong", ["(?P<x>", r"\d+", "(a+)+(?P<x>b)"])
def test_a_wrong_pattern_is_refused_with_its_place(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"--pattern.*the pattern") as refused:
        load({"patterns": [wrong]}, environ={})
    assert wrong in refused.value.what
