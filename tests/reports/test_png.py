"""The PNG sheet: its size, the same bytes each time, every kind of diagnosis, no text beyond the sheet."""

from __future__ import annotations

import struct
import warnings
from dataclasses import replace

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Diagnosis
from trainlens.errors import SettingsError
from trainlens.reports import png
from trainlens.reports._drawings import Drawing
from trainlens.reports._mpl_charts import Sheet, plain

ALL = ("faulty", "broken", "healthy", "unjudged", "empty", "hostile", "fleet")


def size(picture: bytes) -> tuple[int, int]:
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize("name", ALL)
def test_every_sheet_is_drawn_without_a_warning(name: str) -> None:
    diagnosis: Diagnosis = getattr(diagnoses, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = png.render(diagnosis, png.Options())
    assert size(picture) == (1600, 1000)
    assert len(picture) < 600_000


def test_the_same_diagnosis_gives_the_same_bytes_without_a_date_or_a_version() -> None:
    picture = png.render(diagnoses.faulty(), png.Options())
    assert png.render(diagnoses.faulty(), png.Options()) == picture
    assert b"tEXt" not in picture
    assert b"tIME" not in picture


def test_runs_share_a_sheet_unless_one_is_named() -> None:
    fleet = diagnoses.fleet()
    shared = png.render(fleet, png.Options())
    one = png.render(fleet, png.Options(run="borealis-3b"))
    assert shared != one
    assert one == png.render(diagnoses.faulty(), png.Options())
    assert size(png.render(diagnoses.fleet(40), png.Options())) == (1600, 1000)


def test_the_cells_of_a_faulty_and_of_a_healthy_run() -> None:
    titles = [one.title if isinstance(one, Drawing) else one.metric for one in png._chosen(diagnoses.faulty().runs[0])]
    assert titles == ["Loss", "Step time", "train/loss", "grad_norm", "compute_time"]
    titles = [one.title if isinstance(one, Drawing) else one.metric for one in png._chosen(diagnoses.healthy().runs[0])]
    assert titles == ["Loss", "Gradient norm", "Step time", "MFU", "GPU memory"]


def test_text_is_cut_to_its_room_and_never_read_as_mathematics() -> None:
    sheet = Sheet(400, 100)
    assert sheet.text(0, 50, "a title that is much wider than its room " * 5, 12, room=200) <= 200
    assert sheet.text(0, 80, r"$\frac{1}{$", 12, room=200) > 20
    assert size(sheet.png()) == (400, 100)


def test_a_title_of_other_letters_and_controls_is_drawn() -> None:
    run = replace(diagnoses.unjudged().runs[0], name="训练 \x1b[31m\n$x$")
    assert size(png.render(diagnoses.told(run), png.Options())) == (1600, 1000)
    assert plain("a\x1b\nb\u00a0c") == "a  b\u00a0c"


def test_dots_an_inch_and_width_make_the_picture_larger() -> None:
    fleet = diagnoses.fleet()
    assert size(png.render(fleet, png.Options(dpi=50))) == (800, 500)
    assert size(png.render(fleet, png.Options(width=1000, dpi=200))) == (1000, 625)
    with pytest.raises(ValueError, match="40 to 600"):
        png.Options(dpi=9)
    with pytest.raises(ValueError, match="640 to 9600"):
        png.Options(width=20)
    with pytest.raises(SettingsError, match="there is no run 'x'"):
        png.render(fleet, png.Options(run="x"))
