"""Falls of a training loss at the boundaries of epochs, where the same examples come again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainlens.detectors._loss_context import Curve
from trainlens.model import Ints, Run

_LEAST = 20  # points of an epoch
_MOST = 20  # epochs; with more, nothing new is seen at a boundary
_ERRORS = 6.0  # standard errors of a fall


@dataclass(frozen=True, slots=True)
class EpochFalls:
    """For each boundary its step and the fall there as a share of the level; `within`: the mean fall inside epochs."""

    steps: tuple[int, ...]
    falls: tuple[float, ...]
    within: float


def epoch_falls(run: Run, curve: Curve, boundaries: Ints) -> EpochFalls | None:
    """None where an epoch is too short to tell, the loss changes sign, or the learning rate steps down there too."""
    at = np.searchsorted(curve.step, boundaries)
    at = at[at <= len(curve) - _LEAST]  # an epoch that has hardly begun tells nothing
    edges = np.r_[0, at, len(curve)]
    if not curve.positive or not 0 < len(at) <= _MOST or np.diff(edges).min() < _LEAST:
        return None
    steps, falls, within = [], [], []
    for begin, middle, end in zip(edges[:-2].tolist(), edges[1:-1].tolist(), edges[2:].tolist(), strict=True):
        width = max(6, min(middle - begin, end - middle) // 6)
        before, after = curve.level(middle - width, middle), curve.level(middle + 1, middle + 1 + width)
        if before - after < _ERRORS * curve.noise * (2 / width) ** 0.5 or _rate_steps(run, int(curve.step[middle])):
            return None
        steps.append(int(curve.step[middle]))
        falls.append(1 - after / before)
        within.append(1 - curve.level(end - width, end) / after)
    return EpochFalls(tuple(steps), tuple(falls), float(np.mean(within)))


def _rate_steps(run: Run, step: int) -> bool:
    """Whether the learning rate steps down near a step."""
    rate = run.get("lr")
    if rate is None or len(rate) < 3:
        return False
    at = int(np.searchsorted(rate.step, step))
    near = rate.value[max(0, at - 3) : at + 3]
    return len(near) > 1 and bool((near[1:] < 0.8 * near[:-1]).any())
