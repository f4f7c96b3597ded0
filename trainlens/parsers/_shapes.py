"""The shapes of one file: learnt from lines that were read one by one, used on all lines that follow.

A line that gave points (it names its step itself) is turned into a skeleton (`_marks`): its numbers may differ, all
else must stand there again, letter by letter. Three lines of a shape and it is used, over a whole block at a time;
lines of no known shape are read one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trainlens.model import Ints
from trainlens.parsers import _skeletons
from trainlens.parsers._lines import BlockLines
from trainlens.parsers._marks import Mark, Rows, Skeleton, shape

MOST = 12  # shapes of one file
ATTEMPTS = 3000  # lines looked at for shapes
REPEATS = 3


class Shapes:
    def __init__(self) -> None:
        self.known: list[Skeleton] = []
        self._wanted: Counter[tuple[object, ...]] = Counter()
        self._attempts = 0

    @property
    def open(self) -> bool:
        """Whether there is something left to learn."""
        return len(self.known) < MOST and self._attempts < ATTEMPTS

    def learn(
        self,
        line: str,
        marks: Sequence[Mark],
        rank: int,
        named: str = "'step'",
        *,
        zero_based: bool = False,
        bar: bool = False,
    ) -> None:
        """`line` gave the points of `marks`; lines of its shape may be read alike."""
        if not self.open:
            return
        self._attempts += 1
        found = shape(line, marks, rank, named, zero_based=zero_based, bar=bar)
        if found is None:
            return
        key = found.key
        self._wanted[key] += 1
        if self._wanted[key] == REPEATS:
            self.known.append(found)
            self._attempts = 0

    def take(self, lines: BlockLines, rows: Ints, known: int = 0) -> list[Rows]:
        """What those lines among `rows` say that have one of the shapes known, the first `known` left out."""
        found = []
        for like in self.known[known:]:
            rows = rows[~lines.taken[rows]]
            taken = _skeletons.take(lines, rows, like) if len(rows) else None
            if taken is not None:
                found.append(taken)
        return found
