"""One event of a TensorBoard event file, decoded from its protobuf bytes with the place of every number kept.

Only the fields that carry scalars, sessions, texts and hyper-parameters are read; all others are stepped over.

- Event, SessionLog: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto
- Summary: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/summary.proto
- TensorProto: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/tensor.proto
- The wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# DataType -> how numpy names it; bfloat16 (14) is the upper half of a float32
_CODES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "u1", 14: "bf", 17: "<u2", 19: "<f2"}
_CODES |= {22: "<u4", 23: "<u8"}
# TensorProto fields of numbers: field -> (wire type of one number, its code)
_LISTS = {
    5: (_FIXED32, "<f4"), 6: (_FIXED64, "<f8"), 7: (_VARINT, "int"), 10: (_VARINT, "int"), 11: (_VARINT, "int"),
    13: (_VARINT, "half"), 16: (_VARINT, "uint"), 17: (_VARINT, "uint"),
}  # fmt: skip
# Summary.Value's own fields for what TensorFlow 2 leaves to plug-ins of these names
_MEDIA = {4: "images", 5: "histograms", 6: "audio"}


class MalformedError(ValueError):
    """Bytes that are no protobuf message."""


@dataclass(slots=True)
class Value:
    """One summary value. `number` is None when it is no scalar; `place` is where its bytes stand, -1 for a varint."""

    tag: str
    number: float | None = None
    place: int = -1
    code: str = ""
    tensor: bool = False
    plugin: str = ""
    content: bytes = b""  # what the plug-in stored about the tag
    text: bytes = b""  # the first string of a tensor of strings
    bad_name: bool = False  # the tag was not UTF-8
    medium: str = ""  # what it is when it stands in a field of its own: images, histograms, audio


@dataclass(slots=True)
class Record:
    """One event. Places are bytes from the start of its payload; -1 where the field was omitted."""

    time: float = 0.0
    time_place: int = -1
    step: int = 0
    step_place: int = -1
    step_width: int = 0
    version: str = ""
    session: int = 0  # SessionLog.status: 1 start, 2 stop, 3 checkpoint
    session_text: str = ""
    values: list[Value] = field(default_factory=list)


def parse(payload: bytes) -> Record:
    """The event in `payload`; MalformedError when it is no protobuf message."""
    record = Record()
    for number, wire, start, end in fields(payload, 0, len(payload)):
        if number == 1 and wire == _FIXED64:
            record.time, record.time_place = struct.unpack_from("<d", payload, start)[0], start
        elif number == 2 and wire == _VARINT:
            record.step, record.step_place, record.step_width = _signed(payload, start), start, end - start
        elif number == 3 and wire == _BYTES:
            record.version = payload[start:end].decode("utf-8", "replace")
        elif number == 5 and wire == _BYTES:
            for inner, kind, first, last in fields(payload, start, end):
                if inner == 1 and kind == _BYTES:
                    record.values.append(_value(payload, first, last))
        elif number == 7 and wire == _BYTES:
            _session(record, payload, start, end)
    return record


def fields(payload: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(field number, wire type, start, end) of each field of the message in `payload[at:stop]`."""
    while at < stop:
        key, at = _varint(payload, at)
        wire = key & 7
        start = at
        if wire == _VARINT:
            _, at = _varint(payload, at)
        elif wire == _FIXED64:
            at += 8
        elif wire == _BYTES:
            length, start = _varint(payload, at)
            at = start + length
        elif wire == _FIXED32:
            at += 4
        else:
            raise MalformedError
        if at > stop or key >> 3 == 0:
            raise MalformedError
        yield key >> 3, wire, start, at


def number_at(payload: bytes, place: int, code: str) -> float:
    """The number of numpy type `code` at `place`, widened as arrays of it are."""
    if code == "bf":
        return float(np.frombuffer(bytes(2) + payload[place : place + 2], "<f4").astype(np.float64)[0])
    return float(np.frombuffer(payload, code, 1, place).astype(np.float64)[0])


def width_of(code: str) -> int:
    return 2 if code == "bf" else np.dtype(code).itemsize


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(payload):
            raise MalformedError
        byte = payload[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at
    raise MalformedError


def _signed(payload: bytes, at: int) -> int:
    value = _varint(payload, at)[0] & 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def _value(payload: bytes, at: int, stop: int) -> Value:
    value = Value("")
    for number, wire, start, end in fields(payload, at, stop):
        if number == 1 and wire == _BYTES:
            raw = payload[start:end]
            try:
                value.tag, value.bad_name = raw.decode(), False
            except UnicodeDecodeError:
                value.tag, value.bad_name = raw.decode("utf-8", "backslashreplace"), True
        elif number == 2 and wire == _FIXED32:
            value.number, value.tensor = number_at(payload, start, "<f4"), False
            value.place, value.code = start, "<f4"
        elif number in _MEDIA and wire == _BYTES:
            value.medium = _MEDIA[number]
        elif number == 8 and wire == _BYTES:
            _tensor(value, payload, start, end)
        elif number == 9 and wire == _BYTES:
            _metadata(value, payload, start, end)
    return value


def _metadata(value: Value, payload: bytes, at: int, stop: int) -> None:
    for number, wire, start, end in fields(payload, at, stop):
        if number == 1 and wire == _BYTES:
            for inner, kind, first, last in fields(payload, start, end):
                if inner == 1 and kind == _BYTES:
                    value.plugin = payload[first:last].decode("utf-8", "replace")
                elif inner == 2 and kind == _BYTES:
                    value.content = payload[first:last]


def _tensor(value: Value, payload: bytes, at: int, stop: int) -> None:
    """A number only when the tensor has one element and no dimension but those of size 1."""
    dtype, elements, content = 0, 1, (0, 0)
    found: list[tuple[int, str]] = []
    for number, wire, start, end in fields(payload, at, stop):
        if number == 1 and wire == _VARINT:
            dtype = _signed(payload, start)
        elif number == 2 and wire == _BYTES:
            elements = _elements(payload, start, end)
        elif number == 4 and wire == _BYTES:
            content = (start, end)
        elif number == 8 and wire == _BYTES:
            value.text = value.text or payload[start:end]
        elif number in _LISTS:
            found += _listed(payload, number, wire, start, end)
    code = _CODES.get(dtype, "")
    if not code or elements != 1 or len(found) > 1:
        return
    size = content[1] - content[0]
    if size:
        if size != width_of(code):
            return
        value.place, value.code = content[0], code
        value.number = number_at(payload, content[0], code)
    elif not found:  # numbers that are zero may be left out
        value.place, value.code, value.number = -1, "", 0.0
    else:
        value.place, value.number = -1, _single(payload, *found[0], code)
        if found[0][1] in ("<f4", "<f8"):
            value.place, value.code = found[0]
    value.tensor = True


def _elements(payload: bytes, at: int, stop: int) -> int:
    """How many elements a tensor of this TensorShapeProto has; 0 when that is not known."""
    total = 1
    for number, wire, start, end in fields(payload, at, stop):
        if number == 2 and wire == _BYTES:
            size = 0
            for inner, kind, first, _ in fields(payload, start, end):
                if inner == 1 and kind == _VARINT:
                    size = _signed(payload, first)
            total *= size
        elif number == 3 and wire == _VARINT and payload[start]:
            return 0
    return total


def _listed(payload: bytes, number: int, wire: int, start: int, end: int) -> list[tuple[int, str]]:
    """Places and codes of the numbers in one field, packed or not; at most two, since two already are no scalar."""
    one, code = _LISTS[number]
    if wire == one:
        return [(start, code)]
    if wire != _BYTES:
        return []
    places: list[tuple[int, str]] = []
    while start < end and len(places) < 2:
        places.append((start, code))
        start = _varint(payload, start)[1] if one == _VARINT else start + (4 if one == _FIXED32 else 8)
    if start > end:
        raise MalformedError
    return places


def _single(payload: bytes, place: int, code: str, dtype: str) -> float:
    if code in ("<f4", "<f8"):
        return number_at(payload, place, code)
    whole = _signed(payload, place)
    if code == "half":
        return number_at((whole & 0xFFFF).to_bytes(2, "little"), 0, dtype if dtype == "bf" else "<f2")
    return float(whole & 0xFFFFFFFFFFFFFFFF if code == "uint" else whole)


def _session(record: Record, payload: bytes, at: int, stop: int) -> None:
    for number, wire, start, end in fields(payload, at, stop):
        if number == 1 and wire == _VARINT:
            record.session = _signed(payload, start)
        elif number in (2, 3) and wire == _BYTES:
            record.session_text = payload[start:end].decode("utf-8", "replace")
