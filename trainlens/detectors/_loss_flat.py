"""Where a curve stops falling: a kink against ln(step), to the end of the log or until learning sets in again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.detectors._loss_context import Curve, interval
from trainlens.model import Floats
from trainlens.signals import block_means, block_noise, fit_line, rolling_median

_MOST = 2000  # blocks that lines are fitted to
_KINKS = 16
_ENDS = np.linspace(0.2, 0.95, 16)  # of the run, for a flat stretch that ends before it


@dataclass(frozen=True, slots=True)
class Flat:
    """Indices of the first and last point of the flat stretch, and whether it lasts to the end."""

    first: int
    last: int
    lasts: bool


@dataclass(frozen=True, slots=True)
class _Blocks:
    log_step: Floats
    value: Floats
    noise: float  # standard deviation of one block
    size: int


def find_flat(
    curve: Curve, value: Floats, taken: NDArray[np.bool_], end: int, begin: int, slope: float, fall: float
) -> Flat | None:
    """The flat stretch of the first `end` points, none that begins before index `begin`; `value` is without spikes,
    `taken` tells where they were.

    `slope` bounds the slope after the kink as a share of that before, `fall` the fall within as a share of the level.
    """
    blocks = _blocks(curve, value, end)
    n = len(blocks.value)
    for kink in np.unique(np.geomspace(max(20, n * 0.03), n * 0.55, _KINKS).astype(int)).tolist():
        if kink * blocks.size > begin and _is_flat(blocks, kink, n, slope, fall):
            return Flat(_onset(blocks, kink, n) * blocks.size, end - 1, True)
    for stop in sorted({int(share * n) for share in _ENDS}, reverse=True):
        for kink in np.unique(np.geomspace(max(20, n * 0.03), 0.8 * stop, _KINKS).astype(int)).tolist():
            free = kink * blocks.size > begin and not taken[kink * blocks.size : stop * blocks.size].any()
            if free and stop - kink >= 0.12 * n and _is_stretch(blocks, kink, stop, slope, fall):
                return Flat(_onset(blocks, kink, stop) * blocks.size, stop * blocks.size - 1, False)
    return None


def _blocks(curve: Curve, value: Floats, end: int) -> _Blocks:
    size = max(1, end // _MOST)
    log_step = np.log(np.maximum(curve.step[:end], interval(curve.step)).astype(float))
    if size == 1:
        return _Blocks(log_step, value[:end], curve.noise, 1)
    means = block_means(value[:end], size)
    return _Blocks(block_means(log_step, size), means, block_noise(means), size)


def _is_flat(blocks: _Blocks, kink: int, stop: int, slope: float, fall: float) -> bool:
    """Whether a sure fall before the kink turns into next to none between kink and stop."""
    x, y = blocks.log_step, blocks.value
    before, after, third = slice(kink // 2, kink), slice(kink, stop), (stop - kink) // 3
    if kink - kink // 2 < 10 or third < 5:
        return False
    down, error = fit_line(x[before], y[before])
    level = float(np.median(y[after]))
    for_doubling = max(0.01 * level, 2 * blocks.noise / (kink / 4) ** 0.5)
    if down >= 0 or -down < 5 * error or -down * np.log(2) < for_doubling:
        return False
    on, doubt = fit_line(x[after], y[after])
    rest = float(np.median(y[kink : kink + third]) - np.median(y[stop - third : stop]))
    flat = max(fall * level, 2.5 * blocks.noise / third**0.5)
    return (on - 2 * doubt) / down < slope and -2 * flat < rest < flat


def _onset(blocks: _Blocks, kink: int, stop: int) -> int:
    """The block from which on the level is that of the flat part; `kink` is only near it."""
    y = blocks.value[:stop]
    width = max(2, len(blocks.value) // 100)
    level = float(np.median(y[(kink + stop) // 2 :]))
    high = rolling_median(y[kink:], width) > level + max(0.004 * level, 3 * blocks.noise / (2 * width) ** 0.5)
    above = np.flatnonzero(high[: len(high) // 2])
    return kink + (int(above[-1]) + 1 if len(above) else 0)


def _is_stretch(blocks: _Blocks, kink: int, stop: int, slope: float, fall: float) -> bool:
    """Whether the flat part ends: surely flat, for a power law would have fallen, and learning sets in again, slowly.

    Slowly: the steps of a loss at the begin of epochs and of a learning rate in stages fall at once.
    """
    y = blocks.value
    down, _ = fit_line(blocks.log_step[kink // 2 : kink], y[kink // 2 : kink])
    third = max(5, (stop - kink) // 3)
    parts = block_means(y[kink:stop], max(1, (stop - kink) // 12))
    error = max(float(parts.std()), blocks.noise / third**0.5)
    least = -0.7 * down * (1 - kink / stop)  # what the steepest power law falls from kink to stop
    level, end = float(np.median(y[stop - third : stop])), float(np.median(y[-max(5, len(y) // 20) :]))
    if least < max(0.015 * level, 8 * error) or level - end < max(0.015 * level, 8 * error):
        return False
    return _is_flat(blocks, kink, stop, slope, fall) and not _falls_at_once(y, stop, stop + (stop - kink) // 2, level)


def _falls_at_once(y: Floats, stop: int, end: int, level: float) -> bool:
    """Whether one move explains half of what the loss falls from `stop` to `end`."""
    width = max(5, len(y) // 100)
    fall = level - float(np.median(y[end - width : end + width]))
    places = range(max(width, stop - 2 * width), min(end, len(y)) - width, max(1, width // 4))
    moves = [float(np.median(y[at - width : at]) - np.median(y[at : at + width])) for at in places]
    return max(moves, default=0.0) > 0.5 * fall
