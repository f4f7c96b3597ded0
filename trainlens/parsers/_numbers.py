"""Numbers as logs print them: thousands separators, K/M/G, units and percentages glued on, quotes, tensor(…)."""

from __future__ import annotations

import re

# A number, then perhaps a unit or a power of thousand. What may follow it is up to the caller.
NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?:nan|NaN|NAN|inf|Inf|INF|[Ii]nfinity)(?=m?s\b|%|\b)"
)

# A count of steps: 12000, 12,000, 12k
COUNT = r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?[kKM]\b|\d+"

THOUSANDS = {"K": "e3", "k": "e3", "M": "e6", "G": "e9", "T": "e12"}
_DURATIONS = ("s", "m", "h", "d")  # "6s" goes on as "1m 6s": no number to compare
_PLAIN = re.compile(rf"\s*(?:tensor|np\.float\d+|np\.int\d+|array)?\(?\s*({NUMBER})([A-Za-z%/]*)")
_CLOSED = re.compile(r"\s*(?:[),\]].*)?\Z", re.DOTALL)


def scaled(number: str, unit: str = "") -> float:
    """The number with its power of thousand: ("9.84", "K") → 9840.0. Other units change nothing."""
    if "," in number:
        number = number.replace(",", "")
    power = THOUSANDS.get(unit)
    if power and "e" not in number and "E" not in number and number[-1].isdigit():
        return float(number + power)
    return float(number)


def counted(text: str) -> int:
    """The number of steps that is written so: 12000, "12,000", "12k"."""
    if text.isdigit():
        return int(text)
    return round(scaled(text[:-1], text[-1]) if text[-1].isalpha() else scaled(text))


def loose(text: str) -> float | None:
    """The number that a value of a dictionary is: 1.5, '1.5', tensor(1.5, device='cuda:0'), 25.1%; None for others."""
    text = text.strip().strip("'\"")
    try:
        return float(text)
    except ValueError:
        pass
    found = _PLAIN.match(text)
    if found is None or found[2] in _DURATIONS or not _CLOSED.match(text, found.end()):
        return None
    return scaled(found[1], found[2])
