"""One sheet of 1600 × 1000 pixels for a chat, a ticket or a slide: the verdict, eight numbers, the curves that matter.

Several runs are told as a grid of their loss curves, worst first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainlens.diagnosis import Diagnosis, RunDiagnosis
from trainlens.errors import SettingsError
from trainlens.plugins import choice
from trainlens.reports import _words as words
from trainlens.reports._drawings import Drawing, draw
from trainlens.reports._panels import chart, close_ups, eight_numbers, extent, panels, slot, whole_curves
from trainlens.reports._ranks import Heat, heats

SUFFIX = ".png"

WIDTH, HEIGHT = 1600, 1000
_LEFT, _RIGHT = 56, 1560
_RUNS = 12  # of a grid
_HEALTHY = ("Loss", "Gradient norm", "Step time", "MFU", "GPU memory")
_FILL = (
    "Gradient norm",
    "Step time",
    "Throughput",
    "MFU",
    "GPU memory",
    "Learning rate",
    "GPU utilization",
    "Accuracy",
)
_ORDER: dict[words.State, int] = {"error": 0, "warning": 1, "not-judged": 2, "healthy": 3}


@dataclass(frozen=True)
class Options:
    """A sheet is 16 × 10 inches: 1600 × 1000 pixels at 100 dots an inch."""

    run: str = choice("", "name of the run to draw where there are several; empty: they share the sheet")
    dpi: int = choice(100, "dots an inch, 40 to 600; the sheet is 16 inches wide")
    width: int = choice(0, "pixels across, 640 to 9600; 0: as many as the dots an inch make")

    def __post_init__(self) -> None:
        if not 40 <= self.dpi <= 600:
            raise ValueError(f"png.dpi cannot be {self.dpi}: 40 to 600 are possible")
        if self.width and not 640 <= self.width <= 9600:
            raise ValueError(f"png.width cannot be {self.width}: 640 to 9600 are possible")


def render(diagnosis: Diagnosis, options: Options) -> bytes:
    """The sheet as PNG. The same diagnosis gives the same bytes with the same matplotlib."""
    from trainlens.reports._mpl_charts import Sheet

    sheet = Sheet(WIDTH, HEIGHT)
    chosen = [run for run in diagnosis.runs if options.run and run.name == options.run]
    if options.run and not chosen:
        names = ", ".join(sorted(run.name for run in diagnosis.runs)[:12])
        raise SettingsError(f"there is no run {options.run!r}", where="png.run", hint=f"There are: {names}")
    if chosen or len(diagnosis.runs) == 1:
        _one_run(sheet, (chosen or list(diagnosis.runs))[0])
    else:
        _several(sheet, diagnosis)
    version = f"trainlens {diagnosis.version}"
    sheet.text(_RIGHT, 982, version, 9.5, room=200, colour=_soft(), align="right")
    return sheet.png(options.width or WIDTH * options.dpi // 100, options.dpi)


def _soft() -> str:
    from trainlens.reports._mpl_charts import SOFT

    return SOFT


# ---- one run ---------------------------------------------------------------------------------------


def _one_run(sheet: Any, run: RunDiagnosis) -> None:
    _head(sheet, words.state(run), _run_line(run), _verdict(run))
    answers = [("Do first", words.do_first(run)), ("Result", words.result_line(run)), ("Cost", words.cost_line(run))]
    y = 112
    for label, text in answers:
        if text:
            sheet.text(_LEFT + 36, y, label, 12.5, room=90, colour=_soft())
            sheet.text(_LEFT + 132, y, text, 12.5, room=_RIGHT - _LEFT - 132, bold=label == "Do first")
            y += 28
    _numbers(sheet, run)
    _cells(sheet, run)
    sheet.text(_LEFT, 982, _foot(run), 9.5, room=_RIGHT - _LEFT - 180, colour=_soft())


def _verdict(run: RunDiagnosis) -> str:
    """The verdict without what could not be read or judged, which stands at the foot of the sheet."""
    return words.verdict(run).removesuffix(". ".join(["", *words.incomplete(run)]))


def _head(sheet: Any, state: str, line: str, verdict: str) -> None:
    sheet.text(_LEFT + 36, 28, line, 10, room=_RIGHT - _LEFT - 36, colour=_soft())
    sheet.mark(_LEFT + 12, 58, state, 22)
    room = _RIGHT - _LEFT - 36
    size = next((size for size in (22.0, 20.0, 18.0, 16.0) if _fits(sheet, verdict, size, room)), 15.0)
    sheet.text(_LEFT + 36, 68, verdict, size, room=room, bold=True)


def _fits(sheet: Any, text: str, size: float, room: float) -> bool:
    trial = sheet.figure.text(0, 0, text, fontsize=size, fontweight="bold", family="DejaVu Sans", parse_math=False)
    width = sheet.wide(trial)
    trial.remove()
    return bool(width <= room)


def _run_line(run: RunDiagnosis) -> str:
    parts = [run.path or run.name]
    if run.result.gpus:
        parts.append(words.counted(run.result.gpus, "GPU"))
    stamps = [one for curve in run.curves for one in curve.time if one is not None]
    if stamps:
        parts.append(f"{words.moment(min(stamps))} to {words.moment(max(stamps))}")
    return " · ".join([*parts, "x axis: steps"])


def _numbers(sheet: Any, run: RunDiagnosis) -> None:
    from trainlens.reports._mpl_charts import TEXT

    found = eight_numbers(run)
    if not found:
        return
    top, width = 186, (_RIGHT - _LEFT) / 8
    sheet.line(_LEFT, top, _RIGHT, top)
    sheet.line(_LEFT, top + 74, _RIGHT, top + 74)
    for at, one in enumerate(found):
        x = _LEFT + at * width
        sheet.text(x, top + 17, one.name, 10, room=width - 12, colour=_soft())
        used = sheet.text(x, top + 43, one.value, 17, room=width - 12, bold=True)
        if one.unit and width - used > 40:
            sheet.text(x + used + 5, top + 43, one.unit, 10, room=width - used - 14, colour=_soft())
        sign = {"error": "×", "warning": "▲"}.get(one.severity, "")
        under = f"{sign} finding {one.finding}; {one.under}" if one.finding else one.under
        sheet.text(x, top + 63, under, 9.5, room=width - 12, colour=TEXT.get(one.severity, _soft()))


def _cells(sheet: Any, run: RunDiagnosis) -> None:
    """Loss in two cells, then up to four more; nothing but words where there are no curves."""
    from trainlens.reports import _mpl_charts as mpl

    chosen = _chosen(run)
    gap, width = 44, (_RIGHT - _LEFT - 2 * 44) / 3
    tops, height = (292, 632), 310
    places = [(_LEFT, tops[0], 2 * width + gap), (_LEFT + 2 * (width + gap), tops[0], width)]
    places += [(_LEFT + at * (width + gap), tops[1], width) for at in range(3)]
    for (x, y, wide), drawing in zip(places, chosen, strict=False):
        draw_in: Callable[..., None] = mpl.heat if isinstance(drawing, Heat) else mpl.chart
        draw_in(sheet, drawing, x, y, wide, height)
    if not chosen:
        sheet.text(_LEFT, 330, "There are no curves to draw.", 12.5, room=900, colour=_soft())


def _chosen(run: RunDiagnosis) -> list[Drawing | Heat]:
    """Five drawings: loss, the metric of finding 1, close-ups of the first episode that has them, ranks."""
    curves = whole_curves(run)
    drawn: list[Drawing | Heat] = []
    named = {drawing.title: drawing for panel in panels(run) for drawing, _ in panel.charts}
    first = named.get("Loss") or named.get("Reward") or next(iter(named.values()), None)
    if first is None:
        return []
    drawn.append(first)
    told = words.cards(run)
    if told:
        metric = told[0].finding.metric
        if metric in curves and (own := _of_metric(run, metric or "")) and own.title != first.title:
            drawn.append(own)
            told = tuple(sorted(told, key=lambda card: card.finding.metric == metric))
        drawn += next((found for card in told if (found := close_ups(run, card.finding))), [])
        drawn += heats(run, *extent(run), most=1)
    titles = {one.title for one in drawn if isinstance(one, Drawing)}
    for title in (*(_HEALTHY if not told else ()), *_FILL, *named):
        if title in named and title not in titles and len(drawn) < 5:
            titles.add(title)
            drawn.insert(_before_close_ups(drawn), named[title])
    return drawn[:5]


def _before_close_ups(drawn: list[Drawing | Heat]) -> int:
    return next((at for at, one in enumerate(drawn) if isinstance(one, Heat) or one.of), len(drawn))


def _of_metric(run: RunDiagnosis, metric: str) -> Drawing | None:
    """The panel chart that shows a metric, else a chart of it alone."""
    from trainlens.reports._panels import PANELS

    curves = whole_curves(run)
    for _, _, slots in PANELS:
        for one in slots:
            if any(metric == name for group in one.metrics for _, name in group):
                return chart(run, curves, slot(one.title))
    return draw(run, metric, [("median", curves[metric])], extent=extent(run)) if metric in curves else None


def _foot(run: RunDiagnosis) -> str:
    """What the sheet does not show: info findings and what could not be judged."""
    told = [card for card in words.cards(run) if card.finding.severity == "info"][:2]
    parts = [f"{card.finding.title} ({card.number}) is info" for card in told]
    judged = sum(check.status in ("clean", "found") for check in run.checks)
    if run.checks:
        parts.append(f"{judged} of {words.counted(len(run.checks), 'detector')} judged this run")
    unread = [source.path for source in run.sources if source.state == "not-read"]
    if unread:
        parts.append(f"Not read: {', '.join(unread[:3])}")
    if failed := [check.detector for check in run.checks if check.status == "failed"]:
        parts.append(f"Failed: {', '.join(failed[:3])}")
    return ". ".join(parts) + ("." if parts else "")


# ---- several runs ----------------------------------------------------------------------------------


def _several(sheet: Any, diagnosis: Diagnosis) -> None:
    runs = sorted(diagnosis.runs, key=lambda run: (_ORDER[words.state(run)], -len(run.findings), run.name))
    state = words.state(runs[0]) if runs else "not-judged"
    line = f"{words.counted(diagnosis.summary.points, 'point')} read · training loss over steps, worst run first"
    _head(sheet, state, line if runs else "", words.verdict_of(diagnosis))
    shown = runs[:_RUNS]
    rows = max(1, -(-len(shown) // 4)) if len(shown) > 4 else 1 if len(shown) < 3 else 2
    columns = -(-len(shown) // rows) if shown else 1
    gap, top, bottom = 40, 104, 950
    width, height = (_RIGHT - _LEFT - (columns - 1) * gap) / columns, (bottom - top) / rows
    for at, run in enumerate(shown):
        x, y = _LEFT + at % columns * (width + gap), top + at // columns * height
        _run_cell(sheet, run, x, y, width, height - 16)
    if len(runs) > len(shown):
        sheet.text(_LEFT, 982, f"{len(runs) - len(shown):,} more runs are not shown.", 9.5, room=900, colour=_soft())


def _run_cell(sheet: Any, run: RunDiagnosis, x: float, y: float, width: float, height: float) -> None:
    from trainlens.reports import _mpl_charts as mpl

    sheet.mark(x + 8, y + 12, words.state(run), 12)
    sheet.text(x + 24, y + 17, run.name, 12, room=width - 24, bold=True)
    sheet.text(x + 24, y + 37, _verdict(run), 9.5, room=width - 24, colour=_soft())
    drawing = chart(run, whole_curves(run), slot("Loss")) or next(
        (one for panel in panels(run) for one, _ in panel.charts), None
    )
    if drawing is None:
        sheet.text(x + 24, y + 80, "no curves", 10, room=width - 24, colour=_soft())
    else:
        mpl.chart(sheet, drawing, x, y + 48, width, height - 48)
