"""The whole trip on one page: find the files, choose parsers, build the runs, check them, explain, tell.

The unit of work is one run: `analyze_run` takes and gives plain values, so that a process pool carries it unchanged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainlens import __version__, digest, engines, explanation, plugins, store
from trainlens.diagnosis import (
    Check,
    Diagnosis,
    Finding,
    NotApplicable,
    NotEnoughData,
    RunDiagnosis,
    Summary,
)
from trainlens.errors import InputError, SettingsError
from trainlens.model import Batch, Note, Run, SourceReport
from trainlens.settings import Settings
from trainlens.sources import HEAD, RunFiles, Source, find, group, inner_last, real_path

# An exported table as CSV or JSON lines, or an answer as JSON: no log, wherever it was put.
_OURS = re.compile(
    rb'run,metric,tag,rank,step,time,value,source,attempt\r?\n|\{"run":"[^"\n]*","metric":"[^"\n]*","tag":"'
    rb'|\{\s*"schema_version":\s*\d+,\s*"trainlens":'
)
Progress = Callable[[str, int, int], None]  # name of the run, how many are done, of how many


@dataclass(frozen=True)
class Reading:
    """What was read, before anything is judged."""

    runs: tuple[Run, ...]
    unread: tuple[SourceReport, ...]


# ---- the two ways in -----------------------------------------------------------------------------------------------


def analyze(paths: Sequence[str | Path], settings: Settings, *, progress: Progress | None = None) -> Diagnosis:
    """The diagnosis of all runs under these paths; InputError when nothing can be read."""
    begin = time.perf_counter()
    work, unread = _work(paths, settings)
    now = time.time()
    step = partial(analyze_run, settings=settings, now=now)
    if settings.jobs > 1 and len(work) > 1:
        answers: Iterable[tuple[tuple[RunDiagnosis, ...], tuple[SourceReport, ...]]]
        answers = engines.processes(step, work, settings.jobs)
    else:
        answers = engines.in_turn(step, work)
    runs: list[RunDiagnosis] = []
    for done, (diagnoses, problems) in enumerate(answers, 1):
        runs += diagnoses
        unread += problems
        if progress is not None:
            progress(work[done - 1].name, done, len(work))
    _refuse_nothing(paths, bool(runs), unread)
    found = [finding for run in runs for finding in run.findings]
    severities = [finding.severity for finding in found if finding.part_of is None]
    summary = Summary(
        error=severities.count("error"),
        warning=severities.count("warning"),
        info=severities.count("info"),
        runs=len(runs),
        points=sum({(run.path, source.path): source.points for run in runs for source in run.sources}.values()),
        seconds=round(time.perf_counter() - begin, 3),
    )
    return Diagnosis(__version__, summary, tuple(runs), settings.told(), tuple(unread))


def read(paths: Sequence[str | Path], settings: Settings) -> Reading:
    """All runs under these paths, unjudged; InputError when nothing can be read."""
    work, unread = _work(paths, settings)
    runs: list[Run] = []
    for files in work:
        found, problems = _read_run(files, settings)
        runs += found
        unread += problems
    _refuse_nothing(paths, bool(runs), unread)
    return Reading(tuple(runs), tuple(unread))


def analyze_run(
    files: RunFiles, *, settings: Settings, now: float
) -> tuple[tuple[RunDiagnosis, ...], tuple[SourceReport, ...]]:
    """Read the files of one run, judge what they hold. A source may hold several runs. `now` is Unix seconds."""
    runs, unread = _read_run(files, settings)
    return tuple(diagnose(run, settings, now) for run in runs), tuple(unread)


def spare(paths: Sequence[str | Path], output: Path | None, settings: Settings) -> None:
    """SettingsError where the output would take the place of one of the logs."""
    if output is None or not output.is_file():
        return
    for path in paths:
        for source in find(path).sources:
            if source.path.exists() and source.path.samefile(output) and choose(source, settings.parser)[0]:
                hint = "Name another file"
                raise SettingsError("is one of the logs and would be lost", where=f"--output {output}", hint=hint)


# ---- from paths to runs --------------------------------------------------------------------------------------------


def _work(paths: Sequence[str | Path], settings: Settings) -> tuple[list[RunFiles], list[SourceReport]]:
    work: list[RunFiles] = []
    unread: list[SourceReport] = []
    taken: set[Path] = set()  # a file is read once, also where its directory is named beside it
    for path in inner_last(paths):
        found = find(path)
        unread += found.unread
        read: list[tuple[Source, str]] = []
        reasons: dict[Path, str] = {}
        fresh = [source for source in found.sources if real_path(source.path) not in taken]
        taken |= {real_path(source.path) for source in fresh}
        for source in fresh:
            name, report = choose(source, settings.parser)
            if name:
                read.append((source, name))
                reasons[source.path] = report.reason
            else:
                unread.append(report)
        for run in group(read, found.root):
            files = tuple(replace(file, reason=reasons[file.source.path]) for file in run.files)
            work.append(replace(run, files=files))
    return work, unread


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


def _read_run(files: RunFiles, settings: Settings) -> tuple[list[Run], list[SourceReport]]:
    builder = store.Builder(files.name, files.path)
    unread: list[SourceReport] = []
    for file in files.files:
        parser = plugins.load("parsers", file.format)
        batches = store.cached(file.source, file.format, parser.read) if settings.cache else parser.read(file.source)
        problems: list[str] = []
        points = builder.add(file.source, file.format, file.prefix, _guarded(batches, problems), file.reason)
        if problems and not points:
            unread.append(_not_read(file.source, file.format, problems[0]))
    runs = [run for run in builder.runs() if run.series or run.events]
    if not runs and not unread:
        reason = "no points, no events: nothing to judge"
        unread += [_not_read(file.source, file.format, f"{reason} (read as {file.format})") for file in files.files]
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


def _refuse_nothing(paths: Sequence[str | Path], some: bool, unread: Sequence[SourceReport]) -> None:
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


# ---- from a run to its diagnosis -----------------------------------------------------------------------------------


def diagnose(run: Run, settings: Settings, now: float) -> RunDiagnosis:
    """Check one run with every chosen detector, explain what they find, and keep what reports need."""
    checks: list[Check] = []
    raw: list[Finding] = []
    for name in plugins.names("detectors"):
        if settings.judges(name):
            check, found = check_run(run, name, settings)
            checks.append(check)
            raw += found
    outcome = digest.result(run, now)
    findings = explanation.explained(run, raw, settings, outcome.gpus)
    return RunDiagnosis(
        name=run.name,
        path=run.path,
        result=outcome,
        sources=run.sources,
        metrics=digest.metric_reports(run),
        facts=run.facts,
        events=run.events,
        checks=tuple(checks),
        findings=tuple(findings),
        curves=digest.curves(run, findings),
        attempts=run.attempts,
        notes=run.notes,
    )


def check_run(run: Run, name: str, settings: Settings) -> tuple[Check, list[Finding]]:
    """One detector on one run. A detector that raises is a failed check; the others go on."""
    detector = plugins.load("detectors", name)
    begin = time.perf_counter()
    if lack := missing(run, detector.NEEDS):
        return Check(name, "not-applicable", lack), []
    options = settings.options_for(name, detector.Options)
    try:
        with np.errstate(all="ignore"):
            answer = detector.detect(run, options)
    except Exception as problem:  # see house rule: a detector's fault must not hide what the others found
        return Check(name, "failed", f"{type(problem).__name__}: {problem}", _since(begin)), []
    if isinstance(answer, NotApplicable):
        return Check(name, "not-applicable", answer.reason, _since(begin)), []
    if isinstance(answer, NotEnoughData):
        return Check(name, "not-enough-data", answer.reason, _since(begin)), []
    return Check(name, "found" if answer else "clean", "", _since(begin)), list(answer)


def missing(run: Run, needs: Sequence[str]) -> str:
    """What a detector needs and the run lacks, in words; "" when it has all."""
    for need in needs:
        choices = need.split("|")
        if not any(_has(run, choice) for choice in choices):
            names = " or ".join(choice.partition(":")[2] or choice for choice in choices)
            return f"no {names} in the logs"
    return ""


def _has(run: Run, need: str) -> bool:
    kind, colon, name = need.partition(":")
    if colon and kind == "role":
        return any(series.about.role == name and len(series) for series in run.series)
    if colon and kind == "event":
        return any(event.kind == name for event in run.events)
    return run.get(need) is not None


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 6)
