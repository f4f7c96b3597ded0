"""What was answered of an unchanged run is told again, to the letter; anything that decides it makes it judged anew."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from trainlens import analysis, reading
from trainlens.diagnosis import RunDiagnosis
from trainlens.settings import Settings
from trainlens.signals import rolling
from trainlens.store import answers


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(answers, "DEAR", -1.0)
    path = tmp_path / "log.jsonl"
    rows = [f'{{"step": {at}, "loss": {9 if 300 <= at < 310 else 3 / at**0.2}}}\n' for at in range(1, 600)]
    path.write_text("".join(rows))
    return path


def told(log: Path, now: float, settings: Settings = Settings()) -> tuple[RunDiagnosis, ...]:  # noqa: B008
    work, _ = reading.work([log], settings)
    return analysis.analyze_run(work[0], settings=settings, now=now)[0]


def test_an_unchanged_run_is_judged_once_and_told_alike(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = log.stat().st_mtime + 1
    first = told(log, now)
    assert first[0].findings
    monkeypatch.setattr(analysis, "diagnose", lambda *_: pytest.fail("judged anew"))
    assert repr(told(log, now)) == repr(first)


def test_a_grown_log_other_settings_and_a_later_clock_are_judged_anew(log: Path) -> None:
    now = log.stat().st_mtime + 1
    told(log, now)
    assert told(log, now, dataclasses.replace(Settings(), ignore=("loss-*",)))[0].findings != told(log, now)[0].findings
    with log.open("a") as file:
        file.write('{"step": 600, "loss": 1}\n')
    assert told(log, now)[0].metrics[0].points == 600


def test_medians_by_rank_are_those_of_sorted_windows() -> None:
    x = np.random.default_rng(1).normal(size=3000).round(1)
    begins = np.arange(0, 2800, 3)
    expected = [np.sort(x[at : at + 150])[75] for at in begins]
    assert np.array_equal(rolling._ranked(x, begins, 150, 75), expected)
