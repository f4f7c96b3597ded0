"""From paths to runs: find the files, choose a parser for each, build the runs, and say what could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainlens import plugins, store
from trainlens.errors import InputError, SettingsError
from trainlens.model import Batch, Note, Run, SourceReport
from trainlens.settings import Settings
from trainlens.sources import HEAD, RunFiles, Source, find, group, inner_last, real_path
from trainlens.sources.patterns import matches

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


def read(paths: Sequence[str | Path], settings: Settings) -> Reading:
    """All runs under these paths, unjudged; InputError when nothing can be read."""
    jobs, unread = work(paths, settings)
    runs: list[Run] = []
    for files in jobs:
        found, problems = read_run(files, settings)
        runs += found
        unread += problems
    refuse_nothing(paths, bool(runs), unread)
    return Reading(tuple(runs), tuple(unread))


def spare(paths: Sequence[str | Path], output: Path | None, settings: Settings) -> None:
    """SettingsError where the output would take the place of one of the logs."""
    if output is None or not output.is_file():
        return
    for path in paths:
        for source in find(path).sources:
            known = replace(source, patterns=settings.patterns)
            if source.path.exists() and source.path.samefile(output) and choose(known, settings.parser)[0]:
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
        fresh = [source for source in found.sources if real_path(source.path) not in taken]
        taken |= {real_path(source.path) for source in fresh}
        for source in (replace(source, patterns=settings.patterns) for source in fresh):
            name, report = choose(source, settings.parser)
            if name:
                read.append((source, name))
                reasons[source.path] = report.reason
            else:
                unread.append(report)
        for run in group(read, found.root):
            files = tuple(replace(file, reason=reasons[file.source.path]) for file in run.files)
            found_runs.append(replace(run, files=files))
    return found_runs, unread


def choose(source: Source, forced: str | None = None) -> tuple[str | None, SourceReport]:
    """The parser of a source: the one that is surest of its head. None and the reason when there is none."""
    try:
        head = source.head(HEAD)
    except OSError as problem:
        reason = f"cannot be opened: {problem.strerror or problem}"
        return None, SourceReport(source.name, "", bytes=source.size, state="not-read", reason=reason)
    if forced is not None:
        plugins.load("parsers", forced)
        return forced, SourceReport(source.name, forced, bytes=source.size, reason="as the settings say")
    if _OURS.match(head):
        reason = "written by trainlens itself"
        return None, SourceReport(source.name, "", bytes=source.size, state="ignored", reason=reason)
    if matches(head, source.patterns):
        return _PATTERNED, SourceReport(
            source.name, _PATTERNED, bytes=source.size, reason="a pattern matches its lines"
        )
    scores = {name: _sureness(parser, head, source.path) for name, parser in plugins.load_all("parsers").items()}
    best = max(scores, key=lambda name: scores[name], default="")
    if best and scores[best] > 0:
        others = sorted((score, name) for name, score in scores.items() if score > 0 and name != best)
        beside = f", {others[-1][1]} {others[-1][0]:.2g}" if others else ""
        reason = f"by its first bytes: {best} {scores[best]:.2g}{beside}"
        return best, SourceReport(source.name, best, bytes=source.size, reason=reason)
    reason = "empty file" if not source.size else "no format of a training log"
    return None, SourceReport(source.name, "", bytes=source.size, state="ignored", reason=reason)


def _sureness(parser: Any, head: bytes, path: Path) -> float:
    try:
        return float(parser.sniff(head, path))
    except Exception:  # as in `_guarded`: a parser that fails on a head is not the one to read it
        return 0.0


def read_run(files: RunFiles, settings: Settings) -> tuple[list[Run], list[SourceReport]]:
    builder = store.Builder(files.name, files.path)
    unread: list[SourceReport] = []
    for file in files.files:
        parser = plugins.load("parsers", file.format)
        tells_end = bool(getattr(parser, "TELLS_END", False))
        kept = settings.cache and not file.source.patterns  # the cache does not know of patterns
        batches = store.cached(file.source, file.format, parser.read) if kept else parser.read(file.source)
        problems: list[str] = []
        points = builder.add(
            file.source, file.format, file.prefix, _guarded(batches, problems), reason=file.reason, tells_end=tells_end
        )
        if problems and not points:
            unread.append(_not_read(file.source, file.format, problems[0]))
    runs = [run for run in builder.runs() if run.series or run.events]
    if not runs and not unread:
        reason = "no points, no events: nothing to judge"
        unread += [
            replace(_not_read(file.source, file.format, f"{reason} (read as {file.format})"), state="ignored")
            for file in files.files
        ]
    return runs, unread


def _guarded(batches: Iterator[Batch], problems: list[str]) -> Iterator[Batch]:
    """The batches up to where the parser fails; then a Note: one bad file must not hide the others."""
    try:
        yield from batches
    except InputError as problem:
        problems.append(f"{problem.what}. {problem.hint}" if problem.hint else problem.what)
    except OSError as problem:
        problems.append(f"cannot be read: {problem.strerror or problem}")
    except Exception as problem:  # a parser on one source may fail in any way; the other sources go on
        problems.append(f"the parser failed ({type(problem).__name__}: {problem}); please report this file")
    yield from (Note("unreadable", problem) for problem in problems)


def _not_read(source: Source, name: str, reason: str) -> SourceReport:
    return SourceReport(source.name, name, bytes=source.size, state="not-read", reason=reason)


def refuse_nothing(paths: Sequence[str | Path], some: bool, unread: Sequence[SourceReport]) -> None:
    """InputError when not one run came out: each file with its reason, the first ones at least."""
    if some:
        return
    where = ", ".join(str(path) for path in paths)
    reasons = [f"{report.path}: {report.reason or _what_notes_say(report)}" for report in unread]
    if len(reasons) > 5:
        reasons = [*reasons[:5], f"and {len(reasons) - 5} more files"]
    what = "nothing to read: no file with points or events of a training run"
    if reasons:
        what += " (" + "; ".join(reasons) + ")"
    hint = "Name the directory that the run wrote its logs to; `trainlens list parsers` names the formats"
    raise InputError(what, where=where, hint=hint)


def _what_notes_say(report: SourceReport) -> str:
    return "; ".join(note.message for note in report.notes) or "no points, no events: nothing to judge"
