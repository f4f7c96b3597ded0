"""Any trainer's console: dictionaries, pairs, columns; what is no row of metrics stays out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers import door
from trainlens.parsers import _lines, key_value_text
from trainlens.sources import Source
from trainlens.sources.patterns import compiled

BAR = "  {0}%|#         | {0}/100 [00:02<03:18,  2.01s/it]"


def one(text: str) -> dict[str, Any]:
    """The only row of each tag."""
    return {tag: rows[0] if len(rows) == 1 else rows for tag, rows in door.rows(key_value_text, text).items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{'loss': 1.5, 'grad_norm': nan, 'learning_rate': 4.1e-06, 'epoch': 0.04}", {"loss": 1.5, "epoch": 0.04}),
        ("{'loss': '1.603', 'learning_rate': '2.9e-06', 'epoch': '0.0023'}", {"loss": 1.603, "learning_rate": 2.9e-06}),
        ("{'loss': 1.4, 'grad_norm': tensor(0.5600, device='cuda:0'), 'learning_rate': tensor(3.0000e-05)}",
         {"grad_norm": 0.56, "learning_rate": 3e-05}),
        ("{'loss': '1.9', 'memory(GiB)': '64.91', 'elapsed_time': '6s', 'remaining_time': '3h 35m 58s'}",
         {"loss": 1.9, "memory(GiB)": 64.91}),
        ("{'eval_loss': np.float64(2.5), 'eval_runtime': 15.4}", {"eval_loss": 2.5, "eval_runtime": 15.4}),
        ('[2022-04-08][train_inner][INFO] - {"epoch": 1, "loss": "9.276", "wps": "20"}', {"epoch": 1.0, "loss": 9.276}),
    ],
)  # fmt: skip
def test_dictionaries_without_a_step(line: str, expected: dict[str, float]) -> None:
    found = one(line + "\n")
    assert {tag: found[tag] for tag in expected} == {tag: (None, value) for tag, value in expected.items()}
    assert "remaining_time" not in found
    assert "elapsed_time" not in found


@pytest.mark.parametrize(
    ("line", "step", "expected"),
    [
        ("step=10 loss=3.0 lr=2.97e-04", 10, {"loss": 3.0, "lr": 2.97e-04}),
        ("2025-10-26 02:30:00 INFO step=10 loss=3.0 lr=0.1", 10, {"loss": 3.0, "lr": 0.1}),
        ("step:526/20344 train_loss:3.9612 train_time:905123ms step_avg:1754.11ms", 526,
         {"train_loss": 3.9612, "train_time": 905123.0, "step_avg": 1754.11}),
        ("step:3/20344 train_loss:3.9 step_avg:nanms", 3, {"train_loss": 3.9, "step_avg": math.nan}),
        ("s:9025 trl:3.4551 lr:0.000357 norm:2.02", 9025, {"trl": 3.4551, "lr": 0.000357, "norm": 2.02}),
        ("iter 250: loss 3.1895 BPC, time 32924.41ms, mfu 8.23%", 250, {"loss": 3.1895, "time": 32924.41, "mfu": 8.23}),
        ("step 50: train loss 3.1345, val loss 3.1441", 50, {"train loss": 3.1345, "val loss": 3.1441}),
        ("Iter 25: Train loss 1.593, Learning Rate 7.000e-05, It/sec 0.999, Peak mem 8.104 GB", 25,
         {"Train loss": 1.593, "Learning Rate": 7e-05, "It/sec": 0.999, "Peak mem": 8.104}),
        ("[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  memory:  9.46GiB(64.99%)"
         "  tps: 7,282  mfu: 0.17%", 14,
         {"loss": 3.24405, "memory (GiB)": 9.46, "memory (%)": 64.99, "tps": 7282.0, "mfu": 0.17}),
        ("10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G |"
         " elapsed_time_per_iteration_ms: 11.5K | lm_loss: 2.19", 327281,
         {"consumed_tokens": 85.8e9, "elapsed_time_per_iteration_ms": 11500.0, "lm_loss": 2.19}),
        ("I0811 21:54:55.531340 1383 metric_logger.py:226] completed step: 1, seconds: 0.631, TFLOP/s/device: 5688.2,"
         " loss: 12.979", 1, {"seconds": 0.631, "TFLOP/s/device": 5688.2, "loss": 12.979}),
        ("14:00:02 SUCCESS Step 0 | Loss: 2.0970 | Grad. Norm: 1.1866 | Throughput: 11880 tokens/s | Mem: 41.4 GiB", 0,
         {"Loss": 2.097, "Grad. Norm": 1.1866, "Throughput": 11880.0, "Mem": 41.4}),
        ("INFO:tensorflow:global step 2940: loss = 5.5220 (0.898 sec/step)", 2940, {"loss": 5.522}),
        ("2020-03-23 11:39:44 | INFO | train_inner | epoch 003:      5 / 356 loss=9.44, num_updates=700, lr=0.5", 700,
         {"loss": 9.44, "lr": 0.5}),
        ("{'loss': 1.5, 'global_step/max_steps': '7/2353'}", 7, {"loss": 1.5}),
        ("step: 3, loss: -inf, loss: 7.0", 3, {"loss": -math.inf}),
    ],
)  # fmt: skip
def test_lines_that_name_their_step(line: str, step: int, expected: dict[str, float]) -> None:
    for ending in ("\n", "\r\n"):
        found = one(line + ending)
        assert str(found) == str({tag: (step, value) for tag, value in expected.items()})


@pytest.mark.parametrize(
    "text",
    [
        'print0(f"step:{step}/{args.num_iterations} val_loss:{val_loss:.4f} train_time:{ms:.0f}ms")\n',
        "    loss = 0.5\n",
        "optimizer = AdamW(params, lr=0.3, betas=(0.9, 0.95))\n",
        '{"loss_scale": 0, "initial_scale_power": 16}\n',
        "{'lr': 3e-05, 'betas': 0.9, 'hidden_size': 4096}\n",
        "hidden_size: 4096\nnum_layers: 32\nlearning_rate: 0.001\n",
        "Total training steps: 58 num_warmup_steps: 0\n",
        "iterations:500000 warmup_steps:20 max_wallclock_seconds:14400\n",
        "++ LOSS=3 step=4 loss=5\n",
        "[I0811 12:30:05] metric_logger.py:226] connecting to nid0001:29500\n",
        "the loss was lower at step 7: we do not know why, 3 of us looked\n",
        "eta: 0:14:11\n",
    ],
)
def test_what_is_no_row_of_metrics(text: str) -> None:
    assert door.rows(key_value_text, text) == {}
    assert {note.kind for note in door.notes(key_value_text, text)} == {"no-points"}


def test_rows_behind_progress_bars() -> None:
    text = (
        "Loading checkpoint shards: 100%|####| 2/2 [00:03<00:00,  1.6s/it]\n"
        + "\r".join(BAR.format(at) for at in range(1, 11))
        + "\r          \r{'loss': 1.906, 'epoch': 0.2}\n"
        + "\r".join(BAR.format(at) for at in range(11, 21))
        + "{'loss': 1.5, 'epoch': 0.4}\n\r100%|##| 850/850 [00:15<00:00, 56.1it/s]{'eval_loss': 1.25, 'epoch': 0.4}\n"
        "{'train_runtime': 12.5, 'train_loss': 1.25, 'epoch': 1.0}\n"
    )
    found = door.rows(key_value_text, text)
    assert found["loss"] == [(10, 1.906), (20, 1.5)]
    assert found["eval_loss"] == [(20, 1.25)]
    assert door.facts(key_value_text, text)["train_runtime"] == 12.5
    assert "train_runtime" not in found


def test_a_line_without_any_end_is_cut_at_carriage_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "LONGEST", 10_000)
    text = "\r".join(f"{BAR.format(at)}\r{{'loss': {at}.5, 'epoch': 0.2}}" for at in range(1000)) + "\r"
    assert door.rows(key_value_text, text)["loss"] == [(at, at + 0.5) for at in range(1000)]


def test_utf16_and_colours_do_not_matter() -> None:
    text = "iter 0: loss 10.9484, time 4200.11ms, mfu -100.00%\r\niter 1: loss 10.5, time 120.5ms, mfu 31.10%\r\n"
    for content in (
        text.encode("utf-16"),
        text.encode("utf-8-sig"),
        text.replace("loss", "\x1b[1mloss\x1b[0m").encode(),
    ):
        found = door.rows(key_value_text, content)
        assert found == {"loss": [(0, 10.9484), (1, 10.5)], "time": [(0, 4200.11), (1, 120.5)], "mfu": [(1, 31.1)]}
        assert [note.count for note in door.notes(key_value_text, content) if note.kind == "placeholder"] == [1]


def test_ranks_are_kept() -> None:
    text = "".join(f"[rank{rank}] Step {step} | Loss: 2.5 | Mem: 1.5\n" for step in range(3) for rank in (2, 0, 1))
    found = {(part.tag, part.rank): len(part.value) for part in door.points(door.batches(key_value_text, text))}
    assert found == {(tag, rank): 3 for tag in ("Loss", "Mem") for rank in range(3)}


@pytest.mark.parametrize(
    ("places", "steps"),
    [
        ([(1, 100), (1, 200), (2, 100), (2, 200)], [100, 200, 300, 400]),
        ([(0, 0), (0, 10), (0, 20), (1, 0), (1, 10), (2, 0)], [0, 10, 20, 30, 40, 50]),
        ([(1, 1), (1, 101), (2, 1)], [1, 101, 201]),
        ([(1, 90), (2, 190), (2, 290), (3, 390)], [90, 190, 290, 390]),  # it goes on over the epochs
        ([(1, 100), (1, 200), (2, 100), (1, 100), (1, 200), (2, 100)], [100, 200, 300, 100, 200, 300]),  # a restart
        ([(7, 50), (7, 100), (8, 50)], [50, 100, 150]),
    ],
)
@pytest.mark.parametrize(
    "line",
    ["(epoch: {0}, iters: {1}, time: 0.1) G_A: 0.5\n", "Epoch: {0}, Batch: {1}, G_A: 0.5, loss: 1.5\n",
     "epoch {0} batch {1} loss 1.5 G_A 0.5\n", "Epoch: [{0}][{1}]\tloss 1.5 (1.5)\tG_A 0.5 (0.5)\n",
     "epoch: {0} step: {1}, loss is 1.5, G_A: 0.5\n"],
)  # fmt: skip
def test_a_counter_that_begins_again_each_epoch_is_counted_on(
    line: str, places: list[tuple[int, int]], steps: list[int]
) -> None:
    text = "".join(line.format(*place) for place in places)
    assert door.rows(key_value_text, text)["G_A"] == [(step, 0.5) for step in steps]


def test_epochs_are_the_steps_where_nothing_else_is() -> None:
    text = "".join(f"Epoch: {epoch} | train_loss: {1 / epoch} | val_loss: 1.5\n" for epoch in (1, 2, 4))
    assert door.rows(key_value_text, text)["train_loss"] == [(1, 1.0), (2, 0.5), (4, 0.25)]


def test_rows_without_a_step_belong_to_the_last_one() -> None:
    text = "step=10 loss=2.5\neval_loss: 2.25\nstep=20 loss=2.0\neval_loss: 2.5\n"
    assert door.rows(key_value_text, text)["eval_loss"] == [(10, 2.25), (20, 2.5)]


def test_two_columns_of_numbers() -> None:
    assert door.rows(key_value_text, "1 8.5\n2 7.25\n", "loss.txt") == {"loss": [(1, 8.5), (2, 7.25)]}
    assert door.rows(key_value_text, "a title\n1 8.5\n2 7.25\n", "loss.txt") == {}


def test_unknown_names_count_once_they_come_again() -> None:
    text = "step: 1 zeta: 5\nfree text\nstep: 2 zeta: 6\nstep: 3 zeta: 7\n"
    assert door.rows(key_value_text, text) == {"zeta": [(1, 5.0), (2, 6.0), (3, 7.0)]}
    assert door.rows(key_value_text, "step: 1 zeta: 5\n") == {}


def test_times_go_back_without_harm() -> None:
    text = "".join(f"2025-10-26 02:{minute}:00 step={at} loss=1.5\n" for at, minute in enumerate((58, 59, "00", "01")))
    (found,) = door.points(door.batches(key_value_text, text))
    assert found.step is not None
    assert found.step.tolist() == [0, 1, 2, 3]
    assert found.time is not None
    assert (found.time - found.time[0]).tolist() == [0.0, 60.0, -3480.0, -3420.0]


def printed(rows: list[door.Row]) -> list[str]:
    """Rows in words, so that NaN equals NaN; what stands before the first step has none, or step 0 beside others."""
    return [str((step or 0, value)) for step, value in rows]


@st.composite
def consoles(draw: st.DrawFn, *, fixed: bool = False) -> str:
    """Lines of two or three shapes with numbers of all kinds, foreign lines among them."""
    number = st.one_of(
        st.floats(-1e6, 1e6).map(repr),
        st.floats(0, 10).map(lambda value: f"{value:.4f}"),
        st.integers(0, 10**6).map(str),
        st.sampled_from(["nan", "inf", "1e-05", "7,282", "1.", "9.84K", "-0.0"]),
    )  # fmt: skip
    if fixed:
        number = st.floats(0, 10).map(lambda value: f"{value:.4f}")
    shape = st.sampled_from(
        ["step={0} loss={1} lr={2}", "2026-05-18 16:04:46,338 - root - INFO - step: {0}  loss:  {1}  tps: {2}",
         "Epoch [1][{0}/500]\tlr: {2}, eta: 2:15:0{0}, loss: {1}", "Epoch: [3][ {0}/9000]  loss: {1} ({2})",
         "step:  {0}  loss: {1}",
         "step:{0}/100 val_loss:{1}", "eval_loss: {1}", "{{'loss': {1}, 'step': {0}}}", "", "words only", "Error: x"]
    )  # fmt: skip
    shapes = draw(st.lists(shape, min_size=1, max_size=4))
    numbers = draw(st.lists(number, min_size=1, max_size=12))
    count = draw(st.integers(1, 400))
    return "".join(
        shapes[at % len(shapes)].format(at, numbers[at % len(numbers)], numbers[(3 * at + 1) % len(numbers)]) + "\n"
        for at in range(count)
    )


@settings(max_examples=60, deadline=None)
@given(consoles())
def test_shapes_give_what_single_lines_give(text: str) -> None:
    """Reading many lines at once by their shape equals reading on line by line, a few lines at a time."""
    whole = door.rows(key_value_text, text)
    joined: dict[str, list[door.Row]] = {}
    since, lines, seen = None, text.splitlines(keepends=True), ""
    for at in range(0, len(lines), 50):
        seen += "".join(lines[at : at + 50])
        found = door.batches(key_value_text, seen, since=since)
        since = door.checkpoint(found)
        for tag, rows in door.table(found).items():
            joined.setdefault(tag, []).extend(rows)
    assert {tag: printed(rows) for tag, rows in joined.items()} == {tag: printed(rows) for tag, rows in whole.items()}


@settings(max_examples=60, deadline=None)
@given(consoles(fixed=True), st.data())
def test_every_prefix_gives_a_prefix(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    whole, part = door.rows(key_value_text, text), door.rows(key_value_text, text[:cut])
    for tag, rows in part.items():
        assert printed(rows) == printed(whole[tag][: len(rows)])


@pytest.mark.parametrize(
    ("tail", "believed"),
    [
        ("step=9 loss=1.2500 lr=0.0030", True),
        ("step=9 loss=1.2500 lr=0.003", False),
        ("step=9 loss=1.2500", False),
        ("step=9", None),
        ("step=9 loss=1.2500 lr=0.0030\n", True),
    ],
)
def test_the_last_number_of_a_line_without_an_end(tail: str, believed: bool | None) -> None:
    """It counts when it is written as wide as on the lines before; else it may be cut off, and is read later."""
    text = "".join(f"step={at} loss=1.{at}500 lr=0.0030\n" for at in range(5)) + tail
    found = door.rows(key_value_text, text)
    assert (found["lr"][-1] == (9, 0.003)) is (believed is True)
    assert (found["loss"][-1] == (9, 1.25)) is (believed is True or "lr" in tail)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_survived(content: bytes) -> None:
    assert door.points(door.batches(key_value_text, content)) is not None
    assert door.sniffed(key_value_text, content) <= 0.6


@pytest.mark.parametrize(
    ("head", "name", "low", "high"),
    [
        ("step=1 loss=2.5\nstep=2 loss=2.25\n", "x.log", 0.6, 0.6),
        ("{'loss': 1.5, 'epoch': 0.1}\n{'loss': 1.4, 'epoch': 0.2}\n", "x", 0.6, 0.6),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.\n", "x.err", 0.3, 0.3),
        ("2026-05-18 16:04:46,338 - root - INFO - hello\n" * 9, "x.out", 0.3, 0.4),
        ("++ module purge\n++ unset A\n" * 9, "x.out", 0.3, 0.4),
        ("# A project\n\nIt trains models, and the loss: 2.5 was reached at step 3.\n", "README.md", 0, 0),
        ("numpy>=2.0\npolars==1.20\n", "requirements.txt", 0, 0),
        ("import os\n\n\ndef main():\n    loss = 0.5\n    raise RuntimeError('CUDA out of memory')\n", "x.txt", 0, 0),
        ("It was a dark and stormy night.\nThe rain fell in torrents.\n", "story.txt", 0, 0),
        ('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.5}\n', "x.log", 0, 0),
        ("step,loss\n1,2.5\n2,2.25\n", "x.log", 0, 0),
        ("", "x.log", 0, 0),
        ("\0\1\2\3" * 50, "x.log", 0, 0),
    ],
)
def test_sniff(head: str, name: str, low: float, high: float) -> None:
    assert low <= door.sniffed(key_value_text, head, name) <= high


@pytest.mark.parametrize(
    ("patterns", "line", "expected"),
    [
        ([r"it (?P<step>\d+) .* L=(?P<loss>\S+)"], "it {0} took 3 s L=2.5 lr=7", {"loss": [(1, 2.5), (2, 2.5)]}),
        ([r"it (?P<step>\d+)@(?P<rank>\d+) (?P<name>\w+)->(?P<value>\S+)"], "it {0}@3 a->1.5",
         {"a": [(1, 1.5), (2, 1.5)]}),
        ([r"(?P<name>[a-z]+)->(?P<value>[\d.]+)"], "a->1.5 b->2 of 3",
         {"a": [(None, 1.5)] * 2, "b": [(None, 2.0)] * 2}),
        ([r"nothing (?P<x>\d)", r"^(?P<step>\d+)\|(?P<y>[\d,]+)\|"], "{0}|7,282|", {"y": [(1, 7282.0), (2, 7282.0)]}),
        ([r"epoch (?P<step>\d+) (?P<loss>[a-z]+)"], "epoch {0} none", {}),
    ],
)  # fmt: skip
def test_patterns_of_the_user(patterns: list[str], line: str, expected: dict[str, Any], tmp_path: Path) -> None:
    """A matching line is read by the pattern alone; the others are read as ever."""
    path = tmp_path / "log"
    path.write_text("".join(line.format(step) + "\n" for step in (1, 2)) + "step: 9 val_loss: 2.25\n")
    source = replace(Source.of(path), patterns=tuple(patterns))
    found = door.table(list(key_value_text.read(source)))
    val_loss = found.pop("val_loss")
    assert val_loss == [(9, 2.25)]
    if "step" not in patterns[-1]:
        expected = {tag: [(0, value) for _, value in rows] for tag, rows in expected.items()}
    assert {tag: [(step or 0, value) for step, value in rows] for tag, rows in found.items()} == expected


def test_times_and_ranks_of_patterns(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("at 1700000000500 r2 x 1.5\nat 2023-11-14 22:13:21 r0 x 2.5\nat 1700000000500 r2 x 1.")
    pattern = r"at (?P<time>\d+(?:-\d\d-\d\d [\d:]+)?) r(?P<rank>\d) x (?P<x>\S+)"
    found = door.points(list(key_value_text.read(replace(Source.of(path), patterns=(pattern,)))))
    assert [(one.rank, one.time.tolist(), one.value.tolist()) for one in found if one.time is not None] == [
        (2, [1700000000.5], [1.5]),
        (0, [1700000001.0], [2.5]),
    ]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?P<x>b", "is no regular expression"),
        (r"\d+", "names no group"),
        (r"(?P<step>\d+)", "names no group"),
        (r"(?P<name>\w+)=", "needs both"),
        (r"(a+)+(?P<x>b)", "run for ever"),
        (r"(?P<x>(?:\w*\s*)*)", "run for ever"),
        (r"(?:a|ab)*(?P<x>\d)", "run for ever"),
    ],
)
def test_patterns_that_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compiled(pattern)


def test_patterns_that_are_taken() -> None:
    for pattern in (r"(?:\w+=\S+ )+(?P<x>\d)", r"[ab]+(?P<x>\d+(?:\.\d+)?)", r"(?P<name>\w+): *(?P<value>[\d.]+)"):
        assert compiled(pattern).groupindex


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("iter 1: loss 2.5\niter 2: loss 2.5\n", "'iter' (in 100% of rows)"),
        ("eval_loss: 2.5\n" + "num_updates=1 loss=2.5\n" * 3, "'num_updates' (in 75% of rows)"),
        ("Epoch 1/3, loss: 2.5\nEpoch 2/3, loss: 2.5\n", "the epoch (in 100% of rows)"),
        ("Epoch [1][5/10] loss: 2.5\nEpoch [2][5/10] loss: 2.5\n", "the place in the epoch (in 100% of rows)"),
        ("[0]\ttrain-rmse:0.5\n[1]\ttrain-rmse:0.25\n", "the number in brackets (in 100% of rows)"),
        ("step: 1 loss: 2.5\nstep: 2 loss: 2.5\n", None),
        ("global_step=1, loss=2.5\n", None),
    ],
)
def test_what_the_step_was_taken_from_is_told(text: str, told: str | None) -> None:
    messages = [note.message for note in door.notes(key_value_text, text) if note.kind == "steps"]
    assert messages == ([] if told is None else [f"the step is taken from {told}"])


@pytest.mark.parametrize(
    "wrap",
    [
        '{{"log":"{0}\\n","stream":"stdout","time":"2024-01-01T00:00:01.123456789Z"}}',
        '{{"level":"info","ts":1704067201.5,"msg":"{0}"}}',
        '{{"time":"2024-01-01T00:00:01Z","level":"INFO","message":"{0}"}}',
    ],
)
def test_lines_inside_lines_of_json(wrap: str) -> None:
    text = "".join(wrap.format(f"step={step} loss=2.5") + "\n" for step in (1, 2, 3)) + wrap.format("a word") + "\n"
    (found,) = door.points(door.batches(key_value_text, text))
    assert found.step is not None
    assert found.step.tolist() == [1, 2, 3]
    assert found.time is not None
    assert (found.time // 1).tolist() == [1704067201.0] * 3
    assert found.origin is not None
    assert found.origin.tolist() == [1, 2, 3]
    assert door.sniffed(key_value_text, text) == 0.9


def test_rows_of_json_are_no_wrapped_text() -> None:
    text = '{"msg": "train", "step": 1, "loss": 2.5}\n{"msg": "train", "step": 2, "loss": 2.25}\n'
    assert door.rows(key_value_text, text) == {"loss": [(1, 2.5), (2, 2.25)]}
    assert door.sniffed(key_value_text, text) == 0


def test_the_last_row_of_two_columns_needs_no_end() -> None:
    text = "".join(f"{step} {8.5 - step / 8:.4f}\n" for step in range(1, 9))
    assert len(door.rows(key_value_text, text + "9 7.2500", "loss.txt")["loss"]) == 9
    assert len(door.rows(key_value_text, text + "9 7.2", "loss.txt")["loss"]) == 8


def test_a_timer_that_was_reset_is_told() -> None:
    times = [*range(100, 1100, 100), *range(30, 150, 30)]
    text = "".join(f"step:{at}/20 train_loss:2.5 train_time:{time}ms\n" for at, time in enumerate(times, 1))
    assert [note.message for note in door.notes(key_value_text, text) if note.kind == "clock"] == [
        "'train_time' begins again at step 11: its timer was reset"
    ]
    assert not [note for note in door.notes(key_value_text, text * 2) if "step 1:" in note.message]


@pytest.mark.parametrize("text", ["step=1 loss=2.0 lr=[0", "step=1 loss=2.0 mom=(0.9", "step=1 loss=2.0 lr=[", "x=("])
def test_a_bracket_that_the_line_breaks_off_in_gives_no_value(text: str) -> None:
    assert set(door.rows(key_value_text, text)) <= {"loss"}


@st.composite
def bars(draw: st.DrawFn) -> str:
    """Bars of two epochs, some drawn again, rows of a dictionary and other lines between them, parted in any way."""
    total, epochs = draw(st.sampled_from([20, 60])), draw(st.booleans())
    metric = draw(st.sampled_from(["loss={0:.3f}", "loss={0:.3f}, v_num=9, acc={1:.2f}", "acc={1}"]))
    other = draw(st.sampled_from(["{{'eval_loss': {0:.2f}}}", "words", "step={1} loss={0:.2f} lr=1e-05", "{1}%|# | x"]))
    every, end = draw(st.integers(2, 30)), draw(st.sampled_from(["\r", "\n", "\r\n"]))
    parts = []
    for epoch in range(2):
        for at in range(total + 1):
            loss, drawn = 2 - at / 30, "█" * (at * 10 // total)
            head = f"Epoch {epoch}: " if epochs else ""
            said = metric.format(loss, at % 7 / 7)
            pace = f"[00:{at:02d}<{at % 4}:59:00, {at % 13:5.2f}it/s, {said}]"
            bar = f"{head}{at * 100 // total:3d}%|{drawn:10}| {at}/{total} {pace}"
            parts += [bar] * (1 + (at % every == 1))
            if at % every == 0:
                parts.append(other.format(loss, at))
    return "".join(part + ("\n" if at % every == every - 1 else end) for at, part in enumerate(parts))


@settings(max_examples=25, deadline=None)
@given(bars(), st.data())
def test_bars_by_column_give_what_single_bars_give(text: str, data: st.DataObject) -> None:
    """However a log is cut into readings: bars of which a reading has too few for a shape are read one by one."""
    whole = door.rows(key_value_text, text)
    joined: dict[str, list[door.Row]] = {}
    since, pieces, seen = None, text.split("\n"), ""
    size = data.draw(st.integers(1, 9))
    for at in range(0, len(pieces), size):
        seen = "\n".join(pieces[: at + size]) + ("\n" if at + size < len(pieces) else "")
        found = door.batches(key_value_text, seen, since=since)
        since = door.checkpoint(found)
        for tag, rows in door.table(found).items():
            joined.setdefault(tag, []).extend(rows)
    assert {tag: printed(rows) for tag, rows in joined.items()} == {tag: printed(rows) for tag, rows in whole.items()}


@settings(max_examples=25, deadline=None)
@given(bars(), st.data())
def test_a_bar_cut_short_invents_nothing(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    whole, part = door.rows(key_value_text, text), door.rows(key_value_text, text[:cut])
    for tag, rows in part.items():
        assert printed(rows) == printed(whole[tag][: len(rows)])


def test_bars_stand_in_the_order_of_the_log_and_are_told_once() -> None:
    bar = "train:  {0}%|#         | {0}/100 [00:01<00:02,  3.10it/s, loss={1:.2f}]"
    parts = [bar.format(at, 2 - at / 100) for at in range(100) for _ in range(1 + (at == 50))]
    rows = door.rows(key_value_text, "\r".join(parts) + "\n")["loss"]
    assert rows == [(at, float(f"{2 - at / 100:.2f}")) for at in range(100)]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("speed of disk = {0}.5 done", 30),
        ("speed of disk = 3.5 done", 0),  # a setting, printed by every rank
        ("worker {0} on port: 29500", 0),
        ("localhost: words {0}", 0),
    ],
)
def test_lines_with_numbers_that_gave_nothing_are_told(line: str, count: int) -> None:
    text = "".join(f"step={at} loss=2.5\n{line.format(at)}\n" for at in range(30))
    told = [note for note in door.notes(key_value_text, text) if note.kind == "not-understood"]
    assert [(note.count, note.line) for note in told] == ([(count, 2)] if count else [])


def test_few_odd_lines_are_not_worth_a_word() -> None:
    text = "".join(f"step={at} loss=2.5\n" for at in range(2000)) + "".join(f"disk = {at}.5 x\n" for at in range(19))
    assert not [note for note in door.notes(key_value_text, text) if note.kind == "not-understood"]


def test_a_lost_block_in_the_head_is_no_reason_to_refuse_a_log() -> None:
    rows = "".join(f"step={step} loss={3 - step / 1000}\n" for step in range(400))
    rubbish = "".join(map(chr, range(150)))
    assert door.sniffed(key_value_text, rows[:4000] + rubbish + rows[4000:], "train.log") >= 0.6
    assert door.sniffed(key_value_text, "\0" * 300 + rows[:2000], "train.log") == 0.0
