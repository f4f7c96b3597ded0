"""Hugging Face Trainer state: `trainer_state.json`, whose "log_history" is a list of rows.

The last row, written when training ends, sums the run up (train_runtime, train_loss …): it becomes facts, for its
train_loss is a mean over the whole run. The values around the history (max_steps, best_metric …) are facts, too.

The format: https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_callback.py (TrainerState).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Note, Place
from trainlens.parsers._json_documents import document, elements, scalars, tables
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._row_blocks import in_utf8
from trainlens.parsers._teller import Teller
from trainlens.sources import Source

READS_TEXT = True

_HISTORY = re.compile(rb'"log_history"\s*:\s*(?=\[)')


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a trainer state."""
    text = in_utf8(head).lstrip()
    if not text.startswith(b"{") or not _HISTORY.search(text):
        return 0.95 if path.name == "trainer_state.json" and text.startswith(b"{") else 0.0
    first = decoded(text.partition(b"\n")[0])
    return 0.0 if isinstance(first, dict) and "log_history" not in first else 0.95


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  rewritten as a whole
    """Points of the history's rows, facts of what stands around it and of the summary row."""
    content = document(source)
    history = _HISTORY.search(content)
    if history is None:
        raise InputError("a trainer state without a log_history", where=source.name, hint="Is the file complete?")
    starts, ends, complete = elements(content, history.end())
    rest = content[ends[-1] :] if ends else content[history.end() + 1 :]
    around = content[: history.end()] + b"[" + rest
    for name, value in scalars(around, history.start()):
        yield Fact(name, value, Place(source.name))
    teller = Teller(source.name)
    for table in tables(content, starts, ends):
        yield from teller.tell(table)
    if not complete:
        line = content.count(b"\n") + 1
        yield Note("cut-off", f"the history breaks off at line {line:,}; {len(starts):,} rows before were read", line)
