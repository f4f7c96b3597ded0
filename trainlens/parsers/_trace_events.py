"""Chrome traces read event by event in bounded memory, however large: a piece is cut where an event begins.

An event begins with the same key as the first one ("ph" with Kineto). An unescaped quote behind a brace cannot stand
inside a text, so that "}, {"ph"" is always a border between two events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trainlens.parsers._json_rows import decoded
from trainlens.sources import Source

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'\{\s*("(?:ph|name|cat|pid|tid|ts|args|dur|id)")\s*:')
_SPACE = b" \t\r\n"
LONGEST = 64 << 20  # bytes without a border: no trace that Kineto wrote


class Event(msgspec.Struct, gc=False):
    """One event; `ts` and `dur` in µs, written as numbers or as texts."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | str = 0.0
    dur: float | str = 0.0


_DECODER = msgspec.json.Decoder(list[Event])


@dataclass
class Trace:
    """A trace while it is read. `about` holds the top-level values beside the events, complete when all is read."""

    about: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    damaged: int = 0  # pieces that are no JSON

    def events(self, source: Source) -> Iterator[list[Event]]:
        """The events, some thousands at a time."""
        buffer, border = b"", None
        for piece in source.blocks():
            buffer = buffer + piece if buffer else piece
            if border is None:
                start = self._begin(buffer)
                if start is None:
                    if len(buffer) > LONGEST:
                        return
                    continue
                buffer = buffer[start:]
                key = _FIRST_KEY.match(buffer.lstrip())
                border = re.compile(rb"\}\s*,\s*(?=\{\s*" + (key[1] if key else b'"ph"') + rb"\s*:)")
            cut = _last(border, buffer)
            if cut is not None:
                yield self._decoded(buffer[: cut[0]])
                buffer = buffer[cut[1] :]
            if len(buffer) > LONGEST:
                return
        if border is not None:
            yield from self._end(buffer)

    def _begin(self, buffer: bytes) -> int | None:
        """Where the first event begins; what stands before is read."""
        if buffer.lstrip(b"\xef\xbb\xbf" + _SPACE)[:1] == b"[":
            return buffer.index(b"[") + 1
        found = _EVENTS.search(buffer)
        if found is None:
            return None
        self._learn(buffer[: found.start()].rstrip(_SPACE + b",") + b"}")
        return found.end()

    def _end(self, buffer: bytes) -> Iterator[list[Event]]:
        """The last event, or those of a short trace without a border, and the values behind the events."""
        text = buffer.decode("utf-8", "replace")
        scan, at, last = json.JSONDecoder().raw_decode, 0, list[Event]()
        while True:
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1
            if text[at : at + 1] != "{":
                break
            try:
                event, at = scan(text, at)
            except (ValueError, RecursionError):
                break
            last += [_event(event)] if isinstance(event, dict) else []
        yield last
        if text[at : at + 1] == "]":
            self.complete = True
            rest = text[at + 1 :].strip().removeprefix(",")
            if rest.strip("} \r\n"):
                self._learn(b"{" + rest.encode())

    def _learn(self, content: bytes) -> None:
        found = decoded(content)
        if isinstance(found, dict):
            self.about |= found

    def _decoded(self, content: bytes) -> list[Event]:
        content = b"[" + content + b"]"
        try:
            return _DECODER.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = decoded(content)
        if isinstance(found, list):
            return [_event(event) for event in found if isinstance(event, dict)]
        self.damaged += 1
        return []


def _last(border: re.Pattern[bytes], buffer: bytes) -> tuple[int, int] | None:
    """End of the event before the last border, and begin of the one behind it; searched from the end of the buffer."""
    reach = 1 << 16
    while True:
        start = max(0, len(buffer) - reach)
        found = None
        for found in border.finditer(buffer, start):  # noqa: B007  the last one counts
            pass
        if found is not None:
            return found.start() + 1, found.end()
        if start == 0:
            return None
        reach *= 8


def _event(event: Mapping[str, Any]) -> Event:
    texts = [str(event.get(key) or "") for key in ("ph", "cat", "name")]
    times = [value if isinstance(value := event.get(key), (int, float, str)) else 0.0 for key in ("ts", "dur")]
    return Event(texts[0], texts[1], texts[2], times[0], times[1])
