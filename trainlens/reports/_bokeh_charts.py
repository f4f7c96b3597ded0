"""Drawings as Bokeh plots. Imported only when an HTML page is written.

Bokeh's canvas knows no CSS variables: each model carries its role as `name`, and charts.js gives it the colours of the
page. The colours here are those of the light page, for whoever reads the JSON without that script.
"""

from __future__ import annotations

import html
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    LinearScale,
    LogScale,
    NumeralTickFormatter,
    Range1d,
    ResetTool,
)
from bokeh.models.annotations import BoxAnnotation, Label, Span
from bokeh.plotting import figure

from trainlens.reports._drawings import Drawing, Line, non_finite_steps
from trainlens.reports._marks import Band, log_ticks
from trainlens.reports._ranks import Heat

TOOLBAR = 30  # pixels above the plot, laid over the caption by the page
AXIS = 22
LEAST_SMOOTHED = 30  # points of a curve that can be smoothed
_THIN = 0.006  # share of the width under which a band is a line
_INK, SOFT, _GRID, _LINE = "#16191d", "#545d66", "#e8ebee", "#d9dde1"
_CURVES = {1: "#0072b2", 2: "#a2477a", 3: "#00805f"}
_RANGES = {1: "#9cc7e2", 2: "#dcbccd", 3: "#a6d3c7"}
_BANDS = {"error": "#a83200", "warning": "#e69f00", "info": "#0072b2"}
_CHIPS = {"error": ("#a83200", "#fbeae2"), "warning": ("#7d5000", "#fdf3dc"), "info": ("#005a94", "#e4f0f8")}
_HEAT = "#d55e00"
_TOOLTIP = '<div style="font:12px/1.4 sans-serif;{}">{{}}</div>'.format(
    "color:var(--ink);background:var(--bg);border:1px solid var(--line);margin:-6px;padding:4px 8px"
)
_TOOLBAR_STYLE = (
    ":host{opacity:.6}:host(:hover){opacity:1}.bk-divider{display:none}.bk-active{border-color:transparent}"
    "@media print{:host{visibility:hidden}}"
)


@dataclass(frozen=True)
class Box:
    """One chart to draw: its element in the page, how high its plot is, with whom it shares the x range."""

    element: str
    drawing: Drawing | Heat
    height: int
    share: Hashable
    page: str = ""  # begins the element ids of its run


# ---- a chart of lines ------------------------------------------------------------------------------


def chart(box: Box, x_range: Range1d, cross: Span) -> Any:
    drawing = box.drawing
    assert isinstance(drawing, Drawing)
    plot = _plot(box.height, x_range, cross, (drawing.low, drawing.high), drawing.log)
    plot.tags = [box.page, _other_scale(drawing)]
    plot.yaxis[0].ticker = (
        FixedTicker(ticks=log_ticks(drawing.low, drawing.high)) if drawing.log else BasicTicker(desired_num_ticks=4)
    )
    plot.yaxis[0].formatter = BasicTickFormatter(use_scientific=False)
    for band in drawing.bands:
        _band(plot, drawing, band)
    for line in drawing.lines:
        if line.has_range:
            source = _source(line, "low", "high")
            area = plot.varea("step", "low", "high", source=source, fill_alpha=0.55, fill_color=_RANGES[line.role])
            area.glyph.name = f"range{line.role}"
    for line in drawing.lines:
        _line(plot, line, noisy=not drawing.of and line.role < 3)
    for limit in drawing.limits:
        plot.add_layout(
            Span(location=limit.at, dimension="width", line_color=SOFT, line_dash=[4, 3], line_width=1, name="limit")
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


def _other_scale(drawing: Drawing) -> dict[str, Any]:
    """What charts.js needs to exchange log and linear; empty where that cannot be."""
    if not drawing.other:
        return {}
    ticker = BasicTicker(desired_num_ticks=4) if drawing.log else FixedTicker(ticks=log_ticks(*drawing.other))
    return {"range": list(drawing.other), "scale": LinearScale() if drawing.log else LogScale(), "ticker": ticker}


def _plot(height: int, x_range: Range1d, cross: Span, reach: tuple[float, float], log: bool) -> Any:
    plot = figure(
        height=height + TOOLBAR + AXIS,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=Range1d(start=reach[0], end=reach[1]),
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
            major_label_text_color=SOFT,
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


def _line(plot: Any, line: Line, *, noisy: bool) -> None:
    """The curve; and, for a `noisy` one, the same again that charts.js shows faintly behind it when it is smoothed."""
    columns = ("value", "low", "high") if line.has_range else ("value",)
    source = _source(line, *columns)
    if noisy and np.isfinite(line.value).sum() >= LEAST_SMOOTHED:
        raw = plot.line("step", "value", source=source, line_width=1, line_alpha=0.35, line_color=_CURVES[line.role])
        raw.glyph.name, raw.visible, raw.name = f"curve{line.role}", False, "raw"
    drawn = plot.line("step", "value", source=source, line_width=1.7, line_color=_CURVES[line.role])
    drawn.name = "line"
    drawn.glyph.line_join = "round"
    drawn.glyph.name = f"curve{line.role}"
    told = f"step <b>@step{{0,0}}</b><br>{_plain(line.label)} <b>@value{{0,0.[0000]}}</b>"
    if line.has_range:
        told += "<br>range @low{0,0.[0000]} – @high{0,0.[0000]}"
    plot.add_tools(
        HoverTool(renderers=[drawn], tooltips=_TOOLTIP.format(told), mode="vline", show_arrow=False, visible=False)
    )
    if len(line.step) == 1:  # a line of one point draws nothing
        dot = plot.scatter(line.step, line.value, size=6, color=_CURVES[line.role])
        dot.glyph.name = f"curve{line.role}"


def _plain(text: str) -> str:
    """A name from a log as it may stand in a tooltip, where @ and $ begin a column's name and < a tag."""
    return html.escape(text).replace("@", "&#64;").replace("$", "&#36;").replace("{", "&#123;")


def _band(plot: Any, drawing: Drawing, band: Band) -> None:
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
                tags=[band.number],
                level="underlay",
            )
        )
    else:
        plot.add_layout(
            BoxAnnotation(
                left=band.first,
                right=band.last,
                fill_color=_BANDS[band.severity],
                fill_alpha=0.08 if band.severity == "info" else 0.2,
                line_color=None,
                name=f"band-{band.severity}",
                tags=[band.number],
                level="underlay",
            )
        )
    chip = _label(str(band.number), f"chip-{band.severity}", 1, x=band.first, y=0, size=11)
    chip.update(text_font_style="bold", text_color=_CHIPS[band.severity][0])
    chip.update(background_fill_color=_CHIPS[band.severity][1], padding=3, border_radius=2)
    plot.add_layout(chip)


def _label(
    text: str, role: str, order: int, *, x: float, y: float, size: int, baseline: Literal["top", "bottom"] = "top"
) -> Label:
    """A text on the plot. charts.js keeps it within the frame and hides it where an earlier one (`order`) stands."""
    return Label(
        x=x,
        y=y,
        y_units="data" if baseline == "bottom" else "screen",
        text=text,
        text_font="sans-serif",
        text_font_size=f"{size}px",
        text_color=SOFT if role == "limit-text" else _INK,
        text_baseline=baseline,
        background_fill_color="#ffffff",
        name=role,
        tags=[order],
    )


# ---- ranks -----------------------------------------------------------------------------------------


def heat_map(box: Box, x_range: Range1d, cross: Span) -> Any:
    heat = box.drawing
    assert isinstance(heat, Heat)
    count = len(heat.ranks)
    plot = _plot(box.height, x_range, cross, (count, 0), log=False)
    plot.ygrid[0].visible = False
    plot.update(outline_line_color=_LINE, name="outline", tags=[box.page, {}])
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
    plot.add_tools(
        HoverTool(
            renderers=[image],
            show_arrow=False,
            tooltips=_TOOLTIP.format(f"at <b>$x{{0,0.[000]}}</b><br>÷ {heat.against} <b>@image{{0.00}}</b>"),
            visible=False,
        )
    )
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
