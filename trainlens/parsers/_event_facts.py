"""Hyper-parameters and short texts of an event file, as facts.

- HParamsPluginData: https://github.com/tensorflow/tensorboard/blob/master/tensorboard/plugins/hparams/plugin_data.proto
- google.protobuf.Value: https://protobuf.dev/reference/protobuf/google.protobuf/#value
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import cast

from trainlens.model import Fact, Place
from trainlens.model import Value as Plain
from trainlens.parsers._event_record import MalformedError, Record, Value, fields

_LONGEST = 200  # characters of a text that still states one value
_MOST = 2000  # facts of one file


class Facts:
    """Gives out each fact once: what is logged again and again under one name is no setting."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._said: set[str] = set()

    def state(self) -> list[str]:
        return sorted(self._said)

    def restore(self, state: object) -> None:
        self._said = set(cast(list[str], state or ()))

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
    elif value.plugin == "text" and 0 < len(value.text) <= _LONGEST:
        text = value.text.decode("utf-8", "replace").strip()
        if "\n" not in text:
            yield value.tag.removesuffix("/text_summary"), _plain(text)


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
