"""Consoles of trainers that count and name in ways of their own: what is the step, what is a name, what is a row."""

from __future__ import annotations

import json
import math

import pytest

from tests.parsers import door
from trainlens.parsers import json_table, jsonl, key_value_text

NANOCHAT = """Step {0:05d} | Validation bpb: 0.9{0}
step {0:05d}/21400 ({0}.02%) | loss: 3.5{0} | lrm: 1.00 | dt: 480.12ms | tok/sec: 1,092,011 | mfu: 47.1 | epoch: 1
"""
EASYLM = """{{'accuracy': 0.2{0},
 'loss': 7.{0},
 'step': {0}}}
"""
COMPOSER = '[metric][batch={0}]: {{ "loss/train/total": 5.{0}, "metrics/train/Accuracy": 0.{0}, }} \n'
PADDLE = (
    "2020-09-25 18:39:4{0},914-INFO: iter: {0}, lr: 0.000033, 'loss': '23.{0}', eta: 0:00:00, ips: 3.5 images/sec\n"
)
MINILLM = (
    "train | data_epochs  0/10 | inner iter:   {1}/  8 | global iter:   {0}/  5000| tot_loss: 2.{0} | lr: 2.5e-07\n"
)
LITGPT = "iter {0}0 | step {0}: loss 1.5{0}, iter time: 89.96 ms\n"
LLMC = """step    {0}/74 | loss     nan (+nanz)| norm    nan (+nanz)| lr 3.00e-04 | 36.5{0} ms | 9.2% bf16 MFU
val loss 4.{0}
"""
CLU = "I0601 10:00:0{0}.123456 140123 logging_writer.py:48] [{0}0] accuracy=0.{0}, loss=2.{0}\n"
PCDET = "2023-01-05 16:34:3{0},748   INFO  Train:    2/3 ( 66%) [  {0}9/323 ( 15%)]  Loss: 3{0}.5 (81.7)  LR: 1.0e-04\n"
FAIRSEQ = "| epoch 002  {0}000 / 8223 loss=1.2{0} (1.50), wps=962, gnorm=2.1427\n"
FAIRSEQ2 = "[2024-06-01 10:00:0{0},12] INFO f2: Train Metrics (step {0}) - Log-Likelihood (NLL) Loss: 6.{0} | N: 1\n"
TIANSHOU = "Epoch #{0}: 10001it [00:11, 600.12it/s, env_step={0}000, len=120, loss=0.{0}, n/ep=1]\n"
CLEANRL = "global_step={0}28, episodic_return=[9{0}.0]\nSPS: 100{0}\n"
BOXED = """┏━━━━━━┳━━━━━━━━┳━━━━━━━━┓
┃ Step ┃ Loss   ┃ LR     ┃
┡━━━━━━╇━━━━━━━━╇━━━━━━━━┩
│ 5    │ 2.5000 │ 0.0001 │
└──────┴────────┴────────┘
"""
MARKDOWN = (
    "| Step | Training Loss | Validation Loss |\n|------|---------------|-----------------|\n| 100  | 2.5 | No log |\n"
)


@pytest.mark.parametrize(
    ("form", "tag", "expected"),
    [
        (NANOCHAT, "loss", [(0, 3.5), (1, 3.51), (2, 3.52)]),
        (EASYLM, "accuracy", [(0, 0.2), (1, 0.21), (2, 0.22)]),
        (COMPOSER, "loss/train/total", [(0, 5.0), (1, 5.1), (2, 5.2)]),
        (PADDLE, "loss", [(0, 23.0), (1, 23.1), (2, 23.2)]),
        (MINILLM, "tot_loss", [(0, 2.0), (1, 2.1), (2, 2.2)]),
        (LITGPT, "loss", [(0, 1.5), (10, 1.51), (20, 1.52)]),
        (LLMC, "ms", [(0, 36.5), (1, 36.51), (2, 36.52)]),
        (LLMC, "val loss", [(0, 4.0), (1, 4.1), (2, 4.2)]),
        (CLU, "loss", [(0, 2.0), (10, 2.1), (20, 2.2)]),
        (PCDET, "Loss", [(342, 31.5), (352, 32.5)]),
        (FAIRSEQ, "loss", [(8223, 1.2), (9223, 1.21), (10223, 1.22)]),
        (FAIRSEQ2, "Log-Likelihood (NLL) Loss", [(0, 6.0), (1, 6.1), (2, 6.2)]),
        (TIANSHOU, "loss", [(0, 0.0), (1000, 0.1), (2000, 0.2)]),
        (CLEANRL, "SPS", [(28, 1000), (128, 1001), (228, 1002)]),
    ],
)  # fmt: skip
def test_each_value_at_its_step(form: str, tag: str, expected: list[door.Row]) -> None:
    text = "".join(form.format(at, 7 - at % 8) for at in range(form is PCDET, 3))
    assert door.rows(key_value_text, text)[tag] == expected
    assert door.sniffed(key_value_text, text, "train.log") >= 0.6
    for end in range(len(text)):  # what grows yet is never read as something else
        part = door.rows(key_value_text, text[:end]).get(tag, [])
        assert part == expected[: len(part)]


def test_a_loss_that_is_no_number_is_kept() -> None:
    found = door.rows(key_value_text, LLMC.format(7))
    assert [(step, math.isnan(value)) for tag in ("loss", "norm") for step, value in found[tag]] == [(7, True)] * 2


def test_a_count_of_a_bar_is_no_metric() -> None:
    assert not [tag for tag in door.rows(key_value_text, TIANSHOU.format(3)) if "#" in tag]


@pytest.mark.parametrize(("text", "step"), [(BOXED, 5), (MARKDOWN, 100)])
def test_tables_in_boxes_and_of_markdown(text: str, step: int) -> None:
    found = door.rows(key_value_text, text)
    assert {row for rows in found.values() for row in rows} >= {(step, 2.5)}
    assert not any(math.isnan(value) for rows in found.values() for _, value in rows)


def test_a_dictionary_over_lines_that_breaks_off_costs_nothing_else() -> None:
    text = "{'accuracy': 0.5,\nTraceback of another kind\n" + EASYLM.format(4)
    assert door.rows(key_value_text, text) == {"accuracy": [(4, 0.24)], "loss": [(4, 7.4)]}


def test_lines_that_loguru_serializes() -> None:
    row = {"text": "10:00 | INFO | a:b:5 - step {0} loss 2.{0}\n", "record": {"line": 5, "level": {"no": 20}}}
    text = "".join(json.dumps(row).replace("{0}", str(at)) + "\n" for at in range(1, 4))
    assert door.sniffed(key_value_text, text, "log.jsonl") > door.sniffed(jsonl, text, "log.jsonl")
    assert door.rows(key_value_text, text) == {"loss": [(1, 2.1), (2, 2.2), (3, 2.3)]}


def test_settings_that_each_row_repeats_are_facts() -> None:
    rows = [{"training_iteration": at, "loss": 2.5, "config": {"lr": 0.1, "env": "Cart", "n": [8, 9]}} for at in (1, 2)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert door.rows(jsonl, text) == {"loss": [(1, 2.5), (2, 2.5)]}
    assert door.facts(jsonl, text) == {"config/lr": 0.1, "config/env": "Cart"}
    begun = door.batches(jsonl, text[: text.index("\n") + 1])
    assert not [one for one in door.batches(jsonl, text, since=door.checkpoint(begun)) if hasattr(one, "name")]


def test_a_document_for_each_epoch() -> None:
    text = json.dumps({"best_epoch": 1, "epoch": 3, "training_duration": "0:01:03", "validation_loss": 0.5}, indent=2)
    assert door.sniffed(json_table, text, "metrics_epoch_3.json") >= 0.5
    assert door.rows(json_table, text, "metrics_epoch_3.json")["validation_loss"] == [(3, 0.5)]
