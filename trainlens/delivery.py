"""Where answers go: which report to standard output, which into which file, and how both are written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from trainlens.errors import InputError, SettingsError

if TYPE_CHECKING:
    from trainlens.diagnosis import Diagnosis
    from trainlens.reading import Reading
    from trainlens.settings import Settings
    from trainlens.store.export import Format

STDOUT = "-"
_WIDEST = 140
_BY_ENDING = ("html", "png")  # opened by their ending
_NAMED_FILES = 3  # more are told by their index or directory


@dataclass(frozen=True)
class Plan:
    """`shown` is the report for standard output ("" for none); `written` are the reports for files."""

    shown: str
    written: tuple[str, ...]
    file: Path | None = None  # the one file; else a directory
    directory: Path | None = None


def plan(settings: Settings) -> Plan:
    """What goes where, told before anything is read. SettingsError when format and output contradict each other."""
    chosen = settings.origin("formats") != "default"
    output = settings.output
    if output == STDOUT:
        formats = settings.formats if chosen else ("terminal",)
        if len(formats) != 1:
            raise SettingsError("standard output carries one format", where="--output -", hint="Name one --format")
        return Plan(formats[0], ())
    kind = _format_of(output)
    if kind and not Path(output).is_dir():
        chosen = settings.origin("formats").startswith("--")  # the ending says more than a file of settings
        if chosen and len(settings.formats) == 1:
            _require_fit(settings.formats[0], kind, output)
            return Plan("", settings.formats, file=Path(output))
        others = tuple(name for name in settings.formats if name != "terminal") if chosen else (kind,)
        if len(others) != 1:
            hint = "Name a directory for several formats"
            raise SettingsError("one file carries one format", where=f"--output {output}", hint=hint)
        return Plan("terminal", others, file=Path(output))
    shown = "terminal" if "terminal" in settings.formats else ""
    written = tuple(name for name in settings.formats if name != "terminal")
    return Plan(shown, written, directory=Path(output))


def _require_fit(name: str, kind: str, output: str) -> None:
    """A page is not written into what is named a picture; several formats are JSON, and any text may be a .txt."""
    suffix = Path(output).suffix.lower()
    if name != kind and (name in _BY_ENDING or suffix not in (".json", ".txt")):
        what = f"{suffix} is the ending of {kind}, and {name} was asked for"
        raise SettingsError(what, where=f"--output {output}", hint="Change the ending or the --format")


def _format_of(output: str) -> str:
    """The report whose suffix a file's name has; "" for none."""
    from trainlens import plugins

    suffix = Path(output).suffix.lower()
    if not suffix:
        return ""
    return next((name for name, report in plugins.load_all("reports").items() if suffix == report.SUFFIX), "")


def rendered(diagnosis: Diagnosis, name: str, options: Mapping[str, Any] | None = None) -> bytes:
    from trainlens import plugins

    report = plugins.load("reports", name)
    made: bytes = report.render(diagnosis, report.Options(**(options or {})))
    return made


def deliver(diagnosis: Diagnosis, plan: Plan, settings: Settings, *, quiet: bool, verbose: bool) -> None:
    """Write the files, then show what is shown."""
    diagnosis = from_here(diagnosis)
    files = [str(path) for name in plan.written for path in _write(diagnosis, name, plan, settings)]
    if plan.shown == "terminal":
        options = {**terminal_options(settings.width), "quiet": quiet, "verbose": verbose, "reports": tuple(files)}
        show(rendered(diagnosis, plan.shown, options))
    elif plan.shown:
        show(rendered(diagnosis, plan.shown, settings.options.get(plan.shown)))
    elif not quiet:
        sys.stderr.write("".join(f"Wrote {file}\n" for file in files))


def from_here(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with absolute paths below the working directory told relative to it, however it was called.

    A CI server finds a file by its path in the repository, and two answers on one log are to be alike.
    """
    here = Path.cwd()

    def told(path: str) -> str:
        absolute = Path(path)
        inside = absolute.is_absolute() and absolute.is_relative_to(here) and absolute != here
        return absolute.relative_to(here).as_posix() if inside else path

    runs = tuple(replace(run, path=told(run.path)) for run in diagnosis.runs)
    return replace(diagnosis, runs=runs, unread=tuple(replace(one, path=told(one.path)) for one in diagnosis.unread))


def _write(diagnosis: Diagnosis, name: str, plan: Plan, settings: Settings) -> list[Path]:
    """The files of one format: one for all runs, or in a directory one a run and, for several, one of them all."""
    from trainlens import plugins

    options = settings.options.get(name)
    if plan.file is not None or plan.directory is None:
        path = plan.file or Path()
        save(path, rendered(diagnosis, name, options))
        return [path]
    suffix = plugins.load("reports", name).SUFFIX
    if len(diagnosis.runs) == 1:
        pages = [(file_names([diagnosis.runs[0].name])[0], diagnosis)]
    elif name in ("html", "png"):
        names = file_names([run.name for run in diagnosis.runs])
        pages = [("index", diagnosis)] if name == "html" else []
        pages += [(stem, alone(diagnosis, at)) for at, stem in enumerate(names)]
        if (options or {}).get("run"):  # one sheet, of the run that it names
            pages = [(file_names([str((options or {})["run"])])[0], diagnosis)]
    else:
        pages = [("diagnosis", diagnosis)]
    written = [(plan.directory / f"{stem}{suffix}", part) for stem, part in pages]
    for path, part in written:
        save(path, rendered(part, name, options))
    paths = [path for path, _ in written]
    if len(paths) <= _NAMED_FILES:
        return paths
    return paths[:1] if name == "html" else [plan.directory]


def alone(diagnosis: Diagnosis, at: int) -> Diagnosis:
    """The diagnosis of one of its runs."""
    run = diagnosis.runs[at]
    told = [one.severity for one in run.findings if one.part_of is None]
    summary = replace(
        diagnosis.summary,
        error=told.count("error"),
        warning=told.count("warning"),
        info=told.count("info"),
        runs=1,
        points=sum(source.points for source in run.sources),
        accepted=len(run.accepted),
        unmatched=(),
    )
    return replace(diagnosis, runs=(run,), unread=(), summary=summary)


def file_names(names: Sequence[str]) -> list[str]:
    """A file name for each run: nothing that leads elsewhere, no two alike."""
    found: list[str] = []
    for name in names:
        stem = re.sub(r"[^\w.+=-]+", "-", name).strip(".-")[:100] or "run"
        unique, count = stem, 1
        while unique.lower() in {other.lower() for other in found} or unique == "index":
            count += 1
            unique = f"{stem}-{count}"
        found.append(unique)
    return found


def save(path: Path, content: bytes) -> None:
    """The whole file or none of it."""
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the file's place when all went well; what stood there stays when not."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        with part.open("wb") as stream:
            yield stream
        part.replace(path)
    except OSError as problem:
        raise SettingsError(f"cannot be written ({problem.strerror or problem})", where=str(path)) from problem
    finally:
        with suppress(OSError):  # there is none when it took its place, or could not be made
            part.unlink()


@contextmanager
def destination(output: str) -> Iterator[BinaryIO]:
    """A file as `replacing` writes it, or standard output."""
    if output != STDOUT:
        with replacing(Path(output)) as stream:
            yield stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except BrokenPipeError:
        _close_quietly()


def write_baseline(found: Reading, output: str) -> None:
    """The golden values of the one run that was read; InputError where there are several."""
    from trainlens import store

    runs = [run for run in found.runs if run.series]
    if len(runs) != 1:
        names = ", ".join(f"{run.name} ({run.path})" for run in runs[:5]) or "none with metrics"
        raise InputError(f"a baseline is one run, here are {len(runs)}: {names}", hint="Name the path of one run")
    with destination(output) as stream:
        stream.write(store.golden(runs[0]))


def stored(path: str) -> Diagnosis:
    """The diagnosis of a JSON answer on disk or, for "-", on standard input."""
    from trainlens import plugins

    try:
        content = sys.stdin.buffer.read() if path == STDOUT else Path(path).read_bytes()
    except OSError as problem:
        raise InputError(f"cannot be read ({problem.strerror})", where=path) from problem
    try:
        diagnosis: Diagnosis = plugins.load("reports", "json").parse(content)
    except InputError as problem:
        raise InputError(problem.what, where=path, hint=problem.hint) from None
    return diagnosis


def table_format(given: str | None, output: str) -> Format:
    from trainlens.settings import nearest

    endings: dict[str, Format] = {
        ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv", ".jsonl": "jsonl", "-": "csv"
    }  # fmt: skip
    chosen = endings.get(output if output == "-" else Path(output).suffix.lower())
    if given is not None:
        chosen = next((known for known in endings.values() if known == given), None)
    if chosen is None and given is None:
        raise SettingsError("the ending tells no format", where=f"--output {output}", hint="Name one with --format")
    if chosen is None:
        raise SettingsError(
            f"there is no format {given!r}", where="--format", hint=nearest(str(given), set(endings.values()))
        )
    return chosen


# ---- the terminal --------------------------------------------------------------------------------------------------


def show(content: bytes) -> None:
    """To standard output; quietly less when its reader has left (`| head`)."""
    with destination(STDOUT) as stream:
        stream.write(content)


def _close_quietly() -> None:
    """Standard output leads nowhere from here on, or Python would complain when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def terminal_options(width: int) -> dict[str, Any]:
    """What the terminal can do: columns (`width` if not 0), colour, and more than ASCII."""
    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    columns = width or min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)
    return {"width": columns, "color": colored, "unicode": unicode}


def progress(quiet: bool) -> Callable[[str, int, int], None] | None:
    """One line on standard error that overwrites itself; none where nobody watches."""
    if quiet or not sys.stderr.isatty():
        return None

    def tell(name: str, done: int, of: int) -> None:
        shown = "".join(letter for letter in name if letter.isprintable())[:60]
        sys.stderr.write(f"\r\x1b[K{done} of {of} runs: {shown}" if done < of else "\r\x1b[K")
        sys.stderr.flush()

    return tell
