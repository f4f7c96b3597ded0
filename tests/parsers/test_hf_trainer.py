from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.door import batches, events, facts, lines, notes, rows, sniffed
from trainlens.errors import InputError
from trainlens.parsers import hf_trainer

ROWS = [
    {"epoch": 0.1, "learning_rate": 1e-5, "loss": 2.5, "step": 10},
    {"epoch": 0.1, "eval_loss": 2.25, "eval_runtime": 1.5, "step": 10},
    {"epoch": 0.2, "learning_rate": 0, "loss": 2, "step": 20},
]
SUMMARY = {"epoch": 0.2, "step": 20, "total_flos": 1.5e18, "train_loss": 0.03, "train_runtime": 95.5}


def state(history: list[dict[str, Any]], indent: int | None = 2, **around: Any) -> str:
    return json.dumps({"best_metric": None, **around, "log_history": history, "max_steps": 20}, indent=indent)


@pytest.mark.parametrize("indent", [None, 1, 2])
def test_rows_become_points_and_the_summary_facts(indent: int | None) -> None:
    text = state([*ROWS, SUMMARY], indent, global_step=20, best_metric=-math.inf)
    assert rows(hf_trainer, text) == {
        "epoch": [(10, 0.1), (10, 0.1), (20, 0.2)],
        "learning_rate": [(10, 1e-5), (20, 0.0)],
        "loss": [(10, 2.5), (20, 2.0)],
        "eval_loss": [(10, 2.25)],
        "eval_runtime": [(10, 1.5)],
    }
    told = facts(hf_trainer, text)
    assert told["max_steps"] == 20
    assert told["global_step"] == 20
    assert told["train_loss"] == 0.03
    assert "best_metric" not in told
    assert [(one.kind, one.step) for one in events(hf_trainer, text)] == [("run-end", 20)]
    assert notes(hf_trainer, text) == []


def test_lines_are_those_where_a_row_begins() -> None:
    text = state(ROWS)
    begins = [at for at, line in enumerate(text.split("\n"), 1) if line == "    {"]
    assert lines(hf_trainer, text)["loss"] == [begins[0], begins[2]]


def test_infinite_gradient_is_a_point() -> None:
    text = state([{"grad_norm": math.inf, "loss": math.nan, "step": 1}, {"grad_norm": 1.5, "loss": 2.5, "step": 2}])
    found = rows(hf_trainer, text)
    assert found["grad_norm"] == [(1, math.inf), (2, 1.5)]
    assert math.isnan(found["loss"][0][1])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([None, 2]))
def test_cut_state_keeps_its_whole_rows(data: st.DataObject, indent: int | None) -> None:
    text = state(ROWS, indent)
    begin = text.index("[") + 1
    cut = text[: data.draw(st.integers(begin, len(text)))]
    whole = rows(hf_trainer, text)
    found = batches(hf_trainer, cut)
    assert found is not None
    for name, cells in rows(hf_trainer, cut).items():
        assert cells == whole[name][: len(cells)]
    if cut.count("}") < text.count("}") - 1:
        assert [one.kind for one in notes(hf_trainer, cut)] == ["cut-off"]


def test_state_without_history_cannot_be_read() -> None:
    with pytest.raises(InputError, match="log_history"):
        batches(hf_trainer, '{"epoch": 1}')


@pytest.mark.parametrize(
    ("text", "name", "least", "most"),
    [
        (state(ROWS), "trainer_state.json", 0.9, 1),
        (state(ROWS, None), "state.json", 0.9, 1),
        (state(ROWS)[:80], "trainer_state.json", 0.9, 1),
        ('{"loss": 1}\n{"log_history": [{"loss": 1}]}\n', "logging.jsonl", 0, 0),
        ('{"loss": 1}', "x.json", 0, 0),
        ("log_history", "x.txt", 0, 0),
    ],
)
def test_sniff(text: str, name: str, least: float, most: float) -> None:
    assert least <= sniffed(hf_trainer, text, name) <= most
