"""One offline page with interactive charts: the verdict, findings with causes, panels, sources.

A single run is told from top to bottom; several runs begin with a table of all of them. Nothing is loaded from
anywhere: Bokeh's script stands in the page, and a content security policy allows that script and the page's own only.
Everything that comes from a log is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainlens.diagnosis import Diagnosis, RunDiagnosis
from trainlens.figures import counted, moment, number, seconds, steps
from trainlens.plugins import choice
from trainlens.reports import _words as words
from trainlens.reports._axes import Axis
from trainlens.reports._page import Charts, fact_value, page, severities
from trainlens.reports._panels import eight_numbers, extent, left_out, whole_curves
from trainlens.reports._published import MODELS
from trainlens.reports._timeline import event_ticks, quiet_words, spark, step_ticks

SUFFIX = ".html"

MOST_CHARTS = 72  # of a page
MOST_BYTES = 2_450_000  # of a page, of which Bokeh's script is half
_CHART_BYTES = 12_000  # of one chart, about
MANY_RUNS = 8  # from here on only runs with findings are told in full
_SPARK = (110, 18)
_ORDER: dict[words.State, int] = {"error": 0, "warning": 1, "not-judged": 2, "healthy": 3}
_ICONS = {"healthy": "ok", "not-judged": "none"}


@dataclass(frozen=True)
class Options:
    """Without charts the page holds no script but its own and is some tens of kilobytes."""

    charts: bool = choice(True, "draw the curves")
    reference: str = choice(
        "", "model whose published scores benchmarks are held against; empty: targets, else the run's best",
        choices=("", *MODELS),
    )  # fmt: skip


def render(diagnosis: Diagnosis, options: Options) -> bytes:
    """The page as UTF-8. The same diagnosis gives the same bytes.

    A page that would be too large is made again with fewer charts: those of the runs told last are left out.
    """
    room = MOST_CHARTS if options.charts else 0
    told, drawn = _rendered(diagnosis, options, room)
    while len(told) > MOST_BYTES and drawn:
        told, drawn = _rendered(diagnosis, options, max(0, drawn - 1 - (len(told) - MOST_BYTES) // _CHART_BYTES))
    return told


def _rendered(diagnosis: Diagnosis, options: Options, room: int) -> tuple[bytes, int]:
    """The page with at most `room` charts, and how many it has."""
    several = len(diagnosis.runs) > 1
    ordered = sorted(diagnosis.runs, key=_worst_first) if several else list(diagnosis.runs)
    many = len(ordered) > MANY_RUNS
    charts = Charts(room)
    told = [run for run in ordered if run.findings or not many]
    pages = [
        page(run, f"r{at}-" if several else "", charts, diagnosis.settings, model=options.reference, brief=many)
        for at, run in enumerate(told, 1)
    ]
    anchors = {id(run): f"r{at}-top" for at, run in enumerate(told, 1)}
    bokeh, chart_data = _drawn(charts, {one["p"]: one["axes"] for one in pages})
    own = (_beside("charts.js") if bokeh else "") + _beside("page.js")
    text = _template().render(
        diagnosis=diagnosis,
        title=_title(diagnosis),
        css=_beside("page.css"),
        script=own,
        bokeh=bokeh,
        charts=chart_data,
        policy=_policy([own, bokeh] if bokeh else [own]),
        pages=pages,
        fleet=_fleet(diagnosis, ordered, anchors) if several else None,
        words=words,
    )
    return str(text).encode("utf-8", "replace"), len(charts.boxes)


def _drawn(charts: Charts, x_axes: dict[str, list[Axis]]) -> tuple[str, str]:
    """Bokeh's script and the charts as JSON; both empty when there is nothing to draw."""
    if not charts.boxes:
        return "", ""
    from trainlens.reports._bokeh_charts import Box
    from trainlens.reports._bokeh_document import document, script

    return script(), document([Box(*box) for box in charts.boxes], x_axes)


def _policy(scripts: Iterable[str]) -> str:
    """The content security policy: these scripts by their hash, inline styles and images, nothing else."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(printable=_printable)
    environment.finalize = _printable
    environment.globals.update(
        counted=counted, moment=moment, number=number, seconds=seconds, steps=steps, eight_numbers=eight_numbers,
        left_out=left_out, event_ticks=event_ticks, quiet_words=quiet_words, step_ticks=step_ticks,
        fact_value=fact_value, spark=spark, polar=_polar,
    )  # fmt: skip
    return environment.from_string(_beside("page.jinja"))


def _polar(angle: float, share: float) -> str:
    """ "x,y" at an angle clockwise from the top, `share` of a radius of 100."""
    return f"{100 * share * math.sin(angle):.1f},{-100 * share * math.cos(angle):.1f}"


_CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
            if code not in (9, 10, 13)}  # fmt: skip


def _printable(value: Any) -> Any:
    """Text without control characters and without marks that turn the direction of writing; anything else as it is."""
    if isinstance(value, str) and not value.isprintable():
        return value.translate(_CONTROL) if type(value) is str else type(value)(value.translate(_CONTROL))
    return value


def _title(diagnosis: Diagnosis) -> str:
    if len(diagnosis.runs) == 1:
        run = diagnosis.runs[0]
        return f"{run.name}: {words.verdict_label(run)} · trainlens"
    return f"{words.verdict_of(diagnosis)} · trainlens"


# ---- several runs ----------------------------------------------------------------------------------


def _worst_first(run: RunDiagnosis) -> tuple[Any, ...]:
    """State, number of findings, newest last line, name."""
    told = severities(run)
    last = max((one for curve in run.curves for one in curve.time if one is not None), default=0.0)
    return _ORDER[words.state(run)], -told.get("error", 0), -told.get("warning", 0), -last, run.name


def _fleet(diagnosis: Diagnosis, runs: list[RunDiagnosis], anchors: dict[int, str]) -> dict[str, Any]:
    states = Counter(words.state(run) for run in runs)
    worst = min(states, key=lambda state: _ORDER[state])
    first = next((line for run in runs if (line := words.do_first(run))), None)
    return {
        "icon": _ICONS.get(worst, worst),
        "verdict": words.verdict_of(diagnosis),
        "first": first,
        "first_run": next((run.name for run in runs if words.do_first(run)), ""),
        "states": [(state, _ICONS.get(state, state), states[state]) for state in _ORDER if states[state]],
        "same": _same_causes(runs),
        "rows": [_row(at, run, anchors.get(id(run), "")) for at, run in enumerate(runs)],
    }


def _row(at: int, run: RunDiagnosis, anchor: str) -> dict[str, Any]:
    state, loss = words.state(run), whole_curves(run).get("train/loss")
    medians = {metric.name: metric for metric in reversed(run.metrics)}
    mfu, last = medians.get("mfu"), medians.get("train/loss")
    return {
        "order": at,
        "run": run,
        "anchor": anchor,
        "state": state,
        "icon": _ICONS.get(state, state),
        "wrong": words.verdict_text(run) if run.findings or state == "not-judged" else "",
        "severities": severities(run),
        "spark": spark(loss, *_SPARK, extent(run), points=30),
        "loss": last.last if last else None,
        "mfu": mfu.median if mfu else None,
    }


def _same_causes(runs: list[RunDiagnosis]) -> list[tuple[str, list[str]]]:
    """Supported causes that more than one run has, most runs first."""
    found: dict[str, list[str]] = {}
    for run in runs:
        supported = {cause.cause for one in run.findings for cause in one.causes if cause.verdict == "supported"}
        for cause in supported:
            found.setdefault(cause, []).append(run.name)
    shared = [(cause, names) for cause, names in found.items() if len(names) > 1]
    return sorted(shared, key=lambda one: (-len(one[1]), one[0]))[:8]
