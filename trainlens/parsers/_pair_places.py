"""Where in the run a line stands, when no pair of it is the step: in words, in brackets, as a place in an epoch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.parsers._marks import EPOCH, TOTAL, Mark
from trainlens.parsers._marks import INSIDE as INSIDE_EPOCH
from trainlens.parsers._numbers import counted
from trainlens.parsers._pairs import (
    BARE_STEP,
    EPOCH_WORD,
    LOOSE_STEP,
    MAY_STEP,
    STEP_WORD,
    Field,
    is_metric,
    is_step,
    leading_step,
    spaced,
)
from trainlens.parsers._positions import Position, position

REACH = 300  # characters of a line in which it says where it is
CODE = re.compile(r"\s*(?:def|return|class|for|if|elif|while|print|import|from|yield|raise|with|self\.)\b[ (.]")
COUNTED = re.compile(r"(?:\W*epoch|step|iter|iteration)\s+\[?\d", re.I)
HELD_OUT = re.compile(r"(?:val|valid|validation|eval|test)[ _]loss +[-+\w.]{1,30}\s*\Z", re.I)  # all of a line
INSIDE = frozenset(("iters", "iter", "step", "iteration", "batch", "itr"))  # such counters may begin again with epochs


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    time: float | None
    step: int | None
    total: int | None
    values: list[tuple[str, float]]
    rank: int
    named: str = ""  # what the step was taken from


@dataclass(slots=True)
class Place:
    """What a line says of its step beside its pairs."""

    end: int = 0  # in the line, behind it; 0: nothing
    step: int | None = None
    total: int = 0
    at: Position | None = None
    epoch: int | None = None
    mark: tuple[int, int] | None = None
    named: str = ""
    loose: bool = False  # only blanks part what follows
    own: bool = False  # brackets that would be a rank's elsewhere

    @property
    def zero_based(self) -> bool:
        return self.at is not None and self.at.zero_based

    def marks(self, marks: list[Mark]) -> list[Mark]:
        """The numbers of a line with those of its place in the epoch; none where that must be judged by itself."""
        if self.at is None or not self.at.spans or self.at.evaluation:
            return []
        place = [Mark(tag, *span) for tag, span in zip((EPOCH, INSIDE_EPOCH, TOTAL), self.at.spans, strict=True)]
        return [*place, *marks]


def placed(text: str, begin: int, found: Sequence[Field], *, led: bool = False) -> Place:
    """The step that is not the value of a name: a place in an epoch, a word and a number, a number in brackets.

    Where rows are `led` by their step it is the number that they begin with.
    """
    steps = [field for field in found if is_step(field.key)]
    if steps and steps[0].total and steps[0].key.lower() in INSIDE and (at := position(text)) and at.total:
        return Place(at.end, at=at)  # [Epoch 1/120][Iter: 10/100]
    if steps:
        return Place()
    if lead := leading_step(text, begin):
        group = next(number for number in (1, 2, 3) if lead[number])
        return Place(lead.end(), int(lead[group]), mark=lead.span(group), named="the number in brackets", own=True)
    if led and (lead := BARE_STEP.match(text, begin)):
        which = 1 if lead[1] else 3
        named, total = "the number that lines begin with", counted(lead[which + 1] or "0")
        return Place(lead.end(), counted(lead[which]), total, mark=lead.span(which), named=named, own=True)
    if not MAY_STEP.search(text):
        return Place()
    word = STEP_WORD.search(text)
    if (at := position(text)) and not (word and at.worded and not at.total):
        loose = not found and not text[at.end : at.end + 1].strip(" ")
        return Place(at.end, at=at, loose=loose and bool(spaced(text, at.end)))
    loose = word is None
    if word is None and (word := LOOSE_STEP.search(text, 0, REACH)) and found:
        loose = False
        if text[word.end() : found[0].begin].strip():
            word = None  # other words stand between
    if word:
        name = text[word.start() : word.start(1)].strip(" #").lower()
        return Place(
            word.end(), counted(word[1]), counted(word[2] or "0"), None, None, word.span(1), f"'{name}'", loose
        )
    if word := EPOCH_WORD.search(text, 0, REACH):
        return Place(word.end(), epoch=int(word[1]), total=int(word[2] or 0))
    return Place()


def is_row(text: str, values: Sequence[tuple[str, float]], used: int) -> bool:
    """Whether a line without a step is a row of metrics and little else; `used` characters of it are fields."""
    if not any(is_metric(key) for key, _ in values):
        return False
    if " results: [train] " in text:  # ESPnet at the end of an epoch
        return True
    if 2 * used < len(text.strip()):
        return False
    return not any(mark in text for mark in (" = ", "self.", "'", '"', "#"))
