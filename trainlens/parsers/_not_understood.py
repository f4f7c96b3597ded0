"""Lines that name numbers of which nobody could make a point, an event or a fact: how many, and the first of them.

Settings name numbers, too. What a run measures differs from line to line, so a line counts when its form (the line
without its digits) has come three times with other numbers; what every rank prints alike counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainlens.model import Note
from trainlens.parsers._lines import unprefixed
from trainlens.parsers._positions import RUNNING_EVALUATION

REPEATS = 3
FORMS = 1000  # of lines, that are remembered
FEW, SHARE = 20, 0.01  # fewer lines, of all that name numbers, are not worth a word
_REACH = 400  # characters of a line that are looked at

# A number with a point or an exponent behind a name: whole ones are mostly ports, sizes and ids.
_NAMED = re.compile(
    r"(?<![\w./])[^\W\d][\w/]*\s?[=:]\s?[-+]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?=[\s,;|)\]}]|\Z)"
)
_DIGITS = re.compile(r"\d+")


class NotUnderstood:
    def __init__(self) -> None:
        self.count = 0
        self.first = 0  # the first such line
        self._forms: dict[str, tuple[int, int, str]] = {}  # how often with other numbers, the first line, the last text

    def add(self, line: str, number: int) -> None:
        """A line that gave nothing; `number` is its number."""
        line = line[:_REACH]
        if not _NAMED.search(line) or "ETA" in line or RUNNING_EVALUATION.match(line):
            return
        text = unprefixed(line)[1]
        form = _DIGITS.sub("0", text)
        count, first, last = self._forms.get(form, (0, number, ""))
        if text == last or (not count and len(self._forms) >= FORMS):
            return
        count += 1
        self._forms[form] = count, first, text
        if count >= REPEATS:
            self.count += 1 if count > REPEATS else REPEATS
            self.first = min(self.first or first, first)

    def notes(self, understood: int) -> Iterator[Note]:
        """`understood`: the lines that gave something."""
        every = understood + self.count
        if self.count and (self.count >= FEW or self.count >= SHARE * every):
            told = f"{self.count:,} of {every:,} lines with numbers were not understood, e.g. line {self.first:,}"
            yield Note("not-understood", told, self.first, count=self.count)

    def state(self) -> dict[str, object]:
        forms = [[form, *told] for form, told in self._forms.items()]
        return {"count": self.count, "first": self.first, "forms": forms}

    def restore(self, state: Mapping[str, object]) -> None:
        self.count, self.first = int(str(state["count"])), int(str(state["first"]))
        forms = state["forms"]
        self._forms = (
            {form: (count, first, last) for form, count, first, last in forms} if isinstance(forms, list) else {}
        )
