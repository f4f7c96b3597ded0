"""Lines that the user's own patterns read: their named groups are the tags, and nothing else is taken from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from trainlens.model import NO_RANK
from trainlens.parsers._line_ends import LineEnds
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._numbers import loose
from trainlens.parsers._text_page import Page
from trainlens.sources.patterns import LONGEST, PLACES, compiled


class PatternLines:
    def __init__(self, page: Page, patterns: Sequence[str]) -> None:
        self.page = page
        self._patterns = [compiled(pattern) for pattern in patterns]
        self._ends = LineEnds()

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def read(self, line: str, *, torn: bool = False) -> bool:
        """Whether one of the patterns matches; then the line is theirs alone."""
        begin = line[:LONGEST]
        found = next((found for pattern in self._patterns if (found := pattern.search(begin))), None)
        if found is None:
            return False
        if torn and not self._ends.whole(line, found.end()):
            return True
        if not torn:
            self._ends.add(line)
        self._row(begin, found)
        return True

    def _row(self, line: str, found: re.Match[str]) -> None:
        page, groups = self.page, found.groupdict()
        step = loose(groups.get("step") or "")
        if step is not None and step == step // 1 and abs(step) < 1 << 62:
            page.at_step(int(step))
            page.steps_from["'step'"] += 1
        page.time = _time(groups["time"]) if groups.get("time") else clock(line)
        rank = loose(groups.get("rank") or "")
        at = int(rank) if rank is not None and 0 <= rank < 1 << 31 else unprefixed(line)[0]
        said: set[str] = set()
        for tag, text in _pairs(line, found):
            value = loose(text or "")
            if value is not None and tag not in said:
                said.add(tag)
                page.point(tag, value, rank=at if at >= 0 else NO_RANK)


def _pairs(line: str, found: re.Match[str]) -> list[tuple[str, str | None]]:
    groups = found.groupdict()
    pairs = [(tag, text) for tag, text in groups.items() if tag not in PLACES and tag not in ("name", "value")]
    if "name" in groups:
        pairs += [(each["name"], each["value"]) for each in found.re.finditer(line) if each["name"]]
    return pairs


def _time(text: str) -> float | None:
    """A date, or seconds since 1970, or thousandths of them."""
    if (moment := clock(text)) is not None:
        return moment
    number = loose(text)
    if number is None or not math.isfinite(number):
        return None
    return number / 1000 if number > 1e11 else number
