"""What a chart shows, before anything draws it: lines in their shown unit, the part of y worth seeing, bands, limits.

The HTML page (Bokeh) and the PNG sheet (matplotlib) both draw a `Drawing`, so that they show the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.figures import NBSP, figures, number
from trainlens.model import Floats
from trainlens.reports._marks import START, Band, Mark, above, bands
from trainlens.reports._marks import limits as limits_of

FEW_POINTS = 40
LEAST_SPAN = 0.05  # of the level: a flat curve is drawn flat, its noise is not blown up
HEADROOM = 0.16  # share of the range that is left free above it for numbers and marks
_SMALL = 1e-2
_SMOOTH = ("lr", "loss_scale", "skipped_steps")  # schedules and counters: the spread within a block is their slope


@dataclass(frozen=True)
class Line:
    """One curve in the drawing's unit; NaN where it is broken. Roles: 1 train or median, 2 validation, 3 else."""

    label: str
    role: int
    step: Floats
    value: Floats
    low: Floats
    high: Floats
    non_finite: tuple[int, ...] = ()

    @property
    def has_range(self) -> bool:
        return bool(np.any(self.high > self.low))


@dataclass(frozen=True)
class Drawing:
    title: str
    unit: str
    lines: tuple[Line, ...]
    low: float
    high: float
    first: int
    last: int
    log: bool = False
    at_right: str = ""  # the values in words
    bands: tuple[Band, ...] = ()
    limits: tuple[Mark, ...] = ()
    above: tuple[Mark, ...] = ()  # episodes that leave the drawing at its upper edge
    note: str = ""
    of: str = ""
    metrics: tuple[str, ...] = ()
    other: tuple[float, float] | None = None  # the y range on the other scale; None where that one cannot be

    def below_top(self, share: float) -> float:
        """The value that stands so far below the upper edge, as a share of the height."""
        if self.log:
            return float(self.high * (self.low / self.high) ** share)
        return self.high - share * (self.high - self.low)


@dataclass(frozen=True)
class Shown:
    """The unit a metric is drawn in: `scale` × its own value."""

    scale: float
    unit: str


def shown(unit: str, values: Floats) -> Shown:
    """A unit with readable figures: shares in per cent, bytes in GiB, 4.2e-4 as 4.2 × 10⁻⁴, 554,000 in thousands."""
    size = float(np.nanmax(np.abs(values))) if len(values) and np.isfinite(values).any() else 0.0
    if unit == "share":
        return Shown(100.0, "%")
    if unit == "bytes":
        return Shown(2.0**-30, "GiB")
    if unit == "s" and 0 < size < 0.5:
        return Shown(1e3, "ms")
    if unit == "s":
        return Shown(1.0, "seconds")
    if 0 < size < _SMALL:
        power = math.floor(math.log10(size))
        return Shown(10.0**-power, f"×{NBSP}10{_superscript(power)} {unit}".strip())
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= 10 * limit:
            return Shown(
                1 / limit, f"{letter}{unit}" if unit in ("W", "FLOP/s") else f"{_WORDS[letter]} {unit}".strip()
            )
    return Shown(1.0, unit)


_WORDS = {"k": "thousand", "M": "million", "G": "billion"}


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def bare(value: float | None, unit: str) -> str:
    """A number whose unit stands elsewhere; shares, bytes and seconds keep theirs."""
    return number(value, unit if unit in ("share", "bytes", "s") else "")


# ---- from curves to a drawing ------------------------------------------------------------------------------


def draw(
    run: RunDiagnosis,
    title: str,
    curves: Sequence[tuple[str, Curve]],
    *,
    extent: tuple[int, int] | None = None,
    settles: bool = True,
) -> Drawing:
    """A drawing of labelled curves of one quantity. `extent` are the first and last step of x, else the curves' own.

    `settles`: the first values say little of the rest, so the range is chosen without them.
    """
    about = curves[0][1]
    unit = shown(about.unit, np.concatenate([np.asarray(curve.value, np.float64) for _, curve in curves]))
    lines = tuple(_line(label, role, curve, unit.scale) for role, (label, curve) in enumerate(curves, 1))
    close = bool(about.of)
    limits = limits_of(run, about, unit.scale)
    log = _is_log(about.metric, lines, close)
    low, high = _reach(lines, [mark.at for mark in limits], log, settles and not close)
    steps = [curve.step for _, curve in curves if curve.step]
    first, last = extent or (min(step[0] for step in steps), max(step[-1] for step in steps))
    left_out = sum(curve.left_out for _, curve in curves)
    return Drawing(
        title=title,
        unit=unit.unit if not log else f"{unit.unit} log scale".strip(),
        lines=lines,
        low=low,
        high=high,
        first=first,
        last=max(last, first + 1),
        log=log,
        at_right=_at_right(curves, close),
        bands=bands(run, about, first, last),
        limits=tuple(mark for mark in limits if low < mark.at < high),
        above=() if close else above(lines[0].step, lines[0].high, high, unit.scale, about.unit, first, last),
        note=f"{left_out:,} known slow steps are not drawn" if left_out else "",
        of=about.of,
        metrics=tuple(curve.metric for _, curve in curves),
        other=_other_reach(lines, log, settles and not close),
    )


def describe(drawing: Drawing) -> str:
    """The drawing in words: names, values, steps, findings."""
    unit = f" in {drawing.unit}" if drawing.unit else ""
    parts = [f"{drawing.title}{unit}, steps {drawing.first:,} to {drawing.last:,}"]
    if drawing.at_right:
        parts.append(drawing.at_right)
    for line in drawing.lines:
        some = line.value[np.isfinite(line.value)]
        if len(some):
            ends = f"from {figures(float(some[0]), 4)} to {figures(float(some[-1]), 4)}"
            parts.append(f"{line.label} {ends}, between {_short(line.low)} and {_short(line.high, highest=True)}")
    parts += [f"finding {band.number} at steps {band.first:,} to {band.last:,}" for band in drawing.bands]
    return "; ".join(parts)


def non_finite_steps(drawing: Drawing) -> list[int]:
    """Steps at which a line is NaN or infinite, for a × near the upper edge; close ones are one."""
    kept: list[int] = []
    apart = 0.012 * (drawing.last - drawing.first)
    for step in sorted({step for line in drawing.lines for step in line.non_finite}):
        if not kept or step - kept[-1] >= apart:
            kept.append(step)
    return kept


def _short(values: Floats, *, highest: bool = False) -> str:
    return figures(float(np.nanmax(values) if highest else np.nanmin(values)), 4)


def _line(label: str, role: int, curve: Curve, scale: float) -> Line:
    """The curve with a NaN before each gap, so that whatever draws it breaks it there."""
    where = np.asarray(curve.gaps, np.int64)
    step = np.asarray(curve.step, np.float64)
    step = np.insert(step, where, step[where] if len(where) else [])
    value, low, high = (
        np.insert(np.asarray(part, np.float64) * scale, where, np.nan) for part in (curve.value, curve.low, curve.high)
    )
    if curve.metric in _SMOOTH:
        low = high = value
    return Line(label, min(role, 3), step, value, low, high, curve.non_finite)


def _is_log(metric: str, lines: Sequence[Line], close: bool) -> bool:
    low = min((float(np.nanmin(line.low)) for line in lines if np.isfinite(line.low).any()), default=0.0)
    if low <= 0 or metric == "lr":
        return False
    high = max(float(np.nanmax(line.high)) for line in lines if np.isfinite(line.high).any())
    if metric == "grad_norm":
        return high > 3 * low
    late = [line.high[int(len(line.high) * START) :] for line in lines]
    shown_high = max((float(np.nanpercentile(part, 99)) for part in late if np.isfinite(part).any()), default=high)
    return (high if close else shown_high) > 50 * low


def _other_reach(lines: Sequence[Line], log: bool, settles: bool) -> tuple[float, float] | None:
    """The y range where log and linear are exchanged: a log scale needs values above 0 that are not all alike."""
    lowest = min((float(np.nanmin(line.low)) for line in lines if np.isfinite(line.low).any()), default=0.0)
    return _reach(lines, (), not log, settles) if log or lowest > 0 else None


def _reach(lines: Sequence[Line], limits: Sequence[float], log: bool, settles: bool) -> tuple[float, float]:
    """The y range: 1st to 99th percentile after the first 2 %, and the limits that are near."""
    lows, highs = [], []
    for line in lines:
        skip = math.ceil(len(line.value) * START) if settles and len(line.value) > FEW_POINTS else 0
        low, high = line.low[skip:], line.high[skip:]
        low, high = low[np.isfinite(low)], high[np.isfinite(high)]
        if not len(low):
            continue
        few = len(low) <= FEW_POINTS or not settles
        lows.append(float(low.min() if few else np.percentile(low, 1)))
        highs.append(float(high.max() if few else np.percentile(high, 99)))
    if not lows:
        return 0.0, 1.0
    low_end, high_end = min(lows), max(highs)
    span = high_end - low_end
    for limit in limits:
        if low_end - 1.5 * span <= limit <= high_end + 1.5 * span:
            low_end, high_end = min(low_end, limit), max(high_end, limit)
    return _padded(low_end, high_end, log)


def _padded(low: float, high: float, log: bool) -> tuple[float, float]:
    if log:
        low, high = max(low, high * 1e-12), max(high, low * 1.5)
        span = high / low
        return low / span**0.08, high * span**HEADROOM
    least = LEAST_SPAN * max(abs(low), abs(high)) or 1.0
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    room = 0.08 * (high - low)
    floor = 0.0 if low >= 0 else -math.inf
    return max(low - room, floor), high + HEADROOM * (high - low)


def _at_right(curves: Sequence[tuple[str, Curve]], close: bool) -> str:
    """What stands at the right of the caption: where a falling curve ended, else the median and a departing end."""
    if close:
        peak = max((high for high in curves[0][1].high), default=math.nan)
        return f"largest {bare(peak, curves[0][1].unit)}" if math.isfinite(peak) else ""
    if curves[0][1].metric == "clipped":  # 0 or 1 a step: its median says nothing
        return ""
    told = [(label, _value(curve)) for label, curve in curves[:2] if curve.value]
    if len(told) > 1:
        return ", ".join(f"{label} {value}" for label, value in told)
    return told[0][1] if told else ""


def _value(curve: Curve) -> str:
    value = np.asarray(curve.value, np.float64)
    end, middle = float(np.median(value[-5:])), float(np.median(value))
    if curve.metric.startswith(("train/", "eval/", "bench/")) or curve.metric in ("lr", "loss_scale"):
        return bare(float(value[-1]), curve.unit)
    if abs(end - middle) > 0.03 * abs(middle):
        return f"{bare(middle, curve.unit)}, end {bare(end, curve.unit)}"
    return bare(middle, curve.unit)
