"""The records of a TFRecord file: where each starts and how long it is, found for a whole stretch at once.

A record is a length (8 bytes), the length's checksum, the payload and the payload's checksum. The upper bytes of a
length are zero, so the places where two aligned pairs of zero bytes follow each other are few; those whose length
checksum holds are record starts, and each must end where the next one begins. Only where that chain breaks is the file
walked step by step.

- The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints
from trainlens.parsers._crc32c import Bytes, Words, byte_table, checksum, masked, of_ranges, of_zeros, pair_table

HEADER = 12
AROUND = 16  # bytes of a record that are not payload
_BLOCK = 1 << 18  # bytes searched at a time: stays in the cache
_HIGH = 1 << 24  # lengths from here on are not searched for, only followed


@dataclass
class Damage:
    """Bytes that are no records: `start` up to `end`."""

    start: int
    end: int


@dataclass
class Frames:
    """The records that start in one stretch: offsets of their first bytes, payload lengths, and what was between.

    `stop` is where the next stretch begins. `tail` is the start of a record that the end of the file cuts off, or -1.
    `lost` is the first byte of damage that no later record has ended yet, or -1.
    """

    starts: Ints
    lengths: Ints
    stop: int
    tail: int = -1
    lost: int = -1
    damages: list[Damage] = field(default_factory=list)


def frames(buffer: Bytes, base: int, stop: int, lost: int = -1) -> Frames:
    """Follow the records of `buffer` from `base` until one would start at `stop` or later.

    `lost` >= 0 says that no record is known to start at `base`: damage began at `lost` and the next start is sought.
    """
    found, lengths = candidates(buffer, base, stop)
    ends = found + lengths + AROUND
    breaks = np.append(np.flatnonzero(ends[:-1] != found[1:]), len(found) - 1)
    walk = _Walk(buffer, stop, found, lengths, ends, breaks)
    return walk.run(base, lost)


def header_at(buffer: Bytes, at: int) -> int:
    """The payload length in the header at `at`, or -1 when its checksum fails or the file ends before it does."""
    header = buffer[at : at + HEADER].tobytes()
    if len(header) < HEADER:
        return -1
    length, stored = struct.unpack("<QI", header)
    return length if masked(checksum(header[:8])) == stored and length < 1 << 62 else -1


def payload_holds(buffer: Bytes, start: int, length: int) -> bool:
    """Whether the payload of a complete record has its checksum."""
    at = start + HEADER
    stored = int.from_bytes(buffer[at + length : at + length + 4].tobytes(), "little")
    return masked(int(of_ranges(buffer, np.array([at]), np.array([length]))[0])) == stored


def candidates(buffer: Bytes, base: int, stop: int) -> tuple[Ints, Ints]:
    """Starts in [base, stop) of all headers whose checksum holds, with 0 < length < 2**24."""
    size = len(buffer)
    starts, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first in range(base, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        # the zero bytes of a header at s begin at s+1, s+2 or s+3, right after the length's highest byte
        low = first & ~1
        high = min(last + HEADER, size) & ~1
        zero = buffer[low:high].view("<u2") == 0
        if len(zero) < 2:
            continue
        pair = zero[:-1] & zero[1:]
        begins = np.empty_like(pair)
        begins[0] = pair[0]
        np.greater(pair[1:], pair[:-1], out=begins[1:])
        run = np.flatnonzero(begins) * 2 + low
        if not len(run):
            continue
        run -= buffer[np.maximum(run - 1, 0)] == 0  # the run may begin in the middle of a pair
        for back in (1, 2, 3):
            start = run - back
            if start[0] < first or start[-1] >= last or start[-1] + HEADER > size:
                within = (start >= first) & (start < last) & (start + HEADER <= size)
                start, run = start[within], run[within]
            holds, length = _valid_lengths(buffer, start)
            if holds.all():
                starts.append(start)
                lengths.append(length)
                break
            starts.append(start[holds])
            lengths.append(length[holds])
            run = run[~holds]
            if not len(run):
                break
    at, length = np.concatenate(starts), np.concatenate(lengths)
    if (at[1:] > at[:-1]).all():
        return at, length
    order = np.argsort(at, kind="stable")
    return at[order], length[order]


def _valid_lengths(buffer: Bytes, start: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Which starts have a plausible length with its checksum, and the lengths."""
    if not len(start):
        return np.empty(0, np.bool_), start
    header = np.ndarray((len(buffer) - HEADER + 1,), f"V{HEADER}", buffer, 0, (1,))[start].view("<u4").reshape(-1, 3)
    low, stored = header[:, 0], header[:, 2]
    plausible = (low < _HIGH) & (low > 0) & (header[:, 1] == 0)
    expected = _masked_lengths()[(low & np.uint32(0xFFFF)).astype(np.intp)]
    if low.max() > 0xFFFF:
        word = np.where(plausible, low, 0).astype(np.uint64)
        expected = np.where(low <= 0xFFFF, expected, _masked(_raw_lengths(word)))
    return plausible & (expected == stored), low.astype(np.int64)


def _raw_lengths(word: NDArray[np.uint64]) -> Words:
    low = pair_table(6)[(word & np.uint64(0xFFFF)).astype(np.intp)]
    return low ^ byte_table(5)[(word >> np.uint64(16)).astype(np.intp)] ^ np.uint32(of_zeros(8))


def _masked(crc: Words) -> Words:
    turned: Words = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    turned += np.uint32(0xA282EAD8)
    return turned


@cache
def _masked_lengths() -> Words:
    """The stored checksum of every length below 65,536."""
    return _masked(_raw_lengths(np.arange(1 << 16, dtype=np.uint64)))


class _Walk:
    """The walk along the chain of one stretch; runs of records that join are taken whole."""

    def __init__(self, buffer: Bytes, stop: int, found: Ints, lengths: Ints, ends: Ints, breaks: Ints) -> None:
        self.buffer, self.stop = buffer, stop
        self.found, self.lengths, self.ends, self.breaks = found, lengths, ends, breaks
        self.taken: list[tuple[Ints, Ints]] = []
        self.damages: list[Damage] = []

    def run(self, at: int, lost: int) -> Frames:
        size = len(self.buffer)
        tail = -1
        while at < self.stop:
            index = int(np.searchsorted(self.found, at))
            if lost >= 0:  # seek the next header that holds
                if index == len(self.found):
                    at = self.stop
                    break
                at = int(self.found[index])
                self.damages.append(Damage(lost, at))
                lost = -1
            if index < len(self.found) and self.found[index] == at:
                at = self._take_run(index)
            else:
                length = header_at(self.buffer, at)
                if length < 0:
                    if size - at < HEADER:
                        tail = at
                        break
                    lost, at = self._give_back(at)
                    continue
                self.taken.append((np.array([at]), np.array([length])))
                at += length + AROUND
            if at > size:
                at, tail, lost = self._at_end()
                if tail >= 0:
                    break
            if at >= self.stop and size - at >= HEADER and header_at(self.buffer, at) < 0:
                lost, at = self._give_back(at)
        starts, lengths = self._together()
        return Frames(starts, lengths, at, tail, lost, self.damages)

    def _take_run(self, index: int) -> int:
        last = int(self.breaks[np.searchsorted(self.breaks, index)])
        self.taken.append((self.found[index : last + 1], self.lengths[index : last + 1]))
        return int(self.ends[last])

    def _give_back(self, at: int) -> tuple[int, int]:
        """Where damage begins and where to seek from when there is no record at `at`.

        When the payload before it is damaged too, bytes are missing or added inside that record, and good records may
        stand within the length it claims: it is given back and sought through.
        """
        if self.taken:
            starts, lengths = self.taken[-1]
            start, length = int(starts[-1]), int(lengths[-1])
            if start + length + AROUND == at and not payload_holds(self.buffer, start, length):
                self.taken[-1] = (starts[:-1], lengths[:-1])
                return start, start + HEADER
        return at, at + 1

    def _at_end(self) -> tuple[int, int, int]:
        """The last record runs over the end of the file: it is the cut tail, unless whole records stand inside it."""
        starts, lengths = self.taken[-1]
        start = int(starts[-1])
        self.taken[-1] = (starts[:-1], lengths[:-1])
        size = len(self.buffer)
        for inner, length in zip(*candidates(self.buffer, start + HEADER, size), strict=True):
            if inner + length + AROUND <= size and payload_holds(self.buffer, int(inner), int(length)):
                self.damages.append(Damage(start, int(inner)))
                return int(inner), -1, -1
        return start, start, -1

    def _together(self) -> tuple[Ints, Ints]:
        if not self.taken:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([one for one, _ in self.taken]), np.concatenate([two for _, two in self.taken])
