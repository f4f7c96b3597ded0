"""Other people's definitions of a loss spike, for `loss-spike.rule`. Each takes the values and marks points.

Sources: OLMo 2 (arXiv 2501.00656, section 3.2), OLMo-core (StabilityMonitorCallback), LLM Foundry (KillLossSpike),
ZClip (arXiv 2504.02507), Hampel's identifier (Davies and Gather 1993).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trainlens.detectors._loss_context import Curve
from trainlens.detectors._loss_spikes import Limits, Spike, followed
from trainlens.model import Floats
from trainlens.signals import episodes, rolling_median

Marks = NDArray[np.bool_]


def moments(value: Floats, window: int) -> tuple[Floats, Floats]:
    """Mean and population standard deviation of the last `window` points, the point included; NaN until it is full."""
    n = len(value)
    mean, deviation = np.full(n, np.nan), np.full(n, np.nan)
    if n < window:
        return mean, deviation
    shifted = value - value[0]  # sums of squares lose digits far from 0
    sums, squares = np.cumsum(np.r_[0.0, shifted]), np.cumsum(np.r_[0.0, shifted**2])
    average = (sums[window:] - sums[:-window]) / window
    variance = (squares[window:] - squares[:-window]) / window - average**2
    mean[window - 1 :] = average + value[0]
    deviation[window - 1 :] = np.sqrt(np.maximum(variance, 0.0))
    return mean, deviation


def _above(value: Floats, window: int, deviations: float) -> Marks:
    mean, deviation = moments(value, window)
    with np.errstate(invalid="ignore"):
        return (value > mean + deviations * deviation) & (deviation > 1e-10)


def olmo_score(value: Floats) -> float | None:
    """Share of values at least 7 deviations from the mean of the last 1,000, in the middle 10 to 90 % of the run.

    A log of fewer than 2,000 points gets half its length as window; None below 100 points.
    """
    n = len(value)
    if n < 100:
        return None
    mean, deviation = moments(value, min(1000, n // 2))
    middle = slice(n // 10, n - n // 10)
    with np.errstate(invalid="ignore"):
        far = (np.abs(value - mean) >= 7 * deviation) & (deviation > 1e-10)
    return float(far[middle].mean())


def _ratio3(value: Floats) -> Marks:
    marks = np.zeros(len(value), bool)
    if len(value) and (value > 0).all():
        marks[1:] = value[1:] > 3 * value[:-1]
    return marks


def _olmo(value: Floats) -> Marks:
    return _above(value, 1000, 7.0)


def _olmo_core(value: Floats) -> Marks:
    return _above(value, 128, 6.0)


def _foundry(value: Floats) -> Marks:
    """Twice the mean of max(100, 5 % of the run) points before, five times in a row."""
    window = max(100, len(value) // 20)
    mean, _ = moments(value, window)
    high = np.zeros(len(value), bool)
    with np.errstate(invalid="ignore"):
        high[1:] = value[1:] >= 2 * mean[:-1]
    for first, last in episodes(high, 1):
        high[first : last + 1] = last - first >= 4
    return high


def _zclip(value: Floats) -> Marks:
    """2.5 deviations over exponential mean and variance (0.97), which a marked point does not enter; 25 to warm up."""
    marks = np.zeros(len(value), bool)
    warm = value[:25]
    if len(warm) < 25:
        return marks
    mean, variance = float(warm.mean()), float(warm.var())
    for i, x in enumerate(value[25:].tolist(), start=25):
        if x - mean > 2.5 * variance**0.5:
            marks[i] = True
            x = mean + 2.5 * variance**0.5  # the paper's clip: what enters the averages
        variance = 0.97 * variance + 0.03 * (x - mean) ** 2
        mean = 0.97 * mean + 0.03 * x
    return marks


def _hampel(value: Floats) -> Marks:
    level = rolling_median(value, 10)
    scale = 1.4826 * rolling_median(np.abs(value - level), 10)
    return (value - level > 3 * scale) & (scale > 0)


_RULES: dict[str, Callable[[Floats], Marks]] = {
    "ratio3": _ratio3,
    "olmo": _olmo,
    "olmo-core": _olmo_core,
    "foundry": _foundry,
    "zclip": _zclip,
    "hampel": _hampel,
}
NAMES = ("robust", *_RULES)


def find(rule: str, curve: Curve, limits: Limits) -> list[Spike]:
    """Episodes of the points that a rule marks (hits up to 10 points apart), with what became of each."""
    value = curve.value
    found = []
    for first, last in episodes(_RULES[rule](value), 10):
        peak = first + int(np.argmax(value[first : last + 1]))
        base = curve.level(max(0, first - 25), first) if first else float(value[0])
        deviation = max(curve.noise, 1e-12)
        height = max(float(value[peak]) - base, 1e-12)
        found.append(followed(value, Spike(first, last, peak, base, height, height / deviation), limits))
    return found
