"""CRC-32C of many pieces at once, in numpy: exact, one answer a piece.

The checksum is linear over XOR: that of a message is the XOR of what each of its bytes adds, which depends on the byte
and on how many bytes follow it, and of a constant for its length. So a column of bytes is one look-up in a table, and
bytes that many records share are summed once. TFRecord files keep the checksum rotated and shifted ("masked").

- The polynomial: https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4
- The mask: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/hash/crc32c.h
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_MASK = 0xA282EAD8
_BLOCK = 64  # bytes whose sum is taken column by column; longer pieces are joined from such blocks
_AT_ONCE = 1 << 19  # bytes summed together: stay in the cache
_SHORT = 400  # bytes that are summed one by one
_ENOUGH = 1024  # longer pieces are shortened to so many bytes
# x^(8*863) is the sum of x^(8*n) over these n, modulo the polynomial: found by a search, and a test proves it
_FAR, _NEARER = 863, (37, 28, 21, 19, 15, 9, 0)
_PAIR_TABLES = 96  # tables of two bytes kept: 24 MiB
_MANY = 1 << 14  # look-ups from which on such a table is worth its making


def _first_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


_asked: Counter[int] = Counter()  # look-ups so far of two bytes, by the bytes from them to the end
_BYTE = _first_table()
_BYTE_LIST = _BYTE.tolist()


def checksum(piece: bytes) -> int:
    """CRC-32C of one short piece."""
    crc = 0xFFFFFFFF
    for byte in piece:
        crc = _BYTE_LIST[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def unmasked(stored: Words) -> Words:
    """The checksums behind stored ones, a new array."""
    plain = stored - np.uint32(_MASK)
    high = plain >> np.uint32(17)
    np.left_shift(plain, np.uint32(15), out=plain)
    plain |= high
    return plain


@lru_cache(maxsize=1 << 14)
def of_zeros(length: int) -> int:
    """CRC-32C of `length` zero bytes: the constant of that length."""
    crc = np.array([0xFFFFFFFF], np.uint32)
    power = 0
    while length >> power:
        if length >> power & 1:
            crc = _shifted(crc, power)
        power += 1
    return int(crc[0]) ^ 0xFFFFFFFF


@cache
def byte_table(following: int) -> Words:
    """What a byte adds when `following` bytes come after it: 256 entries."""
    if following == 0:
        return _BYTE
    if following % 32 == 0:  # in strides, so that no long chain of calls arises
        return _shifted(byte_table(following - 32), 5)
    before = byte_table(following - 1)
    table: Words = _BYTE[before & np.uint32(0xFF)] ^ (before >> np.uint32(8))
    return table


@lru_cache(maxsize=_PAIR_TABLES)
def pair_table(following: int) -> Words:
    """What two bytes (the first in the low half) add when `following` bytes come after them: 65,536 entries."""
    table: Words = np.bitwise_xor.outer(byte_table(following), byte_table(following + 1)).ravel()
    return table


def add_columns(
    total: Words, buffer: Bytes, first: int, stride: int, length: int, places: Sequence[tuple[int, int]]
) -> None:
    """XOR into `total` what the varying bytes of records of one layout add.

    The payload of record i is `length` bytes at `first + i * stride` of `buffer`; `places` are (byte, 1 or 2 bytes).
    """
    rows = len(total)
    index, part = np.empty(rows, np.intp), np.empty(rows, np.uint32)
    for place, width in places:
        if width == 2:
            _asked[length - place] += rows
            if _asked[length - place] < _MANY:
                add_columns(total, buffer, first, stride, length, ((place, 1), (place + 1, 1)))
                continue
        index[:] = np.ndarray((rows,), f"<u{width}", buffer, first + place, (stride,))
        table = pair_table(length - place - 2) if width == 2 else byte_table(length - place - 1)
        table.take(index, out=part, mode="wrap")
        total ^= part


def of_ranges(buffer: Bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
    """CRC-32C of `buffer[start : start + length]` for each pair."""
    answer = np.empty(len(starts), np.uint32)
    single = (lengths < 4) | bool(lengths.sum() < _SHORT)
    for at in np.flatnonzero(single).tolist():
        answer[at] = checksum(buffer[starts[at] : starts[at] + lengths[at]].tobytes())
    powers = np.ceil(np.log2(np.maximum(1, -(-lengths // _BLOCK)))).astype(np.int64)
    for power in sorted(set(powers[~single].tolist())):
        width = _BLOCK << power
        which = np.flatnonzero((powers == power) & ~single)
        at_once = max(1, _AT_ONCE // width)
        for first in range(0, len(which), at_once):
            some = which[first : first + at_once]
            rows = np.zeros((len(some), width), np.uint8)
            for row, start, length in zip(rows, starts[some].tolist(), lengths[some].tolist(), strict=True):
                row[width - length :] = buffer[start : start + length]  # zeros in front add nothing
                row[width - length : width - length + 4] ^= 0xFF  # as beginning with all bits set does
            answer[some] = ~_of_rows(_shortened(rows))
    return answer


def _shortened(rows: Bytes) -> Bytes:
    """Rows of at most 1,024 bytes that have the same linear part: each byte far from the end is moved nearer to it.

    A byte adds the same with 863 bytes after it as seven like bytes do, with so many after them as `_NEARER` says; and
    so with twice or four times as many (squares, modulo 2): the longer the reach, the fewer the rounds.
    """
    width = rows.shape[1]
    if width <= _ENOUGH:
        return rows
    at = 0
    for reach in (4, 2, 1):
        far, nearer = reach * _FAR, [reach * near for near in _NEARER]
        end = width - far
        while at < end:
            size = min(far - nearer[0], end - at)
            slab = rows[:, at : at + size].copy()  # else numpy copies both at each step: they might overlap
            for near in nearer:
                moved = at + far - near
                rows[:, moved : moved + size] ^= slab
            at += size
    rows[:, width - _ENOUGH : at] = 0
    return np.ascontiguousarray(rows[:, width - _ENOUGH :])


def _of_rows(rows: Bytes) -> Words:
    """The linear part for rows of one width, a power of two times the block."""
    pairs = rows.reshape(-1, _BLOCK)
    total = np.zeros(len(pairs), np.uint32)
    places = [(place, 1) for place in range(_BLOCK)]  # tables of two bytes cost more than they save here
    add_columns(total, pairs.reshape(-1), 0, _BLOCK, _BLOCK, places)
    power = _BLOCK.bit_length() - 1
    while len(total) > len(rows):
        total = _shifted(total[0::2], power) ^ total[1::2]
        power += 1
    return total


def _shifted(crc: Words, power: int) -> Words:
    """`crc` after 2**power further zero bytes."""
    one, two, three, four = _shift_tables(power)
    low = np.uint32(0xFF)
    shifted: Words = one[crc & low] ^ two[(crc >> np.uint32(8)) & low]
    shifted ^= three[(crc >> np.uint32(16)) & low]
    shifted ^= four[crc >> np.uint32(24)]
    return shifted


@cache
def _shift_tables(power: int) -> tuple[Words, Words, Words, Words]:
    """For each byte of a checksum, what it becomes after 2**power zero bytes."""
    bytes_ = np.arange(256, dtype=np.uint32)
    tables = []
    for place in range(4):
        crc = bytes_ << np.uint32(8 * place)
        if power == 0:
            crc = _BYTE[crc & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        else:
            crc = _shifted(_shifted(crc, power - 1), power - 1)
        tables.append(crc.astype(np.uint32))
    return tables[0], tables[1], tables[2], tables[3]
