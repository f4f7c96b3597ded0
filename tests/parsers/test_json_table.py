from __future__ import annotations

import json
from typing import Any

import pytest

from tests.parsers.door import Row, batches, facts, lines, notes, points, rows, sniffed
from trainlens.errors import InputError
from trainlens.parsers import csv, json_table

LOSS: dict[str, list[Row]] = {"loss": [(1, 2.5), (2, 2.0)]}
GOLDEN = {
    "lm loss": {"start_step": 1, "end_step": 10, "step_interval": 5, "values": {"1": 10.5, "5": "nan", "10": 9.5}},
    "iteration-time": {"start_step": 1, "end_step": 10, "step_interval": 5, "values": {"1": "nan", "5": "nan"}},
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2}], LOSS),
        ({"config": {"lr": 1}, "log": [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2}]}, LOSS),
        ({"step": [1, 2], "loss": [2.5, 2]}, LOSS),
        ({"loss": [2.5, 2], "name": "x"}, {"loss": [(None, 2.5), (None, 2.0)]}),
        ({"history": {"epoch": [1, 2], "loss": [2.5, 2]}}, LOSS),
        ({"loss": {"steps": [1, 2], "values": [2.5, 2], "timestamps": ["a", "b"]}}, LOSS),
        ({"loss": {"1": 2.5, "2": 2}}, LOSS),
        ({"loss": {"1": 2.5, "2": 2, "3": None}}, LOSS),
        (
            {"train": {"loss": [2.5, 2]}, "val": {"loss": [3, 2]}},
            {"train/loss": [(None, 2.5), (None, 2.0)], "val/loss": [(None, 3.0), (None, 2.0)]},
        ),
        ({"loss": [[1, 2.5], [2, 2]]}, LOSS),
        ({"1": {"loss": 2.5}, "2": {"loss": 2, "note": "x"}}, LOSS),
        ({"loss": {"steps": [1, 2], "values": [{"dtype": "f4", "value": 2.5}, {"dtype": "f4", "value": 2}]}}, LOSS),
        (
            {"lm loss": {"start_step": 0, "end_step": 20, "step_interval": 5, "values": [10.5, "nan", 9.5]}},
            {"lm loss": [(0, 10.5), (10, 9.5)]},
        ),
        ({"step": [1, 2], "loss": [2.5, "Infinity"]}, {"loss": [(1, 2.5), (2, float("inf"))]}),
        (GOLDEN, {"lm loss": [(1, 10.5), (10, 9.5)]}),
        ({"results": [{"task": "a", "acc": 0.5}]}, {}),
    ],
)
def test_shapes(document: Any, expected: dict[str, list[Row]]) -> None:
    for indent in (None, 4):
        assert rows(json_table, json.dumps(document, indent=indent)) == expected


def test_what_was_not_recorded_is_noted_once() -> None:
    (note,) = notes(json_table, json.dumps(GOLDEN))
    assert (note.kind, note.count) == ("placeholder", 3)
    assert "iteration-time, lm loss" in note.message


@pytest.mark.parametrize(
    ("tail", "behind"), [(["nan", "nan", None], 3), (["nan", "nan", 9.0], 0), (["nan"], 0), ([], 0)]
)
def test_values_that_end_before_the_steps_do(tail: list[Any], behind: int) -> None:
    values = {str(step): value for step, value in enumerate([10.5, 10.0, 9.5, *tail], 1)}
    loss = {"start_step": 1, "end_step": len(values), "step_interval": 1, "values": values}
    told = [
        (note.count, note.message) for note in notes(json_table, json.dumps({"loss": loss})) if note.kind == "cut-off"
    ]
    assert [count for count, _ in told] == [behind] * bool(behind)
    assert all("end at step 3;" in message for _, message in told)


def test_chart_download_is_named_by_its_file() -> None:
    (one,) = points(batches(json_table, "[[1700000000.5, 1, 2.5], [1700000001.5, 2, 2.0]]", "loss.json"))
    assert (one.tag, one.value.tolist()) == ("loss", [2.5, 2.0])
    assert one.time is not None
    assert one.time.tolist() == [1_700_000_000.5, 1_700_000_001.5]


def test_settings_are_facts() -> None:
    text = json.dumps({"optimizer": {"lr": 0.1, "betas": [0.9, 0.95]}, "bf16": True, "name": "x", "none": None})
    assert facts(json_table, text) == {"optimizer.lr": 0.1, "bf16": True, "name": "x"}
    assert rows(json_table, text) == {}


def test_cut_array_keeps_its_whole_rows() -> None:
    text = json.dumps([{"step": at, "loss": at / 2} for at in (1, 2, 3)], indent=2)
    assert rows(json_table, text[:-10]) == {"loss": [(1, 0.5), (2, 1.0)]}
    assert [one.kind for one in notes(json_table, text[:-10])] == ["cut-off"]
    assert lines(json_table, text) == {"loss": [2, 6, 10]}


def test_malformed_object_cannot_be_read() -> None:
    with pytest.raises(InputError, match="malformed"):
        batches(json_table, '{"loss": {"1": 2.5, ')


@pytest.mark.parametrize(
    ("text", "name", "least", "most"),
    [
        (json.dumps(GOLDEN) + json.dumps(GOLDEN), "golden.json", 0.9, 1),
        ('[\n  {\n    "step": 0,\n    "loss": 2', "metrics.json", 0.6, 0.8),
        ('{"loss": [1, 2]}', "history.json", 0.6, 0.8),
        ('{"loss": {"1": 2.5}}', "x.json", 0.6, 0.8),
        ('{"train_loss": 64}', "all_results.json", 0.2, 0.4),
        ('{"hidden_size": 64}', "config.json", 0, 0),
        ('{"hidden_size": 64}', "x.json", 0, 0),
        ('{"added_tokens": [{"id": 0, "step": 1}]}', "tokenizer.json", 0, 0),
        ('{"results": [{"task": "a", "acc": 0.5}]}', "eval.json", 0, 0),
        ('{\n  "batch": 8,\n  "results": [{"bleu": 2}]\n}\n{\n  "batch": 8\n}\n', "eval.json", 0, 0),
        ("step,loss\n1,2\n", "x.csv", 0, 0),
        ("[rank0] step 1", "x.log", 0, 0),
        ("", "x.json", 0, 0),
    ],
)
def test_sniff(text: str, name: str, least: float, most: float) -> None:
    assert least <= sniffed(json_table, text, name) <= most


def test_dates_of_sacred() -> None:
    whole = {
        "training.loss": {
            "steps": [0, 10, 20],
            "timestamps": ["2025-10-09T08:53:20", "2025-10-09T08:53:21.500000", "2025-10-09T08:53:23"],
            "values": [2.5, float("nan"), 2.0],
        },
        "seconds": {"steps": [1], "timestamps": [], "values": [3]},
    }
    dated, undated = points(batches(json_table, json.dumps(whole), "metrics.json"))
    assert (dated.tag, undated.tag) == ("training.loss", "seconds")
    assert dated.time is not None
    assert dated.time.tolist() == [1_760_000_000.0, 1_760_000_001.5, 1_760_000_003.0]
    assert undated.time is None


def test_objects_one_after_another() -> None:
    text = "".join(json.dumps({"step": step, "loss": loss}, indent=2) + "\n" for step, loss in ((1, 2.5), (2, 2)))
    assert sniffed(json_table, text, "log.json") > 0
    assert rows(json_table, text) == LOSS
    assert rows(json_table, text[:-8]) == {"loss": LOSS["loss"][:1]}
    assert [one.kind for one in notes(json_table, text[:-8])] == ["cut-off"]


@pytest.mark.parametrize(
    ("name", "run", "tag"),
    [("run-train-tag-loss.json", "", "train/loss"), ("run-a_b-tag-loss.json", "a_b", "loss"), ("acc.json", "", "acc"),
     ("run-x_validation-tag-loss.json", "x", "validation/loss"), ("run-.-tag-lr.json", "", "lr")],
)  # fmt: skip
def test_a_chart_is_named_by_its_file(name: str, run: str, tag: str) -> None:
    (found,) = points(batches(json_table, "[[1700000000.5, 1, 2.5], [1700000001.5, 2, 2.0]]", name))
    assert (found.run, found.tag, found.value.tolist()) == (run, tag, [2.5, 2.0])
    text = "Wall time,Step,Value\n1700000000.5,1,2.5\n1700000001.5,2,2.0\n"
    (found,) = points(batches(csv, text, name.replace("json", "csv")))
    assert (found.run, found.tag, found.value.tolist()) == (run, tag, [2.5, 2.0])


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ({"1": 10.5, "5": 10.1, "20": "nan"}, 20),
        ({"1": 10.5, "5": 10.1}, 5),
        ([10.5, "nan", 9.5], 23),
    ],
)
def test_golden_values_tell_how_far_they_were_meant_to_go(values: Any, end: int) -> None:
    curve = {"start_step": 1, "end_step": 23, "step_interval": 5, "values": values}
    assert facts(json_table, json.dumps({"lm loss": curve, "grad norm": curve}))["end_step"] == end
    other = curve | {"end_step": 40, "values": {"40": 1.5}}
    assert "end_step" not in facts(json_table, json.dumps({"lm loss": curve, "other": other}))
