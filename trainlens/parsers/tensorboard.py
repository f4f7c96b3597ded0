"""TensorBoard event files: scalars of both encodings, hyper-parameters, short texts and sessions.

An event file is a chain of TFRecord frames, each an Event message. A scalar stands in `simple_value` (TensorFlow 1,
PyTorch, tensorboardX) or in a tensor of one number (TensorFlow 2). Images, histograms, audio, graphs and embeddings are
passed over. Every frame's two checksums are verified: a record with a false one is left out and told of, and so are
bytes that are no records; a record that the end of the file cuts off is the normal end of a live log.

- Frames: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
- Events: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainlens.model import Batch, Checkpoint, Event, EventKind, Note, Place
from trainlens.parsers._crc32c import Bytes
from trainlens.parsers._event_columns import Decoded, Decoder
from trainlens.parsers._event_curves import Curves
from trainlens.parsers._event_facts import Facts, session_end
from trainlens.parsers._event_frames import AROUND, HEADER, Frames, candidates, frames, header_at, payload_holds
from trainlens.parsers._event_record import MalformedError, parse
from trainlens.parsers._event_tiles import period, tiles
from trainlens.parsers._faults import kept, restored
from trainlens.sources import Source

_SMALLEST, _LARGEST = 1 << 18, 1 << 23  # bytes read the general way before a repeating period is looked for

PROVES = True  # both checksums of the first record hold
_NAME = "tfevents"
_PLURAL = {"text": "texts", "hparams": "hyper-parameter records"}
_SESSIONS: dict[int, tuple[EventKind, str]] = {
    1: ("run-start", "session started"),
    2: ("run-end", "session stopped"),
    3: ("checkpoint-end", "checkpoint saved"),
}


def sniff(head: bytes, path: Path) -> float:
    """1.0 when the first record is an event with true checksums, 0.9 when it is not whole or comes after damage."""
    named = _NAME in path.name
    if len(head) < HEADER or not head.strip(b"\0"):
        return (0.9 if len(head) < HEADER else 0.6) if named else 0.0
    buffer = np.frombuffer(head, np.uint8)
    first = _score(buffer, 0)
    if first or not named or head[257:262] == b"ustar":  # an archive of event files has some inside
        return first
    starts, _ = candidates(buffer, 0, len(buffer))
    return 0.9 if any(_score(buffer, int(start)) for start in starts[:64]) else 0.0


def _score(buffer: Bytes, start: int) -> float:
    """How sure it is that an event's record starts here: TFRecord files hold other messages too."""
    length = header_at(buffer, start)
    if length < 0:
        return 0.0
    payload = buffer[start + HEADER : start + HEADER + length].tobytes()
    if len(payload) < length or len(buffer) < start + length + AROUND:
        return 0.9 if payload[:1] in (b"\x09", b"\x10") else 0.0
    try:
        record = parse(payload)
    except MalformedError:
        record = None
    if not payload_holds(buffer, start, length):
        return 0.9 if record is not None and record.version else 0.0
    return 1.0 if record is not None and (record.time_place >= 0 or record.version) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points, events and facts of one event file, with the notes and a checkpoint at the end."""
    if source.size == 0:
        yield Note("no-points", "empty file", byte=0)
        return
    with source.mapped() as view:
        yield from _Reading(source, since).batches(np.frombuffer(view, np.uint8))


@dataclass(slots=True)
class _Stretch:
    """Part of a file, decoded. `frames` is None where a period of records repeated."""

    decoded: Decoded
    records: int
    frames: Frames | None = None


def stretches(buffer: Bytes, base: int) -> Iterator[_Stretch]:
    """The file from `base` on, part by part in its order.

    Each part read the general way ends with a look for a repeating period; where one is found, the fast way goes on for
    as long as it holds. Where that brings little, the next look comes later.
    """
    decoder = Decoder(buffer)
    size, lost = _SMALLEST, -1
    while base < len(buffer):
        found = frames(buffer, base, min(base + size, len(buffer)), lost)
        decoded = decoder.decode(found.starts, found.lengths)
        yield _Stretch(decoded, len(found.starts), found)
        if found.tail >= 0:
            return
        base, lost = found.stop, found.lost
        covered = 0
        records = period(decoded.layouts) if lost < 0 else 0
        layouts = [decoder.layouts[number] for number in decoded.layouts[len(decoded.layouts) - records :]]
        bytes_ = sum(layout.shape[0] + AROUND for layout in layouts)
        while records:
            pieces, rows = tiles(buffer, base, layouts)
            if not rows:
                break
            yield _Stretch(Decoded(np.empty(0, np.int32), pieces), rows * records)
            base += rows * bytes_
            covered += rows * bytes_
        size = _SMALLEST if covered >= 4 * size else min(2 * size, _LARGEST)


class _Reading:
    """One reading of one file: what it counts on its way."""

    def __init__(self, source: Source, since: Checkpoint | None) -> None:
        self.source = source
        self.since = since
        self.curves = Curves(since.state if since else {})
        held = cast(Mapping[str, Any], since.state if since else {})
        self.facts = Facts(source.name, cast(list[str], held.get("facts", [])))
        self.records: int = held.get("records", 0)
        self.false, self.malformed = restored(held.get("false")), restored(held.get("malformed"))
        self.damaged: list[tuple[int, int]] = [(start, end) for start, end in held.get("damaged", ())]
        self.media: Counter[str] = Counter(held.get("media", {}))
        self.versions: int = held.get("versions", 0)
        self.tail = -1
        self.lost = -1

    def batches(self, buffer: Bytes) -> Iterator[Batch]:
        base = self.since.offset if self.since else 0
        for stretch in stretches(buffer, base):
            self.records += stretch.records
            yield from self.curves.take(stretch.decoded)
            yield from self._sessions_and_facts(stretch.decoded)
            self.false += stretch.decoded.false_checksums
            self.malformed += stretch.decoded.malformed
            if stretch.frames:
                self.damaged += [(one.start, one.end) for one in stretch.frames.damages]
                self.tail, self.lost = stretch.frames.tail, stretch.frames.lost
        yield from self.curves.finish()
        yield from self._notes(len(buffer))
        if self.curves.continuable and not self.source.compressed:
            end = next((at for at in (self.tail, self.lost) if at >= 0), len(buffer))
            damaged = [one for one in self.damaged if one[0] != self.lost]
            faults = {"false": kept(sorted(self.false)), "malformed": kept(sorted(self.malformed)), "damaged": damaged}
            seen = {"facts": self.facts.said(), "records": self.records, "versions": self.versions}
            yield Checkpoint(end, {**self.curves.state(), **faults, **seen, "media": dict(self.media)})

    def _sessions_and_facts(self, decoded: Decoded) -> Iterator[Batch]:
        for at, record in decoded.records:
            self.media.update(value.medium or value.plugin for value in record.values if value.number is None)
            self.versions += record.version != ""
            yield from self.facts.of(at, record)
            yield from session_end(record, Place(self.source.name, byte=at))
            if record.session in _SESSIONS:
                kind, text = _SESSIONS[record.session]
                if kind == "run-start" and record.step > 0:
                    kind, text = "restart", "session started again"
                text = f"{text}: {record.session_text}" if record.session_text else text
                time = record.time if record.time > 0 else None
                yield Event(kind, text, record.step, time, place=Place(self.source.name, byte=at))

    def _notes(self, size: int) -> Iterator[Note]:
        if self.false:
            count, first = len(self.false), min(self.false)
            what = "record has a false checksum and is" if count == 1 else "records have false checksums and are"
            yield Note("checksum", f"{count:,} {what} left out", byte=first, count=count)
        if self.lost >= 0:
            self.damaged.append((self.lost, size))
        if self.damaged:
            lost = sum(end - start for start, end in self.damaged)
            places = "place" if len(self.damaged) == 1 else "places"
            text = f"{lost:,} bytes at {len(self.damaged):,} {places} are damaged: no records"
            yield Note("damaged", text, byte=self.damaged[0][0], count=len(self.damaged))
        if self.tail >= 0:
            yield Note("cut-off", f"the last record is cut off at byte {size:,}", byte=self.tail)
        if self.malformed:
            count = len(self.malformed)
            text = f"{count:,} records with true checksums hold no event"
            yield Note("not-understood", text, byte=min(self.malformed), count=count)
        yield from self.curves.notes()
        if not self.curves.points and not self.curves.tags:
            yield Note("no-points", self._nothing(), byte=0)

    def _nothing(self) -> str:
        """Why there is no point."""
        if self.records and self.records == self.versions:
            return "only the file's version was written: the run ended before it logged anything, or has not logged yet"
        held = ", ".join(f"{count:,} {_PLURAL.get(name, name)}" for name, count in sorted(self.media.items()) if name)
        return f"{self.records:,} records were read; none is a scalar" + (f" (it holds {held})" if held else "")
