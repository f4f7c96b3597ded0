"""Where in the run a line is, when its counter begins again with each epoch: `Epoch [2][50/742]`.

Forms: mmdetection and mmengine https://github.com/open-mmlab/mmengine (hooks/logger_hook.py), torchvision and
https://github.com/pytorch/examples (imagenet/main.py, mnist/main.py), timm
https://github.com/huggingface/pytorch-image-models (train.py), https://github.com/facebookresearch/fairseq
(progress_bar.py), PaddleClas, Flair, GluonCV, MindSpore, ESPnet (train/reporter.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Ints

_EPOCH = re.compile(
    r"""(?:[Ee]poch|EPOCH)\ ?(?:\((?P<mode>train|val|test)\))?(?P<colon>:?)\s*(?P<bracket>\[)?\s*
    (?P<epoch>\d{1,9})(?P<of>\s?/\s*\d+)?\s*\]?
    (?: [,:]?\s*[\[(]\s*(?P<inside>\d+)\s*[/:]\s*(?P<total>\d+)(?:\ \(\s*\d+%\))?\s*[\])]  # [1][5/74], 2/50][ 5:74]
      | :?\s+(?P<fair_inside>\d+)\ /\ (?P<fair_total>\d+)(?=\s)                         # 003:      5 / 356
      | \s+\|\s+(?P<of_batches>\d+)/\s*(?P<batches>\d+)\ batches(?=\s)                 # | 200/ 2983 batches
      | \s*\[\s*(?P<bare_inside>\d+)\](?=\s)                                              # [399][50]: of how many?
      | [\s,;|\[-]{1,6}(?P<word>(?i:iteration|iters?|step|batch))(?P<gap>[:=]?\s*\[?\s*)
        (?:(?P<word_inside>\d+)(?:\s?/\s*(?P<word_total>\d+))?(?![\d.]|\s?/|-\d)|\d+-(?P<up_to>\d+))(?:\s*\])?
    )""",
    re.VERBOSE,
)
_TRAIN = re.compile(  # timm; OpenPCDet, which says of how many epochs
    r"\bTrain: +(?P<epoch>\d{1,9})(?P<of>/\d+ \( *\d+%\))? \[ *(?P<inside>\d+)/(?P<total>\d+) \( *\d+%\) *\]"
)
_BATCHES = re.compile(r"\b(?P<epoch>\d{1,9})epoch:train:\d+-(?P<inside>\d+)batch:")  # ESPnet
_ITER = re.compile(r"\bIter ?(?:\((?P<mode>train|val|test)\))?\s*\[\s*(?P<inside>\d+)\s*/\s*(?P<total>\d+)\]")
_EPOCHS = 1000  # whose begins are kept, for a run that goes back to one
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
    spans: tuple[tuple[int, int], ...] = ()  # where epoch, place and total stand, where no more is to be known


def position(text: str) -> Position | None:
    if found := _EPOCH.search(text, 0, _REACH):
        inside = (
            found["inside"]
            or found["fair_inside"]
            or found["word_inside"]
            or found["bare_inside"]
            or found["of_batches"]
        )
        total = found["total"] or found["fair_total"] or found["word_total"] or found["batches"] or 0
        evaluation = found["mode"] in ("val", "test")
        zero_based = bool(found["bracket"] and found["colon"] and found["inside"] and not found["of"])
        worded = found["word"] is not None
        at = int(inside or found["up_to"])
        spans = tuple(found.span(name) for name in ("epoch", "inside", "total")) if found["inside"] else ()
        return Position(int(found["epoch"]), at, int(total), found.end(), evaluation, zero_based, worded, spans)
    if found := _ITER.search(text, 0, _REACH):
        evaluation = found["mode"] in ("val", "test")
        return Position(None, int(found["inside"]), int(found["total"]), found.end(), evaluation)
    if found := _TRAIN.search(text, 0, _REACH):
        zero_based = found["of"] is None
        return Position(
            int(found["epoch"]), int(found["inside"]), int(found["total"]), found.end(), zero_based=zero_based
        )
    if found := _BATCHES.search(text, 0, _REACH):
        return Position(int(found["epoch"]), int(found["inside"]), 0, found.end())
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
    gap: int = 0  # between the last two positions of an epoch that tells no total
    begins: list[list[int]] = field(default_factory=list)  # epochs without a total: number and steps before it

    def step(self, at: Position) -> int:
        """The step of the next position."""
        if at.epoch is None:
            self._turn(at)
            return at.inside + self.turns * at.total
        if not at.total:
            return self.counted_on(at.epoch, at.inside)
        if at.zero_based or at.epoch == 0:
            self.base = 0
        if self.epoch is None:
            self.of_the_run = at.worded
        elif at.epoch > self.epoch:
            self.of_the_run = at.inside > self.inside and (at.worded or at.inside > self.total)
        self.epoch, self.inside, self.total = at.epoch, at.inside, at.total
        return at.inside if self.of_the_run else at.inside + (at.epoch - self.base) * at.total

    def many(self, epoch: Ints, inside: Ints, total: Ints, zero_based: NDArray[np.bool_]) -> Ints:
        """The steps of the next positions, in the order of the log; an epoch of −1 is none."""
        if bool((epoch < 0).all()):
            return self._turns(inside, total)
        if self.of_the_run or bool((epoch < 0).any() | (total <= 0).any() | (inside > total).any()):
            rows = zip(epoch.tolist(), inside.tolist(), total.tolist(), zero_based.tolist(), strict=True)
            each = [
                self.step(Position(None if at < 0 else at, place, of, 0, zero_based=zero))
                for at, place, of, zero in rows
            ]
            return np.array(each, np.int64)
        base = np.where(np.maximum.accumulate(zero_based | (epoch == 0)), 0, self.base)
        self.base = int(base[-1])
        self.epoch, self.inside, self.total = int(epoch[-1]), int(inside[-1]), int(total[-1])
        steps: Ints = inside + (epoch - base) * total
        return steps

    def _turns(self, inside: Ints, total: Ints) -> Ints:
        """As `_turn` counts them, one after the other."""
        before = np.concatenate([np.array([self.inside]), inside[:-1]])
        new = total != np.concatenate([np.array([self.total]), total[:-1]])
        edges: Ints = np.flatnonzero(new | (inside < before))
        full = 100 * before >= 99 * total
        turns = [self.turns]
        for anew, again in zip(new[edges].tolist(), full[edges].tolist(), strict=True):
            turns.append(turns[-1] + 1 if again and not anew else 0)
        self.inside, self.total, self.turns = int(inside[-1]), int(total[-1]), turns[-1]
        each: Ints = np.repeat(np.array(turns, np.int64), np.diff(edges, prepend=0, append=len(inside)))
        return inside + each * total

    def counted_on(self, epoch: int, inside: int) -> int:
        """Where no line says how long an epoch is: it was as long as the counter had come when the next began.

        A counter that goes on as the epoch rises is one of the whole run; one that falls back begins again.
        """
        if self.epoch is None or not self.begins:
            self.begins = [[epoch, 0]]
        elif epoch > self.epoch:
            self.of_the_run = self.begins[-1][1] == 0 and inside > self.inside
            before = self.begins[-1][1]
            if not self.of_the_run:
                before += self.inside + (self.gap - inside if self.gap >= inside else int(inside == 0))
            self.begins = [*self.begins[-_EPOCHS:], [epoch, before]]
        elif epoch < self.epoch:  # the run was started again
            self.begins = [one for one in self.begins if one[0] <= epoch] or [[epoch, 0]]
        elif inside > self.inside:
            self.gap = inside - self.inside
        self.epoch, self.inside = epoch, inside
        return inside + self.begins[-1][1]

    def _turn(self, at: Position) -> None:
        if at.total != self.total:
            self.turns = 0
        elif at.inside < self.inside:
            self.turns = self.turns + 1 if 100 * self.inside >= 99 * self.total else 0
        self.inside, self.total = at.inside, at.total

    def state(self) -> list[object]:
        return [getattr(self, name) for name in self.__slots__]
