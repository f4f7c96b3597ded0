"""What stands in logs beside the rows of metrics: none of it may give a point, and none of it may bend a row."""

from __future__ import annotations

import pytest

from tests.parsers import door
from trainlens.parsers import key_value_text

TRAPS = {
    "prose": "We trained for 3 epochs. At step 7 the loss was 2.5, and at step 9 it fell to 2.25.\n"
    "Note: in step 3 of the guide, 5 of us looked at it for 20 minutes.\n",
    "advice": "See section 4: step 2 explains how loss scaling (2 modes) works in version 1.3\n",
    "source": 'if step % 100 == 0:\n    print(f"step {step} loss {loss:.3f} lr {lr}")\nfor epoch in range(3):\n'
    '    lr = 0.5\n'
    "def train(step=0, loss=0.5):\n    return dict(step=3, loss=2.5)\n",
    "shell": "+ python train.py --lr=0.001 --epochs=3\n++ STEP=4\n",
    "arguments dotted": "  lr .............................. 0.001\n  train_iters ..................... 500000\n",
    "arguments as a namespace": "Namespace(batch_size=32, lr=0.001, steps=1000, weight_decay=0.1)\n",
    "arguments as YAML": "model:\n  hidden_size: 4096\n  num_layers: 32\ntrain:\n  learning_rate: 0.0003\n"
    "  max_steps: 1000\n",
    "arguments as a dict": "{'lr': 0.001, 'batch_size': 32, 'seed': 1234}\n",
    "settings in a row": "total steps: 1000, warmup steps: 100, batch size: 32, seq len: 2048\n",
    "model summary": "  | Name  | Type   | Params | Mode \n-----------------------------------\n"
    "0 | model | Linear | 7.5 K  | train\n-----------------------------------\n7.5 K     Trainable params\n",
    "Keras summary": " Layer (type)            Output Shape       Param #   \n======================================\n"
    " dense (Dense)           (None, 64)         50240     \nTotal params: 50,890\nTrainable params: 50,890\n",
    "torch summary": "Layer (type:depth-idx)      Output Shape     Param #\n"
    "├─Linear: 1-1              [1, 10]          7,850\n",
    "pip": "Collecting torch==2.4.0\n  Downloading torch-2.4.0-cp311-none-linux.whl (797.2 MB)\n"
    "     ━━━━━━━━━━━━━━━━ 797.2/797.2 MB 2.1 MB/s eta 0:00:00\nSuccessfully installed torch-2.4.0 numpy-1.26.4\n",
    "dataset": "Dataset: train 50000 samples, val 10000 samples, 10 classes\nNum examples = 52,002\n  Num Epochs = 3\n"
    "  Total optimization steps = 1,218\nMap:  45%|##| 450/1000 [00:01<00:00, 500 examples/s]\n",
    "NCCL": "host:28152:28169 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
    "host:28152:28169 [0] NCCL INFO comm 0x5581 rank 0 nranks 8 cudaDev 0 busId 7000 - Init COMPLETE\n",
    "NCCL tests": "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "     1048576        262144     float     sum      -1    65.32   16.05   28.09      0\n",
    "kernels": "matmul 4096x4096: 1.25 ms (110.2 TFLOPS)\n  triton_mm_12 0.0125 ms 100.0%\n"
    "AUTOTUNE mm(4096x4096, 4096x4096)\nSingleProcess AUTOTUNE benchmarking takes 1.2 seconds\n",
    "profiler": "aten::mm   12.50%   1.250ms   25.00%   2.500ms   10.000us   250\n",
    "nvidia-smi": "|   0  NVIDIA H100 80GB  On  | 00000000:1B:00.0 Off |    0 |\n"
    "| N/A   33C    P0    70W / 700W |  1234MiB / 81559MiB |\n",
    "GPU memory": "GPU 0: 12.5 GB used, 67.5 GB free\nCUDA Version: 12.4\n",
    "versions": "PyTorch: 2.4.0\nCUDA: 12.4\nPython 3.11.4\ntransformers version: 4.44.0\n",
    "wandb": "wandb: Run data is saved locally in ./wandb/run-1\nwandb: ⭐️ View project at https://wandb.ai/a/b\n",
    "clock": "Elapsed 0:15:19 of 1:30:00\n[2024-01-01 10:00:00] start\n",
    "addresses": "[I0811 12:30:05] store.cpp:226] connecting to nid0001:29500\nMASTER_PORT=29500 RANK=3 WORLD_SIZE=8\n",
    "a table of settings": "name           value\n-------------  -----\nlr             0.001\nepochs         3\n",
    "a table of layers": "#    name    params\n0    conv    1234\n1    fc      10\n",
    "a table of scores by class": "              precision    recall  f1-score   support\n\n"
    "     0       0.98      0.97      0.98       980\n",
    "a confusion matrix": "[[980   0   1]\n [  2 1130   3]]\n",
    "tensors": "tensor([[0.1, 0.2], [0.3, 0.4]])\nweight: tensor([1.0, 2.0, 3.0])\n",
    "lists": "betas=[0.9, 0.95], milestones=[30, 60, 90]\n",
    "remaining time": "remaining time: 1 days, eta: 3 hours, 12 minutes\n",
    "an empty bar": "Training:   0%|          | 0/58 [07:16<?, ?it/s]\n",
    "loading": "Loading checkpoint shards: 100%|###| 4/4 [00:03<00:00, 1.6s/it]\nLoaded step 1000 from disk\n",
    "JSON settings": '{"loss_scale": 0, "initial_scale_power": 16}\n{"msg": "hello", "level": "info"}\n',
    "a traceback": 'Traceback (most recent call last):\n  File "train.py", line 20, in <module>\n'
    '    loss = model(step=3)\n',
    "git": "diff --git a/x b/x\n@@ -1,5 +1,6 @@\n+ loss = 0.5\n- lr = 0.1\n",
    "Markdown": "| step | note |\n|------|------|\n| 1    | begin |\n\n1. step 3: do it\n",
    "numbered": "[1] first\n[2] second\n10:\tprint(x)\n11:\tx = 2.5\n",
}  # fmt: skip


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS.keys())
def test_no_point(text: str) -> None:
    assert door.rows(key_value_text, text) == {}


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS.keys())
def test_rows_beside_stay_what_they_are(text: str) -> None:
    rows = "".join(f"step: {step}, loss: 2.5, lr: 0.25\n" for step in range(1, 9))
    found = door.rows(key_value_text, rows + text + rows.replace("step: ", "step: 1"))
    steps = [*range(1, 9), *range(11, 19)]
    assert found == {"loss": [(step, 2.5) for step in steps], "lr": [(step, 0.25) for step in steps]}


@pytest.mark.parametrize(
    "header",
    [
        "2024-01-01 10:00:00.123 | INFO     | __main__:train:42 - ",
        "2024-01-01T10:00:00Z ",
        "2024-01-01T10:00:00.123456789Z stdout F ",
        "2024-01-01 10:00:00,123\tnode1:0\tolmo.train:1000\tINFO\t",
        "[NeMo I 2024-10-01 10:00:00 nemo_logging:381] ",
        "[host] 2022-01-01 10:00:00,123 (trainer:737) INFO: ",
        "I0101 10:00:00.123456 140000 train.py:42] ",
        "INFO:trainer.loop:",
        "[2024-01-01 10:00:00,123][__main__][INFO] - ",
        "[pod/train-0/main] ",
        "\x1b[36m(TaskRunner pid=293776)\x1b[0m ",
        "> ",
        "    ",
        "3: ",
        "[rank3]: ",
    ],
)
def test_what_a_logger_writes_before_is_no_metric(header: str) -> None:
    text = "".join(f"{header}step: {step}, loss: 2.5, lr: 0.25\n" for step in range(1, 9))
    found = door.rows(key_value_text, text)
    assert found == {"loss": [(at, 2.5) for at in range(1, 9)], "lr": [(at, 0.25) for at in range(1, 9)]}
