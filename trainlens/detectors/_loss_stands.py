"""A plateau that ends: the loss stands for long, then learning sets in and it falls faster by the step.

Curves that learn are convex: what they fall by a step gets less. A point well above the chord of two points around it
is the end of a stretch in which the loss stood, or nearly so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainlens.model import Floats
from trainlens.signals import block_medians, block_noise

_BLOCKS = 40
_LEAST = 5  # points of a block
_SLOWER = 0.5  # fall by a step within the stretch against that after it
_TRIED = 3  # ends of a chord, the highest first
_AFTER = 5  # blocks of the fall that follows, at least: a stair's edge takes up to two
_AT_ONCE = 0.7  # share of the later fall that its two largest moves from block to block may make
_STAIRS = 0.4  # median of the moves from block to block in the later fall against their mean


@dataclass(frozen=True, slots=True)
class Stand:
    """Indices of the first and last point of the stretch, of the point its chord ends at, and the levels there."""

    first: int
    last: int
    until: int
    before: float
    after: float
    reached: float  # level at `until`
    excess: float  # height over the chord, as a share of the level


def find_stand(value: Floats, least: float, excess: float, sets_in: float) -> Stand | None:
    """The stretch that stands out most over a chord, of at least `least` of the points; None where none does.

    `excess` bounds the height over the chord, `sets_in` what the loss falls after it to its best, as shares of the
    level. Values are positive and without spikes.
    """
    size = max(_LEAST, len(value) // _BLOCKS)
    means = block_medians(value, size)
    level: list[float] = means.tolist()
    n = len(level)
    error = max(block_noise(means), 1e-12)
    long = max(3, round(least * n))
    lowest = np.minimum.accumulate(means[::-1])[::-1].tolist()  # from a block on
    high, best = 0.0, None
    for first in range(n - long - _AFTER):
        for last in range(first + long, n - _AFTER):
            before, at = level[first], level[last]
            if at - lowest[last + 1] < sets_in * at or before < at - 2 * error:
                continue
            until = np.arange(last + _AFTER, min(n, last + 2 * (last - first) + 1))
            if not len(until):
                continue
            fall, ahead = at - means[until], until - last
            height = fall - (before - at + fall) * ahead / (until - first)
            slower = (before - at) * ahead <= _SLOWER * fall * (last - first)
            height[~slower] = 0.0
            for pick in np.argsort(-height)[:_TRIED].tolist():
                if height[pick] <= max(high, excess * at, 6 * error):
                    break
                if _is_gradual(means, first, last, int(until[pick]), float(height[pick]), error):
                    high, best = float(height[pick]), (first, last, int(until[pick]))
                    break
    if best is None:
        return None
    first, last, stop = best
    end = min(len(value), (stop + 1) * size) - 1
    return Stand(first * size, (last + 1) * size - 1, end, level[first], level[last], level[stop], high / level[last])


def _is_gradual(level: Floats, first: int, last: int, until: int, height: float, error: float) -> bool:
    """Whether the stretch lies on a line (no hump, no bend) and what follows falls all along, not in stairs."""
    stretch, steps = level[first : last + 1], -np.diff(level[last : until + 1])
    line = np.linspace(stretch[0], stretch[-1], len(stretch))
    if float(np.abs(stretch - line).max()) > 0.5 * height + 2 * error:
        return False
    two = float(np.sort(steps)[-2:].sum())  # the edge of a stair is split between two blocks at most
    surely = 1.5 * error / len(steps) ** 0.5
    return two < _AT_ONCE * float(steps.sum()) and float(np.median(steps)) > _STAIRS * float(steps.mean()) + surely
