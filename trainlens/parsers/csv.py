"""CSV and other tables of cells: Keras CSVLogger, Lightning metrics.csv, ultralytics results.csv, W&B chart exports.

Comma, semicolon, tab or blanks between cells, whichever fits; names and cells may be quoted or padded. An empty cell
was not logged, "nan" and "inf" are values. A header in the middle of the file, as appended logs have it, is no row, nor
is a line that begins with "#"; above the rows such a line may name the columns. Of columns without names the first that
counts up is the step, and a note says what was taken for what. A table of one "value" is named for its file, as are
TensorBoard's downloads ("run-train-tag-loss.csv"). Columns of benchmarks are told as "bench/NAME".

The formats: https://www.rfc-editor.org/rfc/rfc4180, https://keras.io/api/callbacks/csv_logger,
https://lightning.ai/docs/pytorch/stable/extensions/logging.html (CSVLogger).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from trainlens import catalog
from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Note
from trainlens.parsers._benchmarks import is_summary
from trainlens.parsers._cells import Reader
from trainlens.parsers._dialect import Dialect, cells, dialect
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._row_blocks import encoding, in_utf8, row_blocks
from trainlens.parsers._score_tables import summary, with_steps
from trainlens.parsers._teller import Teller
from trainlens.sources import HEAD, Source

READS_TEXT = True

_SUFFIXES = (".csv", ".tsv")
_LONGEST_HEADER = 32 << 20  # bytes of the first two lines


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that these are rows of cells with numbers."""
    if b"\0" in head[:1024] and encoding(head) == "utf-8":
        return 0.0
    found = dialect(head, path)
    if found is None:
        return _long_header(head, path)
    named = path.suffix.lower() in _SUFFIXES or path.suffixes[:1] == [".csv"]
    if not found.header:
        return 0.7 if len(found.names) < 3 or named else 0.4
    return 0.9 if named else 0.65


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points of all rows, and notes of what was left out."""
    state = copy.deepcopy(cast(Mapping[str, Any], since.state)) if since else {}
    form = Dialect(**state["dialect"]) if since else _dialect(source)
    if form is None:
        raise InputError("is no table of cells with numbers", where=source.name)
    teller = Teller(source.name, **state.get("teller", {}))
    reader = Reader(form, state.get("line", 0))
    reader.headers, reader.uneven = restored(state.get("headers")), restored(state.get("uneven"))
    reader.latin, reader.ends = state.get("latin", False), list(state.get("ends", ()))
    end, torn, open_end = since.offset if since else 0, False, False
    for block in row_blocks(source, end):
        if block.torn and reader.line and not reader.is_whole(block.text):
            torn = True
            break
        for run, table in reader.read(block.text):
            for batch in (
                summary(form.names, table) if is_summary(form.names) else teller.tell(with_steps(form.names, table))
            ):
                yield form.of_run(batch, run or form.run)
        end = block.end
        if block.torn:
            reader.line -= 1  # what is appended to it ends this very line
            open_end = True
    yield from _notes(reader, teller, torn)
    if not source.compressed and encoding(source.head(HEAD)) == "utf-8":
        faults = {
            "headers": kept(reader.headers),
            "uneven": kept(reader.uneven),
            "latin": reader.latin,
            "ends": list(reader.ends),
            "stands": end if open_end or torn else f"{_dialect(source)} {teller.stands()}",
        }
        yield Checkpoint(end, {"dialect": asdict(form), "line": reader.line, "teller": teller.state(), **faults})


def _long_header(head: bytes, path: Path) -> float:
    """How sure it is where the head holds nothing but a part of the header: many names, and steps among them."""
    if len(head) < HEAD or path.suffix.lower() not in _SUFFIXES or in_utf8(head).count(b"\n") > 1:
        return 0.0
    names = cells(in_utf8(head).split(b"\n")[0].decode("utf-8", "replace"), "\t" if b"\t" in head else ",")
    return 0.6 if len(names) > 100 and any(catalog.axis(name) or name.lower() == "epoch" for name in names) else 0.0


def _dialect(source: Source) -> Dialect | None:
    """How the file is to be read; of one whose header is longer than the head more is looked at."""
    head, size = source.head(HEAD), HEAD
    while len(head) == size and in_utf8(head).count(b"\n") < 2 and size < _LONGEST_HEADER:
        size *= 8
        head = source.head(size)
    return dialect(head, source.path)


def _notes(reader: Reader, teller: Teller, torn: bool) -> Iterator[Note]:
    if reader.form.guessed:
        yield Note("replaced", reader.form.guessed)
    if torn:
        line = reader.line + 1
        yield Note("cut-off", f"the last line ({line:,}) looks incomplete and was left out", line)
    if reader.headers:
        count = len(reader.headers)
        message = f"the header stands in the file {count + 1:,} times, again in line {reader.headers[0]:,}"
        yield Note("not-understood", message, reader.headers[0], count=count)
    if reader.uneven:
        count, line = len(reader.uneven), reader.uneven[0]
        message = f"{count:,} malformed lines (cells do not fit the header), the first is line {line:,}"
        yield Note("not-understood", message, line, count=count)
    if reader.latin:
        yield Note("encoding", "the file is not UTF-8; it was read as Latin-1")
    yield from teller.notes()
