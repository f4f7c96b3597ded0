"""How numbers read: three to four figures, always the unit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from trainlens.diagnosis import Number
from trainlens.figures import counted, moment, number, seconds, steps


@pytest.mark.parametrize(
    ("value", "unit", "reads"),
    [
        (0, "", "0"),
        (48_000, "", "48,000"),
        (554_123, "", "554 k"),
        (2_642_964, "", "2.64 M"),
        (999_999, "", "1 M"),
        (13e9, "", "13 G"),
        (2.0, "", "2"),
        (2.0123, "", "2.012"),
        (18.4, "", "18.4"),
        (0.42, "", "0.42"),
        (0.00042, "", "4.2e-4"),
        (-0.00042, "", "-4.2e-4"),
        (1e300, "", "1e300"),
        (0.06, "share", "6 %"),
        (0.0625, "share", "6.25 %"),
        (7.5300001, "s", "7.53 s"),
        (2.5 * 2**30, "bytes", "2.5 GiB"),
        (512, "bytes", "512 B"),
        (1_980, "MHz", "1,980 MHz"),
        (522_000, "tokens/s", "522 k tokens/s"),
        (None, "", "–"),
        (math.nan, "", "NaN"),
        (-math.inf, "s", "-Infinity"),
        ("NaN", "share", "NaN"),
    ],
)
def test_number(value: Number, unit: str, reads: str) -> None:
    assert number(value, unit).replace("\u00a0", " ") == reads


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        (0, "0 s"),
        (0.0371, "37.1 ms"),
        (1, "1 s"),
        (119, "119 s"),
        (2_760, "46 min"),
        (10_799, "180 min"),
        (351_720, "97.7 h"),
    ],
)
def test_seconds(value: float, reads: str) -> None:
    assert seconds(value).replace("\u00a0", " ") == reads


@given(some.floats(allow_nan=True, allow_infinity=True), some.sampled_from(["", "s", "share", "bytes", "W"]))
def test_any_number_reads_short_and_keeps_its_sign(value: float, unit: str) -> None:
    reads = number(value, unit)
    assert 0 < len(reads) <= 30
    assert reads.startswith("-") <= (value < 0 or math.copysign(1, value) < 0)


def test_steps_and_dates() -> None:
    assert [steps(31_216, 31_249), steps(5, 5), steps(5, None), steps(None, 3)] == [
        "steps 31,216–31,249",
        "step 5",
        "step 5",
        "",
    ]
    assert moment(1_713_744_900) == "22 Apr, 00:15 UTC"
    assert moment(1e30) == ""
    assert [counted(1, "file"), counted(1_200, "file")] == ["1 file", "1,200 files"]
