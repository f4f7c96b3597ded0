"""What charts show before anything draws them: their range, limits, bands, ticks; and the eight numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reports import diagnoses
from tests.reports.made_up_findings import STEPS
from trainlens.diagnosis import Curve, Evidence, Finding
from trainlens.reports._drawings import Drawing, describe, draw
from trainlens.reports._marks import log_ticks
from trainlens.reports._panels import eight_numbers, extent, panels


def test_a_chart_shows_what_matters_and_says_what_it_cuts() -> None:
    run = diagnoses.faulty().runs[0]
    loss = panels(run)[0].charts[0][0]
    assert (loss.first, loss.last) == (0, STEPS)
    assert 1.5 < loss.low < 1.75 < 2.5 < loss.high < 4
    assert [mark.text for mark in loss.above] == ["▲ from 10.76", "▲ 4.687"]
    assert [(band.number, band.severity) for band in loss.bands] == [(3, "info"), (2, "warning"), (1, "warning")]
    assert describe(loss).startswith("Loss, steps 0 to 60,000; train 1.864, validation 1.914; train from 6.435")


@pytest.mark.parametrize(
    ("unit", "limit_unit", "first", "last", "shown"),
    [
        ("s", "s", 1, 900, True),
        ("s", "", 1, 900, True),
        ("s", "deviations", 1, 900, False),  # the limit is of another kind than the curve
        ("s", "s", 500, 504, False),  # of a short episode: it stands on the close-up
    ],
)
def test_limits_on_a_chart(unit: str, limit_unit: str, first: int, last: int, shown: bool) -> None:
    steps = tuple(range(1, 1_001))
    value = tuple(1.0 + step / 5_000 for step in steps)
    curve = Curve("step_time", None, unit, "efficiency", steps, value, value, value)
    evidence = Evidence("level", "step_time", observed=1.2, limit=1.1, unit=limit_unit, limit_name="slowdown.rise")
    finding = Finding("slowdown", "warning", "step_time", first, last, "Slow", "Slow.", evidence=(evidence,), id="s")
    run = replace(diagnoses.unjudged().runs[0], findings=(finding,), curves=(curve,))
    drawing = draw(run, "Step time", [("median", curve)])
    assert [mark.text for mark in drawing.limits] == (["limit 1.1\u00a0s"] if shown else [])


def test_odd_tags_do_not_stretch_the_common_axis() -> None:
    run = diagnoses.healthy().runs[0]
    far = Curve("loss vs samples", None, "", "other", (1, 5_000_000, 9_000_000), (3.0,) * 3, (3.0,) * 3, (3.0,) * 3)
    run = replace(run, curves=(*run.curves, far))
    assert extent(run) == (0, 24_000)
    other = panels(run)[-1].charts[-1][0]
    assert (other.title, other.last) == ("loss vs samples", 9_000_000)
    assert other.bands == ()


def test_gaps_break_a_line_and_a_flat_curve_stays_flat() -> None:
    run = diagnoses.unjudged().runs[0]
    flat = Curve(
        "mfu", None, "share", "efficiency", (1, 2, 9), (0.43, 0.431, 0.43), (0.43,) * 3, (0.431,) * 3, gaps=(2,)
    )
    drawing: Drawing = draw(run, "MFU", [("median", flat)])
    assert list(drawing.lines[0].step) == [1, 2, 9, 9]
    assert drawing.lines[0].value[2] != drawing.lines[0].value[2]  # NaN
    assert drawing.high - drawing.low > 2
    assert drawing.unit == "%"


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (0.3, 6.0), (0.1, 99.0), (1e-5, 1e4)])
def test_a_logarithmic_axis_has_a_few_ticks(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert 3 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)


def test_there_are_eight_numbers_at_most() -> None:
    names = [one.name for one in eight_numbers(diagnoses.faulty().runs[0])]
    assert len(names) == 8
    assert (names[0], names[-1]) == ("Steps", "Useful time")
    assert eight_numbers(diagnoses.faulty().runs[0])[1].finding == 2
