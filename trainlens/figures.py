"""How numbers, durations, dates and steps read, everywhere: three to four figures and always the unit.

A no-break space stands between a number and its unit.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from trainlens.diagnosis import Number

NBSP = "\u00a0"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def number(value: Number, unit: str = "") -> str:
    """Three to four figures and the unit: 48,000 · 554 k · 2.64 M · 6 % · 4.2e-4 · 31.5 GiB · 7.53 s; "–" for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return figures(value, 1)
    if unit == "share":
        return f"{figures(value * 100, 3)}{NBSP}%"
    if unit == "s":
        return seconds(value)
    if unit in ("bytes", "B"):
        return _bytes(value)
    return figures(value, 4) + (f"{NBSP}{unit}" if unit and unit != "1" else "")


def figures(value: float, figures: int) -> str:
    size = abs(value)
    if not math.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    if size >= 1e15 or (0 < size < 1e-3):
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return _trim(mantissa) + f"e{int(exponent)}"
    if size >= 99_950:
        for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size >= limit * 0.9995:
                return f"{_trim(_rounded(value / limit, 3))}{NBSP}{letter}"
    return _trim(_rounded(value, figures))


def _rounded(value: float, figures: int) -> str:
    """At least `figures` significant figures, never an exponent, thousands apart."""
    places = 0 if value == 0 else max(0, figures - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bytes(value: float) -> str:
    for limit, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(value) >= limit:
            return f"{figures(value / limit, 3)}{NBSP}{unit}"
    return f"{figures(value, 4)}{NBSP}B"


def seconds(value: float) -> str:
    """A duration in the unit that suits it: 37 ms · 7.53 s · 46 min · 97.7 h."""
    size = abs(value)
    if size >= 3 * 3600:
        return f"{figures(value / 3600, 3)}{NBSP}h"
    if size >= 120:
        return f"{value / 60:,.0f}{NBSP}min"
    if size >= 1 or size == 0:
        return f"{figures(value, 3)}{NBSP}s"
    return f"{figures(value * 1000, 3)}{NBSP}ms"


def moment(unix: float) -> str:
    """ "22 Apr, 00:35 UTC" of Unix seconds; "" when that is no date."""
    try:
        at = datetime.fromtimestamp(unix, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{at.day} {_MONTHS[at.month - 1]}, {at:%H:%M} UTC"


def steps(first: int | None, last: int | None) -> str:
    """ "steps 31,216–31,249", "step 18,180", "" where the log tells no step."""
    if first is None:
        return ""
    return f"step {first:,}" if last is None or last == first else f"steps {first:,}–{last:,}"


def counted(count: int, noun: str) -> str:
    """ "1 file", "3 files"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_ONE_OF_MANY = re.compile(r"(?<![\w.,–-])1 (points|steps|rows|evaluations|ranks|values|experts|updates|checkpoints)\b")


def agreed(text: str) -> str:
    """A sentence whose numbers came from data, with "1 point" where it says "1 points"."""
    return _ONE_OF_MANY.sub(lambda found: f"1 {found[1][:-1]}", text)
