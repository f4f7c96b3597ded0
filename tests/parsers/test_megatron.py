"""Megatron logs: records of all variants, and the other lines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.parsers import door
from trainlens.parsers import megatron

PLAIN = (
    " iteration        2/    1000 | consumed samples:         2048 | elapsed time per iteration (ms): 123896.3 |"
    " learning rate: 3.000E-05 | global batch size:  1024 | lm loss: 1.244238E+01 | loss scale: 65536.0 |"
    " grad norm: 0.150 | number of skipped iterations:   1 | number of nan iterations:   0 |\n"
)


@pytest.mark.parametrize(
    ("line", "tag", "row"),
    [
        (PLAIN, "lm loss", (2, 12.44238)),
        (PLAIN, "elapsed time per iteration (ms)", (2, 123896.3)),
        (PLAIN, "consumed samples", (2, 2048.0)),
        (PLAIN, "learning rate", (2, 3e-05)),
        (" iteration 7/ 10 | lm-loss: 1.244238E+01 | loss scale: -1.0 |\n", "loss scale", (7, -1.0)),
        ("[default7]: iteration    31214/  115311 | elapsed time per iteration (s): 106.46 | TFLOPs: 147.29 |\n",
         "elapsed time per iteration (s)", (31214, 106.46)),
        ("192.168.205.202:  iteration 1/ 20 | tokens per gpu per second (tgs): 138.777 |\n",
         "tokens per gpu per second (tgs)", (1, 138.777)),
        ("55:  [2026-06-26 14:26:18.413968] iteration        1/     300 | throughput per GPU (TFLOP/s/GPU): 3.6 |\n",
         "throughput per GPU (TFLOP/s/GPU)", (1, 3.6)),
        (" iteration 9/ 10 | load_balancing_loss: 1.008666E+00 | mtp_1 loss: 7.5 |\n", "mtp_1 loss", (9, 7.5)),
        (" iteration 9/ 10 | lm loss: nan | grad norm: inf |\n", "grad norm", (9, math.inf)),
        (" iteration 5/50 | elapsed time per iteration: 212.5 ms |\n", "elapsed time per iteration (ms)", (5, 212.5)),
        (" iteration 5/50 | gloabl batch size: 512 |\n", "gloabl batch size", (5, 512.0)),
        (" iteration 5/50 | elapsed time (ms): 1.5 | learning rate 1.500E-04 |\n", "learning rate", (5, 1.5e-04)),
        (" iteration 5/50 | lm loss 9.125E+00 | loss scale 65536.0 |\n", "lm loss", (5, 9.125)),
        (" iteration 5/50 | lm loss: 1.5 | sop loss: 8.125E-01 |\n", "sop loss", (5, 0.8125)),
        (" iteration 5/50 | tokens-per-second-per-gpu: 2114.61 |\n", "tokens-per-second-per-gpu", (5, 2114.61)),
        (" iteration 5/50 | skipped iterations:   3 |\n", "skipped iterations", (5, 3.0)),
        (" iteration 5/50 | tokens/s: 12,345 | MFU: 45.5% |\n", "tokens/s", (5, 12345.0)),
        (" iteration 5/50 | tokens/s: 12,345 | MFU: 45.5% |\n", "MFU (%)", (5, 45.5)),
    ],
)  # fmt: skip
def test_every_variant_of_a_record_is_read(line: str, tag: str, row: door.Row) -> None:
    assert door.rows(megatron, line)[tag] == [row]


def test_a_skipped_iteration_has_no_loss() -> None:
    text = PLAIN + PLAIN.replace(" lm loss: 1.244238E+01 |", "").replace("        2/", "        3/")
    found = door.rows(megatron, text)
    assert found["lm loss"] == [(2, 12.44238)]
    assert [step for step, _ in found["grad norm"]] == [2, 3]


def test_a_record_may_be_wrapped() -> None:
    text = (
        "[default7]: iteration   42780/ 115311 | consumed samples: 71455664 | learning\n"
        " rate: 4.475E-05 | lm loss: 2.117073E+00 | number of nan\n"
        "iterations:  0 | TFLOPs: 149.10 |\n iteration 42781/ 115311 | lm loss: 2.5 | learning rate:\n\n"
        " iteration 42782/ 115311 | lm loss: 2.25 |\n"
    )
    found = door.rows(megatron, text)
    assert found["learning rate"] == [(42780, 4.475e-05)]
    assert found["number of nan iterations"] == [(42780, 0.0)]
    assert found["TFLOPs"] == [(42780, 149.1)]
    assert found["lm loss"] == [(42780, 2.117073), (42781, 2.5), (42782, 2.25)]


def test_a_record_over_several_lines_goes_on_behind_columns() -> None:
    text = "".join(
        f" iteration {step:8d}/      50 | consumed samples: {step * 32:12d} | lm loss: 2.117073E+00 |\n"
        f" grad norm: {step}.5 | num zeros: 0.0 |\n"
        for step in range(10, 40)
    )
    assert door.rows(megatron, text)["grad norm"] == [(step, step + 0.5) for step in range(10, 40)]


def test_a_record_wrapped_between_its_fields_with_units_behind_values() -> None:
    """As a narrow terminal shows records of Megatron-Bridge; no bar stands behind the last field."""
    record = (
        " iteration {0}/50 | elapsed time per iteration: 212.5 ms |\n consumed samples: 640 |"
        " learning rate: 1.5E-04 |\n lm loss: 1.125E+01 | grad norm:\n 0.5 |"
        " skipped iterations:   0 | nan iterations:   {0}\n"
    )
    found = door.rows(megatron, record.format(5) + record.format(6) + "the end\n")
    assert found == {
        tag: [(step, float(step) if value is None else value) for step in (5, 6)]
        for tag, value in {
            "elapsed time per iteration (ms)": 212.5,
            "consumed samples": 640.0,
            "learning rate": 1.5e-4,
            "lm loss": 11.25,
            "grad norm": 0.5,
            "skipped iterations": 0.0,
            "nan iterations": None,
        }.items()
    }


def test_lines_of_other_ranks_may_stand_inside_of_records_and_tables() -> None:
    text = (
        "7: iteration 10/ 100 | consumed samples: 5 | learning\n3: some | words: here\n[default1]: more\n"
        "7:  rate: 4.475E-05 | lm loss: 2.5 |\n7: (min, max) time across ranks (ms):\n"
        "7:     forward-backward ....: (1.00, 2.00)\n3: WARNING: something\n7:     optimizer ....: (3.00, 4.00)\n"
        "7: words\n7:     not-a-timer ....: (3.00, 4.00)\n7: max time across ranks (ms):\n7:     optimizer ....: 4.50\n"
    )
    assert door.rows(megatron, text) == {
        "consumed samples": [(10, 5.0)],
        "learning rate": [(10, 4.475e-05)],
        "lm loss": [(10, 2.5)],
        "timers/forward-backward/min": [(10, 1.0)],
        "timers/forward-backward/max": [(10, 2.0)],
        "timers/optimizer/min": [(10, 3.0)],
        "timers/optimizer/max": [(10, 4.0)],
        "timers/optimizer": [(10, 4.5)],
    }


@pytest.mark.parametrize(
    ("line", "tag", "value"),
    [
        (" validation-0 loss at iteration 10 | lm loss value: 1.5E+00 | \n", "validation-0 lm loss", 1.5),
        (" validation loss at iteration 10 on pile-cc | lm loss value: 1.5 | \n", "validation-pile-cc lm loss", 1.5),
        (" validation loss at iteration 10 on validation set | lm loss value: 1.5 | \n", "validation lm loss", 1.5),
        (" validation loss at iteration 10 | LM loss: 3.5 | LM PPL: 24.5\n", "validation LM PPL", 24.5),
        (" validation loss at the end of training for val data | LM loss: 3.5 |\n", "validation LM loss", 3.5),
    ],
)  # fmt: skip
def test_validation_of_several_sets_and_ages(line: str, tag: str, value: float) -> None:
    text = " iteration 10/ 10 | lm loss: 2.5 |\n" + line
    assert door.rows(megatron, text)[tag] == [(10, value)]


def test_what_a_model_needs_is_told_by_facts() -> None:
    text = (
        "0: Theoretical memory footprints: weight and optimizer=3788.45 MB, activation=28064.66 MB, total=31853.11 MB\n"
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 1): 1132938240\n"
        "0: Number of parameters in most loaded shard in billions: 0.6179\n"
    )
    assert door.facts(megatron, text) == {
        "theoretical memory/weight and optimizer (MB)": 3788.45,
        "theoretical memory/activation (MB)": 28064.66,
        "theoretical memory/total (MB)": 31853.11,
        "number_of_parameters_on_(tensor,_pipeline)_model_parallel_rank_(0,_1)": 1132938240,
        "Number_of_parameters_in_most_loaded_shard_in_billions": 0.6179,
    }


def test_validation_has_tags_of_its_own() -> None:
    text = (
        PLAIN
        + "-" * 60
        + "\n validation loss at iteration 100 | lm loss value: 7.692623E+00 | lm loss PPL: 2.192116E+03 | \n"
        + " validation loss at iteration 100 on test set | lm loss value: 7.5 | lm loss PPL: 1.5 | \n"
    )
    found = door.rows(megatron, text)
    assert found["validation lm loss"] == [(100, 7.692623)]
    assert found["validation lm loss PPL"] == [(100, 2192.116)]
    assert found["test lm loss"] == [(100, 7.5)]
    assert found["lm loss"] == [(2, 12.44238)]
    assert [event.step for event in door.events(megatron, text) if event.kind == "evaluation"] == [100, 100]


def test_timers_of_both_styles() -> None:
    text = (
        "time (ms) | load-checkpoint: 0.35\n" + PLAIN + "time (ms) | forward-compute: 306.62 | optimizer: 11.5\n"
        "55: INFO:megatron.core.timers:(min, max) time across ranks (ms):\n"
        "55:     forward-backward ...............................: (1188.52, 1201.77)\n"
        "55:     all-grads-sync .................................: (199.39, 346.36)\n"
        "    not-a-timer ....................................: (1.00, 2.00)x\n"
    )
    found = door.rows(megatron, text)
    assert found["timers/forward-compute"] == [(2, 306.62)]
    assert found["timers/optimizer"] == [(2, 11.5)]
    assert found["timers/forward-backward/min"] == [(2, 1188.52)]
    assert found["timers/all-grads-sync/max"] == [(2, 346.36)]
    assert door.facts(megatron, text)["timers/load-checkpoint (ms)"] == 0.35


def test_memory_belongs_to_ranks_even_on_one_line() -> None:
    text = PLAIN + (
        "[Rank 7] (after 20 iterations) memory (MB) | allocated: 21633.5 | reserved: 29316.0[Rank 6] (after 20"
        " iterations) memory (MB) | allocated: 21634.5 | reserved: 29317.0\n\n"
    )
    found = {
        (one.tag, one.rank): one.value.tolist()
        for one in door.points(door.batches(megatron, text))
        if one.tag.startswith("memory/")
    }
    assert found["memory/allocated (MB)", 7] == [21633.5]
    assert found["memory/reserved (MB)", 6] == [29317.0]


def test_memory_around_a_checkpoint_is_not_that_of_the_iteration() -> None:
    text = PLAIN + (
        "0: [Rank 0] (after 2 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5\n"
        "0: [Rank 0] (before save_checkpoint for iteration 2) memory (MB) | allocated: 3.5\n"
        "after 1 iterations memory (MB) | allocated: 4.5\n[Rank 3] (after 2 iterations) memory (GB) | allocated: 5.5\n"
    )
    found = {
        (one.tag, one.rank, None if one.step is None else int(one.step[0])): one.value.tolist()
        for one in door.points(door.batches(megatron, text))
        if one.tag.startswith("memory/")
    }
    assert found == {
        ("memory/allocated (MB)", 0, 2): [1.5],
        ("memory/max allocated (MB)", 0, 2): [2.5],
        ("memory/before save_checkpoint/allocated (MB)", 0, 2): [3.5],
        ("memory/allocated (MB)", -1, 1): [4.5],
        ("memory/allocated (GB)", 3, 2): [5.5],
    }


def test_arguments_are_facts_and_tell_of_no_failure() -> None:
    text = (
        " 0: ------------------------ arguments ------------------------\n"
        " 0:   adam_beta1 ...................................... 0.9\n"
        " 0:   check_for_nan_in_loss_and_grad .................. True\n"
        " 0:   max_tokens_to_oom ............................... 12000\n"
        " 0:   inference_dynamic_batching_unified_memory_level . 0\n"
        " 0: -------------------- end of arguments ---------------------\n"
    ) + PLAIN
    found = door.facts(megatron, text)
    assert found["adam_beta1"] == 0.9
    assert found["check_for_nan_in_loss_and_grad"] is True
    assert found["max_tokens_to_oom"] == 12000
    assert found["inference_dynamic_batching_unified_memory_level"] == 0
    assert found["train_iters"] == 1000
    assert door.events(megatron, text) == []


def test_lines_of_deepspeed_are_read_beside() -> None:
    text = "steps: 2 loss: 12.7902 iter time (s): 150.471 samples/sec: 6.805\n" + PLAIN
    found = door.rows(megatron, text)
    assert found["loss"] == [(2, 12.7902)]
    assert found["iter time (s)"] == [(2, 150.471)]
    assert found["lm loss"] == [(2, 12.44238)]


def test_checkpoints_are_events() -> None:
    text = PLAIN + (
        "0: [2026-07-15 06:50:31.5] saving checkpoint at iteration    2000 to /x in torch_dist format\n"
        "0:   [2026-07-15 06:50:49.5] successfully saved checkpoint from iteration    2000 to /x\n"
    )
    begin, end = door.events(megatron, text)
    assert (begin.kind, begin.step, end.kind, end.step) == ("checkpoint-begin", 2000, "checkpoint-end", 2000)
    assert begin.time is not None
    assert end.time is not None
    assert end.time - begin.time == 18.0


@pytest.mark.parametrize(
    ("field", "noted"),
    [("grad norm: 0.000", True), ("grad norm: 0.001", False), ("loss scale: -1.0", True), ("loss scale: 1.0", False)],
)
def test_what_was_never_measured_is_noted(field: str, noted: bool) -> None:
    text = "".join(f" iteration {step}/ 10 | lm loss: 1.5 | {field} |\n" for step in range(1, 10))
    assert ("placeholder" in {note.kind for note in door.notes(megatron, text)}) is noted
    assert len(door.rows(megatron, text)[field.partition(":")[0]]) == 9


def test_runs_in_one_file_stay_in_order() -> None:
    text = "".join(PLAIN.replace("        2/", f"{step:9d}/") for step in [*range(1, 21), *range(1, 16)])
    assert [step for step, _ in door.rows(megatron, text)["lm loss"]] == [*range(1, 21), *range(1, 16)]


def test_times_are_read_and_lines_are_named() -> None:
    text = "start\n" + "".join(
        f" [2026-06-26 23:59:{50 + at}.5] iteration {at:8d}/{99:8d} | consumed samples: {at:12d} | lm loss: 1.0E+00 |\n"
        for at in range(10)
    ) + " [2026-06-27 00:00:00.250000] iteration 10/ 99 | lm loss: 1.0E+00 |\n"  # fmt: skip
    found = [one for one in door.points(door.batches(megatron, text)) if one.tag == "lm loss"]
    assert len(found) == 1
    assert found[0].time is not None
    assert np.diff(found[0].time).tolist() == [1.0] * 9 + [0.75]
    assert found[0].time[0] == 1782518390.5
    assert door.lines(megatron, text)["lm loss"] == list(range(2, 13))


@pytest.mark.parametrize(
    ("head", "score"),
    [
        (PLAIN, 0.95),
        ("using world size: 64, data-parallel size: 2\n", 0.8),
        (" 0: ------------------------ arguments ------------------------\n", 0.8),
        ("{'loss': 1.5, 'epoch': 0.1}\n", 0.0),
        ("Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120\n", 0.0),
        ("iteration: 327281 / 378950 | consumed_tokens: 85.8G | lm_loss: 2.19\n", 0.0),
        ("This is a text about iteration 5.\n", 0.0),
    ],
)
def test_sniff(head: str, score: float) -> None:
    assert door.sniffed(megatron, head) == score
