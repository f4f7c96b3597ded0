"""Consoles of loops that people write themselves: steps without a name, decimal commas, wrapped lines; quiet cases."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.parsers import door
from trainlens.parsers import jsonl, key_value_text
from trainlens.parsers._lines import decimal_commas

LOSSES = [3.5, 3.25, 3.125, 3.0625]
STEPS = [10, 20, 30, 40]


def written(line: Callable[[int, float], str]) -> str:
    return "".join(line(step, loss) + "\n" for step, loss in zip(STEPS, LOSSES, strict=True))


@pytest.mark.parametrize(
    "line",
    [
        lambda step, loss: f"{step} | loss {loss} | lr 1e-4",
        lambda step, loss: f"{step}: loss={loss} lr=1e-4",
        lambda step, loss: f"{step} loss {loss} lr 1e-4",
        lambda step, loss: f"{step}/900 loss {loss} lr 1e-4",
        lambda step, loss: f"[{step}] loss: {loss}, lr: 1e-4",
        lambda step, loss: f"[{step:3d}/900] loss: {loss}, lr: 1e-4",
        lambda step, loss: f"#{step} loss={loss} lr=1e-4",
        lambda step, loss: f"2026-01-01 10:00:00,123 - INFO - [{step}] loss: {loss}, lr: 1e-4",
        lambda step, loss: f"step {step}: loss {loss} (4.2) lr 1e-4 (2e-4)",
        lambda step, loss: f"step {step} -> loss {loss}, lr 1e-4",
        lambda step, loss: f"[ {step // 10}%] step {step}/900 loss {loss} eta 0:10:00 lr 1e-4",
        lambda step, loss: f"step {step}: loss={str(loss).replace('.', ',')}; lr=0,0001",
        lambda step, loss: f"Step: {step} | Loss: {str(loss).replace('.', ',')} | lr: 0,0001",
        lambda step, loss: f"| epoch   1 | {step:5d}/ 2983 batches | lr 1e-4 | ms/batch 12.11 | loss {loss} |",
    ],
)
def test_steps_without_a_name_and_values_in_other_writings(line: Callable[[int, float], str]) -> None:
    text = written(line)
    found = door.rows(key_value_text, text)
    named = {tag.lower(): rows for tag, rows in found.items()}
    assert named["loss"] == list(zip(STEPS, LOSSES, strict=True))
    assert named["lr"] == [(step, 1e-4) for step in STEPS]
    assert door.sniffed(key_value_text, text, "train.log") >= 0.4


@pytest.mark.parametrize(
    ("written_so", "step"),
    [("12,000", 12000), ("1,234,567", 1234567), ("12k", 12000), ("1.5k", 1500), ("2M", 2000000), ("12000", 12000)],
)
def test_counts_of_steps(written_so: str, step: int) -> None:
    for text in (f"step {written_so}: loss=2.5\n", f"Step {written_so} | loss 2.5\n", f"iter {written_so} loss 2.5\n"):
        assert door.rows(key_value_text, text) == {"loss": [(step, 2.5)]}, text


def test_the_name_may_stand_before_the_step() -> None:
    text = "Loss at step 10: 3.5\nLoss at step 20: 3.25\nTest accuracy after step 20: 0.5\n"
    assert door.rows(key_value_text, text) == {"Loss": [(10, 3.5), (20, 3.25)], "Test accuracy": [(20, 0.5)]}


@pytest.mark.parametrize("head", ["[EVAL] ", "[Valid] ", "Validation | ", "eval at ", "*** Evaluation *** "])
def test_lines_of_an_evaluation_are_kept_apart(head: str) -> None:
    text = "".join(f"Step {step} | loss: {loss}\n{head}Step {step} | loss: {loss + 1}\n" for step, loss in
                   zip(STEPS, LOSSES, strict=True))  # fmt: skip
    assert door.rows(key_value_text, text) == {
        "loss": list(zip(STEPS, LOSSES, strict=True)),
        "eval/loss": [(step, loss + 1) for step, loss in zip(STEPS, LOSSES, strict=True)],
    }


# ---- what is no step, no value ------------------------------------------------------------------------------------


def test_numbers_of_ranks_are_no_steps() -> None:
    text = "".join(f"{rank}: loss={loss}\n" for loss in LOSSES for rank in range(4))
    found = door.batches(key_value_text, text)
    assert {one.rank for one in door.points(found)} == {0, 1, 2, 3}
    shuffled = "".join(f"[{rank}] loss: 2.5, lr: 1e-4\n" for rank in (2, 0, 3, 1))
    assert {one.rank for one in door.points(door.batches(key_value_text, shuffled)) if one.tag == "loss"} == {
        0,
        1,
        2,
        3,
    }


@pytest.mark.parametrize(
    "text",
    [
        "1. Install torch 2.5\n2. Set batch size 32\n3. Run it\n4. Wait\n",
        "10 files read\n20 files read\n30 files read\n40 files read\n",
        "10: INFO starting\n11: INFO loading\n12: INFO compiling\n",
        "[1/4] Building CXX object a.o\n[2/4] Building CXX object b.o\n[3/4] Linking\n[4/4] Done\n",
    ],
)
def test_counted_lines_without_a_metric_give_nothing(text: str) -> None:
    assert door.rows(key_value_text, text) == {}


@pytest.mark.parametrize(
    ("text", "commas"),
    [
        ("loss=3,5; lr=0,1\nloss=3,25; lr=0,1\n", True),
        ("loss: 3,5\nloss: 3,4\nloss: 0,0123\n", True),
        ("loss: 3.5 tps: 7,282\nloss: 3.4 tps: 7,281\nloss: 3.3 tps: 7,280\n", False),
        ("tps: 7,282\ntps: 7,283\ntps: 7,284\n", False),
        ("betas=0.9,0.95\nids=1,2,3\nids=4,5,6\nids=4,5,6\n", False),
        ("2026-01-01 10:00:00,12 a\n2026-01-01 10:00:00,12 b\n2026-01-01 10:00:00,12 c\n", False),
    ],
)
def test_decimal_commas_are_told_from_others(text: str, commas: bool) -> None:
    assert decimal_commas(text.encode()) is commas


def test_a_number_is_never_read_up_to_a_comma() -> None:
    assert door.rows(key_value_text, "step=10 ids=1,2,3,4 loss=2.5\n") == {"loss": [(10, 2.5)]}


# ---- lines inside of objects ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "envelope",
    [
        lambda line, at: {"timestamp": at * 1000, "message": line, "ingestionTime": at * 1000 + 5},
        lambda line, at: {"__REALTIME_TIMESTAMP": str(at * 10**6), "MESSAGE": line, "_PID": "77", "PRIORITY": "6",
                          "SYSLOG_IDENTIFIER": "python", "_SYSTEMD_UNIT": "train.service", "__CURSOR": "s=1"},
        lambda line, at: {"labels": {"job": "train"}, "line": line, "timestamp": str(at * 10**9)},
        lambda line, at: {"textPayload": line, "timestamp": at, "severity": "INFO", "insertId": "1",
                          "logName": "x", "resource": {"type": "k8s_container"}},
        lambda line, at: {"date": at, "log": line, "kubernetes": {"pod_name": "train-0"}, "stream": "stdout"},
    ],
)  # fmt: skip
def test_lines_that_log_services_wrap(envelope: Callable[[str, int], dict[str, object]]) -> None:
    begin = 1767225600
    text = "".join(
        json.dumps(envelope(f"step={step} loss={loss}", begin)) + "\n" for step, loss in zip(STEPS, LOSSES, strict=True)
    )
    assert door.rows(key_value_text, text) == {"loss": list(zip(STEPS, LOSSES, strict=True))}
    (points,) = door.points(door.batches(key_value_text, text))
    assert points.time is not None
    assert set(points.time.tolist()) == {float(begin)}
    assert door.sniffed(key_value_text, text, "x.jsonl") > door.sniffed(jsonl, text, "x.jsonl")


# ---- records of several lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bullet", ["  ", "- ", "  * ", "\t"])
def test_values_under_a_numbered_step(bullet: str) -> None:
    text = written(lambda step, loss: f"Step {step}\n{bullet}lr: 1e-4\n{bullet}loss: {loss}\n{bullet}grad_norm: 0.5")
    assert door.rows(key_value_text, text)["loss"] == list(zip(STEPS, LOSSES, strict=True))
    assert door.rows(key_value_text, text)["lr"] == [(step, 1e-4) for step in STEPS]
    assert door.lines(key_value_text, text)["loss"] == [3, 7, 11, 15]


def test_a_numbered_step_of_instructions_gives_nothing() -> None:
    text = "Step 1:\n  Files: 3\n  Workers: 4\nStep 2:\n  Port: 8080\n"
    assert door.rows(key_value_text, text) == {}


def test_boxed_tables_under_each_epoch() -> None:
    head = "┏━━━━━━━━━━━━┳━━━━━━━━┓\n┃ Metric     ┃ Value  ┃\n┡━━━━━━━━━━━━╇━━━━━━━━┩\n"
    box = head + "│ train_loss │ {} │\n└────────────┴────────┘"
    text = "".join(f"Epoch {epoch}\n{box.format(loss)}\n" for epoch, loss in enumerate(LOSSES, 1))
    assert door.rows(key_value_text, text) == {"train_loss": list(enumerate(LOSSES, 1))}


def test_utf16_without_a_mark() -> None:
    text = written(lambda step, loss: f"step={step} loss={loss}\r")
    assert door.rows(key_value_text, text.encode("utf-16-le")) == {"loss": list(zip(STEPS, LOSSES, strict=True))}


# ---- tables that pandas prints, names in other languages -------------------------------------------------------------


@pytest.mark.parametrize("left_out", [False, True])
def test_a_table_as_pandas_prints_it(left_out: bool) -> None:
    rows = [f"{at:<4d} {step:4d}  {loss:.4f}  0.001" for at, (step, loss) in enumerate(zip(STEPS, LOSSES, strict=True))]
    rows[1:2] = ["..    ...   ...    ..."] if left_out else rows[1:2]
    found = door.rows(key_value_text, "     step  loss     lr\n" + "\n".join(rows) + "\n")["loss"]
    assert found == [row for at, row in enumerate(zip(STEPS, LOSSES, strict=True)) if not (left_out and at == 1)]


@pytest.mark.parametrize("line", ["训练步数: {}, 损失: {}", "Schritt: {}, Verlust: {}", "шаг={} потери={}"])
def test_lines_in_other_languages(line: str) -> None:
    found = door.rows(key_value_text, written(line.format))
    assert [rows for tag, rows in found.items() if tag in ("损失", "Verlust", "потери")] == [
        list(zip(STEPS, LOSSES, strict=True))
    ]


@pytest.mark.parametrize("name", ["grad_norm", "tokens_per_second"])
def test_a_measurement_that_comes_once_is_kept(name: str) -> None:
    found = door.rows(key_value_text, written("step: {} loss: {}".format) + f"step: 20 {name}: 0.3\n")
    assert found[name] == [(20, 0.3)]


@pytest.mark.parametrize(
    ("tail", "name", "value"),
    [
        ("50.2k tok/s", "tok/s", 50_200.0),
        ("50.2 K tokens/sec", "tokens/sec", 50_200.0),
        ("1.2M tok/s", "tok/s", 1_200_000.0),
        ("12.5 it/s", "it/s", 12.5),
        ("320 TFLOPs", "TFLOPs", 320.0),
        ("1.5 GB", "GB", 1.5),
        ("1.5 GB/s", "GB/s", 1.5),
    ],
)
def test_units_behind_a_number_are_its_name(tail: str, name: str, value: float) -> None:
    found = door.rows(key_value_text, written(lambda step, loss: f"Iter {step} | Loss {loss} | {tail}"))
    assert found[name] == [(step, value) for step in STEPS]
