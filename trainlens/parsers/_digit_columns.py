"""Numbers that stand in the same columns of many lines, eight characters at a time.

The lines are rows of a byte matrix; a field of up to eight characters is a 64-bit word of each row, and three
multiplications make a number of it (https://johnnylee-sde.github.io/Fast-numeric-string-to-int/). A value is digits
÷ or × a power of ten, both exact doubles, so it is rounded once and equals `float(text)` (Clinger 1990, How to read
floating point numbers accurately). Rows where anything else stands are marked in `bad`, for another way of reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

DIGITS = 15  # a number with more may not fit a double exactly

_FORM = re.compile(r" *(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-])(\d\d))? *\Z")
_CONSTANT = re.compile(r" *[-+]?(?:nan|inf) *\Z")

_POWERS = 10.0 ** np.arange(23)
_TENS = np.uint64(0x1010101010101010)
_HIGH = np.uint64(0xF0F0F0F0F0F0F0F0)
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)


@dataclass(frozen=True, slots=True)
class Number:
    """Where a number stands: `whole` digits (and blanks before them) end at `dot`, `part` digits end at `end`."""

    tag: str
    begin: int
    dot: int
    end: int
    exponent: int = -1  # where its sign stands, −1: none
    negative: bool = False
    constant: float | None = None  # nan and inf: the same on all rows

    @property
    def last(self) -> int:
        """Where its text ends, exponent and all."""
        return self.exponent + 3 if self.exponent >= 0 else self.end


def number_at(tag: str, begin: int, text: str) -> Number | None:
    if _CONSTANT.match(text):
        return Number(tag, begin, begin, begin, constant=float(text))
    form = _FORM.match(text)
    if not form:
        return None
    blanks = form.start(1)
    whole, part = form.end(2), len(form[3] or "")
    start = begin + (form.start(2) if form[1] else 0)
    dot = begin + whole
    end = dot + 1 + part if part else dot
    if blanks + (whole - form.start(2)) + part > DIGITS and (whole - form.start(2)) + part > DIGITS:
        return None
    if dot - start > 16 or part > 8 or dot < 16:
        start = max(start, dot - 16)
        if part > 8 or dot < 16 or text[: start - begin].strip():
            return None
    exponent = begin + form.start(4) if form[4] else -1
    return Number(tag, start, dot, end, exponent, bool(form[1]))


def values_of(table: Bytes, number: Number, bad: Words) -> Floats:
    """The numbers of a column. Rows where something else than digits stands are marked in `bad`."""
    if number.constant is not None:
        return np.full(len(table), number.constant)
    part = max(number.end - number.dot - 1, 0)
    whole = number.dot - number.begin
    if part and whole + part < 8:
        found = _around_dot(table, number.end, whole, part, bad)
    else:
        found = _whole(table, number.dot, whole, bad)
        if part:
            found = found * np.uint64(10**part) + _word(table, number.end, part, 0, bad)[0]
    value = found.astype(np.float64)
    if number.exponent >= 0:
        value = _powered(value, table[:, number.exponent : number.exponent + 3], part, bad)
    elif part:
        value /= _POWERS[part]
    return -value if number.negative else value


def _whole(table: Bytes, end: int, width: int, bad: Words) -> Words:
    """Up to 16 digits, blanks before them."""
    if width <= 8:
        return _word(table, end, width, width - 1, bad)[0]
    low, low_blank = _word(table, end, 8, 7, bad)
    high, high_blank = _word(table, end - 8, width - 8, width - 8, bad)
    if low_blank is not None:  # a blank at the head of the lower eight: the upper ones must be blank too
        last = np.uint64(0) if high_blank is None else high_blank >> np.uint64(56)
        bad |= low_blank & np.uint64(0x10) & ~last
    return high * np.uint64(10**8) + low


def _bytes(width: int, value: int) -> np.uint64:
    """`value` in the upper `width` bytes of a word: they are the last characters."""
    return np.uint64(sum(value << (8 * (7 - at)) for at in range(width)))


def _load(table: Bytes, end: int, width: int) -> Words:
    """The `width` characters before `end` in the upper bytes of a word, zeros (as digits) below them."""
    words = np.ndarray((len(table),), "<u8", table, end - 8, (table.shape[1],)).copy()
    if width < 8:
        words &= _bytes(width, 0xFF)
        words |= _ZEROS & ~_bytes(width, 0xFF)
    return words


def _word(table: Bytes, end: int, width: int, blanks: int, bad: Words) -> tuple[Words, Words | None]:
    """Up to eight digits; the first `blanks` characters of them may be blank. Also where they are blank."""
    return _decimal(_load(table, end, width), width, blanks, bad)


def _around_dot(table: Bytes, end: int, whole: int, part: int, bad: Words) -> Words:
    """Up to seven digits with a dot among them: the dot is pushed out of the word."""
    words = _load(table, end, whole + 1 + part)
    behind = _bytes(part, 0xFF)
    before = ~(_bytes(part + 1, 0xFF))
    words = (words & behind) | ((words & before) << np.uint64(8)) | np.uint64(0x30)
    return _decimal(words, whole + part, whole, bad)[0]


def _decimal(words: Words, width: int, blanks: int, bad: Words) -> tuple[Words, Words | None]:
    blank = ~words & _TENS  # a blank is 0x20, a digit 0x3…
    blank_or_none: Words | None = None
    if blank.any():
        allowed = _bytes(width, 0x10) & ~_bytes(width - blanks, 0x10)
        first = np.uint64(0x10 << (8 * (8 - width)))
        bad |= blank & ~allowed
        bad |= blank & ~((blank << np.uint64(8)) | first)
        bad |= words & ((blank >> np.uint64(4)) * np.uint64(15))
        words |= blank
        blank_or_none = blank
    bad |= (words & _HIGH) ^ _ZEROS
    bad |= ((words + _SIXES) & _HIGH) ^ _ZEROS
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    words *= np.uint64(2561)
    words >>= np.uint64(8)
    words &= np.uint64(0x00FF00FF00FF00FF)
    words *= np.uint64(6553601)
    words >>= np.uint64(16)
    words &= np.uint64(0x0000FFFF0000FFFF)
    words *= np.uint64(42949672960001)
    words >>= np.uint64(32)
    return words, blank_or_none


def _powered(value: Floats, exponent: Bytes, part: int, bad: Words) -> Floats:
    """digits × 10^(exponent − digits behind the dot), rounded once."""
    sign, tens, units = exponent[:, 0], exponent[:, 1] - np.uint8(48), exponent[:, 2] - np.uint8(48)
    bad |= ((sign != 43) & (sign != 45)) | (tens > 9) | (units > 9)
    power = tens.astype(np.int64) * 10 + units
    power = np.where(sign == 45, -power, power) - part
    low, high = int(power.min()), int(power.max())
    if low < -22 or high > 22:
        bad |= np.abs(power) > 22
        power = np.clip(power, -22, 22)
        low, high = max(low, -22), min(high, 22)
    if high <= 0:
        value /= _POWERS[-high] if low == high else _POWERS[-power]
        return value
    result: Floats = np.where(power > 0, value * _POWERS[np.maximum(power, 0)], value / _POWERS[np.maximum(-power, 0)])
    return result


def seconds_of_day(table: Bytes, hour: int, second_digits: int, bad: Words) -> tuple[Floats, Floats | None]:
    """HH:MM:SS from `hour` on, as seconds; and the fraction behind it, None where there is none."""
    words = np.ndarray((len(table),), "<u8", table, hour, (table.shape[1],)).copy()
    digits = np.uint64(0xFFFF00FFFF00FFFF)
    checked = (words & digits) | (_ZEROS & ~digits)
    bad |= (checked & _HIGH) ^ _ZEROS
    bad |= ((checked + _SIXES) & _HIGH) ^ _ZEROS
    words = checked & np.uint64(0x0F0F0F0F0F0F0F0F)
    pairs = words * np.uint64(10) + (words >> np.uint64(8))
    byte = np.uint64(0xFF)
    seconds = (pairs & byte) * np.uint64(3600) + ((pairs >> np.uint64(24)) & byte) * np.uint64(60)
    seconds += (pairs >> np.uint64(48)) & byte
    if not second_digits:
        return seconds.astype(np.float64), None
    part = _word(table, hour + 9 + second_digits, second_digits, 0, bad)[0]
    return seconds.astype(np.float64), part.astype(np.float64) / _POWERS[second_digits]
