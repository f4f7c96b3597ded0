"""Columns of texts that hold numbers, steps ("110/438") or dates."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import polars as pl

from trainlens.model import Floats
from trainlens.parsers._columns import Mask, plain

# A name of a thing is no measurement, even where it happens to consist of digits.
_IDENTITY = re.compile(r"(?:^|[^a-z])(?:id|hash|sha|commit|version|name|seed|host|hostname|path|file|uuid|date|key)$")


def numbers(texts: pl.Series) -> pl.Series:
    """Texts as numbers, null where one is none. "NaN" and "Infinity" are numbers, in any case."""
    return texts.str.strip_chars().cast(pl.Float64, strict=False)


def is_identity(name: str) -> bool:
    return _IDENTITY.search(name.lower()) is not None


def column(texts: pl.Series) -> tuple[Floats, Mask]:
    """Texts as a column of numbers, and which cells are some."""
    found = numbers(texts)
    return found.to_numpy(), found.is_not_null().to_numpy()


def steps(texts: pl.Series) -> tuple[Floats, Mask, int | None]:
    """Texts like "110/438", "110" or "110.0" as steps, which cells are some, and the total that the last one names."""
    parts = texts.str.extract_groups(r"^\s*(\d{1,18})(?:\s*/\s*(\d{1,18}))?\s*$")
    found = parts.struct[0].cast(pl.Float64)
    if found.null_count() > texts.null_count():
        found = found.fill_null(numbers(texts))
    totals = parts.struct[1].drop_nulls()
    return found.to_numpy(), found.is_not_null().to_numpy(), int(totals[-1]) if len(totals) else None


def clock(texts: pl.Series) -> Floats:
    """Dates as Unix seconds, NaN where a text is none; a date without a zone is read as UTC."""
    return np.array([_unix(text) for text in texts.to_list()], np.float64)


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
