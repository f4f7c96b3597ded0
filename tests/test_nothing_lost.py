"""Every point that a log holds comes out of the table once and to the bit, whatever the file; none is made up."""

from __future__ import annotations

import io
import json
import math
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.events import event, simple, version
from trainlens import reading, store
from trainlens.settings import Settings

Rows = Sequence[dict[str, float]]  # at steps 0, 1, 2, ...; a quantity may be missing from a row


def jsonl(rows: Rows) -> bytes:
    return "".join(json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows)).encode()


def table(rows: Rows) -> bytes:
    names = sorted({name for row in rows for name in row})
    cells = [[str(step), *(repr(row.get(name, "")) for name in names)] for step, row in enumerate(rows)]
    return "".join(",".join(line).replace("''", "") + "\n" for line in [["step", *names], *cells]).encode()


def text(rows: Rows) -> bytes:
    words = (" ".join(f"{name}: {value!r}" for name, value in row.items()) for row in rows)
    return "".join(f"step: {step} {told}\n" for step, told in enumerate(words)).encode()


def events(rows: Rows) -> bytes:
    told = (event([simple(name, value) for name, value in row.items()], step) for step, row in enumerate(rows))
    return b"".join((version(), *told))


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "log.jsonl": jsonl,
    "log.csv": table,
    "train.log": text,
    "events.out.tfevents.1.host": events,
}
NAMES = ("loss", "grad_norm", "accuracy", "my_own")
NUMBERS = st.floats(width=32)  # event files hold no longer ones
SOME = st.dictionaries(st.sampled_from(NAMES), NUMBERS, min_size=1)
ALL = st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS))


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def exported(folder: Path) -> list[tuple[str, int, bytes]]:
    """Tag, step and bits of each point of the exported table."""
    stream = io.BytesIO()
    store.export(reading.read([folder], replace(Settings(), cache=False)).runs, stream, "parquet")
    rows = pl.read_parquet(io.BytesIO(stream.getvalue())).select("tag", "step", "value").rows()
    return sorted((tag, step, bits(value)) for tag, step, value in rows)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=50)
@given(drawn=st.data())
def test_every_point_comes_out_once_and_to_the_bit(name: str, drawn: st.DataObject) -> None:
    row = ALL if name == "train.log" else SOME  # a console prints lines of one shape
    rows = drawn.draw(st.lists(row, min_size=3, max_size=30))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(FORMATS[name](rows))
        told = exported(Path(folder))
    assert told == sorted((tag, step, bits(value)) for step, row in enumerate(rows) for tag, value in row.items())
