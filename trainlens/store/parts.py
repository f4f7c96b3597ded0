"""Batches in a file and out of it again: arrays as they lie in memory, all else as JSON before them. Part of `store`.

Layout: eight letters, the length of the JSON, its checksum and that of the arrays (each a little-endian 64-bit number),
the JSON, then each array once, however many batches share it, at the next multiple of eight bytes. Loading maps the
file; nothing is copied.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Place, Points

_MAGIC = b"trainlp1"
_HEAD = struct.Struct("<8sQQQ")
_ARRAYS = ("step", "value", "time", "origin")
_TYPES = {"i": np.dtype("<i8"), "f": np.dtype("<f8")}
_KINDS = {one.__name__: one for one in (Points, Event, Fact, Note, Checkpoint)}


def write(path: Path, batches: Sequence[Batch]) -> None:
    """Write the batches; TypeError where one holds what JSON cannot."""
    arrays: dict[int, tuple[int, Any]] = {}
    told = [plain(batch, arrays) for batch in batches]
    kept = [np.ascontiguousarray(array, _TYPES[array.dtype.kind]) for _, array in arrays.values()]
    shapes = [[array.dtype.kind, len(array)] for array in kept]
    text = json.dumps({"batches": told, "arrays": shapes}, default=bare).encode()
    text += b" " * (-len(text) % 8)
    checksum = 0
    for array in kept:
        checksum = zlib.crc32(array.data, checksum)
    with path.open("wb") as file:
        file.write(_HEAD.pack(_MAGIC, len(text), zlib.crc32(text), checksum))
        file.write(text)
        for array in kept:
            file.write(array.data)


def read(path: Path) -> list[Batch]:
    """The batches of a file; ValueError, LookupError or TypeError where it is damaged."""
    whole = np.memmap(path, np.uint8, "r")
    if len(whole) < _HEAD.size:
        raise ValueError("a part that is cut off")
    magic, length, check, checksum = _HEAD.unpack(whole[: _HEAD.size].tobytes())
    text, body = whole[_HEAD.size : _HEAD.size + length], whole[_HEAD.size + length :]
    if magic != _MAGIC or zlib.crc32(text.data) != check or zlib.crc32(body.data) != checksum:
        raise ValueError("a damaged part")
    table = json.loads(text.tobytes())
    arrays: list[Any] = []
    at = 0
    for kind, size in table["arrays"]:
        arrays.append(body[at : at + 8 * size].view(np.ndarray).view(_TYPES[kind]))
        at += 8 * size
    return [batch(fields, arrays) for fields in table["batches"]]


def plain(batch: Batch, arrays: dict[int, tuple[int, Any]] | None = None) -> dict[str, Any]:
    """The fields of a batch as JSON has them; arrays that are not empty by their number."""
    fields: dict[str, Any] = {"batch": type(batch).__name__}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, np.ndarray) and arrays is not None:
            value = arrays.setdefault(id(value), (len(arrays), value))[0] if len(value) else None
        elif isinstance(value, Place):
            value = dataclasses.astuple(value)
        fields[field.name] = dict(value) if isinstance(batch, Checkpoint) and field.name == "state" else value
    return fields


def bare(value: object) -> object:
    """A number of numpy as one of Python; TypeError for anything else."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no plain value")


def batch(fields: dict[str, Any], arrays: Sequence[Any]) -> Batch:
    """The batch of such fields."""
    fields = dict(fields)
    kind = _KINDS[fields.pop("batch")]
    if kind is Points:
        fields |= {name: arrays[fields[name]] for name in _ARRAYS if fields[name] is not None}
        if fields["value"] is None:
            fields["value"] = np.empty(0)
    if fields.get("place") is not None:
        fields["place"] = Place(*fields["place"])
    made: Batch = kind(**fields)
    return made
