"""MLflow file store: `mlruns/EXPERIMENT/RUN/metrics/NAME`, lines of "milliseconds value step"; params beside them.

The tag is the file's path below `metrics`; the run is the folder. Parameters become facts. Runs that MLflow counts as
deleted are left out.

The format: https://github.com/mlflow/mlflow/blob/master/mlflow/store/tracking/file_store.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainlens.later import Later
from trainlens.model import Batch, Checkpoint, Fact, Note, Place, Points, Value
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._row_blocks import row_blocks
from trainlens.parsers.mlflow_run import deleted
from trainlens.sources import HEAD, Source

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

READS_TEXT = True
READS_BESIDE = True  # the run's meta.yaml: whether it is deleted

_LINE = re.compile(rb"(-?\d{1,18}) ([-+]?(?:\d[\d_.]*(?:[eE][-+]?\d+)?|nan|inf|NaN|Infinity)) (-?\d{1,18})")
_RUN_ID = re.compile(r"[0-9a-f]{32}")


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a metric or parameter file of a file store."""
    if _is_parameter(path) and b"\0" not in head:
        return 0.6 if _RUN_ID.fullmatch(path.parent.parent.name) else 0.0
    lines = head.split(b"\n")
    whole = [line for line in (lines[:-1] or lines) if line.strip()][:50]
    if not whole or sum(_LINE.fullmatch(line.rstrip()) is not None for line in whole) * 2 < len(whole):
        return 0.0
    if "metrics" in path.parts[:-1]:
        return 0.95
    return 0.7 if int(whole[0].split()[0]) > 10**11 else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """The points of one metric, or the fact of one parameter; nothing of a run that is deleted."""
    run = next((above for above in source.path.parents if _RUN_ID.fullmatch(above.name)), None)
    if run is not None and deleted(run):
        yield Note("limit", "of a run that is deleted in MLflow: `mlflow runs restore` brings it back")
        return
    if _is_parameter(source.path):
        text = source.head(HEAD).decode("utf-8", "replace").strip()
        yield Fact(_below(source.path, "params"), parameter(text), Place(source.name))
        return
    tag = _below(source.path, "metrics")
    line = int(str(since.state["line"])) if since else 0
    end = since.offset if since else 0
    bad = restored(since.state.get("bad")) if since else []
    torn = False
    for block in row_blocks(source, end):
        if block.torn and line:  # the store ends every line; the number of the step may be cut
            torn = True
            break
        yield from _points(tag, block.text, line, bad)
        line += block.text.count(b"\n")
        end = block.end
    if bad:
        word = "line" if len(bad) == 1 else "lines"
        message = f"{len(bad):,} malformed {word} of {tag!r} left out, the first is line {bad[0]:,}"
        yield Note("not-understood", message, bad[0], count=len(bad))
    if torn:
        yield Note("cut-off", f"the last line ({line + 1:,}) of {tag!r} is incomplete and was left out", line + 1)
    if not source.compressed:
        yield Checkpoint(end, {"line": line, "bad": kept(bad)})


def _points(tag: str, text: bytes, before: int, bad: list[int]) -> Iterator[Points]:
    """The points of a block whose first line is number `before` + 1."""
    rows = text.count(b"\n") + (not text.endswith(b"\n"))
    origin = np.arange(before + 1, before + rows + 1, dtype=np.int64)
    try:
        form = {"time": pl.Int64, "value": pl.Float64, "step": pl.Int64}
        frame = pl.read_csv(text, has_header=False, separator=" ", schema=form)
    except pl.exceptions.PolarsError:
        frame = pl.DataFrame(schema=form)
    if frame.height != rows or any(column.null_count() for column in frame):
        found = [(at, match) for at, one in enumerate(text.split(b"\n")) if (match := _LINE.fullmatch(one.rstrip()))]
        kept = {at for at, _ in found}
        bad += [before + at + 1 for at, one in enumerate(text.split(b"\n")) if one.strip() and at not in kept]
        origin = origin[[at for at, _ in found]]
        cells = [(int(one[1]), float(one[2]), int(one[3])) for _, one in found]
        frame = pl.DataFrame(cells, schema=form, orient="row")
    if frame.height:
        time = frame["time"].to_numpy() / 1000.0
        yield Points(tag, frame["step"].to_numpy(), frame["value"].to_numpy(), time, origin=origin)


def _is_parameter(path: Path) -> bool:
    return "params" in path.parts[-3:-1] and "metrics" not in path.parts


def _below(path: Path, folder: str) -> str:
    """The path below the last folder of that name, the file's name where there is none."""
    parts = path.parts
    if folder not in parts[:-1]:
        return path.name
    at = len(parts) - 1 - parts[::-1].index(folder, 1)
    return "/".join(parts[at + 1 :])


def parameter(text: str) -> Value:
    """A parameter's value, which MLflow writes as text."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
