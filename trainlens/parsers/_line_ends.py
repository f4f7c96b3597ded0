"""Whether the last number of a line without an end is whole, told from the lines before."""

from __future__ import annotations

import re
from collections import deque

_DIGITS = re.compile(r"\d+")
_LAST_NUMBER = re.compile(r"\.(\d+)((?:[eE][-+]?\d+)?)\Z")


class LineEnds:
    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=16)

    def add(self, line: str) -> None:
        """A whole line that gave a row."""
        self._recent.append(line)

    def whole(self, text: str, end: int) -> bool:
        """Whether the number that ends there has as many decimals as on the lines of its shape before."""
        last = text.rstrip()
        if end < len(last):
            return True
        shape = _DIGITS.sub("", last)
        alike = [line.rstrip() for line in self._recent if _DIGITS.sub("", line.rstrip()) == shape]
        endings = {_decimals(line) for line in (*alike, last)}
        return len(alike) >= 3 and len(endings) == 1 and None not in endings


def _decimals(text: str) -> tuple[int, int] | None:
    found = _LAST_NUMBER.search(text)
    return (len(found[1]), len(found[2])) if found else None
