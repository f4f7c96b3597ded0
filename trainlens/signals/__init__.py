"""Shared arithmetic of the detectors: arrays in, arrays out.

numpy only, no state, nothing is changed in place; every function is O(n) or O(n log n). Inputs are finite unless a
docstring says otherwise: take NaN and infinities out first (`Series.finite`).
"""

from trainlens.signals.confidence import share_beyond, surely, surely_below
from trainlens.signals.rolling import (
    EXACT_POINTS,
    GAUSSIAN,
    Thinned,
    block_means,
    block_medians,
    block_noise,
    episodes,
    interpolate_last,
    mad,
    median,
    rolling_median,
    row_medians,
    thin,
    trailing_median,
    window_medians,
)
from trainlens.signals.short import Part, Peak, lone_peak, parted
from trainlens.signals.trends import (
    FAMILY_ERROR,
    change_point,
    fit_line,
    held_level,
    kendall,
    t_quantile,
    tail_threshold,
    theil_sen,
)

__all__ = [
    "EXACT_POINTS",
    "FAMILY_ERROR",
    "GAUSSIAN",
    "Part",
    "Peak",
    "Thinned",
    "block_means",
    "block_medians",
    "block_noise",
    "change_point",
    "episodes",
    "fit_line",
    "held_level",
    "interpolate_last",
    "kendall",
    "lone_peak",
    "mad",
    "median",
    "parted",
    "rolling_median",
    "row_medians",
    "share_beyond",
    "surely",
    "surely_below",
    "t_quantile",
    "tail_threshold",
    "theil_sen",
    "thin",
    "trailing_median",
    "window_medians",
]
