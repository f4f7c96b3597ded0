"""GitHub's workflow commands: one line each, whatever stands in the log."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Check, Diagnosis, Evidence
from trainlens.model import Place
from trainlens.reports.github import Options, render

TOO_FEW = (Check("loss-spike", "not-enough-data", "2 points, 40 are needed"),)
MADE = [diagnoses.faulty, diagnoses.broken, diagnoses.hostile, diagnoses.empty, diagnoses.fleet]
COMMAND = re.compile(r"::(error|warning|notice) (?:\w+=[^,:\n\r]*)(?:,\w+=[^,:\n\r]*)*::[^\n\r]+")


def lines(diagnosis: Diagnosis) -> list[str]:
    return render(diagnosis, Options()).decode().splitlines()


@pytest.mark.parametrize("made", MADE)
def test_commands_are_well_formed_and_the_last_line_is_the_verdict(made: Any) -> None:
    *commands, verdict = lines(made())
    assert commands
    assert all(COMMAND.fullmatch(command) for command in commands), commands
    assert not verdict.startswith("::")


def test_a_healthy_run_has_its_verdict_alone() -> None:
    run = replace(diagnoses.healthy().runs[0], checks=())
    assert len(lines(diagnoses.told(run))) == 1


def test_severity_place_and_title() -> None:
    run = diagnoses.broken().runs[0]
    finding = replace(
        run.findings[0],
        title="100 % NaN: a, b",
        message="x\ny",
        evidence=(Evidence("x", place=Place("a.log", line=7)),),
        actions=(),
    )
    alone = replace(run, name="r", path="runs/r", findings=(finding,), sources=(), checks=())
    (command, _) = lines(diagnoses.told(alone))
    assert command.startswith("::error file=runs/r/a.log,line=7,title=r%3A 100 %25 NaN%3A a%2C b::x%0Ay")


def test_a_run_that_was_not_judged_is_a_warning() -> None:
    (command, _) = lines(diagnoses.told(replace(diagnoses.unjudged().runs[0], checks=TOO_FEW)))
    assert command.startswith("::warning title=Not judged::nimbus-test: ")


def test_the_first_finding_of_each_run_is_among_the_ten_that_are_shown() -> None:
    one = diagnoses.broken().runs[0]
    several = tuple(replace(one.findings[0], id=str(at)) for at in range(4))
    runs = [replace(one, name=f"r{at}", findings=several, checks=(), sources=()) for at in range(6)]
    *found, _ = lines(diagnoses.told(*runs))
    commands = [line for line in found if COMMAND.fullmatch(line)]
    assert len(commands) == 10
    assert all(f"r{at}%3A" in command for at, command in enumerate(commands[:6]))
    assert commands[-1] == "::error title=trainlens::15 more, see the log of this step and the job's summary"
    assert len(found) == 10 + 15
    assert not any("::" in line or "##[" in line for line in found[10:])


def test_the_standard_input_has_no_place() -> None:
    run = replace(diagnoses.broken().runs[0], path="-")
    assert "file=" not in lines(diagnoses.told(run))[0]


def test_what_broke_is_told() -> None:
    run = replace(diagnoses.healthy().runs[0], checks=(Check("crash", "failed", "ups"),))
    assert lines(diagnoses.told(run))[0] == f"::error title=Detector failed::{run.name}: crash: ups"
    assert lines(diagnoses.empty())[0] == "::error title=File not read::run.wandb: not a W&B file"
