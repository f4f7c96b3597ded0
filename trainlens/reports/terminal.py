"""The diagnosis for a terminal: labels in 17 columns, text beside them, the same words with and without colour.

Nothing from a log reaches the terminal as it stands: control characters are shown, not sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from trainlens.diagnosis import Diagnosis, Evidence, Finding, RunDiagnosis, Verdict
from trainlens.figures import agreed
from trainlens.model import Note, SourceReport
from trainlens.reports import _gate
from trainlens.reports import _words as words
from trainlens.reports._scores import scores_line
from trainlens.reports._sparkline import Sparkline, close_up, sparkline
from trainlens.reports._terminal_rows import LABEL, NARROWEST, Row

SUFFIX = ".txt"

_MANY_RUNS = 3  # beyond, a table comes first and healthy runs stand in it alone
_ICON = {"error": "×", "warning": "▲", "info": "i", "healthy": "✓", "not-judged": "−"}
_COLOR = {"error": "red", "warning": "yellow", "info": "cyan", "healthy": "green", "not-judged": "dim"}
# What reading mended without losing a point is told only when asked for.
_QUIET_NOTES = ("duplicate-steps", "no-steps", "replaced", "placeholder")

Detail = Literal["full", "short"]


@dataclass(frozen=True)
class Options:
    width: int = 80
    color: bool = False
    unicode: bool = True
    verbose: bool = False  # evidence, every check and note
    quiet: bool = False  # the verdicts alone
    reports: tuple[str, ...] = ()  # files that were written beside this answer


def render(diagnosis: Diagnosis, options: Options) -> bytes:
    lines = _quiet(diagnosis) if options.quiet else _rows(diagnosis, options)
    look = {"color": options.color, "unicode": options.unicode}
    text = "".join(line for row in lines for line in row.told(options.width, **look))
    return text.encode("utf-8" if options.unicode else "ascii", "backslashreplace")


def _quiet(diagnosis: Diagnosis) -> Iterator[Row]:
    for run in diagnosis.runs:
        yield Row("", f"{_place(run, diagnosis)}: {words.verdict(run)}")
    if not diagnosis.runs:
        yield Row("", words.verdict_of(diagnosis))


def _rows(diagnosis: Diagnosis, options: Options) -> Iterator[Row]:
    runs = diagnosis.runs
    many = len(runs) > _MANY_RUNS
    if len(runs) != 1:
        yield from _overview(diagnosis, many)
    detail: Detail = "full" if len(runs) == 1 or options.verbose else "short"
    for at, run in enumerate(runs):
        if many and not options.verbose and words.state(run) in ("healthy", "not-judged"):
            continue
        if at or len(runs) > 1:
            yield Row("")
        yield from _run(run, diagnosis, options, detail)
    yield from map(_unread, diagnosis.unread if options.verbose else _not_ignored(diagnosis.unread))
    if left := _gate.unmatched(diagnosis):
        yield Row("  Accepted", left, "bold")
    if options.reports:
        yield Row("  Reports", ", ".join(options.reports), "dim")


def _overview(diagnosis: Diagnosis, many: bool) -> Iterator[Row]:
    summary = diagnosis.summary
    read = f"{words.counted(summary.points, 'point')} in {words.seconds(summary.seconds)}"
    yield Row("", f"{words.verdict_of(diagnosis)}   {read}")
    if many:
        for run in diagnosis.runs:
            state = words.state(run)
            yield Row(
                f"{_ICON[state]} {state.upper().replace('-', ' ')}",
                f"{_place(run, diagnosis)}: {words.verdict_text(run)}",
                _COLOR[state],
            )


def _run(run: RunDiagnosis, diagnosis: Diagnosis, options: Options, detail: Detail) -> Iterator[Row]:
    cards = words.cards(run)
    state = words.state(run)
    yield Row("", _header(run, diagnosis))
    if cards and detail == "full":
        yield Row("")
    label = words.verdict_label(run).partition(",")[0].upper()
    told = words.verdict_text(run)
    yield Row(
        f"{_ICON[state]} {label}",
        told if cards and state in ("error", "warning") else f"{told}.",
        f"bold {_COLOR[state]}",
    )
    for name, text in (
        ("Do first", words.do_first(run)),
        ("Result", words.result_line(run)),
        ("Schedule", words.schedule_line(run)),
        ("Cost", words.cost_line(run)),
        ("Scores", scores_line(run) if options.verbose else None),
    ):
        if text:
            yield Row(f"  {name}", text, "bold")
    if detail == "full" and cards:
        yield from _chart(run, max(NARROWEST, options.width) - LABEL)
    advised = {words.do_first(run)}
    for card in cards:
        if detail == "full":
            yield Row("")
        yield from _card(run, card, options, detail, advised)
    if detail == "full":
        yield from _ending(run, options, bool(cards))


_ID = re.compile(r"/[0-9a-f]{32}$")


def _place(run: RunDiagnosis, diagnosis: Diagnosis) -> str:
    """Where a run lies, with its name where several lie in one place."""
    beside = sum(other.path == run.path for other in diagnosis.runs)
    named = _ID.search(run.path) and not run.path.endswith(run.name)  # as MLflow names runs beside their directories
    return f"{run.path} ({run.name})" if beside > 1 or named else run.path


def _header(run: RunDiagnosis, diagnosis: Diagnosis) -> str:
    result = run.result
    parts = [_place(run, diagnosis)]
    if result.last_step is not None:
        of = f" of {result.total_steps:,}" if result.total_steps else ""
        parts.append(agreed(f"{result.last_step:,}{of} steps"))
    if result.ranks:
        parts.append(words.counted(result.ranks, "rank"))
    points = words.counted(sum(source.points for source in run.sources), "point")
    parts.append(f"{points} in {words.seconds(diagnosis.summary.seconds)}" if len(diagnosis.runs) == 1 else points)
    return "   ".join(parts)


def _chart(run: RunDiagnosis, width: int) -> Iterator[Row]:
    line = sparkline(run, words.cards(run), width)
    if line is None:
        return
    yield Row("")
    yield from _lines(line)


def _lines(line: Sparkline) -> Iterator[Row]:
    name = "Loss" if line.metric == "train/loss" else line.metric[: LABEL - 4]
    yield Row(f"  {name}", line.levels, "bold", whole=True)
    if line.marks:
        yield Row("  Findings", line.marks, "bold", whole=True)
    yield Row("  Step", line.ticks, "bold", whole=True)


# ---- a finding -----------------------------------------------------------------------------------------------------


def _card(
    run: RunDiagnosis, card: words.Card, options: Options, detail: Detail, advised: set[str | None]
) -> Iterator[Row]:
    finding = card.finding
    row = partial(Row, style="dim")
    color = _COLOR[finding.severity]
    yield Row(f"{card.number} {_ICON[finding.severity]} {finding.severity.upper()}", finding.title, f"bold {color}")
    where = words.steps(finding.first_step, finding.last_step)
    rank = f"rank {finding.rank}" if finding.rank is not None and finding.rank >= 0 else ""
    sure = words.confidence(finding).removeprefix("certain: ")
    if detail == "full":
        yield row(" ", " · ".join(part for part in (finding.detector, where, rank, sure) if part))
    yield row(" ", finding.message)
    if options.verbose and (line := close_up(run, card, max(NARROWEST, options.width) - LABEL)):
        yield from _lines(line)
    if card.same:
        yield row(
            "  Also", _listed([_where(other) for other in card.same], 8 if not options.verbose else len(card.same))
        )
    for part in card.includes if detail == "full" else ():
        yield row("  Includes", f"{part.title} ({part.detector})")
    yield from (Row("  ● supported", _cause(one), "bold") for one in finding.causes if one.verdict == "supported")
    if options.verbose:
        yield from (Row("  ○ ruled out", _cause(one), "dim") for one in finding.causes if one.verdict == "ruled-out")
        yield from (
            Row("  ? not measured", _cause(one), "dim") for one in finding.causes if one.verdict == "not-measured"
        )
    elif finding.severity != "info" and detail == "full":
        yield from _open_causes(finding, advised)
    if options.verbose:
        yield from (row("  evidence", evidence_text(one)) for one in finding.evidence)
    fresh = [action for action in finding.actions if action not in advised]
    for action in fresh[:1] if finding.severity == "info" else fresh:
        advised.add(action)
        yield Row("  → do", action, "bold")


def _cause(cause: Verdict) -> str:
    return f"{cause.cause}: {cause.message}"


def _open_causes(finding: Finding, advised: set[str | None]) -> Iterator[Row]:
    """What is ruled out by name; what is not measured with what to log, each advice once a run."""
    out = [cause.cause for cause in finding.causes if cause.verdict == "ruled-out"]
    if out:
        yield Row("  ○ ruled out", _sentence(out), "dim")
    unknown = [cause for cause in finding.causes if cause.verdict == "not-measured"]
    fresh = [cause for cause in unknown if cause.message not in advised]
    advised.update(cause.message for cause in fresh)
    yield from (Row("  ? not measured", text, "dim") for text in _what_to_log(fresh))
    if len(unknown) > len(fresh):
        names = _sentence([cause.cause for cause in unknown if cause not in fresh])
        yield Row("  ? not measured", f"{names}: as above.", "dim")


def _what_to_log(causes: list[Verdict]) -> list[str]:
    """A line each; of more than two, those that only want something logged in one line."""
    wanted = [(cause, re.search(r"\bLog (.+?),? to know", cause.message)) for cause in causes]
    brief = [f"{cause.cause} ({found[1]})" for cause, found in wanted if found]
    if len(brief) <= 2:
        return [_cause(cause) for cause in causes]
    told = [_cause(cause) for cause, found in wanted if not found]
    return [f"{_sentence(brief, '; ')}. Log these to know.", *told]


def _sentence(names: list[str], joint: str = ", ") -> str:
    return joint.join([*names[:1], *(name[:1].lower() + name[1:] for name in names[1:])])


def evidence_text(evidence: Evidence) -> str:
    """ "peak: 4.66, expected 1.97, limit 2.17 (loss-spike.size, default), train/loss, steps 24,310–24,343"."""
    numbers = [
        f"{name}{words.number(value, evidence.unit)}"
        for name, value in (("", evidence.observed), ("expected ", evidence.expected), ("limit ", evidence.limit))
        if value is not None
    ]
    if evidence.limit_name and evidence.limit is not None:
        numbers[-1] += f" ({evidence.limit_name}, {evidence.limit_origin or 'default'})"
    where = words.steps(evidence.first_step, evidence.last_step)
    parts = [*numbers, evidence.metric or "", where, str(evidence.place or "")]
    return f"{evidence.text}: {', '.join(part for part in parts if part)}"


def _where(finding: Finding) -> str:
    rank = f" rank {finding.rank}" if finding.rank is not None and finding.rank >= 0 else ""
    return (words.steps(finding.first_step, finding.last_step) or finding.title) + rank


def _listed(parts: list[str], most: int) -> str:
    more = f" and {len(parts) - most:,} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


# ---- the end -------------------------------------------------------------------------------------------------------


def _ending(run: RunDiagnosis, options: Options, spaced: bool) -> Iterator[Row]:
    if spaced:
        yield Row("")
    if accepted := words.accepted_line(run):
        yield Row("  Accepted", accepted, "bold")
    if options.verbose:
        yield from (Row("  Explained", f"{one.message}: not flagged ({one.detector})", "dim") for one in run.explained)
    if left := words.not_judged_line(run, brief=words.state(run) == "healthy" and not options.verbose):
        yield Row("  Not judged", left, "bold")
    if options.verbose:
        for check in run.checks:
            reason = f": {check.reason}" if check.reason else ""
            yield Row("  check", f"{check.detector} {check.status}{reason}", "dim")
    yield from map(_unread, run.sources if options.verbose else _not_ignored(run.sources))
    notes = [(source.path, note) for source in run.sources for note in source.notes]
    notes += [(run.path, note) for note in run.notes]
    for path, note in notes:
        if options.verbose or note.kind not in _QUIET_NOTES:
            yield Row("  Note", _note(path, note), "dim")


def _note(path: str, note: Note) -> str:
    place = f" line {note.line:,}" if note.line is not None else f" byte {note.byte:,}" if note.byte is not None else ""
    return f"{path}{place}: {note.message}"


def _not_ignored(sources: Iterable[SourceReport]) -> list[SourceReport]:
    return [source for source in sources if source.state == "not-read"]


def _unread(source: SourceReport) -> Row:
    label = {"not-read": "  Not read", "ignored": "  Ignored", "read": "  Read"}[source.state]
    extent = f"{source.format}, {words.counted(source.points, 'point')}" if source.state == "read" else source.reason
    return Row(label, f"{source.path}: {extent}", "bold" if source.state == "not-read" else "dim")
