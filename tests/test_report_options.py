"""Options of reports are settings: in a file, in a flag, checked; and a file's ending must fit its format."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlens import delivery, plugins, settings
from trainlens.errors import SettingsError
from trainlens.figures import agreed


def test_options_of_reports_come_from_file_and_flag(tmp_path: Path) -> None:
    file = tmp_path / "trainlens.toml"
    file.write_text("[reports.png]\ndpi = 200\nwidth = 3000\n[detectors.loss-spike]\nsize = 0.2\n")
    made = settings.load({}, ["png.width=800", "html.charts=no"], config=file, environ={})
    assert made.options["png"] == {"dpi": 200, "width": 800}
    assert made.options["html"] == {"charts": False}
    assert made.origin_of("png", "width") == "--set"


@pytest.mark.parametrize(
    "given", ["png.dpi=9", "png.dpi=x", "png.colour=red", "html.reference=gpt", "terminal.color=1"]
)
def test_what_a_report_does_not_know_is_refused(given: str) -> None:
    with pytest.raises(SettingsError):
        settings.load({}, [given], environ={})


def test_no_report_bears_the_name_of_a_detector() -> None:
    assert not set(plugins.names("reports")) & set(plugins.names("detectors"))


@pytest.mark.parametrize(("output", "name", "fits"), [
    ("x.html", "json", False), ("x.png", "html", False), ("x.json", "html", False), ("x.json", "gitlab", True),
    ("x.txt", "markdown", True), ("x.html", "html", True), ("x.odd", "json", True),
])  # fmt: skip
def test_the_ending_of_a_file_fits_its_format(output: str, name: str, fits: bool, tmp_path: Path) -> None:
    made = settings.load({"output": str(tmp_path / output), "formats": [name]}, [], environ={})
    if fits:
        assert name in delivery.plan(made).written
    else:
        with pytest.raises(SettingsError, match="is the ending of"):
            delivery.plan(made)


@pytest.mark.parametrize(("told", "wanted"), [
    ("1 points after the start, 40 are needed", "1 point after the start, 40 are needed"),
    ("21 points, 0.1 points, 1,001 steps", "21 points, 0.1 points, 1,001 steps"),
    ("up to step 1: 1 rows missing", "up to step 1: 1 row missing"),
])  # fmt: skip
def test_one_of_a_thing_is_no_plural(told: str, wanted: str) -> None:
    assert agreed(told) == wanted
