"""Drawings as one Bokeh document: its JSON and the ids of its charts. Imported only when an HTML page is written.

Bokeh's canvas knows no CSS variables: each model carries its role as `name`, and page.js gives it the colours of the
page. The colours here are those of the light page, for whoever reads the JSON without that script.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bokeh
import numpy as np
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    BoxAnnotation,
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    FixedTicker,
    HoverTool,
    Label,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
    ResetTool,
    Span,
)
from bokeh.plotting import figure

from trainlens.reports._drawings import Drawing, Line, non_finite_steps
from trainlens.reports._ranks import Heat

TOOLBAR = 30  # pixels above the plot, laid over the caption by the page
AXIS = 22
_THIN = 0.006  # share of the width under which a band is a line
_INK, _SOFT, _GRID, _LINE = "#16191d", "#545d66", "#e8ebee", "#d9dde1"
_CURVES = {1: "#0072b2", 2: "#a2477a", 3: "#00805f"}
_RANGES = {1: "#9cc7e2", 2: "#dcbccd", 3: "#a6d3c7"}
_BANDS = {"error": "#a83200", "warning": "#e69f00", "info": "#0072b2"}
_CHIPS = {"error": ("#a83200", "#fbeae2"), "warning": ("#7d5000", "#fdf3dc"), "info": ("#005a94", "#e4f0f8")}
_HEAT = "#d55e00"
_TOOLTIP = (
    '<div style="font:12px/1.4 sans-serif;{}">{{}}</div>'.format(
        "color:var(--ink);background:var(--bg);border:1px solid var(--line);margin:-6px;padding:4px 8px"
    )
)
_TOOLBAR_STYLE = ":host{opacity:.6}:host(:hover){opacity:1}.bk-divider{display:none}.bk-active{border-color:transparent}"


@dataclass(frozen=True)
class Box:
    """One chart to draw: its element in the page, how high its plot is, with whom it shares the x range."""

    element: str
    drawing: Drawing | Heat
    height: int
    share: Hashable


def script() -> str:
    """Bokeh's own script, alone: no widgets, tables, WebGL or formulas."""
    path = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return path.read_text("utf-8")


def document(boxes: Sequence[Box]) -> str:
    """JSON of {"doc": a document that holds all charts, "roots": {model id: element}}, the same at every call."""
    document = Document(title="")
    plots: list[Any] = []
    roots: dict[str, str] = {}
    ranges: dict[Hashable, tuple[Range1d, Span]] = {}
    for box in boxes:
        if box.share not in ranges:
            shared = Range1d(box.drawing.first, box.drawing.last, bounds=(box.drawing.first, box.drawing.last))
            ranges[box.share] = shared, Span(dimension="height", line_width=1, line_color=_SOFT, name="cross")
        plot = (_heat_map if isinstance(box.drawing, Heat) else _chart)(box, *ranges[box.share])
        plots.append(plot)
        roots[plot.id] = box.element
    with document.models.freeze():  # or each root makes it look through all of them again
        for plot in plots:
            document.add_root(plot)
    told = json.loads(serialize_json({"doc": document.to_json(deferred=False), "roots": list(roots.items())}))
    names: dict[str, str] = {}
    renamed = _renamed(told["doc"], names)
    return json.dumps(
        {"doc": renamed, "roots": {names[name]: element for name, element in told["roots"]}},
        separators=(",", ":"),
        ensure_ascii=True,
    ).replace("<", "\\u003c")


def _renamed(part: Any, names: dict[str, str]) -> Any:
    """The JSON with its model ids counted from 1: Bokeh goes on counting from one document to the next."""
    if isinstance(part, list):
        return [_renamed(one, names) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: names.setdefault(value, f"m{len(names) + 1}")
        if key == "id" and isinstance(value, str)
        else _renamed(value, names)
        for key, value in part.items()
    }


# ---- a chart of lines ------------------------------------------------------------------------------


def _chart(box: Box, x_range: Range1d, cross: Span) -> Any:
    drawing = box.drawing
    assert isinstance(drawing, Drawing)
    plot = _plot(box.height, x_range, cross, (drawing.low, drawing.high), drawing.log)
    plot.yaxis[0].ticker = FixedTicker(ticks=_log_ticks(drawing.low, drawing.high)) if drawing.log else BasicTicker(desired_num_ticks=4)
    plot.yaxis[0].formatter = BasicTickFormatter(use_scientific=False)
    for band in drawing.bands:
        _band(plot, drawing, band)
    for role, line in ((line.role, line) for line in drawing.lines):
        if line.has_range:
            source = _source(line, "low", "high")
            area = plot.varea("step", "low", "high", source=source, fill_alpha=0.55, fill_color=_RANGES[role])
            area.glyph.name = f"range{role}"
    for line in drawing.lines:
        _line(plot, line)
    for limit in drawing.limits:
        plot.add_layout(
            Span(location=limit.at, dimension="width", line_color=_SOFT, line_dash=[4, 3], line_width=1, name="limit")
        )
        plot.add_layout(_label(limit.text, "limit-text", 3, x=drawing.first, y=limit.at, baseline="bottom", size=11))
    for mark in drawing.above:
        plot.add_layout(_label(mark.text, "above", 2, x=mark.at, y=box.height, size=12))
    if steps := non_finite_steps(drawing):
        edge = drawing.below_top(0.16)
        bad = plot.scatter(
            np.asarray(steps, np.float64), np.full(len(steps), edge), marker="x", size=8, line_color="#a83200"
        )
        bad.glyph.line_width, bad.glyph.name = 2, "bad"
    return plot


def _log_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 10, 100 and so many between as there is room for; some beyond, for who zooms out."""
    decades = math.log10(high / low)
    steps = (1, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < 1.8 else (1, 3) if decades < 3.5 else (1,)
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    apart = max(1, math.ceil((end - begin) / 6))
    return [step * 10.0**power for power in range(begin, end + 1, apart) for step in steps]


def _plot(height: int, x_range: Range1d, cross: Span, reach: tuple[float, float], log: bool) -> Any:
    plot = figure(
        height=height + TOOLBAR + AXIS,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=Range1d(*reach),
        y_axis_type="log" if log else "linear",
        tools=[BoxZoomTool(), ResetTool(), CrosshairTool(overlay=cross, visible=False)],
        toolbar_location="above",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=46,
        min_border_right=1,
        min_border_top=0,
        min_border_bottom=AXIS,
        min_width=100,
    )
    plot.toolbar.update(logo=None, stylesheets=[_TOOLBAR_STYLE])
    plot.xgrid.visible = False
    plot.ygrid[0].update(grid_line_color=_GRID, name="grid")
    for axis in (plot.xaxis[0], plot.yaxis[0]):
        axis.update(
            name="axis",
            axis_line_color=_LINE,
            major_tick_line_color=None,
            minor_tick_line_color=None,
            major_label_text_color=_SOFT,
            major_label_text_font_size="12px",
            major_label_text_font="sans-serif",
            major_label_standoff=6,
        )
    plot.yaxis[0].update(name="axis-y", axis_line_color=None)
    plot.xaxis[0].ticker = BasicTicker(desired_num_ticks=5, name="ticks")
    plot.xaxis[0].formatter = NumeralTickFormatter(format="0,0")
    return plot


def _source(line: Line, *columns: str) -> ColumnDataSource:
    whole = np.int32 if np.nanmax(np.abs(line.step), initial=0.0) < 2**31 else np.float64
    found: dict[str, Any] = {"step": line.step.astype(whole)}
    found |= {column: getattr(line, column).astype(np.float32) for column in columns}
    return ColumnDataSource(data=found)


def _line(plot: Any, line: Line) -> None:
    columns = ("value", "low", "high") if line.has_range else ("value",)
    drawn = plot.line("step", "value", source=_source(line, *columns), line_width=1.7, line_color=_CURVES[line.role])
    drawn.glyph.line_join = "round"
    drawn.glyph.name = f"curve{line.role}"
    told = f"step <b>@step{{0,0}}</b><br>{_plain(line.label)} <b>@value{{0,0.[0000]}}</b>"
    if line.has_range:
        told += "<br>range @low{0,0.[0000]} – @high{0,0.[0000]}"
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=_TOOLTIP.format(told), mode="vline", show_arrow=False, visible=False))
    if len(line.step) == 1:
        drawn.glyph.visible = False
        plot.scatter(line.step, line.value, size=6, color=_CURVES[line.role], name=f"curve{line.role}")


def _plain(text: str) -> str:
    """A name from a log as it may stand in a tooltip, where @ and $ begin a column's name and < a tag."""
    return html.escape(text).replace("@", "&#64;").replace("$", "&#36;").replace("{", "&#123;")


def _band(plot: Any, drawing: Drawing, band: Any) -> None:
    """A stretch over the whole height, a line where it would be too narrow to see, and its number at the top left."""
    if band.last - band.first < _THIN * (drawing.last - drawing.first):
        plot.add_layout(
            Span(
                location=(band.first + band.last) / 2,
                dimension="height",
                line_width=2,
                line_alpha=0.75,
                line_color=_BANDS[band.severity],
                name=f"thin-{band.severity}",
                level="underlay",
            )
        )
    else:
        plot.add_layout(
            BoxAnnotation(
                left=band.first,
                right=band.last,
                fill_color=_BANDS[band.severity],
                fill_alpha=0.2,
                line_color=None,
                name=f"band-{band.severity}",
                level="underlay",
            )
        )
    chip = _label(str(band.number), f"chip-{band.severity}", 1, x=band.first, y=0, size=11)
    chip.update(text_font_style="bold", text_color=_CHIPS[band.severity][0])
    chip.update(background_fill_color=_CHIPS[band.severity][1], padding=3, border_radius=2)
    plot.add_layout(chip)


def _label(text: str, role: str, order: int, *, x: float, y: float, size: int, baseline: str = "top") -> Label:
    """A text on the plot. page.js keeps it within the frame and hides it where an earlier one (`order`) stands."""
    return Label(
        x=x,
        y=y,
        y_units="data" if baseline == "bottom" else "screen",
        text=text,
        text_font="sans-serif",
        text_font_size=f"{size}px",
        text_color=_SOFT if role == "limit-text" else _INK,
        text_baseline=baseline,
        background_fill_color="#ffffff",
        name=role,
        tags=[order],
    )


# ---- ranks -----------------------------------------------------------------------------------------


def _heat_map(box: Box, x_range: Range1d, cross: Span) -> Any:
    heat = box.drawing
    assert isinstance(heat, Heat)
    count = len(heat.ranks)
    plot = _plot(box.height, x_range, cross, (count, 0), log=False)
    plot.ygrid[0].visible = False
    plot.update(outline_line_color=_LINE, name="outline")
    alphas = np.linspace(0, 255, 64).astype(int)
    mapper = LinearColorMapper(
        palette=[f"{_HEAT}{alpha:02x}" for alpha in alphas], low=1.0, high=heat.worst, nan_color="rgba(0,0,0,0)"
    )
    image = plot.image(
        image=[np.maximum(heat.shade, 1.0).astype(np.float32)],
        x=heat.first,
        y=0,
        dw=heat.last - heat.first,
        dh=count,
        color_mapper=mapper,
    )
    plot.add_tools(HoverTool(renderers=[image], show_arrow=False, tooltips=_TOOLTIP.format("step <b>$x{0,0}</b><br>÷ median rank <b>@image{0.00}</b>"), visible=False))
    ticks = _rank_ticks(heat)
    plot.yaxis[0].ticker = FixedTicker(ticks=[at + 0.5 for at in ticks], minor_ticks=[])
    plot.yaxis[0].major_label_overrides = {at + 0.5: f"{heat.ranks[at]}" for at in ticks}
    return plot


def _rank_ticks(heat: Heat) -> list[int]:
    """Rows that are labelled: the ranks told of, the furthest one, and some between where there is room."""
    count = len(heat.ranks)
    wanted = [heat.ranks.index(rank) for rank in heat.named if rank in heat.ranks][:8]
    wanted += [heat.ranks.index(heat.rows[0].rank)]
    room = max(1, count // 9)
    for at in range(0, count, max(1, count // 8)):
        if all(abs(at - other) >= room for other in wanted):
            wanted.append(at)
    return sorted(set(wanted))
