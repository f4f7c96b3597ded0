"""Regular expressions that a user gives for lines no parser knows: checked, compiled once, and held within bounds.

Named groups are the tags: `step (?P<step>\\d+): (?P<loss>\\S+)`. "step", "time" and "rank" say where a row belongs; the
groups "name" and "value" together read as many pairs as a line holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

LONGEST = 1000  # characters of a line that are looked at: a slow pattern stays bearable on hostile text
_FIXED = frozenset(("LITERAL", "NOT_LITERAL", "IN", "ANY", "POSSESSIVE_REPEAT", "ATOMIC_GROUP", "CATEGORY"))
PLACES = frozenset(("step", "time", "rank"))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern ready for use; ValueError, in words, for one that is wrong, says nothing or could run away."""
    try:
        made = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ValueError(f"is no regular expression: {problem}") from None
    names = set(made.groupindex) - PLACES
    if not names:
        raise ValueError("names no group to read, like (?P<loss>[-+.\\deE]+)")
    if ("name" in names) != ("value" in names):
        raise ValueError("needs both (?P<name>…) and (?P<value>…) to read pairs")
    if _runs_away(re._parser.parse(pattern)):  # type: ignore[attr-defined]  # the only view of a pattern's parts
        raise ValueError("repeats what may itself repeat or branch, like (a+)+: it could run for ever on some line")
    return made


def matches(head: bytes, patterns: Iterable[str]) -> bool:
    """Whether a line of a file's head is one that these patterns read."""
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8")
    lines = re.split(r"[\r\n]+", head.decode(encoding, "replace"))
    return any(compiled(pattern).search(line[:LONGEST]) for pattern in patterns for line in lines)


def _runs_away(parts: Any, repeated: bool = False) -> bool:
    """Whether something without bound is repeated without bound and nothing fixed parts one turn from the next."""
    inner = {str(kind) for kind, _ in _flat(parts)} if repeated else set()
    if "BRANCH" in inner or (not inner & _FIXED and inner & {"MAX_REPEAT", "MIN_REPEAT"}):
        return True
    for kind, about in parts:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT") and _runs_away(about[2], repeated=about[1] > 100):
            return True
        if name == "SUBPATTERN" and _runs_away(about[-1]):
            return True
        if name == "BRANCH" and any(_runs_away(branch) for branch in about[1]):
            return True
        if name in ("ASSERT", "ASSERT_NOT") and _runs_away(about[1]):
            return True
    return False


def _flat(parts: Any) -> list[tuple[Any, Any]]:
    """The parts of a pattern, groups opened."""
    found: list[tuple[Any, Any]] = []
    for kind, about in parts:
        found += _flat(about[-1]) if str(kind) == "SUBPATTERN" else [(kind, about)]
    return found
