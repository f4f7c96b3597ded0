"""Lines of DeepSpeed read by column: to the last bit what reading line by line gives, however wide the numbers are."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers import door
from tests.parsers.test_megatron_columns import same
from trainlens.parsers import _skeletons, deepspeed
from trainlens.parsers._lines import SLACK, Block, BlockLines, newlines
from trainlens.parsers._marks import STEP, Mark, skeleton

NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(0, 1e3).map(repr),
    st.floats(-1e9, 1e9).map(lambda value: f"{value:.3f}"),
    st.integers(0, 10**17).map(str),
    st.sampled_from(["nan", "inf", "-inf", "0.0", "-0.0", "1e400", "9007199254740993", "1.", ".5", "5e-324"]),
)
ODD = st.sampled_from(
    [
        "",
        "words",
        "step=7, skipped=",
        "steps: 3 loss: 1.5.5 iter time (s): 1.0 samples/sec: 2.0",
        "Größe: 5",
        "\x1b[1mx",
    ]
)


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Optimiser and pipeline lines whose numbers have any width, odd lines between them, midnight somewhere."""
    rates = draw(st.lists(NUMBERS, min_size=1, max_size=4))
    losses = draw(st.lists(NUMBERS, min_size=1, max_size=4))
    groups = draw(st.integers(1, 3))
    begin, pause = draw(st.integers(0, 86_400)), draw(st.sampled_from([1, 600, 40_000]))
    prefix, end = draw(st.sampled_from(["", "localhost: ", "7: "])), draw(st.sampled_from(["", "\r"]))
    lines = []
    for step in range(draw(st.integers(1, 40))):
        clock = dt.datetime(2023, 4, 18, tzinfo=dt.UTC) + dt.timedelta(seconds=begin + step * pause)
        rate, loss = rates[step % len(rates)], losses[step % len(losses)]
        lines.append(
            f"{prefix}[{clock:%Y-%m-%d %H:%M:%S},171] [INFO] [logging.py:96:log_dist] [Rank 0] step={step * 10},"
            f" skipped={step // 7}, lr=[{', '.join([rate] * groups)}], mom=[(0.9, 0.95)]{end}"
        )
        lines.append(f"{prefix}steps: {step * 10} loss: {loss} iter time (s): {step}.25 samples/sec: 6.805{end}")
        if draw(st.integers(0, 7)) == 0:
            lines.append(draw(ODD))
    return "\n".join(lines) + "\n"


def plain_reader(text: str) -> dict[str, list[door.Row]]:
    """What the lines say, read in the simplest way."""
    found: dict[str, list[door.Row]] = {}
    for line in text.split("\n")[:-1]:
        if one := re.search(r"step=(\d+), skipped=(\d+), lr=\[([^\]]*)\], mom=\[(.*)\]", line):
            cells = [("skipped", one[2])]
            cells += [(f"lr/{at}" if at else "lr", text) for at, text in enumerate(one[3].split(", "))]
            cells += [(f"mom/{at}", text) for at, text in enumerate(re.findall(r"[\d.]+", one[4]))]
        elif one := re.search(
            r"steps: (\d+) loss: ([-+\w]*\.?[-+\w]*) iter time \(s\): (\S+) samples/sec: (\S+)", line
        ):
            cells = [("loss", one[2]), ("iter time (s)", one[3]), ("samples/sec", one[4])]
        else:
            continue
        for tag, number in cells:
            found.setdefault(tag, []).append((int(one[1]), float(number)))
    return found


@settings(max_examples=120, deadline=None)
@given(logs())
def test_columns_equal_the_plain_reader_to_the_last_bit(text: str) -> None:
    found, expected = door.rows(deepspeed, text), plain_reader(text)
    found = {tag: rows for tag, rows in found.items() if tag in expected}
    for tag in ("loss", "iter time (s)", "samples/sec"):  # the odd line with "1.5.5" gives what is a number in it
        found[tag] = [row for row in found.get(tag, []) if (row[0] or 0) % 10 == 0]
    assert same(found, expected)


@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_every_prefix_gives_a_prefix(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text.encode())))
    whole, part = door.rows(deepspeed, text), door.rows(deepspeed, text.encode()[:cut])
    for tag, rows in part.items():
        assert list(map(str, rows)) == list(map(str, whole[tag][: len(rows)]))


@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_reading_goes_on_where_it_stopped(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text.encode())))
    first = door.batches(deepspeed, text.encode()[:cut])
    joined = door.table(first)
    for tag, rows in door.table(door.batches(deepspeed, text, since=door.checkpoint(first))).items():
        joined.setdefault(tag, []).extend(rows)
    assert same(joined, door.rows(deepspeed, text))


@settings(max_examples=80, deadline=None)
@given(logs(), st.data())
def test_damage_in_one_row_touches_no_other(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 2))
    letter = data.draw(st.sampled_from(list("x-. 7,:=(e")))
    if text[at] == "\n":
        return
    hurt = text[:at] + letter + text[at + 1 :]
    number = text.count("\n", 0, at)
    kept = "\n".join(line for place, line in enumerate(text.split("\n")) if place != number)
    found = door.rows(deepspeed, hurt)
    for tag, rows in plain_reader(kept).items():
        assert {str(row) for row in rows} <= {str(row) for row in found.get(tag, [])}


def test_times_go_over_midnight() -> None:
    text = "".join(
        f"[2023-04-{18 + at // 4:02d} 23:59:{50 + at % 4},250] [Rank 0] step={at}, skipped=0, lr=[1e-05]\n"
        for at in range(12)
    )
    (found,) = [one for one in door.points(door.batches(deepspeed, text)) if one.tag == "lr"]
    assert found.time is not None
    assert np.diff(found.time).tolist() == [1.0, 1.0, 1.0, 86397.0, 1.0, 1.0, 1.0, 86397.0, 1.0, 1.0, 1.0]
    assert found.time[0] == 1681862390.25


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("a=1b=2", [Mark(STEP, 2, 3), Mark("b", 5, 6)]),
        ("a=12", [Mark(STEP, 2, 4)]),
        ("step 7: loss 0.5 (1.25) end", [Mark(STEP, 5, 6), Mark("loss", 13, 16), Mark("mean", 18, 22)]),
    ],
)
def test_a_skeleton_takes_lines_that_agree_in_all_but_numbers(line: str, marks: list[Mark]) -> None:
    like = skeleton(line.encode(), marks)
    assert like is not None
    text = f"{line}\n{line.replace('1', '123456')}\nother\n{line}x\n{line}\n".encode()
    ends = newlines(np.frombuffer(text, np.uint8))
    lines = BlockLines(Block(text + bytes(SLACK), 1, len(text), ends, torn=False))
    taken = _skeletons.take(lines, np.arange(5), like)
    assert taken is not None
    assert taken.at.tolist() == [0, 1, 4]
    assert lines.taken.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("a=12", [Mark(STEP, 2, 3), Mark("b", 3, 4)]),  # nothing between two numbers
        ("a=1e b", [Mark(STEP, 2, 3), Mark("b", 5, 6)]),  # an "e" may go on with a number
        ("é a=1", [Mark(STEP, 4, 5)]),
        ("a=1 a=2", [Mark("a", 2, 3), Mark("a", 6, 7)]),
    ],
)
def test_what_has_no_skeleton(line: str, marks: list[Mark]) -> None:
    assert skeleton(line.encode(), marks) is None


@settings(deadline=None)
@given(st.binary(max_size=300).map(lambda raw: bytes(10 if byte % 5 == 0 else byte for byte in raw)))
def test_newlines_are_found_wherever_they_stand(raw: bytes) -> None:
    assert newlines(np.frombuffer(raw, np.uint8)).tolist() == [at for at, byte in enumerate(raw) if byte == 10]
