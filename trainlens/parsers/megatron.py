"""Megatron-LM console output, and that of its forks.

Iteration records (` iteration 2/ 1000 | consumed samples: 2048 | … | lm loss: 1.0E+01 | … |`) with whatever fields they
hold, validation, timers, memory per rank, checkpoints, the list of arguments. Lines of DeepSpeed in the same file too.
https://github.com/NVIDIA/Megatron-LM (megatron/training/training.py)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.model import Batch, Checkpoint
from trainlens.parsers import _text_reader
from trainlens.parsers._lines import head_text
from trainlens.parsers._megatron_lines import RECORD
from trainlens.sources import Source

TELLS_END = True
READS_TEXT = True

_START_UP = re.compile(
    r"using world size: \d+, (?:data|context)-parallel|-{4} arguments -{4}|\(after \d+ iterations\) memory \(MB\) \|"
    r"|\[[^\]\[\n]{1,80}\] datetime: \d{4}-|megatron\.core\.|> building train, validation, and test datasets"
    r"|pretrain_(?:gpt|bert|t5|vlm|mamba|retro)\w*\.py|--tensor-model-parallel-size"
    r"|validation loss at iteration \d+ \| lm loss"
)


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001
    text = head_text(head)
    if RECORD.search(text):
        return 0.95
    return 0.8 if _START_UP.search(text) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    return _text_reader.read(source, since, pairs=False)
