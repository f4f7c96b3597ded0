"""What of a learning rate is looked at: its points, its peak, falls to a held level, warm restarts.

Which schedule the points follow is told by `signals.schedules`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainlens.model import Floats, Ints, Series


def points(series: Series) -> tuple[Ints, Floats]:
    """Finite points of a learning rate."""
    return series.step[series.finite], series.value[series.finite]


def peak_of(rate: Floats) -> float:
    """The largest rate of more than a few points: exceeded by 3 % of them, the true peak where none is far above."""
    if not len(rate):
        return 0.0
    high = float(np.quantile(rate, 0.97))
    return high if high > 0 and rate.max() > 1.5 * high else float(rate.max())


def warmup_end(rate: Floats, peak: float, near: float = 0.995) -> int:
    """Index of the first point near the peak."""
    return int(np.argmax(rate >= near * peak)) if len(rate) and peak > 0 else 0


def steps_down(rate: Floats, at: int, peak: float) -> bool:
    """Whether the rate was level before a fall and stays level for at least 2 % of the run after it."""
    before, after = rate[max(0, at - 5) : at], rate[at : at + max(5, len(rate) // 50)]
    level = all(np.ptp(part) <= 0.02 * part.max() for part in (before, after) if part.max() > 0)
    return bool(level and len(before) >= 3 and after.min() > 1e-4 * peak)


def cycles(series: Series, rises: NDArray[np.intp], peak: float, ended: float) -> bool:
    """Whether the rises are warm restarts: regular, or one where the cycle before has ended and the same curve begins.

    `rises` index the finite points; a cycle has ended where the rate is at most `ended` of the peak. No restart of the
    schedule's own making is a rise right where the run was resumed.
    """
    step, rate = points(series)
    if not len(rises):
        return False
    begins = rises[np.r_[True, np.diff(rises) > 3]]
    start = warmup_end(rate, peak, 0.98)
    gaps = np.diff(step[np.r_[start, begins]]).astype(float)
    ratios = gaps[1:] / gaps[:-1] if (gaps > 0).all() else np.empty(0)
    if len(ratios) and np.ptp(ratios) <= 0.1 and 0.9 <= ratios[0] <= 4.1:
        return True
    if (
        len(series.attempt) == len(series)
        and np.isin(step[begins], series.step[1:][np.diff(series.attempt) != 0]).any()
    ):
        return False
    low = bool((rate[begins - 1] <= ended * peak).all())
    high = np.flatnonzero(rate[: begins[0]] > ended * peak)
    if len(high) and rate[high[-1]] > 0.5 * peak:  # it fell at once: a dip, not the end of a decay
        return False
    return low and len(begins) == 1 and start < begins[0] and _same_curve(step, rate, peak, start, int(begins[0]))


def _same_curve(step: Ints, rate: Floats, peak: float, start: int, restart: int) -> bool:
    """Whether the curve after a restart is the first cycle's again, in the same or twice the time."""
    top = restart + int(np.argmax(rate[restart : restart + 4]))
    first, second = step[start:restart] - step[start], step[top:] - step[top]
    for stretch in (1, 2):
        compared = second <= first[-1] * stretch
        if compared.sum() < max(5, 0.3 * len(first)):
            continue
        expected = np.interp(second[compared] / stretch, first, rate[start:restart])
        if np.max(np.abs(rate[top:][compared] - expected)) <= 0.05 * peak:
            return True
    return False
