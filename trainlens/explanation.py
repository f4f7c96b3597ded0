"""From what the detectors found to what is told: completed, put in order, named, its causes tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainlens import plugins
from trainlens.diagnosis import Cost, Evidence, Finding, Verdict
from trainlens.figures import agreed
from trainlens.model import Place, Run
from trainlens.settings import Settings
from trainlens.store.attempts import BYTES

_SEVERITIES = {"error": 0, "warning": 1, "info": 2}
_OUTCOMES = {"supported": 0, "ruled-out": 1, "not-measured": 2}
MOST_ACTIONS = 3
TOUCHING_STEPS = 20  # a gradient's spike comes before the loss's by up to so many steps


def explained(run: Run, found: Sequence[Finding], settings: Settings, gpus: int | None) -> list[Finding]:
    """The findings in the order they are told, each with its id, its causes tested and what it is told inside of."""
    ordered = sorted((_completed(run, finding, settings, gpus) for finding in found), key=_order)
    counts: dict[str, int] = {}
    named: list[Finding] = []
    for finding in ordered:
        counts[finding.detector] = counts.get(finding.detector, 0) + 1
        named.append(replace(finding, id=f"{finding.detector}-{counts[finding.detector]}"))
    named = [_counted_once(finding, named) for finding in named]
    sets = plugins.load_all("causes").values()
    told = []
    for finding in named:
        tests = [cause for causes in sets if finding.detector in causes.EXPLAINS for cause in causes.CAUSES]
        verdicts = sorted((_tested(cause, finding, run) for cause in tests), key=lambda one: _OUTCOMES[one.verdict])
        part_of = _told_inside(finding, named)
        told.append(replace(finding, causes=tuple(verdicts), actions=_actions(finding, verdicts), part_of=part_of))
    return told


def _tested(cause: Callable[[Finding, Run], Verdict], finding: Finding, run: Run) -> Verdict:
    """The verdict of one cause. One that raises has measured nothing, and says so; the others go on."""
    try:
        with np.errstate(all="ignore"):
            return cause(finding, run)
    except Exception as problem:  # as for a detector: one faulty test must not hide the diagnosis
        name = cause.__name__.strip("_").replace("_", " ").capitalize()
        return Verdict(name, "not-measured", f"The test itself failed: {type(problem).__name__}: {problem}.")


def _completed(run: Run, finding: Finding, settings: Settings, gpus: int | None) -> Finding:
    """The finding with its times, the origin of its limits and the GPU time it cost."""
    cost = finding.cost
    if cost is not None and cost.seconds is not None and cost.gpu_seconds is None and gpus:
        cost = Cost(cost.seconds, cost.seconds * gpus)
    return replace(
        finding,
        title=agreed(finding.title),
        message=agreed(finding.message),
        first_time=_time_of(run, finding, finding.first_step) if finding.first_time is None else finding.first_time,
        last_time=_time_of(run, finding, finding.last_step) if finding.last_time is None else finding.last_time,
        cost=cost,
        evidence=_placed(run, finding, tuple(_with_origin(one, settings) for one in finding.evidence)),
    )


def _counted_once(finding: Finding, findings: Sequence[Finding]) -> Finding:
    """The finding without the seconds that others count already in the steps of both, taken as evenly spread."""
    inside: tuple[str, ...] = getattr(plugins.load("detectors", finding.detector), "COST_INSIDE", ())
    if not inside or finding.cost is None or not finding.cost.seconds:
        return finding
    others = sum(_seconds_within(finding, other) for other in findings if other.detector in inside)
    left = max(0.0, finding.cost.seconds - others)
    share = left / finding.cost.seconds
    gpu = finding.cost.gpu_seconds
    cost = Cost(round(left, 1), None if gpu is None else round(gpu * share, 1)) if share > 0.01 else None
    return replace(finding, cost=cost) if others else finding


def _seconds_within(finding: Finding, other: Finding) -> float:
    """What another finding cost in the steps of this one."""
    if None in (finding.first_step, finding.last_step, other.first_step, other.last_step) or other.cost is None:
        return 0.0
    first, last, begin, end = (float(step or 0) for step in (
        finding.first_step, finding.last_step, other.first_step, other.last_step))  # fmt: skip
    common = min(last, end) - max(first, begin) + 1
    return max(0.0, (other.cost.seconds or 0.0) * common / (end - begin + 1))


def _placed(run: Run, finding: Finding, evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The evidence with a place in a log: where none has one, the first gets that of its metric's first point."""
    if not evidence or any(one.place is not None for one in evidence) or finding.first_step is None:
        return evidence
    ranks = run.all(finding.metric) if finding.metric else ()
    series = next((one for one in ranks if one.rank == finding.rank), run.get(finding.metric or ""))
    if series is None or not len(series) or not len(series.origin) or series.positional:
        return evidence
    at = min(int(np.searchsorted(series.step, finding.first_step)), len(series) - 1)
    source, origin = run.sources[int(series.source[at])], int(series.origin[at])
    if origin < 0:
        return evidence
    place = Place(source.path, byte=origin) if source.format in BYTES else Place(source.path, line=origin)
    return (replace(evidence[0], place=place), *evidence[1:])


def _time_of(run: Run, finding: Finding, step: int | None) -> float | None:
    """Unix seconds of a step by the clock of the finding's metric, else of the training loss."""
    clocks = (run.get(name) for name in (finding.metric, "train/loss") if name)
    clock = next((one for one in clocks if one is not None and np.isfinite(one.time).any()), None)
    if step is None or clock is None:
        return None
    time = float(clock.time[min(int(np.searchsorted(clock.step, step)), len(clock) - 1)])
    return time if np.isfinite(time) else None


def _with_origin(evidence: Evidence, settings: Settings) -> Evidence:
    detector, dot, option = evidence.limit_name.partition(".")
    if not dot or evidence.limit_origin:
        return evidence
    return replace(evidence, limit_origin=settings.origin_of(detector, option))


def _order(finding: Finding) -> tuple[Any, ...]:
    sure = 1.0 if finding.confidence is None else finding.confidence
    first = -1 if finding.first_step is None else finding.first_step
    return _SEVERITIES[finding.severity], not finding.ongoing, -sure, first, finding.detector, finding.metric or ""


def _actions(finding: Finding, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What to do: the remedies of the supported causes first, then the detector's own advice."""
    remedies = [verdict.remedy for verdict in verdicts if verdict.verdict == "supported" and verdict.remedy]
    return tuple(dict.fromkeys((*remedies, *finding.actions)))[:MOST_ACTIONS]


def _told_inside(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """The id of a graver finding that this one is a part of: its detector names the other's, and their steps touch."""
    inside: tuple[str, ...] = getattr(plugins.load("detectors", finding.detector), "TOLD_INSIDE", ())
    hosts = (other for other in findings if other.detector in inside and _touch(finding, other))
    return next((other.id for other in hosts), None)


def _touch(finding: Finding, other: Finding) -> bool:
    if finding.first_step is None and other.first_step is None:
        return True  # neither log counts steps
    own = {evidence.place for evidence in finding.evidence if evidence.place is not None and evidence.place.line}
    if any(evidence.place in own for evidence in other.evidence):
        return True  # the same line of a log, which only one of them placed among the steps
    if finding.first_step is None or finding.last_step is None or other.first_step is None or other.last_step is None:
        return False
    slack = max(TOUCHING_STEPS, (other.last_step - other.first_step) // 10)
    return finding.first_step <= other.last_step + slack and other.first_step <= finding.last_step + slack
