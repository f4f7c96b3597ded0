"""Where in the run a line is, when its counter begins again with each epoch: `Epoch [2][50/742]`.

Forms: mmdetection and mmengine https://github.com/open-mmlab/mmengine (hooks/logger_hook.py), torchvision and
https://github.com/pytorch/examples (imagenet/main.py), https://github.com/facebookresearch/fairseq (progress_bar.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_EPOCH = re.compile(
    r"""[Ee]poch\ ?(?:\((?P<mode>train|val|test)\))?(?P<colon>:?)\s*\[?\s*(?P<epoch>\d+)(?P<of>\s?/\s?\d+)?\s*\]?
    (?: [,:]?\s*[\[(]\s*(?P<inside>\d+)\s*[/:]\s*(?P<total>\d+)(?:\ \(\d+%\))?\s*[\])] # [1][658/742], 22/500][ 200:391]
      | :\s+(?P<fair_inside>\d+)\ /\ (?P<fair_total>\d+)(?=\s)                          # 003:      5 / 356
      | \s*\[\s*(?P<bare_inside>\d+)\](?=\s)                                              # [399][50]: of how many?
      | [,;|]?\s+(?P<word>iteration|iter|step|batch):?\s*\[?(?P<word_inside>\d+)\s?/\s?(?P<word_total>\d+)
    )""",
    re.VERBOSE,
)
_ITER = re.compile(r"\bIter ?(?:\((?P<mode>train|val|test)\))?\s*\[\s*(?P<inside>\d+)\s*/\s*(?P<total>\d+)\]")
_REACH = 400  # characters of a line within which its place stands
# The batches of an evaluation, one by one: running means that its last line sums up.
RUNNING_EVALUATION = re.compile(r"^(?:.{0,60}\s)?(?:Test|Val|Valid|Validation|Eval)\w*:\s*\[\s*\d+/\d+\]")


@dataclass(frozen=True, slots=True)
class Position:
    epoch: int | None
    inside: int
    total: int  # 0: not told
    end: int  # in the line, behind it
    evaluation: bool = False
    zero_based: bool = False  # a form whose first epoch is 0
    worded: bool = False  # "step 5/100": perhaps not of the epoch but of the run


def position(text: str) -> Position | None:
    if found := _EPOCH.search(text, 0, _REACH):
        inside = found["inside"] or found["fair_inside"] or found["word_inside"] or found["bare_inside"]
        total = found["total"] or found["fair_total"] or found["word_total"] or 0
        evaluation = found["mode"] in ("val", "test")
        zero_based = bool(found["colon"] and found["inside"] and not found["of"] and not found["mode"])
        worded = found["word"] is not None
        return Position(int(found["epoch"]), int(inside), int(total), found.end(), evaluation, zero_based, worded)
    if found := _ITER.search(text, 0, _REACH):
        evaluation = found["mode"] in ("val", "test")
        return Position(None, int(found["inside"]), int(found["total"]), found.end(), evaluation)
    return None


@dataclass(slots=True)
class Counter:
    """Counts on where a counter begins again: with the next epoch, or when it was full."""

    base: int = 1  # number of the first epoch
    epoch: int | None = None  # of the last position
    inside: int = 0
    total: int = 0
    turns: int = 0  # how often a counter without epochs was full
    of_the_run: bool = False  # it goes on over epochs

    def step(self, at: Position) -> int:
        """The step of the next position."""
        if at.epoch is None:
            self._turn(at)
            return at.inside + self.turns * at.total
        if at.zero_based or at.epoch == 0:
            self.base = 0
        if self.epoch is None:
            self.of_the_run = at.worded
        elif at.epoch > self.epoch:
            self.of_the_run = at.inside > self.inside and (at.worded or at.inside > self.total)
        self.epoch, self.inside, self.total = at.epoch, at.inside, at.total
        return at.inside if self.of_the_run else at.inside + (at.epoch - self.base) * at.total

    def _turn(self, at: Position) -> None:
        if at.total != self.total:
            self.turns = 0
        elif at.inside < self.inside:
            self.turns = self.turns + 1 if 100 * self.inside >= 99 * self.total else 0
        self.inside, self.total = at.inside, at.total

    def state(self) -> list[object]:
        return [getattr(self, name) for name in self.__slots__]
