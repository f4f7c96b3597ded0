"""Markdown as a comment shows it; text of a log neither formats, links nor calls a name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.reports import diagnoses
from tests.reports.golden import golden
from trainlens.diagnosis import Diagnosis
from trainlens.reports.markdown import Options, render

ALL = [
    diagnoses.faulty, diagnoses.broken, diagnoses.healthy, diagnoses.unjudged, diagnoses.empty, diagnoses.fleet
]  # fmt: skip


def told(diagnosis: Diagnosis) -> str:
    return render(diagnosis, Options()).decode()


@pytest.mark.parametrize("made", ALL)
def test_golden(made: object) -> None:
    assert callable(made)
    golden(f"markdown-{made.__name__}.md", render(made(), Options()))  # type: ignore[attr-defined]


def test_text_of_a_log_stays_text() -> None:
    text = told(diagnoses.hostile())
    outside = re.sub(r"`[^`\n]*`", "", text.replace("```text", "```"))
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("@all hands", "@\u200ball hands"),
        ("fixes #12", "fixes \\#\u200b12"),
        ("see https://x.y", "see https://\u200bx.y"),
        ("a|b", "a\\|b"),
        ("**bold** _it_ `code`", "\\*\\*bold\\*\\* \\_it\\_ \\`code\\`"),
        ("[link](x) ![img](y)", "\\[link\\](x) \\!\\[img\\](y)"),
        ("line\nbreak\x1b[31m", "line break\ufffd\\[31m"),
    ],
)
def test_a_name_that_would_format_or_link(name: str, shown: str) -> None:
    run = diagnoses.healthy(name).runs[0]
    other = diagnoses.healthy("other").runs[0]
    assert f"| {shown} |" in told(diagnoses.told(run, other))


def test_a_great_fleet_fits_into_a_comment() -> None:
    assert len(render(diagnoses.fleet(300), Options())) < 65_536


def test_a_fleet_with_much_to_tell_fits_a_comment() -> None:
    one = diagnoses.faulty().runs[0]
    made = diagnoses.told(*(replace(one, name=f"run-{at}") for at in range(60)))
    text = render(made, Options()).decode()
    assert len(text) < 65_536
    assert "Cut here: " in text
