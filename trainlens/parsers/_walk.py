"""From piece to piece of a skeleton through many lines at once: where each of their numbers begins and ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints
from trainlens.parsers._digit_columns import Bytes, Words
from trainlens.parsers._lines import BlockLines
from trainlens.parsers._marks import FREE, IGNORED, PLACE, STEP, Mark, Skeleton

LONGEST = 32  # characters of a number: more has no double printed by anything
LONGEST_FREE = 512  # bytes of a bar

_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_LOWS = ~_HIGHS
_BLANKS = np.uint64(0x2020202020202020)
_SIXES, _UPPER, _THREES = np.uint64(6) * _ONES, np.uint64(0xF0) * _ONES, np.uint64(0x30) * _ONES
_SAMPLE = 16  # lines in which a number must be the same before all lines are looked at for it


class Walk:
    """Goes from piece to piece through many lines at once; lines that do not fit are dropped."""

    def __init__(self, lines: BlockLines, rows: Ints, like: Skeleton) -> None:
        self.lines, self.like = lines, like
        self.rows = rows
        # of each number: where its text begins and how long it is; or, where it is the same in all lines, its value
        self.numbers: list[tuple[Ints, Ints | float]] = []

    def span(self, place: int) -> tuple[Ints, Ints]:
        begin, width = self.numbers[place]
        assert not isinstance(width, float)
        return begin, width

    def all_pieces(self) -> bool:
        line, marks = self.like.line, self.like.marks
        counts = [place for place, mark in enumerate(marks) if mark.tag == STEP or mark.tag in PLACE]
        self.at = self.lines.starts[self.rows]
        self._expect(0, self.like.head, marks[0])
        for place, mark in enumerate(marks):
            if not len(self.rows):
                return False
            if place > max(counts, default=-1) and self._same_to_the_end(mark.begin):
                self.numbers += [(self.at, _constant(line, one)) for one in marks[place:]]
                return bool(len(self.rows))
            most = LONGEST_FREE if mark.tag == FREE else LONGEST
            if place + 1 < len(marks):
                width = self._until(line[mark.end], most)
            else:
                width = self.lines.ends[self.rows] - self.at - (len(line) - mark.end)
            keep = (width >= (mark.tag != FREE)) & (width <= most)
            self.numbers.append((self.at, width))
            self.at = self.at + width
            if not keep.all():
                self._keep(keep)
            if place + 1 < len(marks):
                self._expect(mark.end, marks[place + 1].begin, marks[place + 1])
            else:
                self._expect(mark.end, len(line))
        self._keep(self.at == self.lines.ends[self.rows])
        return bool(len(self.rows))

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        if keep.all():
            return
        self.rows, self.at = self.rows[keep], self.at[keep]
        self.numbers = [
            (begin[keep], width if isinstance(width, float) else width[keep]) for begin, width in self.numbers
        ]

    def _expect(self, begin: int, end: int, before: Mark | None = None) -> None:
        """Keeps the lines where the text from `begin` to `end` stands, and steps behind it: blanks may be more."""
        line, blank = self.like.line, False
        if before is not None and self.like.loose:
            while end > begin and line[end - 1] == 32:
                end, blank = end - 1, True
            end += blank and before.tag != IGNORED
            blank = blank or before.tag == IGNORED
        if end > begin and len(self.rows):
            self._keep(self._stands(self.at, begin, end))
        self.at = self.at + (end - begin)
        if blank:
            self._pass_blanks()

    def _pass_blanks(self) -> None:
        rows = np.flatnonzero(self.lines.buffer[self.at] == 32)
        for _ in range(LONGEST // 8):
            if not len(rows):
                return
            words = windows(self.lines.buffer, self.at[rows], 8).view(np.uint64) ^ _BLANKS
            others = (((words & _LOWS) + _LOWS) | words) & _HIGHS  # the lowest bit: the first other letter
            self.at[rows] += np.where(others != 0, _first(others), 8)
            rows = rows[others == 0]

    def _stands(self, at: Ints, begin: int, end: int) -> NDArray[np.bool_]:
        size = end - begin
        width = -(-size // 8) * 8
        wanted, mask, digits = (np.zeros(width, np.uint8) for _ in range(3))
        wanted[:size] = np.frombuffer(self.like.line[begin:end], np.uint8)
        mask[:size] = 255
        for place in self._clock():
            if begin <= place < end:
                mask[place - begin] = 0
        for place in self.like.digits:
            if begin <= place < end:
                mask[place - begin], digits[place - begin] = 0xF0, 0xFF
        wanted &= mask
        words = windows(self.lines.buffer, at, width).view(np.uint64).reshape(len(at), -1)
        masks, wanteds, places = (one.view(np.uint64) for one in (mask, wanted, digits))
        stands: NDArray[np.bool_] = (words[:, 0] & masks[0]) == wanteds[0]
        for word in range(1, width // 8):
            stands &= (words[:, word] & masks[word]) == wanteds[word]
        for word in np.flatnonzero(places).tolist():  # a letter of 0x3… is a digit if six more do not carry
            carried = ((words[:, word] & places[word]) + (_SIXES & places[word])) & (_UPPER & places[word])
            stands &= carried == (_THREES & places[word])
        return stands

    def _clock(self) -> list[int]:
        """Where the digits of the clock stand, which are looked at by themselves."""
        like = self.like
        if like.date < 0:
            return []
        end = like.hour + 8 + (like.second_digits + 1 if like.second_digits else 0)
        return [at for at in range(like.date, end) if 48 <= like.line[at] <= 57]

    def _same_to_the_end(self, begin: int) -> bool:
        """Whether everything from here on is the same in all lines, numbers and all."""
        line = self.like.line
        size = len(line) - begin
        sample = slice(None, None, max(1, len(self.rows) // _SAMPLE))
        some = self.at[sample]
        if (
            bool((self.lines.ends[self.rows[sample]] - some != size).any())
            or not self._stands(some, begin, len(line)).all()
        ):
            return False
        if bool((self.lines.ends[self.rows] - self.at != size).any()):
            return False
        return bool(self._stands(self.at, begin, len(line)).all())

    def _until(self, letter: int, most: int) -> Ints:
        """How far it is to the next `letter`; −1 where it is farther than `most`."""
        pattern = np.uint64(letter) * _ONES
        width = np.full(len(self.at), -1, np.int64)
        open_rows: Ints | None = None
        for far in range(0, most, 8):
            at = self.at if open_rows is None else self.at[open_rows] + far
            words = windows(self.lines.buffer, at, 8).view(np.uint64)
            words ^= pattern
            hits = (words - _ONES) & ~words & _HIGHS  # the lowest bit set is that of the first such letter
            place = _first(hits)
            hit = hits != 0
            if open_rows is None:
                if hit.all():
                    return place
                width[hit] = place[hit]
                open_rows = np.flatnonzero(~hit)
            else:
                width[open_rows[hit]] = place[hit] + far
                open_rows = open_rows[~hit]
            if not len(open_rows):
                break
        return width


def _first(hits: Words) -> Ints:
    """Which byte the lowest bit is set in: its top bit. The exponent of a double tells: 8 × place + 7."""
    lowest = hits & (~hits + np.uint64(1))
    place: Ints = (lowest.astype(np.float64).view(np.int64) >> 55) - 128
    return place


def _constant(line: bytes, mark: Mark) -> float:
    if mark.tag in (IGNORED, FREE):
        return 0.0
    return float(line[mark.begin : mark.end].decode("latin-1") + mark.power)


def windows(buffer: Bytes, at: Ints, width: int) -> NDArray[np.void]:
    every = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, 0, (1,))
    return every[at]
