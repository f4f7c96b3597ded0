"""Counters that begin again with each epoch, as columns: epoch 1 iter 50, 100, 150, epoch 2 iter 50 … as one step.

How long an epoch is, is told by where the first one ends: its last count and the distance to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from trainlens.model import Floats
from trainlens.parsers._columns import Mask, plain

_INSIDE = frozenset(("iter", "iters", "iteration", "iterations", "it", "itr", "step", "steps", "batch", *(
    f"{what}{end}" for what in ("batch", "minibatch", "iter", "step") for end in ("idx", "index", "num", "no", "id")
)))  # fmt: skip
_BATCHES = frozenset(one for one in _INSIDE if "batch" in one)
_EPOCHS = ("epoch", "epochs", "epochnum", "epochid", "epochidx")


def inside(name: str) -> bool:
    """Whether a column of this name may count within epochs."""
    return plain(name) in _INSIDE


def batches(columns: Mapping[str, Floats]) -> str | None:
    """The column that numbers the batches of an epoch, where no other column counts steps: one that counts up."""
    epoch = epochs(columns)
    for name, cells in columns.items():
        if epoch is None or plain(name) not in _BATCHES or not len(cells):
            continue
        rises = len(cells) > 1 and cells[1] > cells[0] and columns[epoch][0] == columns[epoch][1]
        if cells[0] == 0 or (np.isfinite(cells[0]) and rises):
            return name
    return None


def epochs(columns: Mapping[str, Floats]) -> str | None:
    return next((name for name in columns if plain(name) in _EPOCHS), None)


@dataclass(slots=True)
class Counter:
    """Makes steps that go on of the pairs of one file, in order; all it knows are plain values."""

    first_epoch: float | None = None
    first: float = 0.0
    gap: float = 0.0  # between its first two counts
    per_epoch: float = 0.0
    before: list[float] = field(default_factory=list)  # epoch, count and step of the last row
    base: float = 0.0

    def steps(self, epoch: Floats, count: Floats, known: Mask) -> Floats | None:
        """The step of each row, NaN where a row has none; None while the counter has never begun again."""
        e, c = epoch[known], count[known]
        if not len(e) or bool((e != np.floor(e)).any()):
            return None
        if self.first_epoch is None:
            self.first_epoch, self.first = float(e[0]), float(c[0])
            self.before = [float(e[0]), float(c[0]), float(c[0])]
        if not self.gap:
            rises = np.diff(np.concatenate([[self.before[1]], c]))
            self.gap = float(rises[rises > 0][0]) if (rises > 0).any() else 0.0
        was = np.concatenate([[self.before[0]], e[:-1]]), np.concatenate([[self.before[1]], c[:-1]])
        again = (e > was[0]) & (c < was[1])
        if not self.per_epoch and not again.any():
            self.before = [float(e[-1]), float(c[-1]), float(c[-1])]
            return None
        step = np.full(len(known), np.nan)
        step[known] = self._counted(e, c, again | (e < was[0]))
        return step

    def _counted(self, e: Floats, c: Floats, turns: Mask) -> Floats:
        """Steps from turn to turn; what goes back to an earlier epoch goes back to its steps."""
        found = np.empty(len(e))
        edges = [0, *(np.flatnonzero(turns[1:]) + 1).tolist(), len(e)]
        for begin, end in pairwise(edges):
            if turns[begin]:
                last = self.before if not begin else [float(e[begin - 1]), float(c[begin - 1]), float(found[begin - 1])]
                self.per_epoch = self.per_epoch or last[1] + max(self.gap - self.first, 0.0)
                self.base = (float(e[begin]) - (self.first_epoch or 0.0)) * self.per_epoch
                if e[begin] > last[0]:  # an epoch longer than the first one
                    self.base = max(self.base, last[2] + max(self.gap, 1.0) - float(c[begin]))
            found[begin:end] = self.base + c[begin:end]
        self.before = [float(e[-1]), float(c[-1]), float(found[-1])]
        return found
