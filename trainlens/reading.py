"""From paths to runs: find the files, choose a parser for each, build the runs, and say what could not be read."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from trainlens import plugins, store
from trainlens.catalog import mapping
from trainlens.errors import InputError, SettingsError
from trainlens.model import Batch, Note, Run, SourceReport
from trainlens.settings import Settings, nearest
from trainlens.sources import HEAD, RunFiles, Source, binary, find, foreign, group, inner_last, real_path, shown
from trainlens.sources.patterns import matches
from trainlens.store import answers

_PATTERNED = "key-value-text"  # the parser that reads by the user's patterns

# An exported table as CSV or JSON lines, or an answer as JSON: no log, wherever it was put.
_OURS = re.compile(
    rb'run,metric,tag,rank,step,time,value,source,attempt\r?\n|\{"run":"[^"\n]*","metric":"[^"\n]*","tag":"'
    rb'|\{\s*"schema_version":\s*\d+,\s*"trainlens":'
)


@dataclass(frozen=True)
class Reading:
    """What was read, before anything is judged."""

    runs: tuple[Run, ...]
    unread: tuple[SourceReport, ...]
    samples: Mapping[tuple[str, str, int], str] = field(default_factory=dict)  # path of the run, file, line → its text


def read(paths: Sequence[str | Path], settings: Settings, *, samples: bool = False) -> Reading:
    """All runs under these paths, unjudged; InputError when nothing can be read.

    `samples`: also the text of the lines that the notes point to.
    """
    jobs, unread = work(paths, settings)
    runs: list[Run] = []
    lines: dict[tuple[str, str, int], str] = {}
    for files in jobs:
        found, problems = read_run(files, settings)
        runs += found
        unread += problems
        if samples:
            lines |= _samples(files, found)
    refuse_nothing(paths, bool(runs), unread)
    refuse_unmatched(settings, {series.tag for run in runs for series in run.series})
    return Reading(tuple(runs), tuple(unread), lines)


def baseline(settings: Settings) -> Run | None:
    """The run that others are held against; InputError where the path holds none, or several."""
    if settings.baseline is None:
        return None
    plain = replace(settings, origins={})  # names of `--map` hold for it as well, but it need not log them all
    found = [run for run in read([settings.baseline], plain).runs if run.series]
    if len(found) != 1:
        names = ", ".join(run.name for run in found[:5])
        what = f"holds {len(found)} runs ({names}), a baseline is one" if found else "holds no metrics"
        raise InputError(what, where=settings.baseline, hint="Name the file or directory of one run")
    return replace(found[0], events=(), facts=())


def _samples(files: RunFiles, runs: Sequence[Run]) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    sources = {file.source.name: file.source for file in files.files}
    for report in {report.path: report for run in runs for report in run.sources}.values():
        wanted = sorted({note.line for note in report.notes if note.line is not None})
        if report.path in sources:
            found |= {(files.path, report.path, line): text for line, text in _lines(sources[report.path], wanted)}
    return found


def _lines(source: Source, wanted: Sequence[int], size: int = 200) -> Iterator[tuple[int, str]]:
    """Lines by their numbers, from 1 and rising, of each at most `size` characters."""
    if not wanted:
        return
    left = list(wanted)
    encoding = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}.get(source.head(2), "utf-8-sig")
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    number, begun = 1, ""
    for block in source.blocks():
        first, *others = decoder.decode(block).split("\n")
        begun = (begun + first)[:size]
        for following in others:
            if left[0] == number:
                yield left.pop(0), begun.rstrip("\r")
            if not left:
                return
            number, begun = number + 1, following[:size]
    if left[0] == number and begun:
        yield number, begun


def spare(paths: Sequence[str | Path], output: Path | None, settings: Settings) -> None:
    """SettingsError where the output would take the place of one of the logs."""
    if output is None or not output.is_file():
        return
    for path in paths:
        found = find(path)
        whole = [Source.of(found.root)] if found.root.is_file() else []  # an archive is lost with all that is in it
        for source in [*found.sources, *whole]:
            known = replace(source, patterns=settings.patterns)
            same = source.held is None and source.path.exists() and source.path.samefile(output)
            if same and (source in whole or choose(known, settings)[0]):
                hint = "Name another file"
                raise SettingsError("is one of the logs and would be lost", where=f"--output {output}", hint=hint)


def work(paths: Sequence[str | Path], settings: Settings) -> tuple[list[RunFiles], list[SourceReport]]:
    found_runs: list[RunFiles] = []
    unread: list[SourceReport] = []
    taken: set[Path] = set()  # a file is read once, also where its directory is named beside it
    for path in inner_last(paths):
        found = find(path)
        unread += found.unread
        read: list[tuple[Source, str]] = []
        reasons: dict[Path, str] = {}
        fresh = list(found.sources)
        if len(paths) > 1:
            fresh = [source for source in fresh if real_path(source.path) not in taken]
            taken |= {real_path(source.path) for source in fresh}
        for source in (replace(source, patterns=settings.patterns) for source in fresh):
            name, report = choose(source, settings)
            if name:
                read.append((source, name))
                reasons[source.path] = report.reason
            else:
                unread.append(report)
        for run in group(read, found.root):
            files = tuple(replace(file, reason=reasons[file.source.path]) for file in run.files)
            found_runs.append(replace(run, files=files))
    return found_runs, unread


def choose(source: Source, settings: Settings | None = None) -> tuple[str | None, SourceReport]:
    """The parser of a source: the one that is surest of its head. None and the reason when there is none.

    `settings.parser`: the last one that fits holds, for all files ("csv") or for those of a pattern ("*.out=megatron").
    """
    settings = settings or Settings()
    try:
        head = source.head(HEAD)
    except (OSError, InputError) as problem:
        reason = problem.what if isinstance(problem, InputError) else f"cannot be opened: {problem.strerror or problem}"
        return None, SourceReport(source.name, "", bytes=source.size, state="not-read", reason=reason)
    for entry in reversed(settings.parser):
        pattern, _, name = entry.rpartition("=")
        if not pattern or fnmatchcase(source.name, pattern) or fnmatchcase(source.path.name, pattern):
            plugins.load("parsers", name)
            return name, SourceReport(source.name, name, bytes=source.size, reason="as the settings say")
    if _OURS.match(head):
        reason = "written by trainlens itself"
        return None, SourceReport(source.name, "", bytes=source.size, state="ignored", reason=reason)
    if matches(head, source.patterns):
        return _PATTERNED, SourceReport(
            source.name, _PATTERNED, bytes=source.size, reason="a pattern matches its lines"
        )
    ask = partial(_scores, head, source.path)
    scores = answers.scored(source, head, ask) if settings.cache else ask()
    best = max(scores, key=lambda name: scores[name], default="")
    if best and scores[best] > 0:
        others = sorted((score, name) for name, score in scores.items() if score > 0 and name != best)
        beside = f", {others[-1][1]} {others[-1][0]:.2g}" if others else ""
        reason = f"by its first bytes: {best} {scores[best]:.2g}{beside}"
        return best, SourceReport(source.name, best, bytes=source.size, reason=reason)
    if source.faults:  # what could be read is too little to tell
        reason = "; ".join(note.message for note in source.faults.values())
        return None, SourceReport(source.name, "", bytes=source.size, state="not-read", reason=reason)
    reason = "empty file" if not source.size else foreign(head) or "no format of a training log"
    return None, SourceReport(source.name, "", bytes=source.size, state="ignored", reason=reason)


def _scores(head: bytes, path: Path) -> dict[str, float]:
    """How sure each parser is; only the one whose certainty is proof where there is such a one: asking all is dear."""
    names = plugins.names("parsers")
    if binary(head):  # weights, of which a run leaves thousands
        names = tuple(name for name in names if not plugins.says("parsers", name, "READS_TEXT"))
    for name in names:
        if plugins.says("parsers", name, "PROVES") and _sureness(plugins.load("parsers", name), head, path) == 1.0:
            return {name: 1.0}
    return {name: _sureness(plugins.load("parsers", name), head, path) for name in names}


def _sureness(parser: Any, head: bytes, path: Path) -> float:
    try:
        return float(parser.sniff(head, path))
    except Exception:  # as in `_guarded`: a parser that fails on a head is not the one to read it
        return 0.0


def read_run(files: RunFiles, settings: Settings) -> tuple[list[Run], list[SourceReport]]:
    builder = store.Builder(files.name, files.path, [mapping.meaning(entry) for entry in settings.map])
    unread: list[SourceReport] = []
    for file in files.files:
        parser = plugins.load("parsers", file.format)
        tells_end = bool(getattr(parser, "TELLS_END", False))
        batches = store.cached(file.source, file.format, parser.read) if settings.cache else parser.read(file.source)
        problems: list[str] = []
        told = _guarded(batches, file.source, problems)
        points = builder.add(file.source, file.format, file.prefix, told, reason=file.reason, tells_end=tells_end)
        if problems and not points:
            unread.append(_not_read(file.source, file.format, problems[0]))
    built = builder.runs()
    runs = [run for run in built if run.series or run.events]
    if not runs and not unread:
        said = {one.path: _said(one) for run in built for one in run.sources}
        unread += [
            replace(
                _not_read(
                    file.source, file.format, f"{said.get(file.source.name) or _NOTHING} (read as {file.format})"
                ),
                state="ignored",
            )
            for file in files.files
        ]
    return runs, unread


def _guarded(batches: Iterator[Batch], source: Source, problems: list[str]) -> Iterator[Batch]:
    """The batches up to where the parser fails; then a Note: one bad file must not hide the others.

    Last comes what was wrong with the file's bytes themselves: no parser sees it.
    """
    try:
        yield from batches
    except InputError as problem:
        problems.append(f"{problem.what}. {problem.hint}" if problem.hint else problem.what)
    except OSError as problem:
        problems.append(f"cannot be read: {problem.strerror or problem}")
    except Exception as problem:  # a parser on one source may fail in any way; the other sources go on
        problems.append(f"the parser failed ({type(problem).__name__}: {problem}); please report this file")
    faults = list(source.faults.values())
    if problems and faults:
        problems[0] += f" ({'; '.join(note.message for note in faults)})"
    yield from (Note("unreadable", problem) for problem in problems)
    yield from faults


def _not_read(source: Source, name: str, reason: str) -> SourceReport:
    return SourceReport(source.name, name, bytes=source.size, state="not-read", reason=reason)


def refuse_nothing(paths: Sequence[str | Path], some: bool, unread: Sequence[SourceReport]) -> None:
    """InputError when not one run came out: each file with its reason, the first ones at least."""
    if some:
        return
    where = ", ".join(shown(path) for path in paths)
    reasons = [f"{report.path}: {report.reason or _what_notes_say(report)}" for report in unread]
    if len(reasons) > 5:
        reasons = [*reasons[:5], f"and {len(reasons) - 5} more files"]
    what = "nothing to read: no file with points or events of a training run"
    if reasons:
        what += " (" + "; ".join(reasons) + ")"
    hint = "Name the directory that the run wrote its logs to; `trainlens list parsers` names the formats"
    raise InputError(what, where=where, hint=hint)


def refuse_unmatched(settings: Settings, tags: Collection[str]) -> None:
    """SettingsError where a name that `--map` speaks of was logged by no run; a settings file may serve many runs."""
    if settings.origin("map") != "--map":
        return
    for entry in settings.map:
        if not any(mapping.meaning(entry).means(tag) for tag in tags):
            raw = entry.rpartition("=")[0].strip()
            raise SettingsError(f"nothing logged is called {raw!r}", where="--map", hint=nearest(raw, tags))


_NOTHING = "no points, no events: nothing to judge"


def _said(report: SourceReport) -> str:
    """What the notes say besides that there are no points."""
    return "; ".join(note.message for note in report.notes if note.kind != "no-points")


def _what_notes_say(report: SourceReport) -> str:
    return "; ".join(note.message for note in report.notes) or _NOTHING
