"""Columns of texts that hold numbers, with or without units, steps ("110/438"), durations or dates."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from trainlens.later import Later
from trainlens.model import Floats
from trainlens.parsers._columns import Mask, plain

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

# A name of a thing is no measurement, even where it happens to consist of digits.
_IDENTITY = re.compile(r"(?:^|[^a-z])(?:id|hash|sha|commit|version|name|seed|host|hostname|path|file|uuid|date|key)$")
_MARKS = "[ _'\u00a0\u202f]"  # between thousands; a comma may be a decimal one
_WHOLE = r"\d{1,18}|\d{1,3}(?:[, _'\u00a0\u202f]\d{3}){1,5}"
_STEPS = rf"^\s*({_WHOLE})(?:\s*/\s*({_WHOLE}))?\s*%?\s*$"
_GROUPED = (
    rf"^[-+]?\d{{1,3}}(?:{_MARKS}\d{{3}})+(?:\.\d+)?$"
    r"|^[-+]?\d{1,3}(?:,\d{3})+\.\d+$|^[-+]?\d{1,3}(?:,\d{3}){2,}$"
)
_MEASURED = r"^([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([%°µA-Za-z][A-Za-z/]{0,12})$"
_CLOCK = r"^(?:(\d{1,6})\s*d(?:ays?)?,?\s+)?(\d{1,5}):([0-5]?\d):([0-5]?\d(?:[.,]\d{1,9})?)$"
_WORDED = (
    r"^(?:(\d{1,6})\s?d(?:ays?)?)?[\s,]*(?:(\d{1,5})\s?h(?:ours?|rs?)?)?[\s,]*"
    r"(?:(\d{1,5})\s?m(?:in(?:ute)?s?)?)?[\s,]*(?:(\d{1,9}(?:\.\d{1,9})?)\s?s(?:ec(?:ond)?s?)?)?$"
)
# Units by kind, each with its size in the first of its kind. A bare "B" is bytes or billions, "m" minutes or metres.
_KINDS: tuple[dict[str, float], ...] = (
    {"bytes": 1.0} | {f"{power}{end}": 1024.0 ** (at + 1) for at, power in enumerate("KMGT") for end in ("B", "iB")}
    | {"kB": 1024.0},
    {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0,
     "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "hrs": 3600.0},
    {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12},
    *({unit: 1.0} for unit in ("%", "°C", "C", "MHz", "x")),
    {"it/s": 1.0}, {"s/it": 1.0}, {"steps/s": 1.0}, {"samples/s": 1.0}, {"TFLOPS": 1.0, "TFLOP/s": 1.0, "TFLOPs": 1.0},
    dict.fromkeys(("tokens/s", "tok/s", "toks/s", "tokens/sec", "t/s"), 1.0), {"examples/s": 1.0},
)  # fmt: skip
_KIND = {unit: (at, size) for at, kind in enumerate(_KINDS) for unit, size in kind.items()}


def numbers(texts: pl.Series) -> pl.Series:
    """Texts as numbers, null where one is none. "NaN" and "Infinity" are numbers, in any case."""
    return texts.str.strip_chars().cast(pl.Float64, strict=False)


def is_identity(name: str) -> bool:
    return _IDENTITY.search(name.lower()) is not None


def column(texts: pl.Series, unit: str | None = None) -> tuple[Floats, Mask, str | None]:
    """Texts as a column of numbers, which cells are some, and the unit of all: `unit`, else that of the first cell.

    Cells in another unit of the kind are converted to it ("950 MiB" beside "1.2 GiB"), those of another kind are no
    numbers. Durations ("0:15:19", "11m 43s") are seconds.
    """
    texts = texts.str.strip_chars()
    found = texts.cast(pl.Float64, strict=False)
    left = found.is_null() & texts.str.contains(r"^[-+.]?\d")
    if left.any():
        places = left.fill_null(value=False)
        value, told = _measured(texts.filter(places), unit)
        unit = told if told is not None else unit
        cells, known = found.to_numpy().copy(), found.is_not_null().to_numpy().copy()
        at = np.flatnonzero(places.to_numpy())
        cells[at], known[at] = value, np.isfinite(value)
        return cells, known, unit
    return found.to_numpy(), found.is_not_null().to_numpy(), unit


def _measured(texts: pl.Series, unit: str | None) -> tuple[Floats, str | None]:
    """Texts that begin with a digit as numbers, NaN where one is none, and the unit of all of them."""
    parts = texts.str.extract_groups(_MEASURED)
    amount, units = parts.struct[0].cast(pl.Float64), parts.struct[1]
    value = np.full(len(texts), np.nan)
    grouped = texts.str.contains(_GROUPED)
    if grouped.any():
        value[grouped.to_numpy()] = texts.filter(grouped).str.replace_all(r"[^\d.+-]", "").cast(pl.Float64).to_numpy()
    seconds = _seconds(texts, alone=unit == "s")
    timed = seconds.is_not_null()
    known = [one for one in units.drop_nulls().unique(maintain_order=True).to_list() if one in _KIND]
    if unit is None:
        first = units.set(timed, "s")
        unit = next((one for one in first.drop_nulls().to_list() if one in _KIND), None)
        unit = "" if unit in _KINDS[3] else unit
    if unit is None:
        return value, None
    kind, size = _KIND[unit]
    for other in known:
        if _KIND[other][0] == kind:
            rows = (units == other).fill_null(value=False)
            value[rows.to_numpy()] = amount.filter(rows).to_numpy() * (_KIND[other][1] / size)
    if kind == _KIND["s"][0] and timed.any():
        value[timed.to_numpy()] = seconds.drop_nulls().to_numpy() / size
    return value, unit


def _seconds(texts: pl.Series, *, alone: bool) -> pl.Series:
    """Durations in seconds, null for other texts. `alone`: "11m" is one, too."""
    weights = (86400.0, 3600.0, 60.0, 1.0)
    found = pl.Series([None] * len(texts), dtype=pl.Float64)
    for pattern, least in ((_CLOCK, 1), (_WORDED, 1 if alone else 2)):
        parts = texts.str.extract_groups(pattern)
        cells = [parts.struct[at].str.replace(",", ".").cast(pl.Float64) for at in range(4)]
        named = sum((cell.is_not_null().cast(pl.Int8) for cell in cells[1:]), cells[0].is_not_null().cast(pl.Int8))
        total = sum(
            (cell.fill_null(0.0) * weight for cell, weight in zip(cells[1:], weights[1:], strict=True)),
            cells[0].fill_null(0.0) * weights[0],
        )
        found = found.fill_null(total.set(named < least, None))
    return found


def steps(texts: pl.Series) -> tuple[Floats, Mask, int | None]:
    """Texts like "110/438", "1,000", "12%" or "110.0" as steps, which cells are some, and the total the last names."""
    parts = texts.str.extract_groups(_STEPS)
    found, totals = (parts.struct[at].str.replace_all(r"\D", "") for at in (0, 1))
    count = found.cast(pl.Float64)
    if count.null_count() > texts.null_count():
        count = count.fill_null(numbers(texts))
    totals = totals.drop_nulls()
    return count.to_numpy(), count.is_not_null().to_numpy(), int(totals[-1]) if len(totals) else None


def clock(texts: pl.Series) -> Floats:
    """Dates as Unix seconds, NaN where a text is none; a date without a zone is read as UTC."""
    parts = texts.str.extract_groups(r"^\s*(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?Z?\s*$")
    moment = (parts.struct[0] + " " + parts.struct[1]).str.to_datetime(
        "%Y-%m-%d %H:%M:%S", strict=False, time_unit="us"
    )
    fraction = ("0." + parts.struct[2]).cast(pl.Float64).fill_null(0.0)
    seconds: Floats = (moment.dt.epoch("us").cast(pl.Float64) / 1e6 + fraction).fill_null(np.nan).to_numpy().copy()
    for at in np.flatnonzero(np.isnan(seconds) & texts.is_not_null().to_numpy()).tolist():
        seconds[at] = _unix(texts[at])
    return seconds


def _unix(text: str | None) -> float:
    if not text:
        return np.nan
    try:
        moment = datetime.fromisoformat(text.strip().replace(",", "."))
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return np.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def plain_total(name: str) -> str:
    """The name of the total in a key like "global_step/max_steps"."""
    last = name.rpartition("/")[2]
    return last if "max" in plain(last) or "total" in plain(last) else "total_steps"
