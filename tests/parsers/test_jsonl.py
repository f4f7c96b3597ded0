from __future__ import annotations

import codecs
import gzip
import json
import math
import re
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.parsers.door import batches, checkpoint, events, facts, lines, notes, points, rows, sniffed, table
from trainlens.model import Points
from trainlens.parsers import _json_rows, jsonl
from trainlens.parsers._row_blocks import row_blocks

NAN, INF = float("nan"), float("inf")


def of(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def same(one: dict[str, list[tuple[int | None, float]]], other: dict[str, list[tuple[int | None, float]]]) -> bool:
    return repr(sorted(one.items())) == repr(sorted(other.items()))


# ---- what a row says -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2}\n', {"loss": [(1, 2.5), (2, 2.0)]}),
        ('{"loss": 2.5}\n{"loss": 2}\n', {"loss": [(None, 2.5), (None, 2.0)]}),
        ('{"step": 1, "loss": 2.5}\r\n\r\n{"step": 2, "loss": 2}', {"loss": [(1, 2.5), (2, 2.0)]}),
        ('\ufeff{"step": 1, "loss": 2.5}\n', {"loss": [(1, 2.5)]}),
        ('{"step": 1, "loss": null}\n{"step": 2, "loss": 1}\n', {"loss": [(2, 1.0)]}),
        ('{"iteration": 7, "a": {"loss": 1, "b": {"x": 2}}}', {"a/loss": [(7, 1.0)], "a/b/x": [(7, 2.0)]}),
        ('{"step": 1, "loss": 1, "done": true, "at": ["a"], "who": "x"}\n', {"loss": [(1, 1.0)]}),
        ('{"step": 1, "a": [1, NaN]}\n{"step": 2, "a": [3, null]}\n', {"a/0": [(1, 1.0), (2, 3.0)], "a/1": [(1, NAN)]}),
        ('{"step": 1, "skipped": true}\n{"step": 2, "skipped": false}\n', {"skipped": [(1, 1.0), (2, 0.0)]}),
        ('{"num_updates": "200", "loss": "1e-5"}\n', {"loss": [(200, 1e-5)]}),
        ('{"global_step/max_steps": "1/60", "loss": 3, "percentage": "1.67%", "time": "4s"}',
         {"loss": [(1, 3.0)], "percentage": [(1, 1.67)], "time": [(1, 4.0)]}),
        ('{"step": "1,000", "loss": 1}\n{"step": "12 000", "loss": 2}\n', {"loss": [(1000, 1.0), (12000, 2.0)]}),
        ('{"step": "25%", "loss": 1}\n{"step": "50%", "loss": 2}\n', {"loss": [(25, 1.0), (50, 2.0)]}),
        ('{"step": 1, "loss": 1}{"step": 2, "loss": 2}\n{"step": 3, "loss": 3}\n',
         {"loss": [(1, 1.0), (2, 2.0), (3, 3.0)]}),
        ('{"step": 1, "loss": 1}{"step": 2, "loss": 2}', {"loss": [(1, 1.0), (2, 2.0)]}),
        ('{"step": 1, "loss": 1}\r{"step": 2, "loss": 2}\r', {"loss": [(1, 1.0), (2, 2.0)]}),
        ('{"step": 1, "a": 1}\n{"b": 2}\n{"step": 3}\n{"b": 4}\n', {"a": [(1, 1.0)], "b": [(1, 2.0), (3, 4.0)]}),
        ('{"epoch": 1, "acc": 0.5}\n{"epoch": 2, "acc": 0.6}\n', {"acc": [(1, 0.5), (2, 0.6)]}),
        ('{"epoch": 0.1, "loss": 2}\n', {"epoch": [(None, 0.1)], "loss": [(None, 2.0)]}),
        ('{"step": 5, "a": 1}\n{"step": 5, "a": 2}\n{"step": 4, "a": 3}\n', {"a": [(5, 1.0), (5, 2.0), (4, 3.0)]}),
        ('{"_step": 3, "train/global_step": 30, "train/loss": 1}\n', {"_step": [(30, 3.0)], "train/loss": [(30, 1.0)]}),
        ('{"mode": "", "step": 1, "loss": 1}\n{"mode": "val", "ppl": 2}', {"loss": [(1, 1.0)], "val/ppl": [(1, 2.0)]}),
        ('{"step": 1, "eval/loss": 1e400}\n', {"eval/loss": [(1, INF)]}),
        ('{"step": 9007199254740993, "loss": 0.1}\n', {"loss": [(9007199254740992, 0.1)]}),
    ],
)  # fmt: skip
def test_rows(text: str, expected: dict[str, list[tuple[int | None, float]]]) -> None:
    assert same(rows(jsonl, text), expected)


@pytest.mark.parametrize("text", ['{"step": 1, "a": 1, "a": 2}\n', '{"step": 1, "a": 1, "a": 2, "b": null}\n' * 600])
@pytest.mark.parametrize("beside", ["", '{"step": 2, "a": 3, "new": 1}\n', '{"step": 2, "t": "x: null"}\n', "junk\n"])
def test_of_a_key_that_is_written_twice_the_last_counts(text: str, beside: str) -> None:
    for whole in (text + beside, beside + text, text + beside + text):
        first = {value for step, value in rows(jsonl, whole)["a"] if step == 1}
        assert first == {2.0}


@pytest.mark.parametrize(
    ("written", "value", "unit"),
    [
        ("12.3 GiB", 12.3, "GiB"), ("95 %", 95, "%"), ("32ms", 32, "ms"), ("1.5K", 1500, ""), ("61C", 61, "C"),
        ("1 day, 2:03:04", 93784, "s"), ("11m 43s", 703, "s"), ("0:15:19.02", 919.02, "s"), ("2h 3m", 7380, "s"),
        ("1,234,567", 1234567, ""), ("12 500", 12500, ""), ("1,234.5", 1234.5, ""),
    ],
)  # fmt: skip
def test_texts_with_units_are_numbers(written: str, value: float, unit: str) -> None:
    (found,) = points(batches(jsonl, of({"step": 1, "x": written})))
    assert (found.tag, found.value.tolist(), found.unit) == ("x", [value], unit)


@pytest.mark.parametrize("written", ["7B", "3rd", "1,234", "0x1f", "12:30", "2024-01-01", "11m", "1.2.3", "5 apples"])
def test_what_could_mean_two_things_is_no_number(written: str) -> None:
    assert rows(jsonl, of({"step": 1, "x": written})) == {}


def test_units_of_one_kind_become_that_of_the_first_cell() -> None:
    cells = ["512 MiB", "1 GiB", "3 s", "0.5 GiB"]
    (found,) = points(batches(jsonl, of(*({"step": at, "memory": cell} for at, cell in enumerate(cells)))))
    assert (found.value.tolist(), found.unit) == ([512, 1024, 512], "MiB")
    assert found.step is not None
    assert found.step.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("name", "counts", "expected"),
    [
        ("iter", [10, 20, 30], [10, 20, 30, 40, 50, 60]),
        ("step", [0, 50, 100], [0, 50, 100, 150, 200, 250]),
        ("batch", [0, 1, 2], [0, 1, 2, 3, 4, 5]),
        ("batch_idx", [1, 51, 101], [1, 51, 101, 151, 201, 251]),
    ],
)
def test_counters_that_begin_anew_each_epoch_go_on(name: str, counts: list[int], expected: list[int]) -> None:
    text = of(*({"epoch": epoch, name: at, "loss": 1.0} for epoch in (3, 4) for at in counts))
    assert [step for step, _ in rows(jsonl, text)["loss"]] == expected
    cut = text.encode()[: text.rindex("{")]
    first = batches(jsonl, cut)
    assert same(_joined(table(first), table(batches(jsonl, text, since=checkpoint(first)))), rows(jsonl, text))


def test_a_run_that_goes_back_an_epoch_goes_back_its_steps() -> None:
    places = [(0, 10), (0, 20), (1, 10), (1, 20), (2, 10), (1, 10), (1, 20), (2, 10)]
    text = of(*({"epoch": epoch, "iter": at, "loss": 1.0} for epoch, at in places))
    assert [step for step, _ in rows(jsonl, text)["loss"]] == [10, 20, 30, 40, 50, 30, 40, 50]


def test_a_batch_size_is_no_counter() -> None:
    text = of(*({"epoch": epoch, "batch": 32, "loss": 1.0} for epoch in range(4)))
    assert [step for step, _ in rows(jsonl, text)["loss"]] == [0, 1, 2, 3]


def test_long_lists_and_those_that_change_their_length_are_named() -> None:
    text = of(*({"step": at, "loss": 1.0, "long": [0.5] * 40, "var": [1] * (at + 1)} for at in range(3)))
    assert {tag: len(found) for tag, found in rows(jsonl, text).items()} == {"loss": 3, "var/0": 1}
    (note,) = notes(jsonl, text)
    assert (note.count, "long, var" in note.message) == (5, True)


def test_steps_beyond_counting_are_named() -> None:
    text = '{"step": 5, "loss": 1}\n{"step": 9223372036854775807, "loss": 2}\n'
    assert rows(jsonl, text) == {"loss": [(5, 1.0), (5, 2.0)]}
    assert [(one.kind, one.count) for one in notes(jsonl, text)] == [("limit", 1)]


@pytest.mark.parametrize("word", ["NaN", '"NaN"', '"nan"', "nan"])
def test_not_a_number_is_a_point(word: str) -> None:
    (first, second) = rows(jsonl, f'{{"step": 1, "loss": 2.0}}\n{{"step": 2, "loss": {word}}}\n')["loss"]
    assert first == (1, 2.0)
    assert second[0] == 2
    assert math.isnan(second[1])


@pytest.mark.parametrize("word", ["Infinity", '"Infinity"', '"inf"', "inf"])
def test_infinity_is_a_point(word: str) -> None:
    text = f'{{"step": 1, "loss": -{word}}}\n' if word[0] != '"' else f'{{"step": 1, "loss": "-{word[1:]}}}\n'
    assert rows(jsonl, f'{{"step": 0, "loss": {word}}}\n{text}') == {"loss": [(0, INF), (1, -INF)]}


def test_runs_and_ranks_are_kept_apart() -> None:
    text = of(
        {"run": "a", "step": 1, "rank": 0, "loss": 1.0},
        {"run": "b", "step": 1, "rank": 0, "loss": 2.0},
        {"run": "a", "step": 1, "rank": 1, "loss": 3.0},
    )
    found = {(one.run, one.rank): one.value.tolist() for one in points(batches(jsonl, text))}
    assert found == {("a", 0): [1.0], ("a", 1): [3.0], ("b", 0): [2.0]}


def test_time_is_unix_seconds() -> None:
    text = of(
        {"step": 1, "timestamp": 1_700_000_000_500, "loss": 1.0},
        {"step": 2, "timestamp": 1_700_000_001_500, "loss": 1.0},
    )
    (loss,) = points(batches(jsonl, text))
    assert loss.time is not None
    assert loss.time.tolist() == [1_700_000_000.5, 1_700_000_001.5]
    (loss,) = points(batches(jsonl, of({"step": 1, "timestamp": "2024-01-01T00:00:00Z", "loss": 1.0})))
    assert loss.time is not None
    assert loss.time.tolist() == [1_704_067_200.0]


def test_total_steps_and_settings_are_facts() -> None:
    text = of({"seed": 1, "name": "x"}, {"current_steps": 1, "total_steps": 80, "loss": 1.0})
    assert rows(jsonl, text) == {"loss": [(1, 1.0)]}
    assert facts(jsonl, text) == {"seed": 1, "name": "x", "total_steps": 80}


def test_summary_row_is_no_point() -> None:
    text = of({"step": 1, "loss": 1.0}, {"step": 1, "train_runtime": 5.0, "train_loss": 0.5})
    assert rows(jsonl, text) == {"loss": [(1, 1.0)]}
    assert facts(jsonl, text) == {"train_runtime": 5, "train_loss": 0.5}
    assert [(one.kind, one.step) for one in events(jsonl, text)] == [("run-end", 1)]
    history = of({"step": 1, "loss": 1.0}, {"global_step": 1, "memory": 41.5, "log_history": [{"loss": 1.0}]})
    assert rows(jsonl, history) == {"loss": [(1, 1.0)]}


def test_mmcv_iterations_begin_anew_each_epoch() -> None:
    train = [
        {"mode": "train", "epoch": epoch, "iter": at, "lr": 0.1, "time": 0.4, "loss": epoch + at / 1000}
        for epoch in (1, 2)
        for at in (50, 100)
    ]
    val = {"mode": "val", "epoch": 1, "iter": 389, "lr": 0.1, "AP": 0.5}
    text = of({"env_info": "linux", "seed": 0}, *train[:2], val, *train[2:], {**val, "epoch": 2, "AP": 0.6})
    found = rows(jsonl, text)
    assert [step for step, _ in found["loss"]] == [50, 100, 150, 200]
    assert found["AP"] == [(100, 0.5), (200, 0.6)]
    assert [step for step, _ in found["lr"]] == [50, 100, 150, 200]
    assert facts(jsonl, text)["seed"] == 0


def test_mmcv_evaluation_labelled_as_training() -> None:
    train = [{"mode": "train", "epoch": 1, "iter": at, "data_time": 0.1, "loss": 1.0} for at in (1000, 2000)]
    evaluation = {"mode": "train", "epoch": 1, "iter": 500, "lr": 0.1, "mIoU": 0.4}
    found = rows(jsonl, of(train[0], evaluation, train[1], evaluation))
    assert found["mIoU"] == [(1000, 0.4), (2000, 0.4)]
    assert [step for step, _ in found["loss"]] == [1000, 2000]


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_late_keys_and_changing_kinds() -> None:
    text = of(
        *({"step": at, "loss": at} for at in range(500)), {"step": 500, "loss": 0.5, "eval_loss": 1.5, "note": "x"}
    )
    found = rows(jsonl, text)
    assert found["eval_loss"] == [(500, 1.5)]
    assert len(found["loss"]) == 501


@pytest.mark.parametrize(
    "junk",
    ["", "no json", '"text"', "[1, 2]", "12", "null", '{"step": 4, "lo', "\0\0\0", '{"step": 4, "loss": 1}}', "\xff"],
)
def test_junk_between_rows_costs_itself_only(junk: str) -> None:
    good = [of({"step": at, "loss": at / 2}) for at in (1, 2, 3)]
    text = good[0] + good[1] + junk + "\n" + good[2]
    assert rows(jsonl, text.encode("latin-1")) == {"loss": [(1, 0.5), (2, 1.0), (3, 1.5)]}
    assert lines(jsonl, text.encode("latin-1")) == {"loss": [1, 2, 4]}
    found = [(one.line, one.count) for one in notes(jsonl, text.encode("latin-1"))]
    assert found == ([(3, 1)] if junk else [])


def test_cut_tail_is_a_note_and_is_read_when_whole() -> None:
    text = of(*({"step": at, "loss": at / 2} for at in range(5)))
    cut = text.encode()[:-8]
    found = batches(jsonl, cut)
    assert [one.kind for one in notes(jsonl, cut)] == ["cut-off"]
    later = batches(jsonl, text, since=checkpoint(found))
    assert same(_joined(table(found), table(later)), rows(jsonl, text))
    assert [one.origin.tolist() for one in points(later) if one.origin is not None] == [[5]]


def test_a_long_row_among_short_ones() -> None:
    text = of(
        {"step": 0, "loss": 1.0}, {"step": 1, "loss": 2.0, "sample": 'x"\\' * 6_000_000}, {"step": 2, "loss": 3.0}
    )
    assert rows(jsonl, text) == {"loss": [(0, 1.0), (1, 2.0), (2, 3.0)]}


@pytest.mark.parametrize(
    "encoded", [gzip.compress, lambda text: codecs.BOM_UTF16_LE + text.decode().encode("utf-16-le")]
)
def test_other_encodings(encoded: Any) -> None:
    content = encoded(of({"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}).encode())
    assert rows(jsonl, content) == {"loss": [(1, 1.0), (2, 2.0)]}
    assert checkpoint(batches(jsonl, content)) is None


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2}\n', 0.8, 1),
        ('junk\n{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2}\n', 0.7, 1),
        ('{"step": 1, "loss": NaN}\n{"step": 2, "lo', 0, 0),
        ("step,loss\n1,2\n", 0, 0),
        ('{\n  "loss": 1\n}\n', 0, 0),
        ("iteration 1 loss 2\n", 0, 0),
        ("", 0, 0),
        ('{"text": "a"}\n{"text": "b"}\n', 0, 0),
    ],
)
def test_sniff(text: str, least: float, most: float) -> None:
    assert least <= sniffed(jsonl, text) <= most


# ---- against a plain reader ---------------------------------------------------------------------------------------

NAMES = st.sampled_from(["loss", "lr", "a:b", "x y", "é", "n/null", "grad_norm", "text", "q", "acc"])
CELLS = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.none(),
    st.booleans(),
    st.sampled_from(["", "a", '"q": null', "x: 1", "{", "[", "\\", "\u003a", "é\n", "1e-5", "NaN", "12"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["p", "q"]), st.one_of(st.floats(), st.none(), st.text(max_size=3)), max_size=2),
)
ROWS = st.lists(st.dictionaries(NAMES, CELLS, max_size=5), min_size=1, max_size=30)


def plainly(content: bytes) -> dict[str, list[tuple[int | None, float]]]:
    """What a line-by-line reader finds; step is the row's "step", or the last before."""
    found: dict[str, list[tuple[int | None, float]]] = {}
    widths: dict[str, int] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for part, cell in value.items():
                add(f"{name}/{part}", cell)
        elif isinstance(value, list):
            if value and len(value) == widths.setdefault(name, len(value)):
                for part, cell in enumerate(value):
                    add(f"{name}/{part}", cell)
        elif isinstance(value, str):
            try:
                number = float(value.strip()) if "_" not in value else None
            except ValueError:
                number = None
            if number is not None:
                found.setdefault(name, []).append((step, number))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.setdefault(name, []).append((step, float(value)))

    for line in content.split(b"\n"):
        try:
            row = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(row, dict):
            step = row.pop("step")
            for name, value in row.items():
                add(name, value)
    return found


def _joined(*tables: dict[str, list[tuple[int | None, float]]]) -> dict[str, list[tuple[int | None, float]]]:
    joined: dict[str, list[tuple[int | None, float]]] = {}
    for one in tables:
        for name, cells in one.items():
            joined.setdefault(name, []).extend(cells)
    return joined


def numbered(objects: list[dict[str, Any]]) -> str:
    return "".join(json.dumps({"step": at, **one}) + "\n" for at, one in enumerate(objects))


@settings(max_examples=400, deadline=None)
@given(ROWS, st.integers(1, 64), st.integers(1, 600))
@example([{"text": "x: null"}, {"loss": 1, "q": None}, {"new": 2}], 1, 600)
@example([{"text": "a"}] * 3 + [{"text": 1.5, "new": 2}], 1, 600)
@example([{"text": "a"}] * 3 + [{"text": {"p": 2.0}}], 1, 600)
@example([{"loss": {}}, {}, {"loss": 0.0}], 1, 1)
@example([{"q": []}, {"q": {"p": 2.0}}, {"q": 1.5}], 1, 1)
def test_same_points_as_a_plain_reader(objects: list[dict[str, Any]], samples: int, block: int) -> None:
    text = numbered(objects)
    with mock.patch.object(_json_rows, "SAMPLES", samples), mock.patch.object(row_blocks, "__defaults__", (0, block)):
        assert same(rows(jsonl, text), plainly(text.encode()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.fixed_dictionaries({"loss": st.floats(), "lr": st.floats(0, 1)}), min_size=1, max_size=8), st.data())
def test_every_prefix_gives_a_prefix_of_the_points(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    text = numbered(objects).encode()
    whole = rows(jsonl, text)
    cut = rows(jsonl, text[: data.draw(st.integers(0, len(text)))])
    for name, cells in cut.items():
        assert repr(whole[name][: len(cells)]) == repr(cells)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"loss": st.floats(0.5, 9, width=16)}), min_size=2, max_size=12),
    st.integers(0, 10**6), st.binary(min_size=1, max_size=3),
)  # fmt: skip
def test_damage_never_costs_or_invents_a_row_elsewhere(objects: list[dict[str, Any]], at: int, damage: bytes) -> None:
    content = numbered(objects).encode()
    at %= len(content)
    hurt = content[:at] + damage + content[at + len(damage) :]
    found, expected = rows(jsonl, hurt).get("loss", []), plainly_or_nothing(hurt)
    assert repr(found) == repr(expected)


def plainly_or_nothing(content: bytes) -> list[tuple[int | None, float]]:
    # Objects that the damage joined into one line are read each.
    apart = re.sub(rb"\}[ \t,]*\{", b"}\n{", content.removeprefix(codecs.BOM_UTF8))
    try:
        return plainly(apart).get("loss", [])
    except (KeyError, TypeError):  # the damage hit the step's name: the reader's own rule holds, tested above
        return rows(jsonl, content).get("loss", [])


@settings(max_examples=60, deadline=None)
@given(ROWS, st.data())
def test_read_on_from_a_checkpoint(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    text = numbered(objects).encode()
    first = batches(jsonl, text[: data.draw(st.integers(0, len(text)))])
    rest = batches(jsonl, text, since=checkpoint(first))
    assert same(_joined(table(first), table(rest)), rows(jsonl, text))


def test_many_blocks_are_read_as_one() -> None:
    objects: list[dict[str, Any]] = [{"loss": at / 7, "lr": 1e-3} for at in range(2000)]
    objects[700] = {"loss": NAN, "late": 1}
    objects[701] = {"text": "x: y", "loss": None}
    objects[1500] = {"loss": "0.5", "deep": {"er": 3}}
    text = numbered(objects)
    whole, where = rows(jsonl, text), lines(jsonl, text)
    assert same(whole, plainly(text.encode()))
    with mock.patch.object(row_blocks, "__defaults__", (0, 500)):
        assert same(rows(jsonl, text), whole)
        assert lines(jsonl, text) == where


def test_blocks_of_one_row_set_share_their_steps() -> None:
    found = points(batches(jsonl, of(*({"step": at, "a": 1.0, "b": 2.0} for at in range(9)))))
    assert isinstance(found[0], Points)
    assert found[0].step is found[1].step


def _poll(second: int, extra: str = "") -> str:
    gpus = [{"gpu_id": at, "util_pct": 50 + at, "mem_used_mb": 1000, "power_w": 71.6, "name": "x"} for at in range(2)]
    return json.dumps({"timestamp": 1777063893.5 + second, "gpus": gpus})[:-1] + extra + "}\n"


@pytest.mark.parametrize("extra", ["", ', "bad": NaN'])
def test_a_list_of_devices_is_told_by_rank(extra: str) -> None:
    found = [one for one in points(batches(jsonl, _poll(0) + _poll(1, extra))) if one.tag == "gpus/util_pct"]
    assert [(one.rank, one.value.tolist()) for one in found] == [(0, [50, 50]), (1, [51, 51])]
    assert found[0].step is None
    assert found[0].time is not None
    assert found[0].time.tolist() == [1777063893.5, 1777063894.5]


def test_a_list_of_other_things_is_left_out() -> None:
    assert rows(jsonl, '{"step": 1, "loss": 2, "top": [{"name": "a", "score": 1}]}\n') == {"loss": [(1, 2.0)]}


def test_a_list_of_devices_has_the_steps_of_its_rows() -> None:
    text = '{"step": 5, "loss": 2, "ranks": [{"rank": 3, "wait": 0.5}, {"rank": 1, "wait": 0.25}]}\n' * 2
    assert rows(jsonl, text)["ranks/wait"] == [(5, 0.5), (5, 0.5), (5, 0.25), (5, 0.25)]


@pytest.mark.parametrize("key", ['say "x"', "a\\b", "a\nb", "\x1b[31m", ""])
def test_keys_that_are_no_names_of_fields_cost_nothing(key: str) -> None:
    told = rows(jsonl, of(*({"step": step, "loss": 1.0 / step, key: 3.0} for step in range(1, 5))))
    assert {tag: len(found) for tag, found in told.items()} == {"loss": 4, key: 4}


@pytest.mark.parametrize("deep", [40, 200, 3000, 100_000])
def test_nesting_without_end_costs_its_line_at_most(deep: int) -> None:
    text = '{"a":' * deep + "1" + "}" * deep + "\n" + of({"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0})
    assert rows(jsonl, text)["loss"] == [(1, 2.0), (2, 1.0)]


def test_a_first_line_longer_than_the_head_is_known_by_its_name() -> None:
    text = of({"step": 1, "loss": 2.0, "text": "x" * 200_000}, {"step": 2, "loss": 1.0})[: 64 << 10]
    assert sniffed(jsonl, text, name="log.jsonl") == 0.5
    assert sniffed(jsonl, text, name="log.txt") == 0.0


def test_rows_of_devices_have_ranks_by_host_and_number() -> None:
    rows_of = [
        {"timestamp": 1.7e9 + at, "hostname": host, "gpu": gpu, "util_pct": 10 * gpu + at, "power_w": 300.0}
        for at in range(2)
        for host in ("node2", "node1")
        for gpu in range(2)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows_of)
    found = {one.rank: one.value.tolist() for one in points(batches(jsonl, text)) if one.tag == "util_pct"}
    assert found == {0: [0, 1], 1: [10, 11], 8: [0, 1], 9: [10, 11]}
    first = batches(jsonl, "".join(text.splitlines(keepends=True)[:3]))
    rest = batches(jsonl, text, since=checkpoint(first))
    joined: dict[int, list[float]] = {}
    for one in points(first) + points(rest):
        if one.tag == "util_pct":
            joined.setdefault(one.rank, []).extend(one.value.tolist())
    assert joined == found


def test_lists_of_devices_on_several_hosts() -> None:
    text = "".join(
        json.dumps({"timestamp": 1.7e9, "host": host, "gpus": [{"index": 0, "util": busy}, {"index": 1, "util": 5}]})
        + "\n"
        for host, busy in (("a", 90), ("b", 30))
    )
    found = {one.rank: one.value.tolist() for one in points(batches(jsonl, text)) if one.tag == "gpus/util"}
    assert found == {0: [90], 1: [5], 8: [30], 9: [5]}


def test_rows_of_a_training_keep_their_index() -> None:
    text = "".join(json.dumps({"step": at, "gpu": at % 2, "loss": 2.5, "memory_gb": 3.0}) + "\n" for at in range(4))
    assert all(one.rank == -1 for one in points(batches(jsonl, text)))
