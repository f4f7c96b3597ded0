"""The whole trip on one page: read the runs, check each with the detectors, explain, tell.

The unit of work is one run: `analyze_run` takes and gives plain values, so that a process pool carries it unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trainlens import __version__, acceptance, context, digest, engines, explanation, plugins, reading, scores
from trainlens.diagnosis import (
    Check,
    Diagnosis,
    Explained,
    Finding,
    NotApplicable,
    NotEnoughData,
    PublishedScore,
    RunDiagnosis,
    Summary,
)
from trainlens.figures import agreed
from trainlens.model import Run
from trainlens.settings import Settings
from trainlens.sources import RunFiles
from trainlens.store import answers
from trainlens.store.answers import Answer

Progress = Callable[[str, int, int], None]  # name of the run, how many are done, of how many


def analyze(paths: Sequence[str | Path], settings: Settings, *, progress: Progress | None = None) -> Diagnosis:
    """The diagnosis of all runs under these paths; InputError when nothing can be read."""
    begin = time.perf_counter()
    work, unread = reading.work(paths, settings)
    now = time.time()
    accepted = acceptance.load(settings.accepted)
    step = partial(analyze_run, settings=settings, now=now, baseline=reading.baseline(settings), accepted=accepted)
    if settings.jobs > 1 and len(work) > 1:
        told: Iterable[Answer] = engines.processes(step, work, settings.jobs)
    else:
        told = engines.in_turn(step, work)
    runs: list[RunDiagnosis] = []
    for done, (diagnoses, problems) in enumerate(told, 1):
        runs += diagnoses
        unread += problems
        if progress is not None:
            progress(work[done - 1].name, done, len(work))
    reading.refuse_nothing(paths, bool(runs), unread)
    reading.refuse_unmatched(settings, {tag for run in runs for metric in run.metrics for tag in metric.raw})
    found = [finding for run in runs for finding in run.findings]
    severities = [finding.severity for finding in found if finding.part_of is None]
    summary = Summary(
        error=severities.count("error"),
        warning=severities.count("warning"),
        info=severities.count("info"),
        runs=len(runs),
        points=sum({(run.path, source.path): source.points for run in runs for source in run.sources}.values()),
        seconds=round(time.perf_counter() - begin, 3),
        accepted=sum(len(run.accepted) for run in runs),
        unmatched=acceptance.unmatched(runs, accepted),
    )
    return Diagnosis(__version__, summary, tuple(runs), settings.told(), tuple(unread))


def analyze_run(
    files: RunFiles,
    *,
    settings: Settings,
    now: float,
    baseline: Run | None = None,
    accepted: Sequence[acceptance.Acceptance] = (),
) -> Answer:
    """Read the files of one run, judge what they hold. A source may hold several runs. `now` is Unix seconds."""

    def judged() -> tuple[Answer, Sequence[Run]]:
        runs, unread = reading.read_run(files, settings)
        diagnoses = (diagnose(replace(run, baseline=baseline), settings, now, accepted) for run in runs)
        return (tuple(diagnoses), tuple(unread)), runs

    if not settings.cache or baseline is not None or accepted:
        return judged()[0]
    # What only says where the answer goes does not decide it.
    about = replace(settings, output="", formats=(), fail_on="never", jobs=1, width=0)
    return answers.answered(files, judged, about, now)


# ---- from a run to its diagnosis -----------------------------------------------------------------------------------


def diagnose(run: Run, settings: Settings, now: float, accepted: Sequence[acceptance.Acceptance] = ()) -> RunDiagnosis:
    """Check one run with every chosen detector, explain what they find, and keep what reports need."""
    checks: list[Check] = []
    raw: list[Finding] = []
    logged = run
    with np.errstate(all="ignore"):
        run, away = context.judged(logged)
    for name in plugins.names("detectors"):
        if settings.judges(name):
            check, found = check_run(run, name, settings)
            checks.append(check)
            raw += [one for one in found if isinstance(one, Finding)]
            away += [one for one in found if isinstance(one, Explained)]
    outcome = digest.result(run, now)
    findings, set_apart = acceptance.parted(explanation.explained(run, raw, settings, outcome.gpus), run.name, accepted)
    return RunDiagnosis(
        name=run.name,
        path=run.path,
        result=outcome,
        sources=run.sources,
        metrics=digest.metric_reports(logged),
        facts=run.facts,
        events=run.events,
        checks=tuple(checks),
        findings=tuple(findings),
        curves=digest.curves(logged, findings),
        attempts=run.attempts,
        notes=run.notes,
        accepted=set_apart,
        schedule=context.of(run).schedule,
        explained=tuple(away),
        scores=_scores(run),
    )


def _scores(run: Run) -> tuple[PublishedScore, ...]:
    with np.errstate(all="ignore"):
        return scores.scores(run)


def check_run(run: Run, name: str, settings: Settings) -> tuple[Check, list[Finding | Explained]]:
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
        return Check(name, "not-applicable", agreed(answer.reason), _since(begin)), []
    if isinstance(answer, NotEnoughData):
        return Check(name, "not-enough-data", agreed(answer.reason), _since(begin)), []
    found = any(isinstance(one, Finding) for one in answer)
    return Check(name, "found" if found else "clean", "", _since(begin)), list(answer)


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
