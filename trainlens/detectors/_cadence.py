"""How regularly something was done along a run: usual distance, what is missing, how long ago the last one was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainlens.model import Floats, Ints, Run

_SAME = 0.1  # distances within a tenth of the usual one are equal


@dataclass(frozen=True)
class Cadence:
    """Steps at which something was done, in order and once each, and the distances between them."""

    step: Ints
    apart: Floats
    usual: float
    regular: float  # part of the distances that are the usual one
    open: int  # steps from the last one to the end of the log

    @property
    def longest(self) -> int:
        """Index of the longest distance."""
        return int(np.argmax(self.apart))

    def stopped(self, times: float, regular: float) -> bool:
        """Whether it was done regularly, and then not for `times` its longest recent distance."""
        return self.regular >= regular and self.open > times * max(self.usual, *self.apart[-2:])

    def missing(self, regular: float) -> int:
        """How many were left out between others, when it was done regularly."""
        if self.regular < regular:
            return 0
        # a distance that is kept from some step on is a new interval, not one left out
        wide = np.round(self.apart / self.usual)
        lone = (wide >= 2) & ~((np.r_[wide[1:], 0] == wide) | (np.r_[0, wide[:-1]] == wide))
        return int((wide[lone] - 1).sum())


def cadence(steps: Iterable[int], end: int) -> Cadence | None:
    """The cadence of these steps up to the end of the log; None for fewer than two."""
    step = np.unique(np.fromiter(steps, np.int64))
    step = step[step <= end]
    if len(step) < 2:
        return None
    apart = np.diff(step).astype(float)
    usual = float(np.median(apart))
    near = np.abs(apart - usual) <= max(1.0, _SAME * usual)
    return Cadence(step, apart, usual, float(near.mean()), int(end - step[-1]))


def last_row(run: Run, paths: Iterable[str]) -> int:
    """The last step of the training rows in these sources; of all where none has any."""
    wanted = {number for number, source in enumerate(run.sources) if source.path in set(paths)}
    rows = [one for one in run.series if not one.about.name.startswith(("eval", "bench")) and not one.positional]
    rows = [one for one in rows if one.about.role in ("loss", "grad-norm", "learning-rate", "step-time", "throughput")]
    inside = [one.step[np.isin(one.source, list(wanted))] for one in rows if len(one.source) == len(one)]
    ends = [int(step[-1]) for step in inside if len(step)] or [int(one.step[-1]) for one in rows if len(one)]
    return max(ends, default=-1)
