"""What repeats from line to line: the numbers of a line (its marks), and the skeleton of all else that stands there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainlens.model import NO_RANK, Floats, Ints
from trainlens.parsers._lines import CLOCK, SLACK, clock

STEP = "\0step"
# The parts of a place in an epoch, or of a progress bar, of which the step is counted.
EPOCH, INSIDE, TOTAL = "\0epoch", "\0inside", "\0total"
PLACE = frozenset((EPOCH, INSIDE, TOTAL))
IGNORED = ""  # a number or a duration
FREE = "\0free"  # any text up to the letter behind it: what a bar is drawn with

LONGEST_LINE = SLACK // 2  # bytes

_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)")
_WHOLE = re.compile(r"\d{1,15}")
_IGNORED = re.compile(r"[-+.:?\deE]+|nan|inf")
_DIGITS = re.compile(r"\d+")
# What may differ between the fields of lines of one shape: durations, and means in brackets, of which nothing is read.
_MAY_DIFFER = re.compile(r"(?:(\d+) days?, )?(\d+:\d\d(?::\d\d)?)(?![\d:])|\(\s*([-+.\deE]+)\s*\)")
_RANK = re.compile(r"\s*(?:\d{1,6}: |\[[\w .-]*\d+\]:?)?")
_OF_NUMBERS = frozenset(b"+-.0123456789eE")


@dataclass(frozen=True, slots=True)
class Mark:
    """A number in a line: what it is (a tag, or one of the above), where it stands, the power of ten of its unit."""

    tag: str
    begin: int
    end: int
    power: str = ""


@dataclass(slots=True)
class Rows:
    """What the lines of one shape gave: which they are, their steps, and the values of each tag.

    `place` (epoch or −1, count, total) is there where the steps are yet to be counted of places in epochs.
    """

    at: Ints
    step: Ints
    time: Floats | None
    values: dict[str, Floats]
    rank: int = NO_RANK
    named: str = ""  # what the step is taken from
    place: tuple[Ints, Ints, Ints] | None = None
    zero_based: bool = False  # of a place in an epoch: the first epoch is 0
    bar: bool = False  # a progress bar, which may be drawn again


@dataclass(frozen=True, slots=True)
class Skeleton:
    """`line` is the line it was made of; between `marks` everything else must stand again, but clocks and `digits`."""

    line: bytes
    marks: tuple[Mark, ...]
    date: int = -1  # where the clock begins: date, blanks, HH:MM:SS
    hour: int = -1
    second_digits: int = 0  # behind them
    digits: tuple[int, ...] = ()  # where other digits may stand
    loose: bool = False  # blanks before a number may be more or fewer
    rank: int = NO_RANK
    named: str = ""
    zero_based: bool = False
    bar: bool = False

    @property
    def head(self) -> int:
        """Where the first number begins."""
        return self.marks[0].begin

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for lines of one shape."""
        text = bytearray(self.line)
        for at in self.digits:
            text[at] = 48
        if self.date >= 0:
            clock_end = self.hour + 8 + (self.second_digits + 1 if self.second_digits else 0)
            text[self.date : clock_end] = re.sub(rb"\d", b"0", bytes(text[self.date : clock_end]))
        ends = [0, *(mark.end for mark in self.marks)]
        begins = [*(mark.begin for mark in self.marks), len(text)]
        pieces = [bytes(text[end:begin]).rstrip(b" ") for end, begin in zip(ends, begins, strict=True)]
        return (*pieces, *((mark.tag, mark.power) for mark in self.marks), self.rank, self.named, self.bar)


def skeleton(line: bytes, marks: Sequence[Mark]) -> Skeleton | None:
    """The skeleton of a line; None where it cannot be told where a number ends, or a clock is no part of its head."""
    if not line.isascii() or b"\x1b" in line or not marks or len(line) > LONGEST_LINE:
        return None
    text, ordered = line.decode("ascii"), tuple(sorted(marks, key=lambda mark: mark.begin))
    if not _parted(text, line, ordered):
        return None
    head = text[: ordered[0].begin]
    stamp = _stamp(head)
    if stamp is None:
        return None if clock(head) is not None else Skeleton(line, ordered)
    return Skeleton(line, ordered, *stamp)


def shape(
    text: str,
    marks: Sequence[Mark],
    rank: int = NO_RANK,
    named: str = "",
    *,
    zero_based: bool = False,
    bar: bool = False,
) -> Skeleton | None:
    """The skeleton of a line of any trainer: numbers before the fields, durations and means between them may differ.

    None when a number is written in a way of its own, or the line names no step. A bar has no clock.
    """
    line = text.encode("utf-8", "replace")
    if len(line) > LONGEST_LINE or "\x1b" in text or not marks:
        return None
    named_steps = {mark.tag for mark in marks if mark.tag == STEP or mark.tag in PLACE}
    if named_steps not in ({STEP}, PLACE) and not (bar and named_steps == {INSIDE, TOTAL}):
        return None
    ordered = tuple(sorted((*marks, *_between(text, marks)), key=lambda mark: mark.begin))
    first = ordered[0].begin
    stamp = None if bar else _stamp(text[:first])
    moment = None if bar else clock(text)
    if (stamp is None) != (moment is None) or (stamp and clock(text[:first]) != moment):
        return None
    if not line.isascii():
        ordered = tuple(
            Mark(mark.tag, len(text[: mark.begin].encode()), len(text[: mark.end].encode()), mark.power)
            for mark in ordered
        )
        if stamp and not text[:first].isascii():
            return None
    if not _parted(text if line.isascii() else line.decode("latin-1"), line, ordered):
        return None
    date, hour, digits = stamp or (-1, -1, 0)
    return Skeleton(
        line, ordered, date, hour, digits, _of_head(line[: ordered[0].begin], stamp), True, rank, named, zero_based, bar
    )


def _parted(text: str, line: bytes, ordered: Sequence[Mark]) -> bool:
    """Whether all numbers are written plainly, no tag comes twice, and something stands between any two of them."""
    tags = [mark.tag for mark in ordered if mark.tag not in (IGNORED, FREE)]
    if len(set(tags)) < len(tags):
        return False
    for mark in ordered:
        form = _WHOLE if mark.tag == STEP or mark.tag in PLACE else _IGNORED if mark.tag == IGNORED else _NUMBER
        if mark.tag != FREE and not form.fullmatch(text, mark.begin, mark.end):
            return False
    return all(
        mark.end < following.begin and line[mark.end] not in _OF_NUMBERS for mark, following in pairwise(ordered)
    )


def _stamp(head: str) -> tuple[int, int, int] | None:
    """Where the clock of a line begins, where its hour stands, and how many digits follow its seconds."""
    found = CLOCK.search(head, 0, 80)
    if not found or clock(head) is None or (head[found.end() : found.end() + 1] or " ").isdigit():
        return None
    digits = len(found[10] or "")
    return (found.start(), found.start(7), digits) if digits <= 8 else None


def _of_head(head: bytes, stamp: tuple[int, int, int] | None) -> tuple[int, ...]:
    """Digits before the fields that may change (process ids, clocks without a year), but not how many they are."""
    text = head.decode("latin-1")
    rank = _RANK.match(text)
    clock_end = stamp[1] + 8 + (stamp[2] + 1 if stamp[2] else 0) if stamp else 0
    places = [at for found in _DIGITS.finditer(text, rank.end() if rank else 0) for at in range(*found.span())]
    return tuple(at for at in places if not stamp or not stamp[0] <= at < clock_end)


def _between(text: str, marks: Sequence[Mark]) -> list[Mark]:
    """Durations and means that stand behind the first number, beside the marks."""
    ordered = sorted((mark.begin, mark.end) for mark in marks)
    gaps = [(end, begin) for (_, end), (begin, _) in pairwise([*ordered, (len(text), len(text))])]
    return [
        Mark(IGNORED, *found.span(group))
        for begin, end in gaps
        for found in _MAY_DIFFER.finditer(text, begin, end)
        for group in (1, 2, 3)
        if found[group]
    ]
