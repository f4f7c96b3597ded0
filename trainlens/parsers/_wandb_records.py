"""The records of a W&B run file: protobuf messages, of which history, system samples, settings and the end are read.

Three ways to write a logged value are known: `key` with JSON (clients before 0.18), `nested_key` with JSON (the core
since 0.18), and numbers as such (the newest). A row of the last two tells a picture or a histogram by `_type` among
its parts.

- https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto
- https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainlens.parsers._event_record import MalformedError, fields
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._scattered import MEDIA, NON_FINITE, Cells, numbers
from trainlens.parsers._wandb_layouts import Layouts

__all__ = ["MalformedError", "Names", "Record", "parse", "signed", "timestamp"]

# Fields of Record
_HISTORY, _CONFIG, _STATS, _METRIC, _RUN, _EXIT, _PREEMPTING, _ENVIRONMENT = 2, 5, 7, 12, 17, 18, 23, 26
_KINDS = frozenset((_HISTORY, _CONFIG, _STATS, _METRIC, _RUN, _EXIT, _PREEMPTING, _ENVIRONMENT))
# Fields of EnvironmentRecord, and of the git record in it, under the names that wandb-metadata.json has for them.
_MACHINE = {2: "python", 5: "args", 6: "program", 12: "host", 18: "gpu", 19: "gpu_count", 25: "cudaVersion"}
_GIT = {1: "git.remote", 2: "git.commit"}
_JSON = b"\x82\x01"  # the key of field 16 (value_json), which is how nearly every item ends
_NUMERIC = frozenset(b'-+.0123456789NI"')


@dataclass(slots=True)
class Record:
    """One record that says something. `kind` is "history", "stats", "config", "axis", "exit" or "preempting"."""

    kind: str
    cells: Cells = field(default_factory=dict)
    step: int | None = None  # of a history row
    time: float = float("nan")  # Unix seconds of a sample
    config: dict[str, Any] = field(default_factory=dict)
    code: int = 0  # of the exit
    axis: tuple[str, str] = ("", "")  # a metric, or the beginning of several with a star behind it, and its steps
    media: int = 0  # pictures, tables and histograms of a history row


@dataclass(slots=True)
class Names:
    """Names by their bytes: every row repeats them, so each is decoded once."""

    known: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    layouts: Layouts = field(default_factory=Layouts)

    def of(self, raw: bytes) -> tuple[str, ...]:
        """The parts of a name from the bytes of its `key` or `nested_key` fields."""
        if raw not in self.known:
            parts = [raw[start:end].decode("utf-8", "replace") for _, wire, start, end in _all(raw) if wire == 2]
            self.known[raw] = tuple(part for part in parts if part)
        return self.known[raw]


def parse(payload: bytes, names: Names) -> Record | None:
    """What a record says; None for one of no interest. MalformedError when it is no protobuf message."""
    for number, wire, start, end in _all(payload):
        if number not in _KINDS or wire != 2:
            continue
        body = payload[start:end]
        if number == _HISTORY:
            record = _history(body, names)
            names.layouts.learn(payload, names.known)
            return record
        if number == _STATS:
            return _stats(body, names)
        if number == _CONFIG:
            return Record("config", config=_config(body, names))
        if number == _RUN:
            return _run(body, names)
        if number == _METRIC:
            return _metric(body)
        if number == _ENVIRONMENT:
            return Record("config", config=_environment(body))
        if number == _EXIT:
            code = next((signed(body, at) for inner, kind, at, _ in _all(body) if (inner, kind) == (1, 0)), 0)
            return Record("exit", code=code)
        return Record("preempting")
    return None


def _all(payload: bytes) -> Iterator[tuple[int, int, int, int]]:
    return fields(payload, 0, len(payload))


def _history(body: bytes, names: Names) -> Record:
    record = Record("history", step=0)  # protobuf leaves a step of 0 out
    nested: list[tuple[tuple[str, ...], float | None]] = []
    for number, wire, start, end in _all(body):
        if number == 1 and wire == 2:
            parts, value = _item(body[start:end], names)
            if len(parts) > 1:
                nested.append((parts, _number(value)))
            elif parts:
                record.media += _take(record.cells, parts[0], value)
        elif number == 2 and wire == 2:
            for inner, kind, at, _ in fields(body, start, end):
                if inner == 1 and kind == 0:
                    record.step = signed(body, at)
    if nested:
        media = {parts[:-1] for parts, _ in nested if parts[-1] == MEDIA}
        record.media += len(media)
        for parts, number_ in nested:
            if number_ is not None and not any(parts[:depth] in media for depth in range(1, len(parts))):
                record.cells["/".join(parts)] = number_
    return record


def _stats(body: bytes, names: Names) -> Record:
    record = Record("stats")
    for number, wire, start, end in _all(body):
        if number == 3 and wire == 2:
            parts, value = _item(body[start:end], names)
            found = _number(value)
            if parts and found is not None:
                record.cells["/".join(parts)] = found
        elif number == 2 and wire == 2:
            record.time = timestamp(body, start, end)
    return record


def _run(body: bytes, names: Names) -> Record:
    """The run's own names besides its settings, which they never replace."""
    told: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for number, wire, start, end in _all(body):
        if wire == 2 and number in (3, 8):
            told["wandb_project" if number == 3 else "wandb_name"] = body[start:end].decode("utf-8", "replace")
        elif wire == 2 and number == 4:
            config |= _config(body[start:end], names)
    return Record("config", config=told | config)


def _metric(body: bytes) -> Record | None:
    """Which metric counts the steps of another, as `define_metric` was told."""
    texts = {number: body[start:end].decode("utf-8", "replace") for number, wire, start, end in _all(body) if wire == 2}
    name, steps = texts.get(2) or texts.get(1, ""), texts.get(4, "")
    return Record("axis", axis=(name, steps)) if name and steps else None


def _environment(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, wire, start, end in _all(body):
        if number in _MACHINE and wire == 0:
            found[_MACHINE[number]] = signed(body, start)
        elif number in _MACHINE and wire == 2 and end > start:
            text, name = body[start:end].decode("utf-8", "replace"), _MACHINE[number]
            found[name] = f"{found[name]} {text}" if name in found else text
        elif number == 9 and wire == 2:
            for inner, kind, at, stop in fields(body, start, end):
                if inner in _GIT and kind == 2 and stop > at:
                    found[_GIT[inner]] = body[at:stop].decode("utf-8", "replace")
    return found


def _config(body: bytes, names: Names) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, wire, start, end in _all(body):
        if number == 1 and wire == 2:
            parts, value = _item(body[start:end], names)
            if parts and parts[0] != "_wandb":
                found[".".join(parts)] = decoded(value) if isinstance(value, bytes) else value
    return found


def _item(item: bytes, names: Names) -> tuple[tuple[str, ...], bytes | float]:
    """The name of one item and its value: JSON, or a number that was written as one."""
    if len(item) > 2 and item[0] in (0x0A, 0x12) and item[1] < 128:  # a short name, then JSON: nearly always
        end = 2 + item[1]
        if item[end : end + 2] == _JSON and len(item) == end + 3 + item[end + 2]:
            return names.of(item[:end]), item[end + 3 :]
    name: list[bytes] = []
    value: bytes | float = b""
    at = 0
    for number, wire, start, end in _all(item):
        if number in (1, 2) and wire == 2:
            name.append(item[at:end])
        elif number in (8, 16) and wire == 2:
            value = item[start:end]
        elif number == 6 and wire == 1:
            value = float(struct.unpack_from("<d", item, start)[0])
        elif number == 5 and wire == 0:
            zigzag = _unsigned(item, start)
            value = float((zigzag >> 1) ^ -(zigzag & 1))
        at = end
    return names.of(b"".join(name)), value


def _take(cells: Cells, name: str, value: bytes | float) -> bool:
    """Adds a number, or the numbers of an object; True where it is a picture, a table or a histogram instead."""
    found = _number(value)
    if found is not None:
        cells[name] = found
    elif isinstance(value, bytes) and value[:1] == b"{" and isinstance(inner := decoded(value), dict):
        cells |= numbers(inner, f"{name}/")
        return MEDIA in inner
    return False


def _number(value: bytes | float) -> float | None:
    """The number that a JSON text states, NaN and the infinities as words or in quotes included."""
    if isinstance(value, float):
        return value
    if not value or value[0] not in _NUMERIC:
        return None
    if value[0] == 0x22:
        return NON_FINITE.get(value[1:-1].decode("utf-8", "replace"))
    try:
        return float(value)
    except ValueError:
        return None


def timestamp(body: bytes, start: int, stop: int) -> float:
    """Unix seconds of a protobuf Timestamp."""
    seconds = nanos = 0
    for number, wire, at, _ in fields(body, start, stop):
        if wire == 0 and number in (1, 2):
            found = signed(body, at)
            seconds, nanos = (found, nanos) if number == 1 else (seconds, found)
    return seconds + nanos / 1e9


def _unsigned(payload: bytes, at: int) -> int:
    """A whole number that `fields` has stepped over, so its end is known to be there."""
    value = shift = 0
    while True:
        byte = payload[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF
        at += 1
        shift += 7


def signed(payload: bytes, at: int) -> int:
    """A whole number with its sign, as `_unsigned` reads one without."""
    value = _unsigned(payload, at)
    return value - (1 << 64) if value >> 63 else value
