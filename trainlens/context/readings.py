"""How the values of a series were taken, where that is not one measurement a row; and what of them can be judged.

Found in the numbers themselves, not by name: values that stand for "not measured", cells filled between rare
measurements, values carried on from row to row, sums since the start, and means since the start. Each detector sees
the measurements behind them. Curves and numbers of the reports stay as logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainlens.context import means
from trainlens.figures import counted
from trainlens.model import Floats, Ints, Role, Series

Mask = NDArray[np.bool_]

# Quantities that cannot be below zero once all else of the series is above it.
_SIZES: tuple[Role, ...] = (
    "loss", "eval-loss", "perplexity", "score", "grad-norm", "learning-rate", "step-time", "throughput", "duration",
    "memory", "power", "temperature", "utilization",
)  # fmt: skip
_RARE: tuple[Role, ...] = ("eval-loss", "perplexity", "score")  # measured at some rows only, as a rule
_CARRIED: tuple[Role, ...] = ("loss", "eval-loss", "perplexity", "score", "grad-norm")
_SUMMED: tuple[Role, ...] = ("loss", "step-time", "duration")
_AVERAGED: tuple[Role, ...] = ("loss", "score", "step-time", "duration")
_UNKNOWN = (-1.0, -100.0, -999.0, -9999.0)
_NINES_AND_TENS = (*(10.0**k for k in range(5, 39)), *(10.0**k - 1 for k in range(4, 16)))
_LARGEST = (3.4028234663852886e38, 1.7976931348623157e308, 2.0**31 - 1, 2.0**63 - 1)


@dataclass(frozen=True, eq=False)
class Reading:
    """The series as it can be judged, and what was done, in words that follow its name."""

    series: Series
    told: str
    steps: Ints  # those of the log that it is about, ascending


def readings(series: Series, starts: Ints) -> Iterator[Reading]:
    """What is special in how a series was taken, one after the other; the last one's series is to be judged.

    `starts` are steps at which a mean or a sum may begin anew: epochs and restarts.
    """
    for ask in (_not_measured, _filled, _carried, _summed):
        if (found := ask(series)) is not None:
            yield found
            series = found.series
    averaged = series.about.role in _AVERAGED and not series.metric.startswith("bench/")
    if averaged and (mean := means.since(series.step, series.raw, starts)) is not None:
        rows = np.flatnonzero(mean.rows)
        told = f"is a mean since {mean.since}: means of {counted(mean.size, 'row')}, taken back from it, are judged"
        yield Reading(_rows(series, rows, mean.value), told, series.step)


# ---- values that are no measurement --------------------------------------------------------------------------------


def _not_measured(series: Series) -> Reading | None:
    """−1 among sizes, and 1e9 or 99999 far above all else: exact, and unlike every other value."""
    if series.about.role not in _SIZES or len(series) < 5:
        return None
    raw = series.raw
    finite = series.finite
    low, high = float(raw[finite].min(initial=np.inf)), float(raw[finite].max(initial=-np.inf))
    for value in (low, high):
        rest = raw[finite & (raw != value)]
        if len(rest) < 3 or not _means_unknown(value, rest):
            continue
        hit = raw == value
        told = f"has {counted(int(hit.sum()), 'value')} of {value:.15g} for “not measured”, left out"
        return Reading(_rows(series, np.flatnonzero(~hit)), told, series.step[hit])
    return None


def _means_unknown(value: float, rest: Floats) -> bool:
    if value in _UNKNOWN:
        return bool(rest.min() > 0)
    if value in _NINES_AND_TENS or value in _LARGEST:
        return bool(value > 1000 * np.abs(rest).max())
    return False


def _filled(series: Series) -> Reading | None:
    """0 or NaN on all rows but every so many: what is measured rarely and written each time."""
    role = series.about.role
    fills = (*((0.0,) if role in (*_RARE, "grad-norm") else ()), *((np.nan,) if role in _RARE else ()))
    for fill in fills:
        blank = np.isnan(series.raw) if np.isnan(fill) else series.raw == 0.0
        measured = np.flatnonzero(~blank)
        if len(measured) < 4 or len(measured) > len(series) / 3:
            continue
        apart = np.diff(measured)
        usual = float(np.median(apart))
        # one on each side more than usual is no fill but a measurement that failed
        edges = max(int(measured[0]), len(series) - 1 - int(measured[-1]))
        values = series.raw[measured]
        low, middle = float(values[np.isfinite(values)].min(initial=np.inf)), float(np.nanmedian(values))
        every = usual >= 3 and np.mean(np.abs(apart - usual) <= max(1.0, 0.05 * usual)) >= 0.8
        if every and edges <= 1.5 * usual and (np.isnan(fill) or low > 0.02 * middle > 0):
            what = "NaN" if np.isnan(fill) else "0"
            told = f"is filled with {what} between {counted(len(measured), 'measurement')}, which are judged"
            return Reading(_rows(series, measured), told, series.step[blank])
    return None


def _carried(series: Series) -> Reading | None:
    """Each value repeated until the next measurement, as tables do that fill cells downwards."""
    if series.about.role not in _CARRIED or len(series) < 20:
        return None
    raw = series.raw
    first = int(np.argmax(~np.isnan(raw)))  # nothing to carry before the first
    new = np.r_[True, (raw[1:] != raw[:-1]) & ~(np.isnan(raw[1:]) & np.isnan(raw[:-1]))]
    new[: first + 1] = False
    new[first] = True
    begins = np.flatnonzero(new)
    lengths = np.diff(np.r_[begins, len(raw)])
    usual = float(np.median(lengths))
    if len(begins) < 5 or usual < 3 or first > 1.5 * usual or len(np.unique(raw[begins])) < 0.9 * len(begins):
        return None
    if np.mean(np.abs(lengths[:-1] - usual) <= max(1.0, 0.05 * usual)) < 0.8:
        return None
    if np.isnan(raw[begins]).any() or (first and series.about.role not in _RARE):
        return None
    keep = new.copy()
    keep[first:] |= np.repeat(lengths > 3 * usual, lengths)  # one that stands far longer may have stopped to move
    rows = np.flatnonzero(keep)
    told = f"is carried on from row to row: its {counted(len(begins), 'measurement')} are judged"
    return Reading(_rows(series, rows), told, series.step[~keep])


# ---- sums ----------------------------------------------------------------------------------------------------------


def _summed(series: Series) -> Reading | None:
    """A sum since the start, or since a reset: it rises at nearly every row, and begins with one row's worth."""
    if series.about.role not in _SUMMED or len(series) < 40 or not series.finite.all():
        return None
    raw = series.raw
    rises = np.diff(raw)
    falls = np.flatnonzero(rises < 0)
    if raw.min() < 0 or len(falls) > 0.02 * len(raw) or np.mean(rises > 0) < 0.95:
        return None
    begins = np.r_[0, falls + 1]
    one = float(np.median(rises))
    grown = float(np.median(raw[np.r_[falls, len(raw) - 1]])) / max(one, 1e-300)
    worth = raw[begins] / np.array([np.median(rises[at : at + 5]) for at in begins.clip(0, len(rises) - 1)])
    alike = np.mean((worth > 0.2) & (worth < 5)) >= 0.7
    # Times are told from others by their steadiness alone: a log may begin late, and a first row holds the start-up.
    steady = series.about.role != "loss" and float(np.quantile(rises, 0.9)) < 3 * one
    if grown < 10 or not (alike or steady):
        return None
    worths = np.r_[rises[0] if steady and not alike else raw[0], rises]
    worths[falls + 1] = raw[falls + 1]
    steps = np.diff(series.step, prepend=2 * series.step[0] - series.step[1]).clip(1)
    each = worths if series.about.role == "loss" else worths / steps
    told = f"is a sum since {'resets' if len(falls) else 'the start'}: its differences are judged"
    return Reading(_rows(series, np.arange(len(raw)), each), told, series.step)


def _rows(series: Series, rows: Ints, raw: Floats | None = None) -> Series:
    """The series of some rows only, with other values for them where given."""

    whole = len(series.attempt) == len(series)
    return replace(
        series,
        step=series.step[rows],
        raw=series.raw[rows] if raw is None else raw,
        time=series.time[rows],
        attempt=series.attempt[rows] if whole else series.attempt,
        source=series.source[rows] if whole else series.source,
        origin=series.origin[rows] if len(series.origin) == len(series) else series.origin,
    )
