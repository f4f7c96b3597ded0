from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.door import batches, checkpoint, events, facts, lines, notes, points, rows, sniffed, table
from tests.parsers.events import message, whole
from tests.parsers.wandb_files import (
    HEADER,
    PAGE,
    START,
    axis,
    config,
    console,
    environment,
    exited,
    item,
    row,
    run,
    run_file,
    sample,
)
from trainlens.errors import InputError
from trainlens.model import Fact
from trainlens.parsers import wandb
from trainlens.parsers._wandb_layouts import Layouts
from trainlens.parsers._wandb_records import Names, Record, parse

OLD = [
    row({"loss": "2.5", "_step": "0", "_timestamp": f"{START}.0", "_runtime": "1.5"}),
    row({"loss": "2", "val/loss": "2.75", "_step": "10", "_timestamp": f"{START + 10}.0"}, 10),
]
DONE = exited(0)


# ---- history ---------------------------------------------------------------------------------------------------------


def test_rows_of_old_clients() -> None:
    found = batches(wandb, run_file([*OLD, DONE]))
    assert table(found) == {"loss": [(0, 2.5), (10, 2.0)], "val/loss": [(10, 2.75)]}
    times = {one.tag: one.time.tolist() for one in points(found) if one.time is not None}
    assert times["loss"] == [START, START + 10]


def test_the_runtime_is_kept_where_it_is_the_only_clock() -> None:
    assert rows(wandb, run_file([row({"_runtime": "1.5"}), DONE])) == {"_runtime": [(0, 1.5)]}


def test_rows_of_the_newer_core_are_nested() -> None:
    more = item(("train", "acc"), "0.5"), item(("optimizer", "g.0", "lr"), "1e-3")
    found = rows(wandb, run_file([row({"loss": "2.5", "_step": "7"}, 7, *more, nested=True), DONE]))
    assert found == {"loss": [(7, 2.5)], "train/acc": [(7, 0.5)], "optimizer/g.0/lr": [(7, 1e-3)]}


def test_numbers_that_are_not_written_as_json() -> None:
    real = message(1, b"loss") + b"\x31" + struct.pack("<d", 2.5)
    below = message(2, b"train") + message(2, b"n") + whole(5, 13)  # zigzag of -7
    text = message(1, b"note") + message(7, b"12")
    assert rows(wandb, run_file([row({}, 3, real, below, text), DONE])) == {"loss": [(3, 2.5)], "train/n": [(3, -7.0)]}


def test_a_row_without_its_step_among_the_values_has_it_beside_them() -> None:
    assert rows(wandb, run_file([row({"loss": "3"}), row({"loss": "2"}, 4), DONE])) == {"loss": [(0, 3.0), (4, 2.0)]}


@pytest.mark.parametrize("quote", ["", '"'])
def test_not_a_number_and_infinity(quote: str) -> None:
    words = ["NaN", "Infinity", "-Infinity", "1.5"]
    cells = [f"{quote}{word}{quote}" if word[-1] in "Ny" else word for word in words]
    found = rows(wandb, run_file([*(row({"loss": cell}, at) for at, cell in enumerate(cells)), DONE]))["loss"]
    assert math.isnan(found[0][1])
    assert found[1:] == [(1, math.inf), (2, -math.inf), (3, 1.5)]


@pytest.mark.parametrize(
    "values",
    [
        {"image": '{"_type": "image-file", "size": 10, "width": 4}'},
        {"deep": '{"inner": {"_type": "histogram", "values": [1, 2], "n": 3}}'},
        {"name": '"gpt"', "flag": "true", "list": "[1, 2]", "none": "null", "empty": '""', "word": '"1.5"'},
        {"broken": "{1", "minus": "-", "_wandb": '{"runtime": 4}'},
    ],
)
def test_what_is_no_number_is_no_point(values: dict[str, str]) -> None:
    assert rows(wandb, run_file([row({**values, "loss": "1"}), DONE])) == {"loss": [(0, 1.0)]}


def test_a_picture_among_nested_names_is_left_out_whatever_the_order() -> None:
    parts = (
        item(("h", "size"), "12"),
        item(("h", "_type"), '"image-file"'),
        item(("h", "box", "width"), "3"),
        item(("h2", "size"), "4"),
    )
    assert rows(wandb, run_file([row({}, 1, *parts), DONE])) == {"h2/size": [(1, 4.0)]}


def test_numbers_in_a_dictionary() -> None:
    assert rows(wandb, run_file([row({"train": '{"loss": 2.5, "opt": {"lr": 1e-3}, "x": "NaN"}'}, 2), DONE])) == {
        "train/loss": [(2, 2.5)],
        "train/opt/lr": [(2, 1e-3)],
        "train/x": [(2, pytest.approx(math.nan, nan_ok=True))],
    }


CELLS = st.sampled_from(
    ["1", "-2.5", "1e-3", "NaN", '"word"', '{"x": 2}', "123456789.25", "0", "1.5E+300", "-", "true"]
)
ROWS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["loss", "_wandb", "_step", "_timestamp", "_runtime", "a", "b"]), CELLS),
        st.integers(0, 300),
        st.integers(1, 5),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(ROWS, st.booleans())
def test_rows_of_one_layout_read_as_rows_read_one_by_one(
    told: list[tuple[dict[str, str], int, int]], nested: bool
) -> None:
    records = [row(cells, step + 70 * at, nested=nested) for cells, step, often in told for at in range(often)]
    content = run_file([*records, DONE])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layouts, "fit", lambda *_: None)
        slow = batches(wandb, content)
    fast = batches(wandb, content)
    assert repr(table(fast)) == repr(table(slow))
    assert [None if one.time is None else repr(one.time.tolist()) for one in points(fast)] == [
        None if one.time is None else repr(one.time.tolist()) for one in points(slow)
    ]
    assert lines(wandb, content) == {
        tag: [at for one in points(slow) if one.tag == tag and one.origin is not None for at in one.origin.tolist()]
        for tag in table(slow)
    }


def test_long_runs_of_one_layout_are_read_by_their_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    content = run_file([*(row({"loss": f"{at}.5", "_step": str(at)}, at) for at in range(100)), DONE])
    seen: list[bytes] = []

    def parsed(payload: bytes, names: Names) -> Record | None:
        seen.append(payload)
        return parse(payload, names)

    monkeypatch.setattr(wandb, "parse", parsed)
    assert rows(wandb, content)["loss"] == [(at, at + 0.5) for at in range(100)]
    assert len(seen) < 6


# ---- which column counts the steps -----------------------------------------------------------------------------------


def counted(name: str, values: list[int | None]) -> list[int | None]:
    """The steps of the losses of rows that hold these values under a name; `_step` is 0, 1, 2, ..."""
    records = [
        row({"loss": "1", "_step": str(at), **({} if value is None else {name: str(value)})}, at)
        for at, value in enumerate(values)
    ]
    return [step for step, _ in rows(wandb, run_file([*records, DONE]))["loss"]]


@pytest.mark.parametrize("name", ["iter", "train/global_step", "trainer/global_step", "global_step"])
def test_the_steps_of_the_training_loop(name: str) -> None:
    assert counted(name, [0, 250, 500, 750]) == [0, 250, 500, 750]


def test_a_row_that_lacks_the_step_belongs_to_the_one_before() -> None:
    assert counted("iter", [None, 250, None, 500, 750]) == [250, 250, 250, 500, 750]


def test_going_back_in_the_middle_is_a_rollback_and_stays() -> None:
    assert counted("iter", [0, 10, 20, 10, 20, 30]) == [0, 10, 20, 10, 20, 30]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("iter", [5, None, None, None]),  # too few rows
        ("iter", [0, 1, 2, 0, 1, 2]),  # begins anew in each epoch
        ("epoch", [0, 0, 1, 1]),
        ("loss2", [5, 6, 7, 8]),
    ],
)
def test_otherwise_the_count_of_calls(name: str, values: list[int | None]) -> None:
    assert counted(name, values) == list(range(len(values)))


def test_the_column_of_steps_is_no_metric() -> None:
    assert set(rows(wandb, run_file([row({"iter": "5", "_step": "0", "loss": "1"}), DONE]))) == {"loss"}


def defined(*records: bytes) -> dict[str, list[tuple[int | None, float]]]:
    """The points of four rows with `batch` 0, 8, 16, 24, the last with an evaluation, behind these records."""
    table_of = [{"tr/loss": "1", "batch": str(8 * at), "_step": str(at)} for at in range(4)]
    table_of[3] |= {"val/loss": "2", "epoch": "1"}
    return rows(wandb, run_file([*records, *(row(one, at) for at, one in enumerate(table_of)), DONE]))


def test_the_steps_that_define_metric_names_for_all_or_most() -> None:
    for pattern in ("*", "tr/*"):
        found = defined(axis(pattern, "batch"))
        assert found["tr/loss"] == [(0, 1.0), (8, 1.0), (16, 1.0), (24, 1.0)], pattern
        assert found["val/loss"] == [(24, 2.0)], pattern
        assert "batch" not in found, pattern


def test_a_metric_with_steps_of_its_own_keeps_them() -> None:
    found = defined(axis("val/loss", "batch"))
    assert found["tr/loss"] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]
    assert found["val/loss"] == [(24, 2.0)]


def test_epochs_do_not_take_an_evaluation_off_the_axis_of_the_run() -> None:
    assert defined(axis("*", "batch"), axis("val/*", "epoch"))["val/loss"] == [(24, 2.0)]


@pytest.mark.parametrize("steps", ["missing", "tr/loss2"])
def test_steps_that_no_row_has_count_for_nothing(steps: str) -> None:
    assert defined(axis("*", steps))["tr/loss"] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]


def test_defined_steps_go_on_when_the_file_has_grown() -> None:
    cells = [{"a": "1", "b": "3", "s": str(5 * at), "_step": str(at)} for at in range(30)]
    cells[::3] = [{**one, "b": "2", "t": one["_step"]} for one in cells[::3]]
    rows_of = [row(one, at) for at, one in enumerate(cells)]
    content = run_file([axis("a", "s"), axis("b", "t"), *rows_of, DONE])
    true = rows(wandb, content)
    assert true["b"][:4] == [(0, 2.0), (0, 3.0), (0, 3.0), (3, 2.0)]
    for cut in range(len(content) // 3, len(content), 41):
        first = batches(wandb, content[:cut], "x.wandb")
        rest = batches(wandb, content, "x.wandb", checkpoint(first))
        assert {tag: table(first).get(tag, []) + table(rest).get(tag, []) for tag in true} == true, cut


# ---- system metrics --------------------------------------------------------------------------------------------------


def test_samples_get_the_step_of_their_moment() -> None:
    clock = [row({"loss": "1", "_step": str(at), "_timestamp": str(START + at)}, at) for at in (0, 100, 200)]
    values = {"gpu.0.gpu": "37.5", "cpu.3.cpu_percent": "9"}
    records = [sample(-5, values), clock[0], sample(49, values), *clock[1:], sample(500, values), DONE]
    found = batches(wandb, run_file(records))
    assert table(found)["system.gpu.0.gpu"] == [(0, 37.5), (49, 37.5), (200, 37.5)]
    (one,) = [one for one in points(found) if one.tag.startswith("system")]
    assert one.time is not None
    assert one.time.tolist() == [START - 4.5, START + 49.5, START + 500.5]


def test_samples_without_a_history_have_no_step() -> None:
    found = rows(wandb, run_file([sample(0, {"gpu.0.temp": "60"}), sample(30, {"gpu.0.temp": "61"}), DONE]))
    assert found == {"system.gpu.0.temp": [(None, 60.0), (None, 61.0)]}


# ---- settings and the end --------------------------------------------------------------------------------------------


def test_settings_are_facts() -> None:
    first = run({"lr": "0.001", "model": '{"layers": 4}', "tags": "[1]", "_wandb": '{"t": 1}'}, "my run")
    assert facts(wandb, run_file([first, config({"seed": "7", "lr": "0.002", "bf16": "true"}), DONE])) == {
        "wandb_name": "my run",
        "lr": 0.002,
        "model.layers": 4,
        "seed": 7,
        "bf16": True,
    }


def test_the_machine_and_the_program_are_facts() -> None:
    first = environment((2, "CPython 3.11"), (5, "--lr"), (5, "1e-3"), (6, "train.py"), (9, "ab12"), (10, "me@home"))
    found = facts(wandb, run_file([first, environment((18, "A100"), (19, 8), (25, "12.4")), DONE]))
    assert found == {
        "python": "CPython 3.11",
        "args": "--lr 1e-3",
        "program": "train.py",
        "git.commit": "ab12",
        "gpu": "A100",
        "gpu_count": 8,
        "cudaVersion": "12.4",
    }


def test_pictures_are_left_out_with_a_word() -> None:
    old = row({"loss": "1", "im": '{"_type": "image-file"}'})
    new = row({"loss": "1"}, 1, item(("h", "_type"), '"histogram"'), item(("h", "n"), "3"), nested=True)
    (note,) = notes(wandb, run_file([old, new, DONE]))
    assert (note.kind, note.count) == ("limit", 2)


def test_a_setting_told_again_is_one_fact() -> None:
    found = batches(wandb, run_file([config({"lr": "0.1"}), config({"lr": "0.1"}), DONE]))
    assert [batch for batch in found if isinstance(batch, Fact)] == found[:1]


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (0, "run-end", "code 0"),
        (1, "exit-code", "code 1"),
        (255, "exit-code", "KeyboardInterrupt"),
        (-9, "exit-code", "-9"),
    ],
)
def test_the_exit(code: int, kind: str, says: str) -> None:
    (event,) = events(wandb, run_file([*OLD, exited(code), sample(99, {"cpu": "1"})]))
    assert (event.kind, event.step) == (kind, 10)
    assert says in event.text
    assert notes(wandb, run_file([*OLD, exited(code)])) == []


def test_preemption() -> None:
    (event,) = events(wandb, run_file([*OLD, message(23, b"")]))
    assert (event.kind, event.step) == ("preemption", 10)


def test_a_run_without_an_exit_says_so() -> None:
    (note,) = notes(wandb, run_file(OLD))
    assert (note.kind, note.byte) == ("cut-off", len(run_file(OLD)))
    assert "without a record of the exit" in note.message


def test_console_lines_and_summaries_are_left_alone() -> None:
    summary = message(3, message(1, item("loss", "9")))
    assert rows(wandb, run_file([console("loss 3.5"), summary, *OLD, DONE])) == rows(wandb, run_file([*OLD, DONE]))


# ---- the framing -----------------------------------------------------------------------------------------------------


def many(count: int, size: int = 700) -> list[bytes]:
    """Records that cross pages: a row each, padded by a text."""
    padding = f'"{"x" * size}"'
    return [row({"loss": f"{at}.5", "_step": str(at), "text": padding}, at) for at in range(count)]


def test_records_that_cross_pages() -> None:
    content = run_file([*many(300), *many(2, 3 * PAGE), DONE])
    assert len(content) > 8 * PAGE
    found = rows(wandb, content)["loss"]
    assert found[:300] == [(at, at + 0.5) for at in range(300)]
    origin = lines(wandb, content)["loss"]
    assert origin[0] == len(HEADER)
    assert origin == sorted(set(origin))


def test_a_wrong_checksum_costs_its_record_only() -> None:
    content = bytearray(run_file([*many(100), DONE]))
    content[content.index(b"10.5")] ^= 1
    found = rows(wandb, bytes(content))["loss"]
    assert found == [(at, at + 0.5) for at in range(100) if at != 10]
    (note,) = notes(wandb, bytes(content))
    assert (note.kind, note.count) == ("checksum", 1)
    assert note.byte is not None


def test_a_hole_of_zeros_costs_its_page_only() -> None:
    content = bytearray(run_file([*many(300), DONE]))
    content[PAGE : PAGE + 5000] = bytes(5000)
    found = rows(wandb, bytes(content))["loss"]
    assert 200 < len(found) < 260
    assert found[-1] == (299, 299.5)
    assert {note.kind for note in notes(wandb, bytes(content))} == {"damaged"}


def test_a_record_that_is_no_message_costs_itself_only() -> None:
    found = batches(wandb, run_file([OLD[0], b"\xff\xff\xff", OLD[1], DONE]))
    assert table(found)["loss"] == [(0, 2.5), (10, 2.0)]
    assert [note.kind for note in notes(wandb, run_file([OLD[0], b"\xff\xff\xff", OLD[1], DONE]))] == ["damaged"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 20))
def test_any_beginning_reads_as_far_as_it_goes_and_goes_on_from_there(where: int) -> None:
    content = run_file([*many(120), sample(3, {"cpu": "5"}), DONE])
    cut = content[: len(HEADER) + where % (len(content) - len(HEADER))]
    first = batches(wandb, cut, "x.wandb")
    assert {note.kind for note in notes(wandb, cut, "x.wandb")} == {"cut-off"}
    since = checkpoint(first)
    assert since is not None
    rest = batches(wandb, content, "x.wandb", since)
    whole_file = rows(wandb, content)
    assert table(first).get("loss", []) + table(rest).get("loss", []) == whole_file["loss"]
    assert notes(wandb, content) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(7, 1 << 20), st.integers(0, 255)), min_size=1, max_size=20))
def test_damage_never_raises_nor_invents(changes: list[tuple[int, int]]) -> None:
    content = bytearray(run_file([*many(60), *OLD, DONE]))
    for at, byte in changes:
        content[7 + at % (len(content) - 7)] = byte
    true = set(rows(wandb, run_file([*many(60), *OLD, DONE]))["loss"])
    assert set(rows(wandb, bytes(content)).get("loss", [])) <= true


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_record_is_read_or_noted(payload: bytes) -> None:
    assert checkpoint(batches(wandb, run_file([payload]))) is not None


def test_rows_are_told_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = run_file([*many(50, 5), sample(1, {"cpu": "1"}), DONE])
    at_once = rows(wandb, content)
    monkeypatch.setattr(wandb, "CELLS", 7)
    found = batches(wandb, content)
    assert table(found) == at_once
    assert max(len(one.value) for one in points(found)) == 8
    steps = np.concatenate([one.step for one in points(found) if one.step is not None])
    assert (np.diff(steps) > 0).all()


# ---- files that hold nothing -----------------------------------------------------------------------------------------


def test_an_empty_file() -> None:
    (note,) = notes(wandb, b"", "run-abc.wandb")
    assert note.kind == "no-points"
    assert batches(wandb, b"", "run-abc.wandb") == [note]


@pytest.mark.parametrize("size", range(1, 8))
def test_a_file_cut_inside_the_header(size: int) -> None:
    assert [note.kind for note in notes(wandb, HEADER[:size], "run-abc.wandb")] == ["cut-off"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x00\x01\x02\x03rest", "header is damaged"),
        (b":W&B\xff\xff\x00rest", "header is damaged"),
        (b":W&B\xe1\xbe\x07rest", "version 7, which is not supported"),
    ],
)
def test_refused_with_the_kind_of_file_and_the_way_out(content: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what) as raised:
        batches(wandb, content, "run-abc.wandb")
    assert "wandb" in raised.value.what
    assert raised.value.where == "run-abc.wandb"
    assert "CSV or JSON" in raised.value.hint


@pytest.mark.parametrize(
    ("content", "name", "score"),
    [
        (b":W&B\xe1", "x", 1.0),
        (b"\0\1", "x.wandb", 0.95),
        (b"", "x.wandb", 0.95),
        (b"", "x", 0.0),
        (b'{"a": 1}', "x.jsonl", 0.0),
    ],
)
def test_sniff(content: bytes, name: str, score: float) -> None:
    assert sniffed(wandb, content, name) == score
