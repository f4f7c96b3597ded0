"""Transients of the first points of a run: a loss that rises before it falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainlens.detectors._loss_context import Curve, interval
from trainlens.signals import mad

_LEAST = 8  # points of a curve
_REACH = (6, 50)  # points that are the start: a twentieth of the curve, between these
_RISE = 0.05  # of the lowest before
_NOISES = 8.0  # standard deviations from point to point
_BACK = 0.25  # of the height


@dataclass(frozen=True, slots=True)
class StartUp:
    """Indices into the curve: the lowest point before, the highest, the first that is back."""

    low: int
    top: int
    back: int


def start_up(curve: Curve) -> StartUp | None:
    """The rise within the first points of a run that was undone and then learned away; None where there is none."""
    n, value = len(curve), curve.value
    if n < _LEAST or not curve.positive or curve.step[0] > 10 * interval(curve.step):
        return None
    reach = min(max(_REACH[0], n // 20), _REACH[1], n // 2)
    logs = np.log(value)
    rises = logs[:reach] - np.minimum.accumulate(logs[:reach])
    top = int(np.argmax(rises))
    scatter = max(mad(np.diff(part)) for part in (logs, logs[: 4 * reach])) / 2**0.5
    if rises[top] < max(np.log1p(_RISE), _NOISES * scatter):
        return None
    low = int(np.argmin(value[: top + 1]))
    after = np.flatnonzero(value[top:] <= value[low] + _BACK * (value[top] - value[low]))
    learned = curve.level(n - max(3, n // 10), n) < float(value[low])
    return StartUp(low, top, top + int(after[0])) if len(after) and learned else None
