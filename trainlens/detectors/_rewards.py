"""Rewards beside the other signals of reinforcement learning: levels, and whether the reward gained meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import block_medians, block_noise, mad, rolling_median

LEAST = 40  # points


@dataclass(frozen=True, eq=False)
class Levels:
    """The finite points of a series and their running median over about a twentieth of them."""

    series: Series
    step: Ints
    value: Floats
    level: Floats

    def __len__(self) -> int:
        return len(self.value)

    @property
    def start(self) -> float:
        """Median of the first twentieth, without its first points' extremes."""
        return float(np.median(self.value[: max(5, len(self.value) // 20)]))

    @property
    def end(self) -> float:
        return float(np.median(self.value[-max(5, len(self.value) // 20) :]))


def levels(series: Series) -> Levels:
    finite = series.finite
    value = series.value[finite]
    return Levels(series, series.step[finite], value, rolling_median(value, max(2, len(value) // 40)))


def reward(run: Run) -> Series | None:
    """The reward, by its own name first; else the first series that is one."""
    found = run.with_role("reward")
    return run.get("reward") or (found[0] if found else None)


def level_error(curve: Levels, width: int) -> float:
    """Standard error of a median of `width` points: from the scatter, its correlation, and from block to block."""
    rest = curve.value - curve.level
    spread = mad(rest)
    if spread <= 0:
        return 0.0
    memory = float(np.clip(1 - mad(np.diff(rest)) ** 2 / (2 * spread**2), 0.0, 0.95))
    blocks = block_medians(curve.value, width)
    among = block_noise(blocks) if len(blocks) > 3 else 0.0
    return max(1.25 * spread * float(np.sqrt((1 + memory) / (1 - memory) / width)), among)


@dataclass(frozen=True, slots=True)
class Gain:
    """The reward between two steps: its levels there; `rose` or `fell` by a share of its range, or surely `stands`."""

    metric: str
    before: float
    after: float
    rose: bool
    stands: bool
    fell: bool


def gain(run: Run, first: int, last: int, share: float) -> Gain | None:
    """The reward's gain from `first` to `last`; None where too few rewards are logged to tell."""
    series = reward(run)
    if series is None or int(series.finite.sum()) < LEAST:
        return None
    curve = levels(series)
    width = max(5, len(curve) // 10)
    begin = int(np.clip(np.searchsorted(curve.step, first), 1, len(curve) - 1))
    end = int(np.clip(np.searchsorted(curve.step, last, side="right"), begin + 1, len(curve)))
    before = float(np.median(curve.value[max(0, begin - width // 2) : begin + 1]))
    after = float(np.median(curve.value[max(begin, end - width) : end]))
    spread = float(np.ptp(curve.level[min(width // 2, len(curve) // 4) :]))
    rise, doubt = after - before, 2**0.5 * level_error(curve, width)
    rose = rise > share * spread
    stands = not rose and rise + 2 * doubt <= 2 * share * spread
    return Gain(series.metric, before, after, rose, stands, -rise > max(share * spread, 2 * doubt))
