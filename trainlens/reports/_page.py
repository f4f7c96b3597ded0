"""What the HTML page says of one run, as plain values for its template: cards, charts, timeline, facts, ticket."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from markupsafe import Markup

from trainlens import plugins
from trainlens.diagnosis import Check, Evidence, Finding, RunDiagnosis
from trainlens.errors import PluginError
from trainlens.figures import moment, number, steps
from trainlens.model import Fact
from trainlens.reports import _words as words
from trainlens.reports._axes import axes
from trainlens.reports._capability import radar, scores
from trainlens.reports._drawings import Drawing, describe
from trainlens.reports._panels import close_ups, extent, panels, whole_curves
from trainlens.reports._ranks import Heat, heats, layers
from trainlens.reports._timeline import anchor, pins, slug, spark

MAIN, SMALL, CLOSE, SECOND = 210, 150, 130, 110  # heights of plots in pixels
MOST_STEPS_TOLD = 24

FACT_GROUPS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (title, re.compile(pattern))
    for title, pattern in (
        ("Optimizer", r"optim|learning|^lr|_lr|lr_|decay|beta|clip|warmup|schedul|epsilon|momentum|loss_scal"),
        ("Batch", r"batch|accumul|sampl|(?<!_)tokens?_|epoch|seed|dataset"),
        ("Model", r"num_layers|hidden|heads|vocab|seq_?len|max_pos|param|dtype|precision|bf16|fp16|model|ffn|arch"),
        ("Machine", r"world|gpu|node|parallel|iters|max_steps|total_steps|interval|save|cuda|backend|version"),
    )
)
MOST_IN_GROUP = 9


@dataclass
class Charts:
    """The charts of a page as they are placed: each gets an element, until `room` is used up."""

    room: int
    boxes: list[tuple[str, Drawing | Heat, int, Hashable, str]] = field(default_factory=list)

    def add(self, drawing: Drawing | Heat, height: int, share: Hashable, page: str) -> str:
        """The id of the element to draw in; "" when there is no room for another chart."""
        if len(self.boxes) >= self.room:
            return ""
        self.boxes.append((f"chart-{len(self.boxes) + 1}", drawing, height, share, page))
        return self.boxes[-1][0]


# ---- a run ---------------------------------------------------------------------------------------


def page(
    run: RunDiagnosis, prefix: str, charts: Charts, settings: Mapping[str, Any], *, model: str, brief: bool
) -> dict[str, Any]:
    """Everything the template needs of a run. `prefix` begins its element ids; `model` is the reference of
    benchmarks; `brief` leaves out what is long."""
    first, last = extent(run)
    cards = words.cards(run)
    required = settings.get("require")
    found, reference = scores(run, required if isinstance(required, Sequence) else (), model)
    state = words.state(run)
    told = [_card(run, card, charts, prefix) for card in cards]
    drawn = [(panel, [_placed(one, wide, charts, prefix) for one, wide in panel.charts]) for panel in panels(run)]
    curves = _anchored(prefix, [one for _, ones in drawn for one in ones])
    for one in told:
        one["curve"] = curves.get(one["card"].finding.metric or "", "")
    graver = {one["card"].number: one["card"].finding.severity for one in told}
    for one in (one for _, ones in drawn for one in ones):
        one["bands"] = {
            number: graver[number] for number in dict.fromkeys(band.number for band in one["drawing"].bands)
        }
    return {
        "run": run,
        "p": prefix,
        "brief": brief,
        "state": state,
        "icon": {"healthy": "ok", "not-judged": "none"}.get(state, state),
        "label": words.verdict_label(run),
        "axes": axes(run),
        "cards": told,
        "anchors": {one["card"].number: one["id"] for one in told},
        "severities": severities(run),
        "panels": [{"panel": panel, "charts": ones} for panel, ones in drawn],
        "layers": [_heat(one, charts, prefix) for one in layers(run, whole_curves(run), (first, last))],
        "heats": [_heat(one, charts, prefix) for one in heats(run, first, last)],
        "scores": found,
        "reference": reference,
        "radar": radar(found),
        "pins": pins(run, cards, prefix),
        "loss": spark(whole_curves(run).get("train/loss"), 1000, 100, (first, last)),
        "times": _times(run),
        "left": [check for check in run.checks if check.status in ("not-applicable", "not-enough-data", "failed")],
        "clean": [check.detector for check in run.checks if check.status == "clean"],
        "facts": fact_groups(run.facts),
        "pages": {} if brief else _pages(run.checks, cards),
        "ticket": ticket(run),
        "mark": marker(run),
    }  # fmt: skip


def _placed(drawing: Drawing, wide: bool, charts: Charts, prefix: str) -> dict[str, Any]:
    height = MAIN if wide else SMALL
    element = charts.add(drawing, height, (prefix, drawing.first, drawing.last), prefix)
    return {"drawing": drawing, "height": height, "wide": wide, "words": describe(drawing), "element": element,
            "bands": {}, "anchor": ""}  # fmt: skip


def _anchored(prefix: str, placed: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Gives each chart its own anchor, `curve-train-loss`; the anchor of each metric that is drawn."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for one in placed:
        first = slug(one["drawing"].metrics[0])
        name = next(text for at in count(1) if (text := f"{first}-{at}" if at > 1 else first) not in taken)
        taken.add(name)
        one["anchor"] = f"{prefix}curve-{name}"
        for metric in one["drawing"].metrics:
            found.setdefault(metric, one["anchor"])
    return found


def _heat(heat: Heat, charts: Charts, prefix: str) -> dict[str, Any]:
    height = min(272, max(110, 17 * len(heat.ranks)))
    return {"heat": heat, "height": height,
            "element": charts.add(heat, height, (prefix, heat.first, heat.last), prefix)}  # fmt: skip


def severities(run: RunDiagnosis) -> dict[str, int]:
    """How many findings of each severity, those told inside another aside."""
    told = [one.severity for card in words.cards(run) for one in (card.finding, *card.same)]
    return {name: told.count(name) for name in ("error", "warning", "info") if name in told}


def _card(run: RunDiagnosis, card: words.Card, charts: Charts, prefix: str) -> dict[str, Any]:
    drawings = close_ups(run, card.finding)
    first, last = card.finding.first_step, card.finding.last_step
    return {
        "card": card,
        "id": anchor(prefix, card),
        "inside": [f"{prefix}{slug(one.id)}" for one in (*card.same, *card.includes) if one.id],
        "zoom": f"{first},{first if last is None else last}" if first is not None else "",
        "evidence": [(evidence.text, _judged(evidence)) for evidence in card.finding.evidence],
        "same": [_where(one) for one in card.same[:MOST_STEPS_TOLD]],
        "more": max(0, len(card.same) - MOST_STEPS_TOLD),
        "charts": [
            {"drawing": one, "height": height, "wide": False, "words": describe(one), "bands": {}, "anchor": "",
             "element": charts.add(one, height, (prefix, card.number), prefix)}
            for one, height in zip(drawings, (CLOSE, SECOND), strict=False)
        ],
    }  # fmt: skip


def _where(finding: Finding) -> str:
    return steps(finding.first_step, finding.last_step).replace("steps ", "").replace("step ", "") or finding.title


def _judged(evidence: Evidence) -> str:
    """ "7.53 s, expected 7.1 s, limit 7.46 s (slowdown.rise, trainlens.toml), steps 51,300–60,000"."""
    parts = [number(evidence.observed, evidence.unit)] if evidence.observed is not None else []
    if evidence.expected is not None:
        parts.append(f"expected {number(evidence.expected, evidence.unit)}")
    if evidence.limit is not None:
        origin = ", ".join(text for text in (evidence.limit_name, evidence.limit_origin) if text)
        parts.append(f"limit {number(evidence.limit, evidence.unit)}" + (f" ({origin})" if origin else ""))
    if where := steps(evidence.first_step, evidence.last_step):
        parts.append(where)
    if evidence.place is not None:
        parts.append(str(evidence.place))
    return ", ".join(parts)


def _pages(checks: Sequence[Check], cards: Sequence[words.Card]) -> dict[str, str]:
    """The pages of the detectors that found something; a detector that is not installed here has none."""
    known = {check.detector for check in checks}
    found: dict[str, str] = {}
    for card in cards:
        name = card.finding.detector
        if name in known and name not in found:
            try:
                found[name] = plugins.page(plugins.load("detectors", name))
            except PluginError:
                continue
    return found


def marker(run: RunDiagnosis) -> Callable[[str], Markup]:
    """A filter that sets the run's metric names in code type; everything else is escaped."""
    names = {name for metric in run.metrics for name in (metric.name, *metric.raw)}
    names |= {finding.metric for finding in run.findings if finding.metric}
    names = {name for name in names if len(name) > 1 and not (name.isalpha() and len(name) > 3)}  # "time" is a word too
    plain = sorted(names, key=lambda name: (-len(name), name))[:500]
    pattern = re.compile("|".join(rf"(?<![\w/]){re.escape(name)}(?![\w/])" for name in plain) or r"(?!)")

    def mark(text: str) -> Markup:
        told, at = Markup(), 0
        for found in pattern.finditer(text):
            told += Markup("{}<code>{}</code>").format(text[at : found.start()], found[0])
            at = found.end()
        return told + Markup.escape(text[at:])

    return mark


def _times(run: RunDiagnosis) -> tuple[str, str]:
    """Date and time of the first and last point, "" for unknown."""
    stamps = [one for curve in run.curves for one in curve.time if one is not None]
    return (moment(min(stamps)), moment(max(stamps))) if stamps else ("", "")


# ---- configuration and ticket ------------------------------------------------------------------------


def fact_groups(facts: Sequence[Fact]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The facts that usually matter, in four groups of nine at most."""
    groups: dict[str, list[tuple[str, str]]] = {"Model": [], "Batch": [], "Optimizer": [], "Machine": []}
    seen: set[str] = set()
    for fact in facts:
        name = fact.name.rpartition(".")[2].rpartition("/")[2]
        value = str(fact.value)
        dull = isinstance(fact.value, bool) or value in ("None", "null", "", "False", "True") or len(value) > 60
        title = next((title for title, pattern in FACT_GROUPS if pattern.search(name.lower())), "")
        if title and not dull and name not in seen and len(groups[title]) < MOST_IN_GROUP:
            seen.add(name)
            groups[title].append((name, fact_value(fact)))
    return [(title, rows) for title, rows in groups.items() if rows]


def fact_value(fact: Fact) -> str:
    if isinstance(fact.value, bool | str):
        return str(fact.value)[:300]
    return f"{fact.value:,}" if isinstance(fact.value, int) else number(fact.value)


def ticket(run: RunDiagnosis) -> str:
    return "\n".join(_ticket_lines(run))


def _ticket_lines(run: RunDiagnosis) -> Iterator[str]:
    yield f"{run.name}: {words.verdict(run)}"
    yield words.result_line(run)
    if cost := words.cost_line(run):
        yield f"Cost: {cost}"
    if first := words.do_first(run):
        yield f"Do first: {first}"
    for card in words.cards(run):
        one = card.finding
        parts = (one.severity, one.detector, steps(one.first_step, one.last_step), words.confidence(one))
        again = f" And {len(card.same):,} more like it." if card.same else ""
        yield f"{card.number}. {', '.join(part for part in parts if part)}: {one.message}{again}"
        for cause in one.causes:
            if cause.verdict == "supported":
                yield f"   Cause: {cause.cause}. {cause.message}"
