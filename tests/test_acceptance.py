"""Accepted findings: which they cover, what is written, and what is wrong in a file of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reports import diagnoses
from trainlens import acceptance
from trainlens.acceptance import Acceptance, parted
from trainlens.diagnosis import Finding
from trainlens.errors import SettingsError

SPIKE = Finding("loss-spike", "warning", "train/loss", 100, 120, "Loss spike", "It rose.", id="loss-spike-1")
INSIDE = Finding(
    "gradient-spike", "warning", "grad_norm", 95, 99, "Gradient spike", "It rose.", id="g-1", part_of="loss-spike-1"
)
CRASH = Finding("crash", "error", None, None, None, "Crash", "It ended.", id="crash-1")


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (Acceptance("loss-spike", "x"), True),
        (Acceptance("loss-*", "x"), True),
        (Acceptance("*", "x", run="atlas-*"), True),
        (Acceptance("loss-spike", "x", first_step=120), True),
        (Acceptance("loss-spike", "x", last_step=100), True),
        (Acceptance("loss-spike", "x", metric="train/*", first_step=90, last_step=110), True),
        (Acceptance("loss-spike", "x", first_step=125, last_step=140), True),
        (Acceptance("loss-spike", "x", first_step=60, last_step=90), True),
        (Acceptance("loss-spike", "x", first_step=141), False),
        (Acceptance("loss-spike", "x", last_step=79), False),
        (Acceptance("loss-spike", "x", first_step=10, last_step=60), False),
        (Acceptance("loss-spike", "x", metric="eval/loss"), False),
        (Acceptance("loss-spike", "x", run="other"), False),
        (Acceptance("loss", "x"), False),
    ],
)
def test_what_an_entry_covers(entry: Acceptance, covered: bool) -> None:
    left, accepted = parted([SPIKE], "atlas-7b", [entry])
    assert ([one.finding for one in accepted], left) == (([SPIKE], []) if covered else ([], [SPIKE]))


def test_entries_that_match_nothing_any_more_are_told() -> None:
    run = diagnoses.faulty().runs[0]
    entries = [
        Acceptance("loss-spike", "bad shard"),
        Acceptance("crash", "old", run="atlas-*"),
        Acceptance("hang", "known", first_step=900, last_step=1200),
    ]
    left, accepted = parted(run.findings, run.name, entries)
    assert len(left) < len(run.findings)
    told = acceptance.unmatched([replace(run, accepted=accepted)], entries)
    assert told == ("crash of atlas-* (old)", "hang at 900–1,200 (known)")


def test_what_is_told_inside_goes_with_it() -> None:
    left, accepted = parted([SPIKE, INSIDE, CRASH], "a", [Acceptance("loss-spike", "known")])
    assert left == [CRASH]
    assert [(one.finding.id, one.reason) for one in accepted] == [("loss-spike-1", "known"), ("g-1", "known")]


def test_a_finding_without_steps_is_covered_by_an_entry_without_them() -> None:
    assert parted([CRASH], "a", [Acceptance("crash", "x")])[0] == []
    assert parted([CRASH], "a", [Acceptance("crash", "x", first_step=1)])[0] == [CRASH]


def test_what_is_written_accepts_what_was_found(tmp_path: Path) -> None:
    diagnosis = diagnoses.faulty()
    path = tmp_path / "accepted.toml"
    path.write_bytes(acceptance.written(diagnosis, 'said "so"\x7f'))
    entries = acceptance.load(str(path))
    for run in diagnosis.runs:
        left, accepted = parted(run.findings, run.name, entries)
        assert all(one.severity == "info" for one in left)
        assert {one.reason for one in accepted} == {'said "so"\x7f'}


def test_entries_that_stood_there_stay_as_they_are(tmp_path: Path) -> None:
    kept = (Acceptance("loss-*", "noise of batch 1", run="*-7b"), Acceptance("crash", "x", first_step=3))
    path = tmp_path / "accepted.toml"
    path.write_bytes(acceptance.written(diagnoses.faulty(), "new", kept))
    assert acceptance.load(str(path))[:2] == kept
    assert {one.reason for one in acceptance.load(str(path))[2:]} == {"new"}


def test_a_name_that_utf8_has_no_place_for_is_accepted_too(tmp_path: Path) -> None:
    run = replace(diagnoses.broken().runs[0], name="caf\udce9[1]")
    path = tmp_path / "accepted.toml"
    path.write_bytes(acceptance.written(diagnoses.told(run), "known"))
    assert parted(run.findings, run.name, acceptance.load(str(path)))[0] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[accept]]\ndetector = 'crash'\n", "entry 1: has no reason"),
        ("[[accept]]\nreason = 'x'\n", "has no detector"),
        ("[[accept]]\ndetector = 'crash'\nreason = ' '\n", "has no reason"),
        ("[[accept]]\ndetector = 'crash'\nreasn = 'x'\n", "there is no key 'reasn'. Did you mean 'reason'"),
        ("[[accept]]\ndetector = 'a'\nreason = 'x'\nfirst_step = 'b'\n", "It must be a whole number"),
        ("accept = 3\n", "holds other things"),
        ("[accepted]\n", "holds other things"),
        ("[[accept\n", "is not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_file(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(SettingsError, match=says):
        acceptance.load(str(tmp_path / "a.toml"))


def test_no_file_accepts_nothing_and_a_missing_one_is_refused() -> None:
    assert acceptance.load(None) == ()
    with pytest.raises(SettingsError, match="cannot be read"):
        acceptance.load("nowhere.toml")
