"""Values as texts and TOML give them → the types that settings and thresholds have; SettingsError where they cannot be.

Part of `settings`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trainlens.errors import SettingsError

_YES_NO = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def converted(value: Any, like: Any, name: str, where: str) -> Any:
    """The value in the type of `like`, whether it came as text or from TOML; SettingsError when it cannot be."""
    kind: type[Any] = float if like is None else type(like)
    text = value.strip() if isinstance(value, str) else None
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _YES_NO[str(text).lower()]
        if isinstance(value, bool):
            raise ValueError
        if kind is tuple:
            parts = value.split(",") if isinstance(value, str) else list(value)
            return tuple(_entry(part, like) for part in parts if str(part).strip())
        if kind is str and text is None:
            raise ValueError
        if kind is int and isinstance(value, float) and value != int(value):
            raise ValueError
        made = kind(text if text is not None else value)
        if made != made:  # NaN compares with nothing: a threshold of it would switch a detector off unsaid
            raise ValueError
        return made
    except (ValueError, TypeError, KeyError, OverflowError):
        words = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list", str: "text"}
        raise SettingsError(f"{name} cannot be {value!r}", where=where, hint=f"It must be {words[kind]}") from None


def _entry(part: Any, like: tuple[Any, ...]) -> Any:
    kind = type(like[0]) if like else str
    if not isinstance(part, str | int | float) or isinstance(part, bool):
        raise ValueError
    return kind(part.strip() if isinstance(part, str) else part)


def plain(value: Any) -> object:
    return list(value) if isinstance(value, tuple) else value


def toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise SettingsError(f"cannot be read ({problem.strerror})", where=str(path)) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"is not valid TOML ({problem})", where=str(path)) from problem


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint: the nearest valid name, or all of them when none is near."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid: {', '.join(names)}" if names else "There are none"


def require_plugins(patterns: Iterable[str], seam: Any, where: str) -> None:
    from trainlens import plugins

    names = plugins.names(seam)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SettingsError(f"there is no {seam[:-1]} {pattern!r}", where=where, hint=nearest(pattern, names))


def require_meanings(entries: Iterable[str], where: str) -> None:
    from trainlens.catalog import mapping

    for entry in entries:
        try:
            mapping.meaning(entry)
        except ValueError as problem:
            what, *valid = map(str, problem.args)
            hint = nearest(entry.rpartition("=")[2].partition(":")[0], valid) if valid else "Write raw=canonical"
            raise SettingsError(f"{entry!r}: {what}", where=where, hint=hint) from None


def threshold(detector: str, option: str, value: Any, where: str) -> Any:
    """The value of one threshold in its own type, or of a report's option; only the plug-ins named are loaded."""
    from trainlens import plugins

    seam: plugins.Seam = "reports" if detector in plugins.names("reports") else "detectors"
    require_plugins([detector], seam, where)
    found = {one.name: one for one in plugins.thresholds(plugins.load(seam, detector).Options) if one.meaning}
    if option not in found:
        what = f"{detector} has no option {option!r}"
        raise SettingsError(what, where=where, hint=nearest(option, found))
    made = converted(value, found[option].default, f"{detector}.{option}", where)
    if found[option].choices and made not in found[option].choices:
        what = f"{detector}.{option} cannot be {made!r}"
        raise SettingsError(what, where=where, hint=nearest(str(made), found[option].choices))
    try:
        plugins.load(seam, detector).Options(**{option: made})
    except ValueError as problem:
        hint = f"`trainlens explain {detector}` tells how it is written"
        raise SettingsError(str(problem), where=where, hint=hint) from None
    return made


def patterns_of(value: Any, where: str) -> tuple[str, ...]:
    """Regular expressions as they are, commas and blanks included: a list, or lines of a text."""
    from trainlens.sources.patterns import compiled

    given = value.splitlines() if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise SettingsError(f"patterns cannot be {value!r}", where=where, hint="It must be a list of texts")
    for pattern in given:
        try:
            compiled(pattern)
        except ValueError as problem:
            hint = "E.g. 'step (?P<step>[0-9]+): (?P<loss>[-+.0-9eE]+)'"
            raise SettingsError(f"the pattern {pattern!r} {problem}", where=where, hint=hint) from None
    return tuple(given)
