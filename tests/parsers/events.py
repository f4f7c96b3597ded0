"""A small writer of TensorBoard event files for tests, independent of the parser: frames, events, values."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import google_crc32c

VERSION_TIME = 1_760_000_000.0


def varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def whole(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def frame(payload: bytes) -> bytes:
    """One TFRecord."""
    length = struct.pack("<Q", len(payload))
    return length + _masked(length) + payload + _masked(payload)


def _masked(piece: bytes) -> bytes:
    crc = google_crc32c.value(piece)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def event(values: Iterable[bytes] = (), step: int = 0, time: float = VERSION_TIME, more: bytes = b"") -> bytes:
    """One framed event; a step of 0 is omitted, as protobuf writers do."""
    summary = b"".join(message(1, value) for value in values)
    body = b"\x09" + struct.pack("<d", time) + (whole(2, step) if step else b"")
    return frame(body + more + (message(5, summary) if summary else b""))


def version(time: float = VERSION_TIME) -> bytes:
    return event(time=time, more=message(3, b"brain.Event:2"))


def session(status: int, step: int = 0, text: str = "") -> bytes:
    return event(step=step, more=message(7, whole(1, status) + (message(3, text.encode()) if text else b"")))


def metadata(plugin: str, content: bytes = b"") -> bytes:
    return message(9, message(1, message(1, plugin.encode()) + (message(2, content) if content else b"")))


def simple(tag: str | bytes, number: float) -> bytes:
    """A value of the old encoding."""
    return message(1, tag if isinstance(tag, bytes) else tag.encode()) + b"\x15" + struct.pack("<f", number)


def tensor(tag: str, body: bytes, plugin: str | None = "scalars", shape: Sequence[int] = ()) -> bytes:
    """A value of the new encoding; `body` holds dtype and numbers of the TensorProto."""
    dimensions = message(2, b"".join(message(2, whole(1, size)) for size in shape))
    return message(1, tag.encode()) + message(8, body + dimensions) + (metadata(plugin) if plugin else b"")


def floats(*numbers: float) -> bytes:
    return whole(1, 1) + message(5, struct.pack(f"<{len(numbers)}f", *numbers))


def doubles(*numbers: float) -> bytes:
    return whole(1, 2) + message(6, struct.pack(f"<{len(numbers)}d", *numbers))


def content(dtype: int, raw: bytes) -> bytes:
    return whole(1, dtype) + message(4, raw)


def text(tag: str, words: str) -> bytes:
    return tensor(tag, whole(1, 7) + message(8, words.encode()), "text", (1,))


def image(tag: str, size: int) -> bytes:
    pixels = bytes(range(256)) * (size // 256)
    return message(1, tag.encode()) + message(4, whole(1, 8) + whole(2, 8) + message(4, pixels))


def hyperparameters(numbers: dict[str, float], words: dict[str, str]) -> bytes:
    stated = {name: b"\x11" + struct.pack("<d", number) for name, number in numbers.items()}
    stated |= {name: message(3, word.encode()) for name, word in words.items()}
    entries = b"".join(message(1, message(1, name.encode()) + message(2, one)) for name, one in stated.items())
    return message(1, b"_hparams_/session_start_info") + metadata("hparams", message(3, entries))


def session_end(status: int, time: float) -> bytes:
    """What the hparams plug-in writes at the end: 1 success, 2 failure, 3 still running."""
    ended = whole(1, status) + (b"\x11" + struct.pack("<d", time) if time else b"")
    return message(1, b"_hparams_/session_end_info") + metadata("hparams", message(4, ended))
