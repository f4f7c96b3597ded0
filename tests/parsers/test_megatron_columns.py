"""Records of Megatron read by column: to the last bit what reading line by line gives; damage stays where it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers import door
from trainlens.parsers import _lines, _timer_columns, megatron
from trainlens.parsers._lines import SLACK, Block, BlockLines
from trainlens.parsers._megatron_columns import take


def plain_reader(text: str) -> dict[str, list[door.Row]]:
    """What the records say, read in the simplest way."""
    found: dict[str, list[door.Row]] = {}
    for line in text.split("\n")[:-1]:
        if " iteration " not in line:
            continue
        head, *rest = line.split("|")
        step = int(head.split("iteration")[1].split("/")[0])
        for part in rest[:-1]:
            name, _, value = part.rpartition(":")
            found.setdefault(" ".join(name.split()), []).append((step, float(value)))
    return found


def same(one: dict[str, list[door.Row]], other: dict[str, list[door.Row]]) -> bool:
    """Equal to the last bit, NaN equal to NaN, minus zero unlike zero."""
    if one.keys() != other.keys():
        return False
    for tag, rows in one.items():
        steps, values = zip(*rows, strict=True)
        if steps != tuple(step for step, _ in other[tag]):
            return False
        mine, others = np.array(values), np.array([value for _, value in other[tag]])
        nan = np.isnan(mine)
        if not np.array_equal(nan, np.isnan(others)):
            return False
        if mine[~nan].tobytes() != others[~nan].tobytes():
            return False
    return True


NUMBERS = st.one_of(
    st.integers(0, 10**14).map(str),
    st.tuples(st.integers(0, 10**8), st.integers(1, 8), st.integers(0, 10**8)).map(
        lambda parts: f"{parts[0]}.{parts[2] % 10 ** parts[1]:0{parts[1]}d}"
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:.6E}"),
    st.floats(1e-30, 1e30).map(lambda value: f"{value:.3E}"),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:.3f}"),
    st.sampled_from(["nan", "inf", "-inf", "-1.0", "-0.0", "0.000", "9007199254740993", "1e400", "00.10", "1.", ".5"]),
)
NAMES = ["lm loss", "grad norm", "elapsed time per iteration (ms)", "num zeros", "a/b: c"]


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Many records of few layouts, so that they are read by column, with odd rows among them."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    columns = [draw(st.lists(NUMBERS, min_size=1, max_size=3)) for _ in names]
    wide = draw(st.sampled_from([0, 8, 12, 17]))
    lines = []
    for step in range(draw(st.integers(10, 60))):
        fields = "".join(
            f" {name}: {numbers[step % len(numbers)]:>{wide}} |" for name, numbers in zip(names, columns, strict=True)
        )
        lines.append(
            f" [2026-06-26 14:26:18] iteration {step:8d}/ 1000000 | consumed samples: {step * 64:12d} |{fields}"
        )
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(st.sampled_from(["", "some words", " | |", "iteration", "x: 1 |" + " " * 80 + "|"])))
    return "\n".join(lines) + "\n"


@settings(max_examples=150, deadline=None)
@given(logs())
def test_columns_equal_the_plain_reader_to_the_last_bit(text: str) -> None:
    found = door.rows(megatron, text)
    expected = plain_reader(text)
    found.pop("x", None)
    assert same(found, expected)


@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_damage_in_one_row_touches_no_other(text: str, data: st.DataObject) -> None:
    """A byte of one line is replaced: the other lines' points stay as they are."""
    at = data.draw(st.integers(0, len(text) - 2))
    letter = data.draw(st.sampled_from(list("x-. 7|:*(!Ee")))
    if text[at] == "\n":
        return
    hurt = text[:at] + letter + text[at + 1 :]
    number = text.count("\n", 0, at)
    kept = "\n".join(line for place, line in enumerate(text.split("\n")) if place != number)
    expected = {tag: set(map(str, rows)) for tag, rows in plain_reader(kept).items()}
    found = door.rows(megatron, hurt)
    for tag, rows in expected.items():
        assert rows <= set(map(str, found.get(tag, [])))


@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_every_prefix_gives_a_prefix(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    whole, part = door.rows(megatron, text), door.rows(megatron, text[:cut])
    for tag, rows in part.items():
        assert list(map(str, rows)) == list(map(str, whole[tag][: len(rows)]))


@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_reading_goes_on_where_it_stopped(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    first = door.batches(megatron, text[:cut])
    second = door.batches(megatron, text, since=door.checkpoint(first))
    joined = door.table(first)
    for tag, rows in door.table(second).items():
        joined.setdefault(tag, []).extend(rows)
    assert same(joined, door.rows(megatron, text))


def test_regular_records_are_read_by_column() -> None:
    lines = [
        f"55:  [2026-06-26 14:2{at % 10}:18.4139{at:02d}] iteration {at:8d}/{1000:8d} |"
        f" consumed samples: {at * 64:12d} |"
        f" elapsed time per iteration (ms): {1388.5 + at:.1f} | learning rate: {1e-5 * (at + 1):.6E} |"
        f" lm loss: {12.5 + at:.6E} | grad norm: {0.5 + at:.3f} | number of nan iterations: {0:3d} |"
        for at in range(90)
    ]
    text = ("\n".join(lines) + "\n").encode()
    block = Block(text + bytes(SLACK), 1, len(text), np.flatnonzero(np.frombuffer(text, np.uint8) == 10), torn=False)
    of_block = BlockLines(block)
    found = take(of_block, 1)
    assert found is not None
    assert len(found[0].step) == 90
    assert of_block.taken.all()
    assert found[1] == 1000


def test_timers_have_the_time_of_their_record_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(
        f" [2026-06-26 14:{at // 60:02d}:{at % 60:02d}] iteration {at:8d}/{1000:8d} | lm loss: 1.0E+00 |\n"
        "(min, max) time across ranks (ms):\n    optimizer ....: (1.00, 2.00)\n"
        for at in range(200)
    )
    monkeypatch.setattr(_lines.blocks, "__defaults__", (0, 1, 3000))
    found = [one for one in door.points(door.batches(megatron, text)) if one.tag == "timers/optimizer/max"]
    step = np.concatenate([one.step for one in found if one.step is not None])
    time = np.concatenate([one.time for one in found if one.time is not None])
    assert step.tolist() == list(range(200))
    assert (time - time[0]).tolist() == list(range(200))


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Records with tables of timers behind them, some of them torn apart by lines of other ranks."""
    prefix = draw(st.sampled_from(["", "55: ", "[default7]:"]))
    names = draw(st.lists(st.sampled_from(["forward-backward", "optimizer", "all grads sync", "a/b"]), unique=True))
    lines = []
    for step in range(draw(st.integers(1, 40))):
        lines.append(
            f"{prefix} [2026-06-26 14:{step:02d}:18] iteration {step:8d}/ 1000000 | consumed samples: {step * 64:12d} |"
            f" lm loss: {draw(NUMBERS)} |"
        )
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(st.sampled_from(["3: words", "", "3:     optimizer ....: (1.00, 2.00)"])))
        lines.append(f"{prefix}(min, max) time across ranks (ms):")
        for name in names:
            if draw(st.integers(0, 19)) == 0:
                lines.append(draw(st.sampled_from(["3: words", f"{prefix}words", "[rank3]: a | b: 1 |"])))
            lines.append(f"{prefix}    {name} {'.' * (30 - len(name))}: ({step}.25, {step * 1000}.50)")
    return "\n".join(lines) + "\n"


@settings(max_examples=80, deadline=None)
@given(tables())
def test_tables_by_column_equal_tables_line_by_line(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_timer_columns, "LONGEST_TABLE", 0)
        patch.setattr(_timer_columns, "_heads", lambda _, rows: np.zeros(len(rows), np.bool_))
        expected = door.rows(megatron, text)
    assert same(door.rows(megatron, text), expected)


@settings(max_examples=40, deadline=None)
@given(tables(), st.data())
def test_tables_are_read_on_where_reading_stopped(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    first = door.batches(megatron, text[:cut])
    joined = door.table(first)
    for tag, rows in door.table(door.batches(megatron, text, since=door.checkpoint(first))).items():
        joined.setdefault(tag, []).extend(rows)
    assert same(joined, door.rows(megatron, text))
