"""Hyper-parameters and texts of an event file, as facts.

A text states one value when it is short and has one line (Megatron's arguments), several when it is a JSON object
(Hugging Face's `args` and `model_config`) or a Markdown table of two columns (reinforcement learning's custom).

- HParamsPluginData: https://github.com/tensorflow/tensorboard/blob/master/tensorboard/plugins/hparams/plugin_data.proto
- google.protobuf.Value: https://protobuf.dev/reference/protobuf/google.protobuf/#value
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator

from trainlens.model import Event, EventKind, Fact, Place
from trainlens.model import Value as Plain
from trainlens.parsers._event_record import MalformedError, Record, Value, fields

_LONGEST = 200  # characters of a text that still states one value
_MOST = 2000  # facts of one file
_LARGEST = 256 << 10  # bytes of a text that is looked through
_DEEPEST = 4  # objects within each other
_ROW = re.compile(r"\s*\|([^|\n]{1,200})\|([^|\n]{0,200})\|\s*")
_ENDS: dict[int, tuple[EventKind, str]] = {1: ("run-end", "with success"), 2: ("exit-code", "in failure")}


class Facts:
    """Gives out each fact once: what is logged again and again under one name is no setting."""

    def __init__(self, path: str, said: Iterable[str]) -> None:
        self._path = path
        self._said = set(said)

    def said(self) -> list[str]:
        """The names given out so far, for a later reading."""
        return sorted(self._said)

    def of(self, at: int, record: Record) -> Iterator[Fact]:
        for value in record.values:
            for name, plain in _stated(value):
                if name not in self._said and len(self._said) < _MOST:
                    self._said.add(name)
                    yield Fact(name, plain, Place(self._path, byte=at))


def _stated(value: Value) -> Iterator[tuple[str, Plain]]:
    if value.plugin == "hparams":
        try:
            yield from _hyperparameters(value.content)
        except (MalformedError, UnicodeDecodeError):
            return
    elif value.plugin == "text" and 0 < len(value.text) <= _LARGEST:
        text = value.text.decode("utf-8", "replace").strip()
        tag = value.tag.removesuffix("/text_summary")
        if text.startswith("{"):
            yield from _object(tag, text)
        elif text.startswith("|"):
            yield from _table(tag, text)
        elif "\n" not in text and len(text) <= _LONGEST:
            yield tag, _plain(text)


def _object(tag: str, text: str) -> Iterator[tuple[str, Plain]]:
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _members(tag, stated, _DEEPEST)


def _members(name: str, stated: object, depth: int) -> Iterator[tuple[str, Plain]]:
    if isinstance(stated, dict) and depth:
        for key, member in stated.items():
            yield from _members(f"{name}.{key}", member, depth - 1)
    elif isinstance(stated, bool | int | float) or (isinstance(stated, str) and len(stated) <= _LONGEST):
        yield name, stated


def _table(tag: str, text: str) -> Iterator[tuple[str, Plain]]:
    """Rows of a Markdown table of two columns after its rule; nothing when it is another table."""
    rows = [_ROW.fullmatch(line) for line in text.splitlines()]
    if len(rows) < 3 or rows[1] is None or set("".join(rows[1].groups())) - set("-: "):
        return
    for row in rows[2:]:
        if row is None:
            return
        yield f"{tag}.{row[1].strip()}", _plain(row[2].strip())


def session_end(record: Record, place: Place) -> Iterator[Event]:
    """The end of a session of the hparams plug-in; one without a time is what PyTorch writes beside the start."""
    for value in record.values:
        if value.plugin != "hparams":
            continue
        try:
            status, time = _end(value.content)
        except MalformedError:
            continue
        if status in _ENDS and time > 0:
            kind, how = _ENDS[status]
            yield Event(kind, f"the session ended {how}", record.step or None, time, place=place)


def _end(content: bytes) -> tuple[int, float]:
    status, time = 0, 0.0
    for number, wire, start, end in fields(content, 0, len(content)):
        if number == 4 and wire == 2:  # session_end_info
            for inner, kind, first, _ in fields(content, start, end):
                if inner == 1 and kind == 0:
                    status = content[first]
                elif inner == 2 and kind == 1:
                    time = struct.unpack_from("<d", content, first)[0]
    return status, time


def _hyperparameters(content: bytes) -> Iterator[tuple[str, Plain]]:
    for number, wire, start, end in fields(content, 0, len(content)):
        if number == 3 and wire == 2:  # session_start_info
            for inner, kind, first, last in fields(content, start, end):
                if inner == 1 and kind == 2:  # one entry of the map of hparams
                    yield from _entry(content, first, last)


def _entry(content: bytes, at: int, stop: int) -> Iterator[tuple[str, Plain]]:
    name, plain = "", None
    for number, wire, start, end in fields(content, at, stop):
        if number == 1 and wire == 2:
            name = content[start:end].decode()
        elif number == 2 and wire == 2:
            plain = _value(content, start, end)
    if name and plain is not None:
        yield name, plain


def _value(content: bytes, at: int, stop: int) -> Plain | None:
    for number, wire, start, end in fields(content, at, stop):
        if number == 2 and wire == 1:
            number_value: float = struct.unpack_from("<d", content, start)[0]
            return int(number_value) if number_value.is_integer() else number_value
        if number == 3 and wire == 2:
            return content[start:end].decode()
        if number == 4 and wire == 0:
            return content[start] != 0
    return None


def _plain(text: str) -> Plain:
    """A text as the number or truth value it spells."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
