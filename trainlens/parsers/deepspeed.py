"""DeepSpeed console output.

Optimiser steps (`[Rank 0] step=10, skipped=6, lr=[…]`), throughput timers, the pipeline engine (`steps: 1 loss: … iter
time (s): …`), DeepSpeed-Chat and what the trainer around it prints. A skipped step (OVERFLOW!) is an Event.
https://github.com/deepspeedai/DeepSpeed (deepspeed/runtime/engine.py, deepspeed/utils/timer.py)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.model import Batch, Checkpoint
from trainlens.parsers import _text_reader
from trainlens.parsers._lines import head_text
from trainlens.sources import Source

TELLS_END = True
READS_TEXT = True

_SURE = re.compile(
    r"\[Rank \d+\] step=\d+, skipped=\d+, lr=\[|SamplesPerSec=[\d.]+|\bsteps: \d+ loss: \S+ iter time \(s\): "
    r"|\[deeps(?:peed|cale)\] OVERFLOW! Rank|\|ppo_ep: \d+\|act_loss: "
)
_START_UP = re.compile(
    r"\[(?:INFO|WARNING)\] \[(?:real_accelerator|launch|runner|comm|engine|logging|config|stage\w*)\.py:\d+:\w+\]"
    r"|cmd = deepspeed |DeepSpeed general environment info"
)


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001
    text = head_text(head)
    if _SURE.search(text):
        return 0.75
    return 0.7 if _START_UP.search(text) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    return _text_reader.read(source, since)
