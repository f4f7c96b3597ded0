"""JSON lines: one object a line, as most training loops, LLaMA-Factory, ms-swift, detectron2 and mmcv write them.

Every key with a number is a metric, nested keys are joined by "/". A key may appear in any row; of one that is written
twice the last counts; NaN and Infinity may be bare words or texts. Texts are ignored unless they hold numbers, with a
unit ("12.3 GiB", "95 %") or as a duration ("1 day, 2:03:04", "11m 43s"). Short lists of numbers are a metric for each
place ("lr/0"). Steps may be written "1,000", "110/438" or "12%"; a counter that begins again with each epoch goes on.
A line that is no object is left out and counted.

The format: https://jsonlines.org. Trainers: https://github.com/hiyouga/LLaMA-Factory (trainer_log.jsonl),
https://github.com/modelscope/ms-swift (logging.jsonl), https://detectron2.readthedocs.io (metrics.json).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from trainlens.model import Batch, Checkpoint, Note
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._json_rows import Rows, rows_of
from trainlens.parsers._row_blocks import encoding, in_utf8, row_blocks
from trainlens.parsers._teller import Teller
from trainlens.sources import HEAD, Source

READS_TEXT = True

_JSONL = frozenset((".jsonl", ".ndjson"))


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that these are lines of JSON objects."""
    lines = in_utf8(head).split(b"\n")
    whole = [line for line in lines[:-1] if line.strip(b" \r\t\0")][:200]
    if not whole and len(head) >= HEAD and _JSONL & set(path.suffixes):  # the first line is longer than the head
        return 0.5 if lines[-1].lstrip().startswith(b'{"') else 0.0
    named = bool(_JSONL & set(path.suffixes))
    if not whole:
        found = rows_of(lines[-1])
        return 0.85 if len(found) > 1 and _has_number(found[0]) else 0.5 if found and named else 0.0
    each = [rows_of(line) for line in whole]
    good, rows = sum(map(bool, each)), [row for found in each for row in found]
    if good * 2 < len(whole) or (len(rows) == 1 and not named):
        return 0.0
    if not any(map(_has_number, rows)):
        return 0.2 if named else 0.0
    return 0.85 if good == len(whole) else 0.75


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points of all rows, facts of rows that hold settings or a summary, and notes of what was left out."""
    state = copy.deepcopy(cast(Mapping[str, Any], since.state)) if since else {}
    rows = Rows(state.get("shape"), state.get("line", 0))
    rows.bad, rows.nul = restored(state.get("bad")), restored(state.get("nul"))
    teller = Teller(source.name, **state.get("teller", {}))
    end, torn = since.offset if since else 0, b""
    utf16 = encoding(source.head(HEAD)) != "utf-8"
    for block in row_blocks(source, end):
        if block.torn and not rows_of(block.text):
            torn = block.text
            break
        yield from teller.tell(rows.read(block.text))
        end = block.end
        if block.torn:
            rows.line -= 1  # what is appended to it ends this very line
    yield from notes(rows, teller, torn)
    if not source.compressed and not utf16:
        faults = {"bad": kept(rows.bad), "nul": kept(rows.nul)}
        going_on = {"shape": copy.deepcopy(rows.shape), "line": rows.line, "teller": teller.state(), **faults}
        going_on["stands"] = teller.stands()
        yield Checkpoint(end, going_on)


def notes(rows: Rows, teller: Teller, torn: bytes) -> Iterator[Note]:
    """What was left out: lines that are no objects, the unfinished last line, texts among numbers."""
    if rows.bad:
        count = len(rows.bad)
        what = "malformed line (no JSON object) was" if count == 1 else "malformed lines (no JSON objects) were"
        message = f"{count:,} {what} left out, the first is line {rows.bad[0]:,}"
        yield Note("not-understood", message, rows.bad[0], count=count)
    if rows.nul:
        message = f"line {rows.nul[0]:,} holds NUL bytes, as after a power failure, and was left out"
        yield Note("damaged", message, rows.nul[0], count=len(rows.nul))
    if torn.strip(b" \r\t"):
        line = rows.line + 1
        if torn.strip(b"\0 \r\t"):
            yield Note("cut-off", f"the last line ({line:,}) is incomplete and was left out", line)
        else:
            yield Note("damaged", f"the file ends in {len(torn):,} NUL bytes (line {line:,})", line)
    yield from teller.notes()


def _has_number(row: Mapping[str, Any]) -> bool:
    return any(
        (isinstance(value, (int, float)) and not isinstance(value, bool))
        or (isinstance(value, dict) and _has_number(value))
        or (isinstance(value, str) and value[:1] in "+-.0123456789NI")
        for value in row.values()
    )
