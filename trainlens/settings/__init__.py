"""Settings: defaults < file < environment < flags; each value knows where it came from.

The file is `trainlens.toml`, or the table `[tool.trainlens]` of `pyproject.toml`, in the working directory; or what
`--config` names. Thresholds of detectors stand in its tables `[detectors.NAME]`, options of reports in its tables
`[reports.NAME]`; in `TRAINLENS_SET` and behind `--set` both are written `name.option=value`. Nothing unknown is passed
over: a name that does not exist is refused, with the nearest one.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trainlens.errors import SettingsError
from trainlens.settings.values import (
    converted,
    nearest,
    patterns_of,
    plain,
    require_meanings,
    require_plugins,
    threshold,
    toml,
)

__all__ = ["DEFAULT", "FAIL_ON", "KNOWN", "Settings", "load", "nearest", "toml"]

PREFIX = "TRAINLENS_"
DEFAULT = "default"
FAIL_ON = ("never", "info", "warning", "error")


def _setting(
    default: Any, meaning: str, *, choices: tuple[str, ...] = (), least: int | None = None, option: str = ""
) -> Any:
    """`option` is the detector's option that the setting is a shorter name of."""
    metadata = {"meaning": meaning, "choices": choices, "least": least, "option": option}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """Every setting with its value. `options` holds the thresholds that depart from the defaults, by detector."""

    select: tuple[str, ...] = _setting((), "detectors to run, by name or pattern; all when empty")
    ignore: tuple[str, ...] = _setting((), "detectors to leave out, by name or pattern")
    fail_on: str = _setting("never", "exit status 1 from this severity on", choices=FAIL_ON)
    output: str = _setting("trainlens-report", "directory that reports are written to")
    formats: tuple[str, ...] = _setting(("terminal", "html", "png"), "reports to make")
    parser: tuple[str, ...] = _setting((), "read every file, or those of a pattern=, with this parser, not by content")
    patterns: tuple[str, ...] = _setting((), "regular expressions of log lines, whose named groups are the metrics")
    map: tuple[str, ...] = _setting((), "what names mean, as raw=canonical, where the catalogue would guess wrongly")
    require: tuple[str, ...] = _setting(
        (), "what runs must hold, e.g. eval/loss <= 2.1", option="target-missed.require"
    )
    baseline: str | None = _setting(None, "the run that others are held against: a log, a directory, golden values")
    accepted: str | None = _setting(None, "file of findings that were looked at and accepted")
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

    def for_gate(self) -> Settings:
        """The same for `check`: errors fail it, and it writes no report, unless one was asked for."""
        gate: dict[str, Any] = {"fail_on": "error", "formats": ("terminal",)}
        return dataclasses.replace(self, **{name: one for name, one in gate.items() if self.origin(name) == DEFAULT})

    def options_for(self, detector: str, options_class: type[Any]) -> Any:
        """The thresholds of one detector: its defaults and what was set."""
        return options_class(**self.options.get(detector, {}))

    def told(self) -> dict[str, object]:
        """All of it in plain values, for the JSON answer."""
        values: dict[str, object] = {name: plain(getattr(self, name)) for name in KNOWN}
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
            options.setdefault(detector, {})[option] = threshold(detector, option, value, origin)
            origins[f"{detector}.{option}"] = origin
    for name in values:
        detector, _, option = KNOWN[name].metadata["option"].partition(".")
        if option:
            options.setdefault(detector, {})[option] = threshold(detector, option, values[name], origins[name])
            origins[f"{detector}.{option}"] = origins[name]
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
        if key in ("detectors", "reports"):
            for detector, chosen in _tables(key, value, path).items():
                thresholds |= {(detector, name.replace("-", "_")): (one, str(path)) for name, one in chosen.items()}
        else:
            if key == "map" and isinstance(value, dict):
                value = [f"{raw}={name}" for raw, name in value.items()]
            given[_known(key, str(path), also=("detectors", "reports"))] = (value, str(path))
    return given, thresholds


def _table(config: str | Path | None, folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The settings file and what it holds; None where there is none."""
    if config is not None:
        path = Path(config)
        content = toml(path)
        return path, content.get("tool", {}).get("trainlens", {}) if path.name == "pyproject.toml" else content
    if (folder / "trainlens.toml").is_file():
        return Path("trainlens.toml"), toml(folder / "trainlens.toml")
    project = folder / "pyproject.toml"
    # Another project's broken pyproject.toml is no business of ours.
    if project.is_file() and b"trainlens" in project.read_bytes():
        return Path("pyproject.toml"), toml(project).get("tool", {}).get("trainlens", {})
    return None, {}


def _tables(key: str, value: Any, path: Path) -> dict[str, dict[str, Any]]:
    if isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()):
        return value
    hint = "Write [detectors.loss-spike] or [reports.png]"
    raise SettingsError(f"{key!r} must hold tables", where=str(path), hint=hint)


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


def _checked(name: str, value: Any, where: str) -> Any:
    field = KNOWN[name]
    if name == "patterns":
        return patterns_of(value, where)
    made = converted(value, field.default if field.default is not None else "", name, where)
    choices, least = field.metadata["choices"], field.metadata["least"]
    if choices and made not in choices:
        raise SettingsError(f"{name} cannot be {made!r}", where=where, hint=nearest(str(made), choices))
    if least is not None and made < least:
        raise SettingsError(f"{name} cannot be {made}", where=where, hint=f"It must be {least} or more")
    seam = {"select": "detectors", "ignore": "detectors", "formats": "reports", "parser": "parsers"}.get(name)
    if seam is not None:
        require_plugins([one.rpartition("=")[2] for one in made] if name == "parser" else made, seam, where)
    if name == "map":
        require_meanings(made, where)
    return made
