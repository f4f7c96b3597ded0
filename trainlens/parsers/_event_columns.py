"""Scalars of many event records at once: records of one layout differ only in clock, step and value bytes.

Records are sorted by what their first bytes tell of their structure, then by a hash of their constant bytes; runs whose
constant bytes are equal, compared in full, are one layout, and one event of each is decoded with care. What fits no
layout is decoded event by event. Each payload's checksum is verified in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints
from trainlens.parsers._crc32c import Bytes, add_columns, byte_table, checksum, of_ranges, unmasked
from trainlens.parsers._event_frames import HEADER
from trainlens.parsers._event_groups import fold, groups, hashes, length_of
from trainlens.parsers._event_record import MalformedError, Record, Value, parse, width_of

LONGEST = 1000  # payloads above are decoded one by one
_FEWEST = 4  # equal records that are worth an array
_VAIN = 8
_ROUNDS = 3

Shape = tuple[int, int, int, int, tuple[tuple[int, str], ...]]


@dataclass(eq=False, slots=True)
class Layout:
    """The constant side of a kind of record. `shape`: length, places of clock and step, step width, values."""

    shape: Shape
    values: tuple[Value, ...]
    mask: Bytes  # bits that are constant, padded to whole words
    parts: list[tuple[int, int]]  # the varying bytes, in ones and twos
    constant: int  # checksum of the payload with the varying bytes zero
    words: NDArray[np.uint64]  # the constant bits
    key: bytes  # tells masks apart
    number: int = -1


@dataclass(slots=True)
class Piece:
    """Points of one tag with their record's place, in file order."""

    value: Value
    origin: Ints
    step: Ints
    time: Floats
    number: Floats


@dataclass(slots=True)
class Decoded:
    """What a stretch of records says. `layouts` has the layout number of each record, -1 for those decoded alone."""

    layouts: NDArray[np.int32]
    pieces: list[Piece] = field(default_factory=list)
    records: list[tuple[int, Record]] = field(default_factory=list)
    false_checksums: list[int] = field(default_factory=list)
    malformed: list[int] = field(default_factory=list)


class Decoder:
    """Decodes stretches of one file; layouts once met are kept."""

    def __init__(self, buffer: Bytes) -> None:
        self.buffer = buffer
        self.layouts: list[Layout] = []
        self._known: dict[bytes, Layout] = {}
        self._usual: dict[int, Layout] = {}  # the layout that all records of a key had
        self._deep = False  # whether keys must tell more

    def decode(self, starts: Ints, lengths: Ints) -> Decoded:
        """The scalars of the records at `starts` with payloads of `lengths`."""
        decoded = Decoded(np.full(len(starts), -1, np.int32))
        alone: list[Ints] = []
        room = (lengths >= 18) & (lengths <= LONGEST) & (starts + lengths + (HEADER + 12) <= len(self.buffer))
        at = np.flatnonzero(room)
        alone.append(np.flatnonzero(~room))
        for key, some in groups(self.buffer, starts, lengths, at, self._deep):
            alone.append(self._group(decoded, starts, some, key))
        one_by_one = np.sort(np.concatenate(alone))
        self._alone(decoded, starts[one_by_one], lengths[one_by_one])
        return decoded

    def _group(self, decoded: Decoded, starts: Ints, which: Ints, key: int) -> Ints:
        """Decode records of one key; returns those that must be decoded alone."""
        if len(which) < _FEWEST:
            return which
        length = length_of(key)
        width = -(-(length + 4) // 8) * 8
        rows_at = np.ndarray((len(self.buffer) - width + 1,), f"V{width}", self.buffer, 0, (1,))
        rows = rows_at[starts[which] + HEADER].view(np.uint64).reshape(-1, width // 8)
        layout = self._usual.get(key) or self._layout(rows[0], length)
        if layout is not None:
            any_, all_ = fold(rows)
            if not (((any_ ^ layout.words) | (all_ ^ layout.words)) & layout.mask.view(np.uint64)).any():
                self._usual[key] = layout
                row = any_.view(np.uint8)
                summed = sums(layout, row, row == all_.view(np.uint8))
                self._columns(decoded, starts, rows, which, [(0, len(rows), layout)], summed)
                return which[:0]
            self._deep = True
        return self._mixed(decoded, starts, rows, which, length)

    def _mixed(self, decoded: Decoded, starts: Ints, rows: NDArray[np.uint64], which: Ints, length: int) -> Ints:
        """Decode records of one key and several layouts; returns those that must be decoded alone."""
        for attempt in range(_ROUNDS):
            if len(which) < _FEWEST:
                break
            layout = next(filter(None, (self._layout(rows[i], length) for i in (0, len(rows) // 2, -1))), None)
            if layout is None:
                break
            hashed = hashes(rows, layout.mask.view(np.uint64), attempt)
            order = np.argsort(hashed, kind="stable")
            which, rows = which[order], _picked(rows, order)
            fits, rest = self._runs(rows, layout, length)
            if fits:
                self._columns(decoded, starts, rows, which, fits)
            left = np.flatnonzero(rest)
            left = left[np.argsort(which[left])]
            which, rows = which[left], _picked(rows, left)
        return which

    def _runs(
        self, rows: NDArray[np.uint64], like: Layout, length: int
    ) -> tuple[list[tuple[int, int, Layout]], NDArray[np.bool_]]:
        """Runs of equal constant bytes in `rows` whose layout has the shape of `like`, and which rows are in none."""
        mask = like.mask.view(np.uint64)
        masked = rows & mask
        change = np.bitwise_or.reduce(masked[1:] ^ masked[:-1], axis=1) != 0
        bounds = [0, *(np.flatnonzero(change) + 1).tolist(), len(rows)]
        fits, rest = [], np.zeros(len(rows), np.bool_)
        vain = 0  # short runs that were no scalars after all: where nearly all are, none is tried
        for first, last in pairwise(bounds):
            layout = self._known.get(masked[first].tobytes() + like.key)
            if layout is None and (last - first >= _FEWEST or vain < _VAIN):
                layout = self._layout(rows[first], length)
                vain += 1 if layout is None or layout.shape != like.shape else -1
            if layout is None or layout.shape != like.shape:
                rest[first:last] = True
            else:
                fits.append((first, last, layout))
        return fits, rest

    def _layout(self, row: NDArray[np.uint64], length: int) -> Layout | None:
        """The layout of a record; the same object for all that have its constant bytes."""
        layout = layout_of(row.view(np.uint8)[:length].tobytes())
        if layout is None:
            return None
        known = self._known.setdefault((row & layout.mask.view(np.uint64)).tobytes() + layout.key, layout)
        if known is layout:
            layout.number = len(self.layouts)
            self.layouts.append(layout)
        return known

    def _columns(
        self,
        decoded: Decoded,
        starts: Ints,
        rows: NDArray[np.uint64],
        which: Ints,
        fits: list[tuple[int, int, Layout]],
        summed: tuple[int, list[tuple[int, int]]] | None = None,
    ) -> None:
        """Verify and emit runs of one shape; runs are (first row, end, layout).

        `summed` is what the bytes that all rows share add to their checksums, and the bytes that change.
        """
        layout = fits[0][2]
        still, parts = summed or (0, layout.parts)
        length = layout.shape[0]
        stride = rows.shape[1] * 8
        flat = rows.view(np.uint8).reshape(-1)
        total = unmasked(np.ndarray((len(rows),), "<u4", flat, length, (stride,)))
        add_columns(total, flat, 0, stride, length, parts)
        time = numbers_at("<f8", flat, layout.shape[1], stride, len(rows))
        step = steps_at(layout.shape, flat, 0, stride, len(rows))
        numbers = [numbers_at(code, flat, place, stride, len(rows)) for place, code in layout.shape[4]]
        for first, last, one in fits:
            decoded.layouts[which[first:last]] = one.number
            holds = total[first:last] == one.constant ^ still
            origin = starts[which[first:last]]
            here = slice(first, last)
            if holds.all():
                for value, number in zip(one.values, numbers, strict=True):
                    decoded.pieces.append(Piece(value, origin, step[here], time[here], number[here]))
                continue
            decoded.false_checksums += origin[~holds].tolist()
            decoded.layouts[which[first:last][~holds]] = -1
            if not holds.any():
                continue
            for value, number in zip(one.values, numbers, strict=True):
                decoded.pieces.append(
                    Piece(value, origin[holds], step[here][holds], time[here][holds], number[here][holds])
                )

    def _alone(self, decoded: Decoded, starts: Ints, lengths: Ints) -> None:
        expected = of_ranges(self.buffer, starts + HEADER, lengths).tolist()
        for start, length, crc in zip(starts.tolist(), lengths.tolist(), expected, strict=True):
            end = start + HEADER + length
            payload = self.buffer[start + HEADER : end + 4].tobytes()
            if int(unmasked(np.frombuffer(payload, "<u4", 1, length))[0]) != crc:
                decoded.false_checksums.append(start)
                continue
            try:
                decoded.records.append((start, parse(payload[:length])))
            except MalformedError:
                decoded.malformed.append(start)


def layout_of(payload: bytes) -> Layout | None:
    """The layout of an event whose values are all scalars with fixed places; None for any other."""
    try:
        record = parse(payload)
    except MalformedError:
        return None
    values = record.values
    if not values or record.time_place < 0 or record.session or record.version or any(one.place < 0 for one in values):
        return None
    length = len(payload)
    mask = np.zeros(-(-(length + 4) // 8) * 8, np.uint8)
    mask[:length] = 0xFF
    bare = bytearray(payload)
    varying = [(record.time_place, 8, 0)] + [(one.place, width_of(one.code), 0) for one in values]
    if record.step_width:
        varying.append((record.step_place, record.step_width, 0x80))  # where a varint ends is constant
    parts = []
    for place, width, kept in varying:
        mask[place : place + width] = kept
        bare[place : place + width] = bytes(width)
        parts += [(at, min(2, place + width - at)) for at in range(place, place + width, 2)]
    if len({at for place, width, _ in varying for at in range(place, place + width)}) < sum(one[1] for one in varying):
        return None
    shape = (length, record.time_place, record.step_place, record.step_width)
    places = tuple((one.place, one.code) for one in values)
    words = np.frombuffer(payload.ljust(len(mask), b"\0"), np.uint64) & mask.view(np.uint64)
    return Layout((*shape, places), tuple(values), mask, parts, checksum(bytes(bare)), words, mask.tobytes())


def sums(layout: Layout, row: Bytes, constant: NDArray[np.bool_]) -> tuple[int, list[tuple[int, int]]]:
    """What those varying bytes of payloads that all have as in `row` add to the checksum, and those that do change."""
    total, parts = 0, []
    same, written, length = constant.tobytes(), row.tobytes(), layout.shape[0]
    for place, width in layout.parts:
        if not same[place] or not same[place + width - 1]:
            parts.append((place, width))
            continue
        for byte in range(place, place + width):
            total ^= int(byte_table(length - byte - 1)[written[byte]])
    return total, parts


def _picked(rows: NDArray[np.uint64], which: Ints) -> NDArray[np.uint64]:
    """Some of the rows; numpy is slow where it picks short rows that are not one element."""
    width = rows.shape[1]
    whole: NDArray[np.uint64] = rows.view(f"V{8 * width}").ravel()[which].view(np.uint64).reshape(-1, width)
    return whole


def steps_at(shape: Shape, buffer: Bytes, payload: int, stride: int, rows: int) -> Ints:
    """Steps of `rows` records of one shape, the first payload at `payload`, each next `stride` bytes on."""
    _, _, place, width, _ = shape
    if not width:
        return np.zeros(rows, np.int64)
    first = payload + place
    if width > 4:
        step = np.zeros(rows, np.uint64)
        for byte in range(width):
            part = np.ndarray((rows,), "u1", buffer, first + byte, (stride,)).astype(np.uint64)
            step |= (part & np.uint64(127)) << np.uint64(7 * byte)
        return step.view(np.int64)
    written = np.ndarray((rows,), "<u4", buffer, first, (stride,)).astype(np.uint32)  # checksum follows
    short = written & np.uint32(127)
    for byte in range(1, width):
        written >>= np.uint32(1)
        short |= written & np.uint32(127 << 7 * byte)
    return short.astype(np.int64)


def numbers_at(code: str, buffer: Bytes, first: int, stride: int, rows: int) -> Floats:
    """Numbers of type `code` at `first`, `first + stride`, ... widened: new memory."""
    if code == "bf":
        upper = np.ndarray((rows,), "<u2", buffer, first, (stride,)).astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32).astype(np.float64)
    return np.ndarray((rows,), code, buffer, first, (stride,)).astype(np.float64)
