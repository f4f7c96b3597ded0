"""MLPerf logs: what counts the steps, which score is a loss, settings, several ranks, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers import door
from trainlens.parsers import mlperf

START = 1_700_000_000_000


def record(key: str, value: Any, at: float = 0, *, kind: str = "POINT_IN_TIME", **metadata: Any) -> str:
    """One line, `at` seconds after the start."""
    fields = {"namespace": "", "time_ms": START + int(1000 * at), "event_type": kind, "key": key, "value": value}
    return f":::MLLOG {json.dumps({**fields, 'metadata': {'file': '/a/b.py', 'lineno': 3, **metadata}})}\n"


def of(benchmark: str, *lines: str) -> str:
    return record("submission_benchmark", benchmark) + "".join(lines)


@pytest.mark.parametrize(
    ("benchmark", "tag"),
    [("gpt3", "eval_loss"), ("llama31_405b", "eval_loss"), ("llama2_70b_lora", "eval_loss"),
     ("resnet", "eval_accuracy"), ("dlrm_dcnv2", "eval_accuracy"), ("bert", "eval_accuracy")],
)  # fmt: skip
def test_the_score_of_a_language_model_is_a_loss(benchmark: str, tag: str) -> None:
    text = of(benchmark, record("eval_accuracy", 0.75, epoch_num=3), record("eval_accuracy", 0.5, epoch_num=7))
    assert door.rows(mlperf, text) == {tag: [(3, 0.75), (7, 0.5)]}
    assert ("replaced" in {note.kind for note in door.notes(mlperf, text)}) is (tag == "eval_loss")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([record("eval_accuracy", 0.5, samples_count=46080)], [(46080, 0.5)]),
        ([record("eval_accuracy", 0.5, samples_count=46080.0)], [(46080, 0.5)]),
        ([record("eval_accuracy", 0.5, step_num=7)], [(7, 0.5)]),
        ([record("eval_accuracy", 0.5, epoch_num=2, step=700)], [(700, 0.5)]),
        ([record("eval_accuracy", 0.5, at, epoch_num=at) for at in (1, 2)]
         + [record("eval_accuracy", 0.5, 3, step=9, epoch_num=3)],
         [(1, 0.5), (2, 0.5), (3, 0.5)]),
        ([record("eval_accuracy", 0.5, epoch_num=0.25)], [(None, 0.5)]),
        ([record("global_batch_size", 4), record("train_samples", 1600), record("eval_accuracy", 0.5, epoch_num=0.25)],
         [(100, 0.5)]),
        ([record("global_batch_size", 9), record("eval_start", None, step=172, samples_count=1548),
          record("eval_accuracy", 0.5, samples_count=1548)], [(172, 0.5)]),
        ([record("global_batch_size", 9), record("block_start", None, step=172, samples_count=387),
          record("eval_accuracy", 0.5, samples_count=1548)], [(1548, 0.5)]),
        ([record("eval_accuracy", 0.5)], [(None, 0.5)]),
    ],
)  # fmt: skip
def test_what_counts_the_steps(lines: list[str], expected: list[door.Row]) -> None:
    assert door.rows(mlperf, "".join(lines))["eval_accuracy"] == expected


def test_statistics_of_training() -> None:
    text = "".join(
        record("tracked_stats", {"train_loss": 8.0 - at, "train_step_time": 5.5}, at, step=1536.0 * at, lr=1e-4)
        + record("train_loss", 8.0 - at, at, samples_count=at)
        for at in (1, 2)
    )
    found = door.rows(mlperf, text.replace('"train_loss", "value"', '"loss", "value"'))
    assert found["train_loss"] == [(1536, 7.0), (3072, 6.0)]
    assert found["train_step_time"] == [(1536, 5.5), (3072, 5.5)]
    assert found["lr"] == [(1536, 1e-4), (3072, 1e-4)]
    assert found["loss"] == [(1, 7.0), (2, 6.0)]


def test_a_counter_of_validation_batches_lies_on_the_training_step() -> None:
    text = "".join(
        record("tracked_stats", {"train_loss": 2.0}, 10 * at, step=100 * at)
        + "".join(record("tracked_stats", {"validation_step_time": 0.5}, 10 * at + n, step=n) for n in (1, 2))
        for at in (1, 2, 3)
    )
    found = door.rows(mlperf, record("run_start", None) + text)
    assert [step for step, _ in found["validation_step_time"]] == [100, 100, 200, 200, 300, 300]
    assert [step for step, _ in found["train_loss"]] == [100, 200, 300]


def test_ranks_write_out_of_order_and_twice() -> None:
    lines = [record("eval_accuracy", value, at, epoch_num=at) for at, value in ((1, 0.1), (3, 0.3), (2, 0.2), (3, 0.3))]
    text = "0: node1 NCCL INFO Connected all trees\n" + "".join(f"{rank}: {line}" for rank, line in enumerate(lines))
    assert door.rows(mlperf, text)["eval_accuracy"] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert [note.count for note in door.notes(mlperf, text) if note.kind == "clock"] == [1]


def test_settings_are_facts_and_the_run_has_events() -> None:
    text = of(
        "gpt3",
        record("cache_clear", True),
        record("opt_base_learning_rate", 2e-5),
        record("global_batch_size", 1536),
        record("init_start", None, kind="INTERVAL_START"),
        *[record("run_start", None, 1, kind="INTERVAL_START") for _ in range(3)],
        record("eval_start", None, 2, kind="INTERVAL_START", samples_count=4),
        record("eval_accuracy", 2.75, 3, samples_count=4),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.\n",
        record("run_stop", None, 4, kind="INTERVAL_END", status="aborted"),
    )
    assert door.facts(mlperf, text) == {
        "submission_benchmark": "gpt3", "opt_base_learning_rate": 2e-5, "global_batch_size": 1536
    }  # fmt: skip
    events = door.events(mlperf, text)
    assert [event.kind for event in events] == ["run-start", "evaluation", "out-of-memory", "exit-code"]
    assert "aborted" in events[-1].text
    assert events[-1].time == START / 1000 + 4


def test_time_is_in_seconds_and_lines_are_kept() -> None:
    (found,) = door.points(door.batches(mlperf, "x\n" + record("eval_accuracy", 0.5, 1.5, epoch_num=1)))
    assert found.time is not None
    assert found.time.tolist() == [START / 1000 + 1.5]
    assert found.origin is not None
    assert found.origin.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (":::MLLOG {oops\n" + record("eval_accuracy", 0.5, epoch_num=1), "not-understood"),
        (record("eval_accuracy", 0.5, epoch_num=1) + record("eval_accuracy", 0.5, epoch_num=2)[:60], "cut-off"),
        (record("seed", 3), "no-points"),
    ],
)
def test_damage_is_noted(text: str, kind: str) -> None:
    assert [note.kind for note in door.notes(mlperf, text)] == [kind]


def test_two_records_on_one_line() -> None:
    text = record("eval_accuracy", 0.5, epoch_num=1).rstrip() + record("eval_accuracy", 0.75, 1, epoch_num=2)
    assert door.rows(mlperf, text)["eval_accuracy"] == [(1, 0.5), (2, 0.75)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([record("eval_accuracy", 1.5, epoch_num=2).encode()])))
def test_any_bytes_are_survived(lines: list[bytes]) -> None:
    assert door.points(door.batches(mlperf, b"\n".join(lines))) is not None


@pytest.mark.parametrize(
    ("head", "low", "high"),
    [
        (record("cache_clear", True), 0.9, 0.9),
        ("NCCL INFO x\n" * 50 + "12: " + record("cache_clear", True), 0.9, 0.9),
        ("step=1 loss=2.5\n", 0, 0),
        ('{"key": "eval_accuracy", "value": 1}\n', 0, 0),
        ('print(":::MLLOG", text)\n', 0, 0),
    ],
)
def test_sniff(head: str, low: float, high: float) -> None:
    assert low <= door.sniffed(mlperf, head) <= high
