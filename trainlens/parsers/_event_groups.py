"""Event records sorted into groups that look alike: by what a few words of each tell of its structure and its tag.

A key says nothing for certain but the payload's length: whoever decodes a group compares its constant bytes in full.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints
from trainlens.parsers._crc32c import Bytes
from trainlens.parsers._event_frames import HEADER

_CACHED = 1 << 14  # records whose keys are made together: the arrays stay in the cache
_EXACT = 22  # bits of a key that hold length, step width and tag length as they are
_ABREAST = 64  # rows folded together: numpy is slow where rows are short
_TAIL, _MIDDLE, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xD6E8FEB86659FD93)

Key = NDArray[np.uint64]


def groups(buffer: Bytes, starts: Ints, lengths: Ints, at: Ints, deep: bool) -> list[tuple[int, Ints]]:
    """Of the records numbered `at`: (key, the numbers of those that have it, in file order) for each key.

    `deep` looks at more of the tag: for files where tags of one length end alike.
    """
    if not len(at):
        return []
    keys = np.empty(len(at), np.uint64)
    hashed = np.empty(len(at), np.uint16)
    for first in range(0, len(at), _CACHED):
        some = at[first : first + _CACHED]
        key = _keys(buffer, starts[some] + HEADER, lengths[some], deep)
        keys[first : first + _CACHED] = key
        hashed[first : first + _CACHED] = (key * _SPREAD) >> np.uint64(48)
    order = np.argsort(hashed, kind="stable")
    keys, at, hashed = keys[order], at[order], hashed[order]
    bounds = [0, *(np.flatnonzero(hashed[1:] != hashed[:-1]) + 1).tolist(), len(at)]
    found = []
    for first, last in pairwise(bounds):
        here, group = keys[first:last], at[first:last]
        if (here == here[0]).all():
            found.append((int(here[0]), group))
        else:
            found += [(one, group[here == one]) for one in sorted(set(here.tolist()))]
    return found


def length_of(key: int) -> int:
    """The payload length of all records of this key."""
    return key >> 12 & 0x3FF


def _keys(buffer: Bytes, payload: Ints, length: Ints, deep: bool) -> Key:
    """Length, step width and tag length of events that are laid out as writers do, with a hash of parts of the tag."""
    words = np.ndarray((len(buffer) - 7,), "<u8", buffer, 0, (1,))
    width = _step_widths(words[payload + 9])
    inner = width + 11  # bytes before the first value: the summary's length and that of its value take 1 or 2 bytes
    if length.max() >= 128:
        inner = inner + (length - width - 11 >= 128)
        inner += buffer[payload + np.minimum(inner + 1, length - 1)] >= 128
    tag = payload + (inner + 4)
    size = buffer[np.minimum(tag - 1, payload + length - 1)].astype(np.int64)
    tail = words[np.minimum(tag + size, payload + length) - 8]
    if size.min() < 8:
        tail >>= (np.clip(8 - size, 0, 7) << 3).astype(np.uint64)  # what stands before a short tag changes
    key: NDArray[np.uint64] = tail * _TAIL
    if deep:
        middle = words[np.minimum(tag, payload + length - 16) + 8]
        middle[size < 16] = 0
        key ^= middle * _MIDDLE
    key ^= key >> np.uint64(31)
    key <<= np.uint64(_EXACT)
    size |= length << 12
    size |= width << 8
    key |= size.view(np.uint64)
    return key


def _step_widths(after_clock: NDArray[np.uint64]) -> Ints | int:
    """Bytes that the step field takes with its key; one number where they are all of one width."""
    first = int(after_clock[0])
    if first & 0xFF == 0x10:
        more = next((byte for byte in range(1, 8) if not first >> (8 * byte) & 0x80), 0)
        ends = np.uint64(0xFF | sum(0x80 << (8 * byte) for byte in range(1, more + 1)))
        if more and not ((after_clock ^ after_clock[0]) & ends).any():
            return more + 1
    stops = ~(after_clock >> np.uint64(8)) & np.uint64(0x0080808080808080)
    lowest = stops & (~stops + np.uint64(1))
    width = (np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64) + 2
    width[(after_clock & np.uint64(0xFF)) != 0x10] = 0
    return width


def fold(rows: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The bits that any of the rows has, and those that all have."""
    width = rows.shape[1]
    most = len(rows) // _ABREAST * _ABREAST
    any_, all_ = np.bitwise_or.reduce(rows[most:], axis=0), np.bitwise_and.reduce(rows[most:], axis=0)
    if most:
        abreast = rows[:most].reshape(-1, _ABREAST * width)
        any_ |= np.bitwise_or.reduce(np.bitwise_or.reduce(abreast, axis=0).reshape(-1, width), axis=0)
        all_ &= np.bitwise_and.reduce(np.bitwise_and.reduce(abreast, axis=0).reshape(-1, width), axis=0)
    return any_, all_


def hashes(rows: NDArray[np.uint64], mask: NDArray[np.uint64], attempt: int) -> NDArray[np.uint16]:
    """A hash of the constant bits of each row, another at each attempt."""
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
