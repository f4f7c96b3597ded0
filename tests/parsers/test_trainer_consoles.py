"""The consoles of common trainers: their rows and steps, with counters of epochs, bars, tables and blocks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers import door
from trainlens.parsers import key_value_text

Rows = dict[str, list[door.Row]]


def table(*rows: tuple[str, str]) -> str:
    """A boxed table as stable-baselines3 draws it."""
    rule = "-" * 40
    return "\n".join([rule, *(f"| {name:<22} | {value:<11} |" for name, value in rows), rule]) + "\n"


def block(step: int) -> str:
    return (
        "#" * 60 + f"\n             \x1b[1m Learning iteration {step}/10000 \x1b[0m\n\n"
        "             Computation: 95000 steps/s (collection: 0.9s, learning 0.14s)\n"
        "     Value function loss: inf\n             Mean reward: 12.5\n"
        + "-" * 60 + "\n         Total timesteps: 98304\n          Iteration time: 1.03s\n"
    )  # fmt: skip


def yolo(epoch: int) -> str:
    return (
        "      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size\n"
        + "\r".join(
            f"      {epoch}/100      2.4G      1.{at}      3.5         98        640: {at}%|##| {at}/15 [00:05<00:00]"
            for at in (3, 15)
        )
        + "\n                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|##| 4/4\n"
        f"                   all        128        929       0.64       0.53      0.6{epoch}      0.45\n"
    )


def keras(epoch: int, again: str) -> str:
    running = again.join(f" {at}/102 [>...] - ETA: 8:18 - loss: 0.{at}" for at in (1, 2))
    return f"Epoch {epoch}/9\n{running}{again}102/102 [====] - 8s 81ms/step - loss: 0.5{epoch} - val_loss: 0.75\n"


def keras_3(epoch: int) -> str:
    states = "\r".join(f"{at}/102 ━━━━ 2s 51ms/step - loss: 0.{at}" for at in (50, 102))
    return f"Epoch {epoch}/9\n{states}\r102/102 ━━━━ 5s 51ms/step - loss: 0.5{epoch} - val_loss: 0.75\n"


def bars(text: str) -> str:
    return "\r".join(text.format(at, 2 + at / 8) for at in (1, 2, 2, 3)) + "\n"


CONSOLES: list[tuple[str, str, Rows]] = [
    (
        "mmdetection",
        "".join(
            f"2022-02-09 20:28:32,418 - mmdet - INFO - Epoch [{epoch}][{at}/742]\tlr: 5.000e-05, eta: 2:15:01,"
            f" time: 0.396, memory: 4127, loss: {loss}\n"
            for epoch, at, loss in ((1, 50, 2.5), (1, 700, "nan"), (2, 50, 2.25))
        ),
        {"loss": [(50, 2.5), (700, math.nan), (792, 2.25)], "memory": [(50, 4127), (700, 4127), (792, 4127)]},
    ),
    (
        "mmengine",
        "12/09 06:49:23 - mmengine - INFO - Epoch(train)  [1][ 50/100]  lr: 0.5  eta: 1:00:00  loss: 1.25\n"
        "12/09 06:49:24 - mmengine - INFO - Epoch(train)  [1][100/100]  lr: 0.5  eta: 1:00:00  loss: 1.0\n"
        "12/09 06:59:23 - mmengine - INFO - Epoch(val) [1][20/20]    coco/bbox_mAP: 0.372  data_time: 0.01\n"
        "12/09 07:49:24 - mmengine - INFO - Epoch(train)  [2][ 50/100]  lr: 0.5  eta: 1:00:00  loss: 0.75\n",
        {"loss": [(50, 1.25), (100, 1.0), (150, 0.75)], "coco/bbox_mAP": [(100, 0.372)]},
    ),
    (
        "mmengine by iteration",
        "".join(f"12/09 06:49:23 - mmengine - INFO - Iter(train) [{at:>6}/9000]  lr: 0.5  loss: 1.25\n"
            for at in (5, 6)),
        {"loss": [(5, 1.25), (6, 1.25)], "lr": [(5, 0.5), (6, 0.5)]},
    ),
    (
        "torchvision",
        "".join(
            f"Epoch: [{epoch}]  [{at}/6]  eta: 0:00:11  lr: 0.5  loss: 7.5 (7.25)  time: 2.5  max mem: 2648\n"
            for epoch in (0, 1) for at in (0, 5)
        )
        + "Test:  [0/3]  eta: 0:00:01  loss: 9.5 (9.5)  time: 2.5\n",
        {"loss": [(at, 7.5) for at in (0, 5, 6, 11)], "max mem": [(at, 2648) for at in (0, 5, 6, 11)]},
    ),
    (
        "imagenet",
        "".join(
            f"Epoch: [{epoch}][{at:4d}/500]\tTime  0.321 ( 0.400)\tLoss 2.5e+00 (2.7e+00)\tAcc@1  50.00 ( 40.10)\n"
            for epoch in (0, 1) for at in (0, 10)
        ),
        {"Loss": [(at, 2.5) for at in (0, 10, 500, 510)], "Acc@1": [(at, 50) for at in (0, 10, 500, 510)]},
    ),
    (
        "SwAV",
        "".join(
            f"INFO - 09/03/20 02:40:21 - 8:31:52 - Epoch: [{epoch}][{at}]\tTime 2.7 (2.6)\tLoss 2.{at} (2.1)\tLr: 0.6\n"
            for epoch, at in ((398, 0), (398, 50), (399, 0))
        ),
        {"Loss": [(0, 2.0), (50, 2.5), (100, 2.0)], "Lr": [(at, 0.6) for at in (0, 50, 100)]},
    ),
    (
        "fairseq 0.6",
        "".join(f"| epoch 00{epoch}:    200 / 1374 loss=14.5, ppl=208.5, wps=49604, ups=0\n" for epoch in (1, 2)),
        {"loss": [(200, 14.5), (1574, 14.5)], "ups": [(200, 0), (1574, 0)]},
    ),
    (
        "fairseq 0.9",
        "2020-03-23 11:39:44 | INFO | train_inner | epoch 003:      5 / 356 loss=9.5, num_updates=700, lr=0.5\n"
        "2020-03-23 11:40:44 | INFO | train | epoch 003 | loss 9.75 | ppl 894.1 | num_updates 708 | lr 0.25\n"
        "2020-03-23 11:40:50 | INFO | valid | epoch 003 | valid on 'valid' subset | loss 9.25 | num_updates 708\n",
        {"loss": [(700, 9.5)], "train/loss": [(708, 9.75)], "valid/loss": [(708, 9.25)]},
    ),
    (
        "fairseq hydra",
        '[2022-04-08 18:47:00,000][train_inner][INFO] - {"epoch": 1, "loss": "9.5", "num_updates": "200"}\n'
        '[2022-04-08 18:49:00,000][valid][INFO] - {"epoch": 1, "valid_loss": "8.5", "valid_num_updates": "481"}\n',
        {"loss": [(200, 9.5)], "valid_loss": [(481, 8.5)]},
    ),
    (
        "own logger",
        "".join(
            f"10-03 15:41:47: main.py[280]: [Epoch {epoch}/50][ {at}00:400]  Loss: 0.5 LR: 0.25\n"
            for epoch, at in ((1, 1), (1, 4), (2, 1))
        ),
        {"Loss": [(100, 0.5), (400, 0.5), (500, 0.5)], "LR": [(100, 0.25), (400, 0.25), (500, 0.25)]},
    ),
    (
        "MiniMind",
        "".join(
            f"Epoch:[{epoch}/2]({at}/1000), loss: 8.5, aux_loss: 0.0, lr: 0.25, epoch_time: 130.0min\n"
            for epoch, at in ((1, 10), (2, 10))
        ),
        {"loss": [(10, 8.5), (1010, 8.5)], "aux_loss": [(10, 0.0), (1010, 0.0)]},
    ),
    (
        "a counter of the run beside epochs",
        "".join(f"Epoch {epoch}, step {at}/300 | loss: 2.5 | lr: 0.5\n" for epoch, at in ((1, 90), (2, 190), (3, 290))),
        {"loss": [(90, 2.5), (190, 2.5), (290, 2.5)]},
    ),
    (
        "Lightning",
        bars("Epoch 0:   6%|██ | {0}/4 [8:43<9:17,  1.37it/s, loss={1}, v_num=9, global_step=3.2e+4, acc=0.5]")
        + bars("Epoch 1:   6%|██ | {0}/4 [8:43<9:17,  1.37it/s, loss={1}, v_num=9, global_step=3.2e+4, acc=0.5]"),
        {"loss": [(at, 2 + (at - 4 * (at > 4)) / 8) for at in (1, 2, 3, 5, 6, 7)],
         "acc": [(at, 0.5) for at in (1, 2, 3, 5, 6, 7)]},
    ),
    (
        "trlx",
        bars("[losses/total_loss: {1} | losses/value_loss: 7.5]:  16%|█ | {0}/64 [1:14:23<1:13:02,  1.23it/s]"),
        {"losses/total_loss": [(1, 2.125), (2, 2.25), (3, 2.375)], "losses/value_loss": [(1, 7.5), (2, 7.5), (3, 7.5)]},
    ),
    (
        "a bar that is full and begins again",
        "\r".join(f"Training: 5%|# | {at}/3 [00:43<04:39,  1.37it/s, loss=2.5]" for at in (1, 2, 3, 1, 2)) + "\n",
        {"loss": [(at, 2.5) for at in (1, 2, 3, 4, 5)]},
    ),
    ("Keras", keras(1, "\r") + keras(2, "\r"), {"loss": [(1, 0.51), (2, 0.52)], "val_loss": [(1, 0.75), (2, 0.75)]}),
    ("Keras, erased", keras(1, "\b" * 9) + keras(2, "\b" * 9), {"loss": [(1, 0.51), (2, 0.52)]}),
    ("Keras 3", keras_3(1) + keras_3(2), {"loss": [(1, 0.51), (2, 0.52)], "val_loss": [(1, 0.75), (2, 0.75)]}),
    (
        "YOLO",
        yolo(1) + yolo(2),
        {"box_loss": [(1, 1.15), (2, 1.15)], "cls_loss": [(1, 3.5), (2, 3.5)], "P": [(1, 0.64), (2, 0.64)],
         "mAP50": [(1, 0.61), (2, 0.62)], "mAP50-95": [(1, 0.45), (2, 0.45)]},
    ),
    (
        "stable-baselines3",
        "".join(
            table(("rollout/", ""), ("   ep_rew_mean", f"{at}.5"), ("time/", ""), ("   iterations", str(at)),
                  ("   total_timesteps", str(2048 * at)), ("train/", ""), ("   loss", "1.25"))
            for at in (1, 2)
        ),
        {"rollout/ep_rew_mean": [(2048, 1.5), (4096, 2.5)], "train/loss": [(2048, 1.25), (4096, 1.25)]},
    ),
    (
        "rsl_rl",
        block(8391) + block(8392),
        {"Value function loss": [(8391, math.inf), (8392, math.inf)], "Mean reward": [(8391, 12.5), (8392, 12.5)],
         "Iteration time": [(8391, 1.03), (8392, 1.03)]},
    ),
    (
        "Caffe",
        "I0613 19:35:23.303613  1860 solver.cpp:341] Iteration 9000, Testing net (#0)\n"
        "I0613 19:35:23.303613  1860 solver.cpp:409]     Test net output #0: accuracy = 0.75\n"
        "I0613 19:35:23.303613  1860 solver.cpp:228] Iteration 9000 (2.5 iter/s, 40s/100 iters), loss = 8.5\n"
        "I0613 19:35:23.303613  1860 solver.cpp:244]     Train net output #0: loss = 8.25 (* 1 = 8.25 loss)\n"
        "I0613 19:35:23.303613  1860 sgd_solver.cpp:106] Iteration 9000, lr = 0.25\n",
        {"Test accuracy": [(9000, 0.75)], "loss": [(9000, 8.5)], "Train loss": [(9000, 8.25)]},
    ),
    (
        "TF estimator",
        "INFO:tensorflow:loss = 5.5, step = 101 (12.3 sec)\n"
        "INFO:tensorflow:Saving dict for global step 101: accuracy = 0.75, global_step = 101, loss = 0.25\n",
        {"loss": [(101, 5.5)], "eval/accuracy": [(101, 0.75)], "eval/loss": [(101, 0.25)]},
    ),
    (
        "llm.c",
        "step   20/19560 | loss 10.5 (+nanz)| norm 15.25 (+1.25z)| lr 1.5e-06 | 3056.45 ms | 171527 tok/s\n",
        {"loss": [(20, 10.5)], "norm": [(20, 15.25)], "lr": [(20, 1.5e-06)]},
    ),
    (
        "verl",
        "\x1b[36m(TaskRunner pid=77)\x1b[0m step:7 - actor/pg_loss:0.25 - critic/rewards/mean:0.5 - actor/lr:1e-06\n",
        {"actor/pg_loss": [(7, 0.25)], "critic/rewards/mean": [(7, 0.5)], "actor/lr": [(7, 1e-06)]},
    ),
    (
        "tb.py",
        "[tb.py:264] INFO - [243/256] : (avg (std), med) = ( 0.25 [ 0.0000] ( 0.0046), 0.5)  # train/loss\n",
        {"train/loss": [(243, 0.25)]},
    ),
    (
        "DLLogger",
        "DLL 2020-05-29 11:31:45.76 - Training Epoch: 0 Training Iteration: 1787  step_loss : 3.5  lr : 0.5\n",
        {"step_loss": [(1787, 3.5)], "lr": [(1787, 0.5)]},
    ),
    (
        "detectron2",
        "[08/30 23:00:36] d2.utils.events INFO:  eta: 0:14:11  iter: 19  total_loss: 76.5  loss_ce_0: 1.25  lr: 0.5\n",
        {"total_loss": [(19, 76.5)], "loss_ce_0": [(19, 1.25)]},
    ),
    (
        "timm",
        "".join(f"Train: {epoch} [ {at:>3}/100 ( 36%)]  Loss: 6.5 (6.75)  Time: 0.5s, 851.2/s (0.5s, 820/s)  LR: 0.25\n"
            for epoch in (0, 1) for at in (0, 50)),
        {"Loss": [(at, 6.5) for at in (0, 50, 100, 150)], "LR": [(at, 0.25) for at in (0, 50, 100, 150)]},
    ),
    (
        "OLMo over lines",
        "".join(f"2024-01-01 00:00:00\tnode:0\tolmo.train:1000\tINFO\t[step={at}/1000,epoch=0]\n"
            f"    train/CrossEntropyLoss=2.5\n    throughput/total_tokens=4,194,304\n" for at in (1, 2)),
        {"train/CrossEntropyLoss": [(1, 2.5), (2, 2.5)], "throughput/total_tokens": [(1, 4194304), (2, 4194304)]},
    ),
    (
        "Composer",
        "".join(f"[batch={at}/100]:\n\t Train loss/train/total: 2.5\n" for at in (1, 2)),
        {"Train loss/train/total": [(1, 2.5), (2, 2.5)]},
    ),
    (
        "OpenNMT",
        "".join(f"[2020-01-01 10:00:00,123 INFO] Step {at}/1000; acc: 3.5; lr: 0.5; 1200/1300 tok/s; 12 sec\n"
            for at in (50, 100)),
        {"acc": [(50, 3.5), (100, 3.5)], "tok/s (source)": [(50, 1200), (100, 1200)]},
    ),
    (
        "Marian",
        "".join(f"[2020-01-01 10:00:00] Ep. 1 : Up. {at} : Sen. 123,456 : Cost 5.5 * 1,234 @ 10 after 12,345"
            f" : Time 3.5s : 125.5 words/s : gNorm 1.5 : L.r. 3.0000e-04\n" for at in (10, 20)),
        {"Cost": [(10, 5.5), (20, 5.5)], "words/s": [(10, 125.5), (20, 125.5)], "L.r.": [(10, 3e-4), (20, 3e-4)]},
    ),
    (
        "Flair",
        "".join(f"2021-01-01 10:00:00,123 epoch {epoch} - iter 5/10 - loss 3.5 - samples/sec: 100.5 - lr: 0.5\n"
            for epoch in (1, 2)),
        {"loss": [(5, 3.5), (15, 3.5)], "lr": [(5, 0.5), (15, 0.5)]},
    ),
    (
        "ESPnet",
        "[host] 2022-01-01 10:00:00,123 (trainer:737) INFO: 1epoch:train:1-100batch: iter_time=0.5, loss=35.5\n"
        "[host] 2022-01-01 11:00:00,123 (trainer:338) INFO: 1epoch results: [train] loss=30.5, time=10 minutes and 5.1"
        " seconds, [valid] loss=25.5\n",
        {"loss": [(100, 35.5)], "train/loss": [(100, 30.5)], "valid/loss": [(100, 25.5)]},
    ),
    ("XGBoost", "[0]\ttrain-rmse:0.5\n[1]\ttrain-rmse:0.25\n", {"train-rmse": [(0, 0.5), (1, 0.25)]}),
    (
        "spaCy",
        "E    #       LOSS NER  ENTS_F  SCORE \n---  ------  --------  ------  ------\n"
        "  0       0     43.25    0.00    0.50\n  1     200    843.25   45.50    0.75\n",
        {"LOSS NER": [(0, 43.25), (200, 843.25)], "SCORE": [(0, 0.5), (200, 0.75)], "epoch": [(0, 0), (200, 1)]},
    ),
    (
        "fastai",
        "epoch     train_loss  valid_loss  time    \n0         0.75        0.5         00:30     \n"
        "1         0.5         0.25        00:30     \n",
        {"train_loss": [(0, 0.75), (1, 0.5)], "valid_loss": [(0, 0.5), (1, 0.25)]},
    ),
    (
        "Keras without bars",
        "Epoch 1/3\n - 5s - loss: 0.5 - val_loss: 0.75\nEpoch 2/3\n - 5s - loss: 0.25 - val_loss: 0.5\n",
        {"loss": [(1, 0.5), (2, 0.25)], "val_loss": [(1, 0.75), (2, 0.5)]},
    ),
    (
        "verl with numbers of numpy",
        "step:1 - actor/entropy:np.float64(0.5) - critic/score/mean:0.25\n",
        {"actor/entropy": [(1, 0.5)], "critic/score/mean": [(1, 0.25)]},
    ),
    (
        "names, numbers and blanks",
        "step 1 loss 2.5 lr 0.5 acc 50.5% (49.5%)\nstep 2 loss 2.25 lr 0.5 acc 51.5% (50.5%)\n",
        {"loss": [(1, 2.5), (2, 2.25)], "acc": [(1, 50.5), (2, 51.5)]},
    ),
    (
        "NeMo 2",
        "Training epoch 0, iteration 20/49 | lr: 3e-05 | global_step: 120 | reduced_train_loss: 1.25 | val_loss: 4.5\n",
        {"reduced_train_loss": [(120, 1.25)], "val_loss": [(120, 4.5)]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [one[1:] for one in CONSOLES], ids=[one[0] for one in CONSOLES])
def test_rows_of_trainers(text: str, expected: Rows) -> None:
    found = door.rows(key_value_text, text)
    assert str({tag: found.get(tag) for tag in expected}) == str(as_floats(expected))


@pytest.mark.parametrize("text", [one[1] for one in CONSOLES], ids=[one[0] for one in CONSOLES])
def test_a_trainers_console_is_known(text: str) -> None:
    assert door.sniffed(key_value_text, text * 4) == 0.6


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([one[1] for one in CONSOLES]), st.data())
def test_going_on_later_gives_the_same(text: str, data: st.DataObject) -> None:
    """What is read in two goes, cut between any two lines, equals what is read at once."""
    lines = [line + "\n" for line in (text + text).split("\n")[:-1]]
    begin = "".join(lines[: data.draw(st.integers(0, len(lines)))])
    first = door.batches(key_value_text, begin)
    second = door.batches(key_value_text, "".join(lines), since=door.checkpoint(first))
    whole = door.rows(key_value_text, "".join(lines))
    joined: Rows = {}
    for part in (door.table(first), door.table(second)):
        for tag, rows in part.items():
            joined.setdefault(tag, []).extend(rows)
    assert printed(joined) == printed(whole)


@pytest.mark.parametrize(
    "text",
    [
        "Downloading: 100%|####| 10/10 [00:01<00:00, 5.0MB/s]\n"
        "Map (num_proc=8):  45%|##| 450/1000 [00:01<00:00, 500 examples/s]\n",
        "Loading checkpoint shards:  50%|###  | 1/2 [00:03<00:03,  3.6s/it]\n",
        "+-----------------------------------------+\n| NVIDIA-SMI 550.54      Driver Version: 550.54 |\n"
        "|   0  NVIDIA A100-SXM4-80GB    Off | 00000000:07:00.0 Off |    0 |\n+---------------------------------+\n",
        "| metric | value |\n|--------|-------|\n| loss   | 2.5   |\n",
        "Epoch 1/10\n",
        table(("batch_size", "32"), ("lr", "0.5"), ("steps", "1000")),
        " 3/102 [......] - ETA: 8:18 - loss: 0.6808 - accuracy: 0.6042\n",
        "50/102 ━━━━ 2s 48ms/step - loss: 0.5\n",
        "Test: [ 0/196]\tTime 0.5 (0.5)\tLoss 2.5 (2.5)\tAcc@1 50.0 (50.0)\n",
        "------------------------ arguments ------------------------\n  adam_beta1 ........................ 0.9\n"
        "  epoch .......................................... [1][2/3]\n",
        'print(f"Epoch: [{epoch}][{i}/{len(loader)}] loss: {loss:.3f}")\n',
        "***** train metrics *****\n  epoch                    =        1.0\n  train_loss               =     2.5123\n",
        "    learning_rate: 3\n",
    ],
)  # fmt: skip
def test_what_is_no_row_of_metrics(text: str) -> None:
    assert door.rows(key_value_text, text) == {}


def test_a_summary_is_told_as_facts() -> None:
    text = "***** train metrics *****\n  epoch      =      1.0\n  train_runtime      = 0:15:19.02\n  train_loss = 2.5\n"
    assert door.facts(key_value_text, text) == {"epoch": 1.0, "train_loss": 2.5}


def test_a_second_session_in_one_file_is_a_restart() -> None:
    banner = "================ Training Loss (Wed Aug 23 13:29:28 2023) ================\n"
    text = (banner + "(epoch: 1, iters: 100, time: 0.1, data: 0.1) G_A: 0.5 \n") * 2
    assert [event.kind for event in door.events(key_value_text, text)] == ["run-start", "restart"]


@pytest.mark.parametrize(
    ("line", "units"),
    [
        ("iter 250: loss 3.25, time 329.25ms, mfu 8.25%", {"time": "ms", "mfu": "%", "loss": ""}),
        ("step:526/20344 train_loss:3.5 train_time:9051ms step_avg:1754.25ms", {"train_time": "ms", "step_avg": "ms"}),
        ("step: 14  loss:  3.25  memory:  9.5GiB(64.75%)  tps: 7,282", {"memory (GiB)": "GiB", "loss": "", "tps": ""}),
        ("Step 7 | Loss: 2.5 | Mem: 41.5 GiB | Throughput: 11880 tokens/s", {"Mem": "GiB", "Throughput": ""}),
        ("Iter 25: Train loss 1.5, Peak mem 8.25 GB", {"Peak mem": "GB"}),
        ("step=1 loss=2.5 consumed_tokens=85.5G", {"consumed_tokens": ""}),
    ],
)  # fmt: skip
def test_the_unit_written_behind_a_value_is_kept(line: str, units: dict[str, str]) -> None:
    """On single lines and on lines read by their shape alike."""
    for text in (line + "\n", "".join(line + "\n" for _ in range(200))):
        found = {part.tag: part.unit for part in door.points(door.batches(key_value_text, text))}
        assert {tag: found[tag] for tag in units} == units


def test_units_that_differ_are_none() -> None:
    (found,) = [
        part
        for part in door.points(door.batches(key_value_text, "step=1 loss=2 dt=900ms\nstep=2 loss=2 dt=1.25s\n"))
        if part.tag == "dt"
    ]
    assert found.unit == ""
    assert found.value.tolist() == [900.0, 1.25]


def as_floats(rows: Rows) -> Rows:
    return {tag: [(step, float(value)) for step, value in found] for tag, found in rows.items()}


def printed(rows: Any) -> dict[str, list[str]]:
    """Rows in words, so that NaN equals NaN; what stands before the first step has none, or step 0 beside others."""
    return {tag: [str((step or 0, value)) for step, value in found] for tag, found in rows.items()}
