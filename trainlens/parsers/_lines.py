"""Text logs as blocks of whole lines: UTF-8 whatever was on disk, colours removed, rank prefixes and clocks read.

Launchers put a prefix before each line: `srun -l` "55: ", torchrun "[default7]:", PyTorch "[rank13]: ", pdsh the host,
Ray "(TaskRunner pid=7) ". Numbers among them are ranks. Windows PowerShell writes UTF-16 with a byte-order mark.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trainlens.model import NO_RANK, Ints
from trainlens.parsers import _row_blocks
from trainlens.parsers._envelopes import holds_envelopes, opened
from trainlens.sources import HEAD, Source

BLOCK = 4 << 20  # bytes read at once: what is made of them still fits the caches
SLACK = 4096
LONGEST = 16 << 20  # bytes of one line; longer ones (progress bars without any newline) are cut at a carriage return

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# Colours and cursor movements: https://en.wikipedia.org/wiki/ANSI_escape_code
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PREFIX = re.compile(
    r"""\s*(?:
      (?P<srun>\d{1,6}):(?=\s)\s?                                     # srun -l
    | \[(?:default|rank|Rank\ )?(?P<bracket>\d{1,6})\]:?(?=\D)\s?(?!\s*[\[(]?\s*\d+/\d+)   # torchrun, PyTorch
    | \[[\w.-]+:\d+\]:\s?                                             # host:local rank
    | \((?:[\w.]+\ )?pid=\d*(?:,\ ip=[\d.]+)?\)\s?                    # Ray
    | (?:\d{1,3}(?:\.\d{1,3}){3}|localhost|[a-z][\w-]*\d+):\s         # pdsh
    )""",
    re.VERBOSE,
)
_BEGINS_PREFIX = re.compile(
    r"\s*(?:\d{1,6}:\s|\[[\w .-]*\d{1,6}\]|\[[\w.-]+:\d+\]:|\(.{0,60}?pid=|localhost: |[a-z\d][\w.-]*\d: )"
)
# Values with a decimal comma that is neither one of thousands nor one between two values; values with a point.
_COMMA = re.compile(rb"(?:(?<!\d):|[= ])[-+]?(?:0,\d+|\d+,(?:\d\d?|\d{4,}))(?:[eE][-+]?\d+)?%?(?=[\s;|)]|\Z)")
_POINT = re.compile(rb"[:=]\s?[-+]?\d+\.\d")
_BETWEEN_DIGITS = re.compile(rb"(?<=\d),(?=\d)")
CLOCK = re.compile(
    r"(?<![\d.])(?:(\d{4})[-/](\d\d)[-/](\d\d)|(\d\d)/(\d\d)/(\d{4}))[ T_]+(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines. `line` numbers the first one (from 1), `end` is the byte of the file behind the last whole line.

    SLACK bytes follow the text in `padded`, so that wide windows may begin in its last line.
    """

    padded: bytes
    line: int
    end: int
    ends: Ints  # where the line ends stand in the text
    torn: bool  # the last line has no end yet: the log may be live, or its tail is lost

    @property
    def text(self) -> bytes:
        return self.padded[:-SLACK]

    @property
    def count(self) -> int:
        """The number of whole lines."""
        return len(self.ends)


class BlockLines:
    """The whole lines of a block, or the parts that carriage returns make of them, and which were read: `taken`.

    `number` says in which line of the block each stands; behind the last one there may be a rest, from `rest` on.
    """

    def __init__(self, block: Block, *, parts: bool = False) -> None:
        self.text = block.padded
        self.buffer = np.frombuffer(self.text, np.uint8)
        self.rest = len(self.text) - SLACK
        self.whole = not parts and len(block.ends) > 0
        if parts:
            self.starts, self.ends, self.number = _parts(self.buffer[: self.rest])
        else:
            self.ends = block.ends
            self.starts = np.empty_like(self.ends)
            self.starts[:1], self.starts[1:] = 0, self.ends[:-1] + 1
            self.number = np.arange(len(self.ends))
        self.taken = np.zeros(len(self.ends), np.bool_)

    def line(self, row: int) -> bytes:
        return self.text[self.starts[row] : self.ends[row]]

    def left(self, without: Ints | None = None, begin: int = 0) -> tuple[bytes, Ints]:
        """The lines from `begin` on that were not taken, nor are among `without`, as one text; and which they are."""
        free = ~self.taken[begin:]
        if without is not None:
            free[without - begin] = False
        rows = np.flatnonzero(free) + begin
        if not begin and len(rows) == len(self.ends) and self.whole:
            return self.text[: self.ends[-1] + 1], rows
        spans = zip(self.starts[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return b"".join([part for start, end in spans for part in (self.text[start:end], b"\n")]), rows

    def tail(self) -> bytes:
        """What stands behind the last line end."""
        return self.text[self.ends[-1] + 1 if len(self.ends) else 0 : self.rest]


def _parts(buffer: NDArray[np.uint8]) -> tuple[Ints, Ints, Ints]:
    """Where the parts begin and end, and the number of the line that each is of; empty ones are left out."""
    ends = np.flatnonzero((buffer == 10) | (buffer == 13))
    starts = np.empty_like(ends)
    starts[:1], starts[1:] = 0, ends[:-1] + 1
    newline = buffer[ends] == 10
    number = np.cumsum(newline) - newline
    behind_return = np.zeros(len(ends), np.bool_)
    behind_return[1:] = ~newline[:-1]
    keep = (ends > starts) | ~behind_return
    return starts[keep], ends[keep], number[keep]


def encoding(head: bytes) -> tuple[str, int]:
    """The encoding that the byte-order mark names (or NULs betray), and the length of the mark."""
    return next(((name, len(mark)) for mark, name in _BOMS if head.startswith(mark)), (_row_blocks.encoding(head), 0))


def head_text(head: bytes) -> str:
    """The head of a file as clean text, its last line left out where the head may have cut it."""
    name, mark = encoding(head)
    text = head[mark:].decode(name, "replace")
    text = opened(text.encode()).decode() if text.lstrip().startswith('{"') else text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = pointed(text.encode()).decode() if decimal_commas(text.encode()) else text
    return plain(text.rpartition("\n")[0] or text)


def decimal_commas(text: bytes) -> bool:
    """Whether the values of a text are written with decimal commas: some can be nothing else, and none has a point."""
    return len(_COMMA.findall(text)) >= 3 and not _POINT.search(text)


def pointed(text: bytes) -> bytes:
    """The text with points for commas between digits; as long as before."""
    return _BETWEEN_DIGITS.sub(b".", text)


def blocks(source: Source, start: int = 0, line: int = 1, size: int = BLOCK) -> Iterator[Block]:
    """The file from byte `start`, which is the beginning of line `line`, in blocks that end between lines."""
    head = source.head(HEAD)
    name, mark = encoding(head)
    commas = decimal_commas(head if name == "utf-8" else head.decode(name, "ignore").encode())
    decode = codecs.getincrementaldecoder(name)("replace") if name.startswith("utf-16") else None
    left, end = b"", start if start else 0
    skip = mark if start == 0 else 0
    for piece in source.blocks(size, start):
        end += len(piece)
        fresh = piece[skip:]
        skip = 0
        fresh = decode.decode(fresh).encode() if decode else fresh
        cut = fresh.rfind(b"\n") + 1
        if not cut and len(left) + len(fresh) < LONGEST:
            left += fresh
            continue
        cut = cut or fresh.rfind(b"\r") + 1 or len(fresh)
        padded, left = b"".join((left, memoryview(fresh)[:cut], bytes(SLACK))), fresh[cut:]
        if holds_envelopes(padded):
            padded = opened(padded[:-SLACK]) + bytes(SLACK)
        padded = pointed(padded) if commas else padded
        ends = newlines(np.frombuffer(padded, np.uint8))
        yield Block(padded, line, end - len(left), ends, torn=False)
        line += len(ends)
    if left:
        begin = end - len(left)
        left = pointed(opened(left)) if commas else opened(left)
        yield Block(left + bytes(SLACK), line, begin, np.empty(0, np.int64), torn=True)


def newlines(buffer: NDArray[np.uint8]) -> Ints:
    """The places of all newlines; eight bytes at a time are passed over."""
    hits = buffer == 10
    whole = len(hits) // 8 * 8
    words = hits[:whole].view("<u8")
    at = np.flatnonzero(words != 0)
    words = words[at]
    # one newline in a word: its byte tells by the exponent of the number that the word is
    ends = at * 8 + ((words.astype(np.float64).view(np.int64) >> 52) - 1023 >> 3)
    several = np.flatnonzero(words & (words - np.uint64(1)))
    if len(several):
        inside, bit = np.nonzero(words[several].view(np.uint8).reshape(-1, 8))
        ends = np.concatenate([np.delete(ends, several), at[several][inside] * 8 + bit])
        ends.sort(kind="stable")
    return np.concatenate([ends, np.flatnonzero(hits[whole:]) + whole]).astype(np.int64)


def plain(text: str) -> str:
    """The text without colours and cursor movements."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def unprefixed(line: str) -> tuple[int, str]:
    """(rank, rest) of a line: launchers' prefixes are taken off, the innermost number that names a rank is the rank."""
    rank = NO_RANK
    while _BEGINS_PREFIX.match(line) and (found := _PREFIX.match(line)):
        number = found["srun"] or found["bracket"]
        rank = int(number) if number else rank
        line = line[found.end() :]
    return rank, line


def clock(line: str, reach: int = 80) -> float | None:
    """The date and time that stand in the first `reach` characters, as Unix seconds (read as UTC); None without a year.

    "03/11/2026" is the eleventh of March: the loggers that write slashes write them in the American order.
    """
    found = CLOCK.search(line, 0, reach)
    if found is None:
        return None
    year, month, day, us_month, us_day, us_year, hour, minute, second, fraction = found.groups()
    days = _days(int(year or us_year), int(month or us_month), int(day or us_day))
    if days is None:
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds + int(fraction) / 10 ** len(fraction) if fraction else float(seconds)


@lru_cache(maxsize=4096)
def _days(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
