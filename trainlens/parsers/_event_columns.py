"""Scalars of many event records at once: records of one layout differ only in clock, step and value bytes.

Records are sorted by what their first bytes tell of their structure, then by a hash of their constant bytes; runs whose
constant bytes are equal, compared in full, are one layout, and one event of each is decoded with care. What fits no
layout is decoded event by event. Each payload's checksum is verified in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints
from trainlens.parsers._crc32c import Bytes, add_columns, checksum, of_ranges, unmasked
from trainlens.parsers._event_frames import HEADER
from trainlens.parsers._event_record import MalformedError, Record, Value, parse, width_of

LONGEST = 1024  # payloads above are decoded one by one
_FEWEST = 4  # equal records that are worth an array
_VAIN = 8
_CACHED = 1 << 14  # records whose keys are made together: the arrays stay in the cache
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

    def decode(self, starts: Ints, lengths: Ints) -> Decoded:
        """The scalars of the records at `starts` with payloads of `lengths`."""
        decoded = Decoded(np.full(len(starts), -1, np.int32))
        alone: list[Ints] = []
        room = (lengths >= 18) & (lengths <= LONGEST) & (starts + lengths + (HEADER + 12) <= len(self.buffer))
        at = np.flatnonzero(room)
        alone.append(np.flatnonzero(~room))
        for some in _by_structure(self.buffer, starts, lengths, at):
            alone += self._structure(decoded, starts, some, int(lengths[some[0]]))
        one_by_one = np.sort(np.concatenate(alone))
        self._alone(decoded, starts[one_by_one], lengths[one_by_one])
        return decoded

    def _structure(self, decoded: Decoded, starts: Ints, which: Ints, length: int) -> list[Ints]:
        """Decode records of one structure; returns those that must be decoded alone."""
        width = -(-(length + 4) // 8) * 8
        rows_at = np.ndarray((len(self.buffer) - width + 1,), f"V{width}", self.buffer, 0, (1,))
        alone = []
        for attempt in range(_ROUNDS):
            if len(which) < _FEWEST:
                break
            rows = rows_at[starts[which] + HEADER].view(np.uint64).reshape(-1, width // 8)
            layout = next(filter(None, (self._layout(rows[i], length) for i in (0, len(rows) // 2, -1))), None)
            if layout is None:
                break
            hashed = _hash(rows, layout.mask.view(np.uint64), attempt)
            if hashed.min() != hashed.max():
                order = np.argsort(hashed, kind="stable")
                which = which[order]
                rows = rows.view(f"V{width}").ravel()[order].view(np.uint64).reshape(-1, width // 8)
            fits, rest = self._runs(rows, layout, length)
            left = which[rest]
            if fits:
                self._columns(decoded, starts, rows, which, fits)
            which = np.sort(left)
        alone.append(which)
        return alone

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
    ) -> None:
        """Verify and emit runs of one shape; runs are (first row, end, layout)."""
        layout = fits[0][2]
        length = layout.shape[0]
        stride = rows.shape[1] * 8
        flat = rows.view(np.uint8).reshape(-1)
        total = unmasked(np.ndarray((len(rows),), "<u4", flat, length, (stride,)))
        add_columns(total, flat, 0, stride, length, layout.parts)
        time = numbers_at("<f8", flat, layout.shape[1], stride, len(rows))
        step = steps_at(layout.shape, flat, 0, stride, len(rows))
        numbers = [numbers_at(code, flat, place, stride, len(rows)) for place, code in layout.shape[4]]
        for first, last, one in fits:
            decoded.layouts[which[first:last]] = one.number
            holds = total[first:last] == one.constant
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
    return Layout((*shape, places), tuple(values), mask, parts, checksum(bytes(bare)), mask.tobytes())


def steps_at(shape: Shape, buffer: Bytes, payload: int, stride: int, rows: int) -> Ints:
    """Steps of `rows` records of one shape, the first payload at `payload`, each next `stride` bytes on."""
    _, _, place, width, _ = shape
    step = np.zeros(rows, np.uint64)
    for byte in range(width):
        part = np.ndarray((rows,), "u1", buffer, payload + place + byte, (stride,)).astype(np.uint64)
        step |= (part & np.uint64(127)) << np.uint64(7 * byte)
    return step.view(np.int64)


def numbers_at(code: str, buffer: Bytes, first: int, stride: int, rows: int) -> Floats:
    """Numbers of type `code` at `first`, `first + stride`, ... widened: new memory."""
    if code == "bf":
        upper = np.ndarray((rows,), "<u2", buffer, first, (stride,)).astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32).astype(np.float64)
    return np.ndarray((rows,), code, buffer, first, (stride,)).astype(np.float64)


def _by_structure(buffer: Bytes, starts: Ints, lengths: Ints, at: Ints) -> list[Ints]:
    """Indices of records sorted into groups of one length, step width and (as a rule) tag length, in file order."""
    if not len(at):
        return []
    keys = np.empty(len(at), np.int32)
    for first in range(0, len(at), _CACHED):
        some = at[first : first + _CACHED]
        keys[first : first + _CACHED] = _structure_keys(buffer, starts[some] + HEADER, lengths[some])
    hashed = ((keys * np.int32(0x1E3779B1)) >> np.int32(15)).astype(np.uint16)
    order = np.argsort(hashed, kind="stable")
    bounds = np.flatnonzero(np.diff(hashed[order])) + 1
    groups = []
    for group in np.split(order, bounds):
        of_group = keys[group]
        if (of_group == of_group[0]).all():
            groups.append(at[group])
        else:
            groups += [at[group[of_group == one]] for one in np.unique(of_group)]
    return groups


def _structure_keys(buffer: Bytes, payload: Ints, length: Ints) -> Ints:
    """A number for the length, the step width and the tag length of events that are laid out as writers do."""
    word = np.ndarray((len(buffer) - 7,), "<u8", buffer, 0, (1,))[payload + 9]
    has_step = (word & np.uint64(0xFF)) == 0x10
    ends = ~(word >> np.uint64(8)) & np.uint64(0x0080808080808080)
    lowest = ends & (~ends + np.uint64(1))
    width = np.where(has_step, (np.bitwise_count(lowest - np.uint64(1)) >> 3) + 1, 0).astype(np.int64)
    summary = 9 + has_step + width  # the summary follows; its length and that of its first value take 1 or 2 bytes
    inner = summary + 2 + (length - summary - 2 >= 128)
    inner += 2 + (buffer[payload + np.minimum(inner + 1, length - 1)] >= 128)
    tag = buffer[payload + np.minimum(inner + 1, length - 1)]
    key: Ints = (length << 12) | (width << 8) | tag
    return key


def _hash(rows: NDArray[np.uint64], mask: NDArray[np.uint64], attempt: int) -> NDArray[np.uint16]:
    total = np.zeros(len(rows), np.uint64)
    for column, factor in enumerate(_factors(len(mask), attempt)):
        if mask[column]:
            total += (rows[:, column] & mask[column]) * factor
            total ^= total >> np.uint64(29)
    return (total >> np.uint64(13)).astype(np.uint16)


@cache
def _factors(count: int, attempt: int) -> NDArray[np.uint64]:
    """Odd factors for the columns, others at each attempt."""
    numbers = [pow(0x9E3779B97F4A7C15, 3 + column + 1000 * attempt, 1 << 64) | 1 for column in range(count)]
    return np.array(numbers, np.uint64)
