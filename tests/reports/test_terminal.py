"""The terminal report: golden texts, every width, and nothing hostile on the screen."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from tests.detectors.door import falling, run_of
from tests.reports import diagnoses
from tests.reports.golden import golden
from trainlens.analysis import diagnose
from trainlens.diagnosis import Check, Diagnosis, Finding
from trainlens.reports._sparkline import sparkline
from trainlens.reports._terminal_rows import wrapped
from trainlens.reports.terminal import Options, render
from trainlens.settings import load


def text(diagnosis: Diagnosis, **options: object) -> str:
    return render(diagnosis, Options(**options)).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "diagnosis", "options"),
    [
        ("faulty-80.txt", diagnoses.faulty(), Options(reports=("trainlens-report/borealis-3b.html",))),
        ("faulty-140.txt", diagnoses.faulty(), Options(width=140)),
        ("faulty-ascii.txt", diagnoses.faulty(), Options(unicode=False)),
        ("faulty-verbose.txt", diagnoses.faulty(), Options(width=120, verbose=True)),
        ("broken-color.txt", diagnoses.broken(), Options(color=True)),
        ("unjudged.txt", diagnoses.unjudged(), Options()),
        ("empty.txt", diagnoses.empty(), Options()),
        ("fleet-3.txt", diagnoses.fleet(3), Options()),
        ("fleet-8.txt", diagnoses.fleet(8), Options(width=100)),
        ("hostile.txt", diagnoses.hostile(), Options()),
        ("quiet.txt", diagnoses.fleet(3), Options(width=100, quiet=True)),
    ],
)
def test_golden(name: str, diagnosis: Diagnosis, options: Options) -> None:
    golden(f"terminal-{name}", render(diagnosis, options))


def test_a_healthy_run_takes_five_lines() -> None:
    run = diagnoses.healthy().runs[0]
    judged = tuple(check for check in run.checks if check.status == "clean")
    checks = (*judged, Check("low-mfu", "not-applicable", "no mfu in the logs"))
    lines = text(diagnoses.told(replace(run, checks=checks)), width=140, reports=("a.html", "a.png")).splitlines()
    assert len(lines) == 5
    assert lines[1] == "✓ HEALTHY        Nothing found in 24,000 steps."
    assert lines[3] == f"  Not judged     1 of {len(checks)} detectors: what they need is not in the logs."
    assert lines[4] == "  Reports        a.html, a.png"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("make", [diagnoses.faulty, diagnoses.broken, diagnoses.fleet, diagnoses.hostile])
def test_no_line_is_wider_than_the_terminal(width: int, make: object) -> None:
    for line in text(make(), width=width, verbose=True).splitlines():  # type: ignore[operator]
        assert cell_len(line) <= width, line


@pytest.mark.parametrize("options", [{}, {"verbose": True}, {"quiet": True}, {"unicode": False}])
def test_nothing_from_a_log_can_steer_the_terminal(options: dict[str, object]) -> None:
    shown = text(diagnoses.hostile(), **options)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    if not options:
        assert "[bold]steps[/bold]" in shown  # markup is text
        assert r"\x1b[31mred" in shown


def test_without_unicode_all_is_ascii() -> None:
    for make in (diagnoses.faulty, diagnoses.healthy, diagnoses.fleet, diagnoses.hostile):
        assert render(make(), Options(unicode=False, verbose=True)).isascii()


def test_colour_only_on_labels_and_the_same_words() -> None:
    plain, colored = text(diagnoses.faulty()), text(diagnoses.faulty(), color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
    for line in colored.splitlines():
        codes = [found.start() for found in re.finditer(r"\x1b", line)]
        assert len(codes) in (0, 2)
        assert not codes or codes[0] == 0


def test_advice_stands_once() -> None:
    shown = re.sub(r"\s+", " ", text(diagnoses.faulty()))
    assert shown.count("Take the node of rank 11 out of the pool") == 1


def test_equal_findings_are_one_card() -> None:
    run = diagnoses.faulty().runs[0]
    spikes = tuple(
        Finding("loss-spike", "warning", "train/loss", at, at + 5, f"Loss spike at {at:,}", f"It rose at {at:,}.", 0.9,
                id=f"loss-spike-{at}")
        for at in range(5_000, 31_000, 1_000)
    )  # fmt: skip
    shown = text(diagnoses.told(replace(run, findings=spikes)), width=140)
    assert len(re.findall(r"(?m)^\d+ ▲ WARNING", shown)) == 1
    assert "▲ 26 WARNINGS    Loss spike at 5,000 and 25 more" in shown
    assert "  Also           steps 6,000–6,005, " in shown
    assert "and 17 more" in shown


def test_wrapping_loses_nothing() -> None:
    words = "short 長い漢字の言葉がここにある a" + "b" * 90 + " end\u00a0kept together"
    lines = list(wrapped(words, 30))
    assert all(cell_len(line) <= 30 for line in lines)
    assert "".join(lines).replace(" ", "") == words.replace(" ", "")
    assert any("end\u00a0kept" in line for line in lines)


def test_the_picture_of_a_run_whose_ranks_log_their_own_loss() -> None:
    curves = {f"train/loss@{rank}": falling(200, seed=rank) for rank in range(3)}
    run = run_of({**curves, "gpu/memory_total": np.full(200, 8e10)})
    line = sparkline(diagnose(run, load({}, []), 0.0), (), 40)
    assert line is not None
    assert line.metric == "train/loss"
