"""Markdown, for the comment of an issue or pull request and for the summary page of a CI job.

Verdict, result and cost, the loss as a row of blocks, each finding with its causes and what to do; what was not judged
is folded away. Text of a log is escaped: it neither formats, nor links, nor calls anyone's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.figures import NBSP
from trainlens.reports import _gate
from trainlens.reports import _words as words
from trainlens.reports._scores import scores_line
from trainlens.reports._sparkline import sparkline

SUFFIX = ".md"
WIDTH = 72  # columns of the chart: what a comment shows without scrolling
MOST = 40  # runs told in full
_EXPLAINED = 40  # lines
LONGEST = 60_000  # characters; GitHub refuses a comment of more than 65,536
_ICON = {"error": "×", "warning": "▲", "info": "i"}
_STATE = {"error": "×", "warning": "▲", "healthy": "✓", "not-judged": "−"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")
# A name behind @ or #, and a bare address, become links of their own accord: an invisible mark breaks them.
_LINKS = re.compile(r"(@|#|://|www\.)(?=\S)")
_SPACE = re.compile("[ \t\r\n]+")
_BREAK = "\u200b"


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    blocks = [f"## trainlens: {_escaped(words.verdict_of(diagnosis))}"]
    if len(diagnosis.runs) > 1:
        blocks.append(_table(diagnosis))
    troubled = [run for run in diagnosis.runs if run.findings or run.accepted or len(diagnosis.runs) == 1]
    room = LONGEST - sum(map(len, blocks)) - 200
    for at, run in enumerate(troubled):
        told = list(_run(run, alone=len(diagnosis.runs) == 1))
        fitting = [
            block for block, end in zip(told, accumulate(len(one) + 2 for one in told), strict=True) if end < room
        ]
        if at == MOST or len(fitting) < len(told):
            blocks += fitting if at < MOST and len(fitting) > 1 else []
            left = len(troubled) - at
            blocks.append(
                f"Cut here: {left:,} of {len(troubled):,} runs with findings are not told, or not to the end."
            )
            break
        room -= sum(len(one) + 2 for one in told)
        blocks += told
    unread = [source for source in diagnosis.unread if source.state == "not-read"]
    if unread:
        blocks.append(
            "\n".join(f"- not read: {_code(one.path)}: {_escaped(one.reason)}" for one in unread[:20])[: LONGEST // 10]
        )
    if obsolete := _gate.unmatched(diagnosis):
        blocks.append(_escaped(obsolete)[: LONGEST // 10])
    return ("\n\n".join(blocks) + "\n").encode("utf-8", "replace")


def _table(diagnosis: Diagnosis) -> str:
    rows = ["| | run | verdict |", "| --- | --- | --- |"]
    rows += [
        f"| {_STATE[words.state(run)]} | {_escaped(run.name)} | {_escaped(words.verdict_text(run))} |"
        for run in diagnosis.runs[:200]
    ]
    return "\n".join(rows)


def _run(run: RunDiagnosis, *, alone: bool) -> Iterator[str]:
    if not alone:
        yield f"### {_STATE[words.state(run)]} {_escaped(run.name)}: {_escaped(words.verdict_label(run))}"
    lines = [
        ("Do first", words.do_first(run)),
        ("Result", words.result_line(run)),
        ("Schedule", words.schedule_line(run)),
        ("Cost", words.cost_line(run)),
    ]
    yield "  \n".join(f"**{name}** {_escaped(text)}" for name, text in lines if text)
    cards = words.cards(run)
    if cards and (chart := sparkline(run, cards, WIDTH)) is not None:
        rows = [chart.levels, chart.marks, chart.ticks]
        yield "\n".join(["```text", *(row.rstrip() for row in rows if row), "```"])
    for card in cards:
        yield _card(card)
    if accepted := words.accepted_line(run):
        yield f"**Accepted** {_escaped(accepted)}"
    if run.explained:
        told = "\n".join(f"- {_escaped(one.message)} ({_code(one.detector)})" for one in run.explained[:_EXPLAINED])
        yield f"<details><summary>Explained, not flagged</summary>\n\n{told}\n\n</details>"
    if scores := scores_line(run):
        yield f"<details><summary>Published scores</summary>\n\n{_escaped(scores)}\n\n</details>"
    if left := words.not_judged_line(run):
        yield f"<details><summary>Not judged</summary>\n\n{_escaped(left)}\n\n</details>"


def _card(card: words.Card) -> str:
    finding = card.finding
    lines = [f"**{card.number}. {_ICON[finding.severity]} {_escaped(finding.title)}**", _where(finding)]
    lines.append(_escaped(finding.message))
    if card.same:
        lines.append(
            "Also: " + _escaped(", ".join(words.steps(one.first_step, one.last_step) for one in card.same[:8]))
        )
    lines += [f"Includes: {_escaped(part.title)} ({_code(part.detector)})" for part in card.includes]
    told = "  \n".join(lines)
    items = [
        f"- {sign} {_escaped(cause.cause)}: {_escaped(cause.message)}"
        for sign, outcome in (("**supported:**", "supported"), ("ruled out:", "ruled-out"))
        for cause in finding.causes
        if cause.verdict == outcome
    ]
    unknown = [cause.cause for cause in finding.causes if cause.verdict == "not-measured"]
    items += [f"- not measured: {_escaped(', '.join(unknown))}"] if unknown else []
    items += [f"- → {_escaped(action)}" for action in finding.actions]
    return told + ("\n\n" + "\n".join(items) if items else "")


def _where(finding: Finding) -> str:
    rank = f"rank {finding.rank}" if finding.rank is not None and finding.rank >= 0 else ""
    parts = [words.steps(finding.first_step, finding.last_step), rank, words.confidence(finding)]
    return " · ".join([_code(finding.detector), *(part for part in parts if part)])


def _escaped(text: str) -> str:
    flat = _SPACE.sub(" ", _plain(text)).strip()
    return _LINKS.sub(rf"\1{_BREAK}", _SPECIAL.sub(r"\\\1", flat))


def _code(text: str) -> str:
    """Code keeps everything as it stands, but for the marks that would end it."""
    flat = _SPACE.sub(" ", _plain(text)).strip().replace("|", "¦")
    return f"`{flat}`" if "`" not in flat else _escaped(flat)


def _plain(text: str) -> str:
    text = _SPACE.sub(" ", text)
    return "".join(letter if letter.isprintable() or letter == NBSP else "\ufffd" for letter in _gate.plain(text))
