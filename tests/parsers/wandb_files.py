"""A small writer of W&B run files for tests, independent of the parser: pages, records, rows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

from tests.parsers.events import message, whole

HEADER = b":W&B\xe1\xbe\x00"
PAGE = 32768
START = 1_760_000_000


def run_file(records: Iterable[bytes], header: bytes = HEADER) -> bytes:
    """The header and the records, cut into chunks wherever a page ends."""
    out = bytearray(header)
    for record in records:
        begun = False
        while True:
            room = PAGE - len(out) % PAGE
            if room < 7:
                out += bytes(room)
                room = PAGE
            piece, record = record[: room - 7], record[room - 7 :]
            kind = (3 if record else 4) if begun else (2 if record else 1)
            out += struct.pack("<IHB", zlib.crc32(bytes((kind,)) + piece), len(piece), kind) + piece
            begun = True
            if not record:
                break
    return bytes(out)


def item(name: str | tuple[str, ...], json: str) -> bytes:
    """A value under a `key` (old clients), or under a tuple of `nested_key`."""
    parts = message(1, name.encode()) if isinstance(name, str) else b"".join(message(2, one.encode()) for one in name)
    return parts + message(16, json.encode())


def row(values: Mapping[str, str], step: int = 0, *more: bytes, nested: bool = False) -> bytes:
    """A history record: names and JSON texts; `more` are further items. A step of 0 is omitted, as writers do."""
    items = [item((name,) if nested else name, json) for name, json in values.items()]
    stepped = message(2, whole(1, step) if step else b"")
    return message(2, b"".join(message(1, one) for one in (*items, *more)) + stepped)


def sample(time: int, values: Mapping[str, str]) -> bytes:
    """A record of system metrics; `time` is seconds since START."""
    items = b"".join(message(3, item(name, json)) for name, json in values.items())
    return message(7, message(2, whole(1, START + time) + whole(2, 500_000_000)) + items)


def config(values: Mapping[str, str]) -> bytes:
    return message(5, b"".join(message(1, item(name, json)) for name, json in values.items()))


def run(values: Mapping[str, str], name: str) -> bytes:
    settings = b"".join(message(1, item(one, json)) for one, json in values.items())
    return message(17, message(1, b"abc") + message(4, settings) + message(8, name.encode()))


def axis(name: str, steps: str) -> bytes:
    """What `define_metric(name, step_metric=steps)` writes; a name may end with a star."""
    return message(12, message(2 if name.endswith("*") else 1, name.encode()) + message(4, steps.encode()))


def environment(*parts: tuple[int, str | int]) -> bytes:
    """Fields of the record of the machine, by their numbers; 9 is the commit."""
    told = b""
    for number, part in parts:
        if isinstance(part, int):
            told += whole(number, part)
        else:
            told += message(number, message(2, part.encode()) if number == 9 else part.encode())
    return message(26, told)


def exited(code: int) -> bytes:
    return message(18, (whole(1, code) if code else b"") + whole(2, 60))


def console(line: str) -> bytes:
    return message(13, message(3, line.encode()))
