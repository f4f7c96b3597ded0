"""The words that all reports share: the verdict, what to do first, how far the run came, what it cost.

Everything here is plain text, not yet escaped for HTML or a terminal. No-break spaces stand between number and unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trainlens.diagnosis import Check, Diagnosis, Finding, MetricReport, RunDiagnosis
from trainlens.figures import NBSP, agreed, counted, figures, moment, number, seconds, steps
from trainlens.model import SourceReport

__all__ = [
    "Card", "accepted_line", "cards", "checked_line", "confidence", "cost_line", "counted", "do_first", "incomplete",
    "moment", "not_judged_line", "number", "result_line", "schedule_line", "seconds", "state", "steps",
    "verdict", "verdict_label", "verdict_of", "verdict_text",
]  # fmt: skip

State = Literal["error", "warning", "healthy", "not-judged"]

_UNJUDGED = ("not-applicable", "not-enough-data", "failed")


def confidence(finding: Finding) -> str:
    if finding.confidence is None:
        return "certain: stated by the log"
    return f"confidence {min(99, round(finding.confidence * 100))}{NBSP}%"


# ---- findings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """What is told as one: a finding with its number, the equal ones that follow, and those told inside it."""

    number: int
    finding: Finding
    same: tuple[Finding, ...] = ()
    includes: tuple[Finding, ...] = ()


def cards(run: RunDiagnosis) -> tuple[Card, ...]:
    """The findings as told: equal ones (detector, severity, supported causes, measure) as one, parts in their whole."""
    known = {finding.id for finding in run.findings if finding.id}
    parts: dict[str, list[Finding]] = {}
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in run.findings:
        if finding.part_of in known and finding.part_of != finding.id:
            parts.setdefault(str(finding.part_of), []).append(finding)
        else:
            supported = tuple(cause.cause for cause in finding.causes if cause.verdict == "supported")
            measured = next((one.text for one in finding.evidence), "")
            groups.setdefault((finding.detector, finding.severity, supported, measured), []).append(finding)
    return tuple(
        Card(at, group[0], tuple(group[1:]), tuple(part for one in group for part in parts.get(one.id, ())))
        for at, group in enumerate(groups.values(), 1)
    )


def state(run: RunDiagnosis) -> State:
    """What the verdict says in one word; `info` never changes it."""
    severities = {finding.severity for finding in run.findings}
    if "error" in severities:
        return "error"
    if "warning" in severities:
        return "warning"
    judged = sum(check.status in ("clean", "found") for check in run.checks)
    too_few = sum(check.status == "not-enough-data" for check in run.checks)
    # Where more detectors lack points than could judge, silence says nothing of the run's health.
    return "healthy" if judged > too_few or not run.checks else "not-judged"


# ---- sentences -----------------------------------------------------------------------------------------------------


def verdict(run: RunDiagnosis) -> str:
    """ "2 warnings: first title; second title and 3 more", "Healthy: nothing found in 24,000 steps"."""
    return f"{verdict_label(run)}: {_lower_first(verdict_text(run), run)}"


def verdict_label(run: RunDiagnosis) -> str:
    """The verdict up to its colon: "1 error, 2 warnings", "Healthy", "Not judged"."""
    told = Counter(finding.severity for finding in _weighty(run))
    counts = ", ".join(counted(told[severity], severity) for severity in ("error", "warning") if told[severity])
    return counts or {"not-judged": "Not judged"}.get(state(run), "Healthy")


def verdict_text(run: RunDiagnosis) -> str:
    """The verdict after its colon."""
    if weighty := _weighty(run):
        titles = [card.finding.title for card in cards(run) if card.finding.severity != "info"][:2]
        more = len(weighty) - len(titles)
        text = "; ".join([titles[0], *(_lowered(title) for title in titles[1:])]) + (
            f" and {more:,} more" if more else ""
        )
    elif state(run) == "not-judged":
        text = _why_not_judged(run)
    else:
        text = f"Nothing found in {_extent(run)}"
    return ". ".join([text, *incomplete(run)])


def incomplete(run: RunDiagnosis) -> list[str]:
    """What the answer lacks: files that could not be read, detectors that failed."""
    failed = sum(check.status == "failed" for check in run.checks)
    return _unread(run.sources) + ([f"{counted(failed, 'detector')} failed"] if failed else [])


def _unread(sources: Iterable[SourceReport]) -> list[str]:
    """What could not be read; a file that is no log is none of it."""
    count = sum(source.state == "not-read" for source in sources)
    return [f"{counted(count, 'file')} could not be read"] if count else []


def verdict_of(diagnosis: Diagnosis) -> str:
    """The verdict of one run, or how many of several runs are in which state."""
    lacks = _unread(diagnosis.unread)
    if len(diagnosis.runs) == 1:
        return ". ".join([verdict(diagnosis.runs[0]), *lacks])
    if not diagnosis.runs:
        return ". ".join(["Not judged: nothing could be read", *lacks])
    told: Counter[str] = Counter(state(run) for run in diagnosis.runs)
    words = {"error": "with errors", "warning": "with warnings", "healthy": "healthy", "not-judged": "not judged"}
    parts = [
        f"{told[which]:,} {words[which]}" for which in ("error", "warning", "healthy", "not-judged") if told[which]
    ]
    return ". ".join([f"{len(diagnosis.runs):,} runs: {', '.join(parts)}", *lacks])


def do_first(run: RunDiagnosis) -> str | None:
    """The first action of finding 1, word for word; None on a healthy run."""
    told = [card.finding for card in cards(run) if card.finding.severity != "info"]
    return next(iter(told[0].actions), None) if told else None


def result_line(run: RunDiagnosis) -> str:
    """How far the run came, its last validation loss against its best, its training loss from first to last."""
    losses = [text for text in (_validation(run), _training(run)) if text]
    if losses:
        losses = ["; ".join([losses[0], *map(_lowered, losses[1:])])]
    return ". ".join([_how_far(run), *losses]) + "."


def schedule_line(run: RunDiagnosis) -> str | None:
    """ "cosine, warmup of 2,000 steps, 4.2e-4 to 4.2e-5.": the learning rate's schedule; None where none is known."""
    found = run.schedule
    if found is None:
        return None
    parts: list[str] = ["only a warmup so far" if found.family == "warmup-only" else found.family]
    if found.warmup_steps and found.family != "warmup-only":
        parts.append(
            f"{'peak after' if found.family == 'one-cycle' else 'warmup of'} {counted(found.warmup_steps, 'step')}"
        )
    if found.period:
        parts.append(f"every {counted(found.period, 'step')}")
    if found.decay_begin is not None:
        parts.append(f"decay from step {found.decay_begin:,}")
    rates = number(found.peak) if found.final == found.peak else f"{number(found.peak)} to {number(found.final)}"
    return f"{', '.join([*parts, rates])}."


def cost_line(run: RunDiagnosis) -> str | None:
    """ "83 min of 97.7 h, 89 GPU-hours (restart 46 min, slowdown 37 min)"; None when nothing had a cost."""
    lost: Counter[str] = Counter()
    gpu = 0.0
    for card in cards(run):
        for finding in (card.finding, *card.same):
            if finding.cost and finding.cost.seconds:
                lost[finding.detector] += finding.cost.seconds  # type: ignore[assignment]  # a Counter holds floats too
                gpu += finding.cost.gpu_seconds or 0.0
    total = sum(lost.values())
    if not total:
        return None
    of = f" of {seconds(run.result.seconds)}" if run.result.seconds else ""
    hours = f", {figures(gpu / 3600, 3)} GPU-hours" if gpu >= 360 else ""
    parts = ", ".join(f"{name} {seconds(value)}" for name, value in lost.most_common(3))
    return f"{seconds(total)}{of}{hours} ({parts})."


def checked_line(run: RunDiagnosis) -> str:
    """What was looked at: "41 of 49 detectors judged 2,642,964 points of 38 metrics."."""
    judged = sum(check.status in ("clean", "found") for check in run.checks)
    points = sum(metric.points for metric in run.metrics)
    metrics = len({metric.name for metric in run.metrics})
    extent = f"{counted(points, 'point')} of {counted(metrics, 'metric')}"
    return f"{judged} of {counted(len(run.checks), 'detector')} judged {extent}."


def not_judged_line(run: RunDiagnosis, *, brief: bool = False) -> str | None:
    """ "8 of 49 detectors. Not in the logs: …. Too few: …": who did not judge and why; None when all did."""
    left = [check for check in run.checks if check.status in _UNJUDGED]
    if not left:
        return None
    count = f"{len(left)} of {counted(len(run.checks), 'detector')}"
    if brief and not any(check.status == "failed" for check in left):
        little = any(check.status == "not-enough-data" for check in left)
        return f"{count}: what they need is not in the logs{', or too little of it' if little else ''}."
    return ". ".join([count, *_reasons(left)]) + "."


def accepted_line(run: RunDiagnosis) -> str | None:
    """ "2 findings: loss-spike at 31,216 (bad shard); …": what was accepted and why; None when nothing was."""
    if not run.accepted:
        return None
    told = []
    for one in run.accepted:
        where = steps(one.finding.first_step, one.finding.last_step)
        told.append(f"{one.finding.detector}{f', {where}' if where else ''} ({one.reason})")
    return f"{counted(len(run.accepted), 'finding')}: {'; '.join(told)}."


def _reasons(left: Iterable[Check]) -> list[str]:
    """Checks gathered by why: a metric that is missing is named once, any other reason once behind its detectors."""
    groups: dict[str, dict[str, list[str]]] = {}
    for check in left:
        missing = re.fullmatch(r"no (.+) in the logs", check.reason)
        if missing and check.status == "not-applicable":
            groups.setdefault("Not in the logs", {}).setdefault("", []).append(missing[1])
        else:
            head = {"not-enough-data": "Too few", "failed": "Failed"}.get(check.status, "Not asked")
            groups.setdefault(head, {}).setdefault(check.reason, []).append(check.detector)
    return [
        f"{head}: " + "; ".join(", ".join(dict.fromkeys(names)) + (f" ({why})" if why else "") for why, names in whys)
        for head in ("Failed", "Not in the logs", "Too few", "Not asked")
        if (whys := groups.get(head, {}).items())
    ]


# ---- pieces --------------------------------------------------------------------------------------------------------


def _weighty(run: RunDiagnosis) -> list[Finding]:
    """Findings that count in the verdict: no `info`, and none that is told inside another."""
    told = [one for card in cards(run) for one in (card.finding, *card.same)]
    return [finding for finding in told if finding.severity != "info"]


def _lowered(text: str) -> str:
    """The text as it reads inside a sentence; names and abbreviations (NaN, GPU) stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() and not text.startswith("NaN") else text


def _lower_first(text: str, run: RunDiagnosis) -> str:
    return text if _weighty(run) else _lowered(text)


def _why_not_judged(run: RunDiagnosis) -> str:
    reasons = Counter(check.reason for check in run.checks if check.status == "not-enough-data" and check.reason)
    if reasons:
        return reasons.most_common(1)[0][0]
    return "nothing in the logs that a detector judges"


def _extent(run: RunDiagnosis) -> str:
    if run.result.last_step is not None:
        return counted(run.result.last_step, "step")
    return counted(sum(metric.points for metric in run.metrics), "point")


def _how_far(run: RunDiagnosis) -> str:
    result = run.result
    if result.last_step is None:
        return "No step numbers in the logs" if result.state == "unknown" else result.state.capitalize()
    of = f" of {result.total_steps:,}" if result.total_steps else ""
    if result.state == "unknown":
        return f"Read up to step {result.last_step:,}{of}"
    if of and result.state != "running":
        return agreed(f"{result.state.capitalize()}, {result.last_step:,}{of} steps")
    return f"{result.state.capitalize()}, step {result.last_step:,}{of}"


def _metric(run: RunDiagnosis, name: str) -> MetricReport | None:
    return next((metric for metric in run.metrics if metric.name == name), None)


def _validation(run: RunDiagnosis) -> str:
    loss = _metric(run, "eval/loss")
    if loss is None or loss.last is None or loss.min is None:
        return ""
    if loss.last <= loss.min:
        return f"Validation loss {number(loss.last)} is its best"
    return f"Validation loss {number(loss.last)}, its best {number(loss.min)}"


def _training(run: RunDiagnosis) -> str:
    loss = _metric(run, "train/loss")
    if loss is None or loss.first is None or loss.last is None:
        return ""
    return f"Training loss went from {number(loss.first)} to {number(loss.last)}"
