"""Settings: defaults < file < environment < flags; each value knows where it came from.

The file is `trainlens.toml`, or the table `[tool.trainlens]` of `pyproject.toml`, in the working directory; or what
`--config` names. Thresholds of detectors stand in its tables `[detectors.NAME]`, in `TRAINLENS_SET` and behind `--set`
as `detector.option=value`. Nothing unknown is passed over: a name that does not exist is refused, with the nearest one.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trainlens.errors import SettingsError

PREFIX = "TRAINLENS_"
DEFAULT = "default"
FAIL_ON = ("never", "info", "warning", "error")
_YES_NO = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _setting(default: Any, meaning: str, *, choices: tuple[str, ...] = (), least: int | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"meaning": meaning, "choices": choices, "least": least})


@dataclass(frozen=True)
class Settings:
    """Every setting with its value. `options` holds the thresholds that depart from the defaults, by detector."""

    select: tuple[str, ...] = _setting((), "detectors to run, by name or pattern; all when empty")
    ignore: tuple[str, ...] = _setting((), "detectors to leave out, by name or pattern")
    fail_on: str = _setting("never", "exit status 1 from this severity on", choices=FAIL_ON)
    output: str = _setting("trainlens-report", "directory that reports are written to")
    formats: tuple[str, ...] = _setting(("terminal", "html", "png"), "reports to make")
    parser: str | None = _setting(None, "read every file with this parser instead of choosing by content")
    patterns: tuple[str, ...] = _setting((), "regular expressions of log lines, whose named groups are the metrics")
    jobs: int = _setting(1, "processes that share the runs", least=1)
    cache: bool = _setting(True, "keep what was read, in the user's cache directory")
    width: int = _setting(0, "columns of the terminal report; 0 for the terminal's own", least=0)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Where a setting came from: "default", the file's name, "environment", or the flag."""
        return self.origins.get(name, DEFAULT)

    def origin_of(self, detector: str, option: str) -> str:
        return self.origin(f"{detector}.{option}")

    def judges(self, detector: str) -> bool:
        """Whether this detector is to run."""
        chosen = not self.select or any(fnmatchcase(detector, pattern) for pattern in self.select)
        return chosen and not any(fnmatchcase(detector, pattern) for pattern in self.ignore)

    def options_for(self, detector: str, options_class: type[Any]) -> Any:
        """The thresholds of one detector: its defaults and what was set."""
        return options_class(**self.options.get(detector, {}))

    def told(self) -> dict[str, object]:
        """All of it in plain values, for the JSON answer."""
        values: dict[str, object] = {name: _plain(getattr(self, name)) for name in KNOWN}
        values["options"] = {detector: dict(options) for detector, options in sorted(self.options.items())}
        values["origins"] = dict(sorted(self.origins.items()))
        return values


KNOWN = {field.name: field for field in dataclasses.fields(Settings) if "meaning" in field.metadata}


def load(
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    *,
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    folder: str | Path = ".",
) -> Settings:
    """The settings in force. A flag that is None or empty was not given. SettingsError for all that is wrong."""
    values: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for given, thresholds in (
        _from_file(config, Path(folder)),
        _from_environment(os.environ if environ is None else environ),
        _from_flags(flags or {}, sets),
    ):
        for name, (value, origin) in given.items():
            values[name] = _checked(name, value, origin)
            origins[name] = origin
        for (detector, option), (value, origin) in thresholds.items():
            options.setdefault(detector, {})[option] = _threshold(detector, option, value, origin)
            origins[f"{detector}.{option}"] = origin
    return Settings(**values, options=options, origins=origins)


# ---- the three layers ----------------------------------------------------------------------------------------------

_Given = dict[str, tuple[Any, str]]  # setting -> value and origin
_Thresholds = dict[tuple[str, str], tuple[Any, str]]  # (detector, option) -> value and origin
_Layer = tuple[_Given, _Thresholds]


def _from_file(config: str | Path | None, folder: Path) -> _Layer:
    path, table = _table(config, folder)
    if path is None:
        return {}, {}
    given: _Given = {}
    thresholds: _Thresholds = {}
    for key, value in table.items():
        if key == "detectors":
            for detector, chosen in _tables(value, path).items():
                thresholds |= {(detector, name.replace("-", "_")): (one, str(path)) for name, one in chosen.items()}
        else:
            given[_known(key, str(path), also=("detectors",))] = (value, str(path))
    return given, thresholds


def _table(config: str | Path | None, folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The settings file and what it holds; None where there is none."""
    if config is not None:
        path = Path(config)
        content = _toml(path)
        return path, content.get("tool", {}).get("trainlens", {}) if path.name == "pyproject.toml" else content
    if (folder / "trainlens.toml").is_file():
        return Path("trainlens.toml"), _toml(folder / "trainlens.toml")
    project = folder / "pyproject.toml"
    # Another project's broken pyproject.toml is no business of ours.
    if project.is_file() and b"trainlens" in project.read_bytes():
        return Path("pyproject.toml"), _toml(project).get("tool", {}).get("trainlens", {})
    return None, {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise SettingsError(f"cannot be read ({problem.strerror})", where=str(path)) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"is not valid TOML ({problem})", where=str(path)) from problem


def _tables(value: Any, path: Path) -> dict[str, dict[str, Any]]:
    if isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()):
        return value
    raise SettingsError("'detectors' must hold tables", where=str(path), hint="Write [detectors.loss-spike]")


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    given: _Given = {}
    sets: list[str] = []
    for variable in sorted(environ):
        if variable == f"{PREFIX}SET":
            sets = [one for one in environ[variable].split(",") if one.strip()]
        elif variable.startswith(PREFIX):
            name = _known(variable.removeprefix(PREFIX).lower(), variable, also=("set",))
            given[name] = (environ[variable], f"environment {variable}")
    return given, _pairs(sets, f"environment {PREFIX}SET")


def _from_flags(flags: Mapping[str, Any], sets: Sequence[str]) -> _Layer:
    given = {
        _known(name, name): (value, "--pattern" if name == "patterns" else f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None and value != []
    }
    return given, _pairs(sets, "--set")


def _pairs(sets: Iterable[str], origin: str) -> _Thresholds:
    found: _Thresholds = {}
    for text in sets:
        name, equals, value = text.strip().partition("=")
        detector, dot, option = name.strip().rpartition(".")
        if not (equals and dot and detector and option):
            hint = "Write detector.option=value, e.g. loss-spike.rule=robust"
            raise SettingsError(f"cannot make sense of {text!r}", where=origin, hint=hint)
        found[detector, option.replace("-", "_")] = (value.strip(), origin)
    return found


# ---- names and values ----------------------------------------------------------------------------------------------


def _known(key: str, where: str, also: tuple[str, ...] = ()) -> str:
    name = key.replace("-", "_")
    if name not in KNOWN:
        raise SettingsError(f"there is no setting {key!r}", where=where, hint=nearest(name, (*KNOWN, *also)))
    return name


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint: the nearest valid name, or all of them when none is near."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid: {', '.join(names)}" if names else "There are none"


def _checked(name: str, value: Any, where: str) -> Any:
    field = KNOWN[name]
    if name == "patterns":
        return _patterns(value, where)
    made = converted(value, field.default if field.default is not None else "", name, where)
    choices, least = field.metadata["choices"], field.metadata["least"]
    if choices and made not in choices:
        raise SettingsError(f"{name} cannot be {made!r}", where=where, hint=nearest(str(made), choices))
    if least is not None and made < least:
        raise SettingsError(f"{name} cannot be {made}", where=where, hint=f"It must be {least} or more")
    seam = {"select": "detectors", "ignore": "detectors", "formats": "reports", "parser": "parsers"}.get(name)
    if seam is not None:
        _require_plugins((made,) if isinstance(made, str) else made, seam, where)
    return made


def _patterns(value: Any, where: str) -> tuple[str, ...]:
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


def _require_plugins(patterns: Iterable[str], seam: Any, where: str) -> None:
    from trainlens import plugins

    names = plugins.names(seam)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SettingsError(f"there is no {seam[:-1]} {pattern!r}", where=where, hint=nearest(pattern, names))


def _threshold(detector: str, option: str, value: Any, where: str) -> Any:
    """The value of one threshold in its own type; only the detectors that are named are loaded."""
    from trainlens import plugins

    _require_plugins([detector], "detectors", where)
    found = {one.name: one for one in plugins.thresholds(plugins.load("detectors", detector).Options)}
    if option not in found:
        what = f"{detector} has no option {option!r}"
        raise SettingsError(what, where=where, hint=nearest(option, found))
    made = converted(value, found[option].default, f"{detector}.{option}", where)
    if found[option].choices and made not in found[option].choices:
        what = f"{detector}.{option} cannot be {made!r}"
        raise SettingsError(what, where=where, hint=nearest(str(made), found[option].choices))
    return made


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


def _plain(value: Any) -> object:
    return list(value) if isinstance(value, tuple) else value
