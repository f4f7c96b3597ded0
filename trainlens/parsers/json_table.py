"""JSON documents that hold metrics: a list of rows, columns of values, values by step; and results.

- a list of objects, `[{"step": 1, "loss": 2.3}, …]`, alone or under a key beside other values;
- columns, `{"step": [1, 2], "loss": [2.3, 2.1]}` (Keras' History), or sacred's `{"loss": {"steps": [], "values": []}}`;
- values by step, `{"loss": {"1": 2.3, "2": 2.1}}` or `{"loss": [[1, 2.3], [2, 2.1]]}`, and rows by step,
  `{"1": {"loss": 2.3}}`, among them Megatron's golden values, where the text "nan" means that nothing was recorded;
- TensorBoard's download of one chart, `[[seconds, step, value], …]`, whose file is named for run and tag;
- objects one after another, each over several lines;
- one object of results (all_results.json): facts.

The formats: https://github.com/NVIDIA/Megatron-LM/tree/main/tests/functional_tests (golden values),
https://keras.io/api/callbacks/#history, https://sacred.readthedocs.io/en/stable/observers.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainlens import catalog
from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Ints, Note, Place, Points
from trainlens.parsers import _columns
from trainlens.parsers._chart_names import curve
from trainlens.parsers._json_curves import all_numbers, curves, grid_end, number, without_curves
from trainlens.parsers._json_documents import document, elements, flat, sequence, tables
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._row_blocks import in_utf8
from trainlens.parsers._teller import Teller
from trainlens.sources import HEAD, Source

READS_TEXT = True

_RESULTS = re.compile(r"results|^metrics$", re.IGNORECASE)  # of the end, told as facts
_NO_METRICS = re.compile(r"^(tokenizer|special_tokens|added_tokens|vocab|package|preprocessor|merges)|\.index\.json$")
_GOLDEN = re.compile(rb'"(?:start_step|end_step|step_interval)"\s*:\s*\d+')
_LISTED = re.compile(rb'"[^"\n]{1,200}"\s*:\s*\[\s*(?:-?\d|NaN)')
_ROWS_INSIDE = re.compile(rb'"[^"\n]{1,200}"\s*:\s*\[\s*\{\s*"')
_BY_STEP = re.compile(rb'"[^"\n]{1,200}"\s*:\s*\{\s*"\d+"\s*:\s*(?:-?\d|NaN|"nan")')
_PAIRED = re.compile(rb'"[^"\n]{1,200}"\s*:\s*\[\s*\[\s*\d+(?:\.0)?\s*,\s*(?:-?\d|NaN|null)')
_BY_ROW = re.compile(rb'^\{\s*"\d{1,18}"\s*:\s*\{\s*"')
_ANOTHER = re.compile(rb"\n\}\s*\{|\}\s*\n\{\s*\n")
_ONE_ROW = re.compile(r"(?:epoch|step|iter)[_-]?\d+$", re.IGNORECASE)  # AllenNLP: metrics_epoch_3.json
_ONE_A_LINE = re.compile(rb"\{[^\n]+\}\s*\n")
_ROWS = re.compile(rb'^\[\s*\{\s*"')
_CHART = re.compile(rb"^\[\s*\[\s*\d{9,10}\.\d+\s*,\s*\d+\s*,")
_KEY = re.compile(rb'"([^"\\\n]{1,200})"\s*:')


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this document holds metrics, or (less so) results."""
    text = in_utf8(head).lstrip()
    if text[:1] not in (b"{", b"[") or _NO_METRICS.search(path.name):
        return 0.0
    if text.startswith(b"{") and len(_GOLDEN.findall(text)) >= 3:
        return 0.95
    if _CHART.search(text):
        return 0.8
    known = [name.decode("utf-8", "replace") for name in _KEY.findall(text)[:500]]
    stepped = any(_is_axis(name) for name in known)
    if text.startswith(b"{") and _ANOTHER.search(text) and not _ONE_A_LINE.match(text):
        return 0.6 if _measure(sequence(text), text) else 0.0
    if _PAIRED.search(text) and _known(known):
        return 0.7
    if any(one.search(text) for one in (_ROWS, _LISTED, _BY_STEP, _BY_ROW)):
        if stepped or _known(known):
            return 0.7
    elif stepped and _ROWS_INSIDE.search(text):
        return 0.6
    if _ONE_ROW.search(path.stem) and stepped and text.startswith(b"{") and _one_row(decoded(head)):
        return 0.6
    if text.startswith(b"{") and _RESULTS.search(path.stem) and (len(head) == HEAD or isinstance(decoded(head), dict)):
        return 0.3
    return 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  rewritten as a whole
    """Points of the rows, columns or values by step; facts of what else stands there."""
    content = document(source)
    start = len(content) - len(content.lstrip())
    if content[start : start + 1] == b"[" and not _CHART.search(content[start:]):
        yield from _rows(source, content, start)
        return
    whole = decoded(content)
    if _ONE_ROW.search(Path(source.path).stem) and _one_row(whole):
        yield from _told(source, content, [start], [len(content.rstrip())], True)
        return
    if whole is None and _measure(objects := sequence(content), content):
        yield from _told(source, content, *objects)
        return
    if whole is None:
        raise InputError("a JSON document that is incomplete or malformed", where=source.name, hint="Write it again")
    found, missing, last, grid = 0, {}, -1, np.empty(0, np.int64)
    run, name = curve(source.path)
    for tag, step, values, time in curves(whole, name):
        points, left_out = _points(tag, step, values, time, run)
        if points is not None:
            found += 1
            last = max(last, int(points.step.max())) if points.step is not None else last
            yield points
        if left_out:
            missing[tag] = left_out
            grid = step if step is not None and len(step) > len(grid) else grid
    behind = int((grid > last).sum())
    if found and behind > 1:
        ends = f"the values end at step {last:,}; {behind:,} planned rows behind it up to {grid.max():,} hold none"
        yield Note("cut-off", ends, count=behind)
    if missing:
        tags = ", ".join(sorted(missing))
        message = f"{sum(missing.values()):,} values were not recorded (null or the text nan), of {tags}"
        yield Note("placeholder", message, count=sum(missing.values()))
    if isinstance(whole, dict):
        if not found and (key := _longest_list(whole)):
            at = re.search(rb'"' + re.escape(key.encode()) + rb'"\s*:\s*(?=\[)', content)
            if at:
                yield from _rows(source, content, at.end())
        yield from (Fact(name, value, Place(source.name)) for name, value in flat(without_curves(whole)))
        if (end := grid_end(whole)) is not None:
            yield Fact("end_step", end, Place(source.name))


def _measure(found: tuple[list[int], list[int], bool], content: bytes) -> bool:
    """Whether objects one after another are rows: the first one has a step or measures something."""
    starts, ends, _ = found
    first = decoded(content[starts[0] : ends[0]]) if starts else None
    keys = [key for key, cell in first.items() if not isinstance(cell, (str, list))] if isinstance(first, dict) else []
    return any(map(_is_axis, keys)) or _known(keys)


def _rows(source: Source, content: bytes, at: int) -> Iterator[Batch]:
    yield from _told(source, content, *elements(content, at))


def _told(source: Source, content: bytes, starts: list[int], ends: list[int], complete: bool) -> Iterator[Batch]:
    teller = Teller(source.name)
    for table in tables(content, starts, ends):
        yield from teller.tell(table)
    yield from teller.notes()
    if not complete:
        line = content.count(b"\n") + 1
        yield Note("cut-off", f"the list breaks off at line {line:,}; {len(starts):,} rows before were read", line)


def _points(
    tag: str, step: Ints | None, values: list[Any], time: list[Any] | None, run: str
) -> tuple[Points | None, int]:
    """The points of a curve, and how many places of it hold no value."""
    if values and all_numbers(values):
        clock = None if time is None else _columns.unix_seconds(np.array(time, np.float64))
        return Points(tag, step, np.array(values, np.float64), clock, run=run), 0
    numbers = [number(cell) for cell in values]
    logged = np.array([one is not None for one in numbers], np.bool_)
    if not logged.any():
        return None, len(values)
    value = np.array([one for one in numbers if one is not None], np.float64)
    clock = None if time is None else _columns.unix_seconds(np.array(time, np.float64))[logged]
    return Points(tag, None if step is None else step[logged], value, clock, run=run), int((~logged).sum())


def _one_row(whole: object) -> bool:
    """Whether a document is a single row: its step or epoch, what was measured, and no curves."""
    return _is_row(whole) and isinstance(whole, dict) and _known(list(whole)) and not any(curves(whole, ""))


def _longest_list(whole: dict[str, Any]) -> str:
    """The key of the longest list of objects that have steps, "" where there is none."""
    lists = {key: len(rows) for key, rows in whole.items() if isinstance(rows, list) and rows and _is_row(rows[0])}
    return max(lists, key=lambda key: lists[key], default="")


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and any(map(_is_axis, row))


def _is_axis(name: str) -> bool:
    return catalog.axis(name) == "step" or name == "epoch"


def _known(names: list[str]) -> bool:
    return any(about.role in ("loss", "eval-loss", "score", "reward") for about in catalog.resolve(names).values())
