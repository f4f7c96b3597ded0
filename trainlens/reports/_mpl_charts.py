"""Drawings on a matplotlib sheet, without pyplot. Places are pixels from the top left of the sheet.

No text is read as mathematics, and none is wider than the room it is given: names come from logs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from trainlens.figures import figures
from trainlens.reports._drawings import Drawing, non_finite_steps
from trainlens.reports._marks import Band, log_ticks
from trainlens.reports._ranks import Heat

INK, SOFT, LINE, GRID, PAGE = "#16191d", "#545d66", "#d9dde1", "#e8ebee", "#ffffff"
CURVES = {1: "#0072b2", 2: "#a2477a", 3: "#00805f"}
RANGE = "#9cc7e2"
STATE = {"error": "#a83200", "warning": "#c47f00", "info": "#005a94", "healthy": "#006b50", "not-judged": SOFT}
TEXT = {**STATE, "warning": "#7d5000"}
FILL = {"error": "#fbeae2", "warning": "#fdf3dc", "info": "#e4f0f8"}
BAND = {"error": ("#a83200", 0.16), "warning": ("#e69f00", 0.22), "info": ("#0072b2", 0.14)}
_SIGNS = {
    "error": ("8", "×"), "warning": ("^", "!"), "healthy": ("o", "✓"), "info": ("o", "i"), "not-judged": ("o", "−"),
}  # fmt: skip
_HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#d55e00"])
_FONT = "DejaVu Sans"  # comes with matplotlib, so the sheet is the same everywhere
_THIN = 0.006
_LEFT, _BELOW, _CAPTION = 50, 24, 28  # pixels of a cell beside its plot: y labels, x labels, caption


@dataclass
class Sheet:
    """A white page of width × height pixels."""

    width: int
    height: int
    figure: Figure = field(init=False)
    _renderer: Any = field(init=False)

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(self.width / 100, self.height / 100), dpi=100, facecolor=PAGE)
        canvas: Any = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        room: float,
        bold: bool = False,
        colour: str = INK,
        align: str = "left",
    ) -> float:
        """One line with its baseline at y, cut with … where it is wider than `room`; its width in pixels."""
        shown = self.figure.text(
            x / self.width, 1 - y / self.height, plain(text), fontsize=size, family=_FONT, color=colour,
            fontweight="bold" if bold else "normal", ha=align, va="baseline", parse_math=False,
        )  # fmt: skip
        width = self.wide(shown)
        if width > room:
            whole = shown.get_text()
            keep = int(len(whole) * room / width)
            while keep > 1 and self.wide(shown) > room:
                shown.set_text(whole[:keep].rstrip() + "…")
                keep -= 1
            width = self.wide(shown)
        return width

    def wide(self, artist: Any) -> float:
        with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box, which is what can be done
            warnings.simplefilter("ignore", UserWarning)
            return float(artist.get_window_extent(self._renderer).width)

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = LINE) -> None:
        across, down = [x / self.width, to_x / self.width], [1 - y / self.height, 1 - to_y / self.height]
        self.figure.add_artist(Line2D(across, down, color=colour, linewidth=0.8))

    def mark(self, x: float, y: float, state: str, size: float) -> None:
        """The state's sign centred at a point: octagon ×, triangle !, circle ✓ or i, ring −."""
        marker, sign = _SIGNS[state]
        at = [x / self.width], [1 - y / self.height]
        self.figure.add_artist(Line2D(*at, marker=marker, markersize=size, color=STATE[state], markeredgewidth=0))
        self.figure.text(
            at[0][0], at[1][0] - (0.08 * size / 72 * 100 / self.height if state == "warning" else 0), sign,
            fontsize=size * 0.62, family=_FONT, color=PAGE, fontweight="bold", ha="center", va="center_baseline",
        )  # fmt: skip

    def axes(self, x: float, y: float, width: float, height: float) -> Any:
        return self.figure.add_axes(
            (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height), facecolor="none"
        )

    def png(self, width: int = 0, dpi: int = 100) -> bytes:
        """The sheet `width` pixels wide (0: its own), marked as `dpi` dots an inch."""
        from io import BytesIO

        out = BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self.figure.savefig(
                out, format="png", dpi=100 * (width or self.width) / self.width, facecolor=PAGE,
                metadata={"Software": None}, pil_kwargs={"dpi": (dpi, dpi)},
            )  # fmt: skip
        return out.getvalue()


def plain(text: str) -> str:
    """The text on one line without characters that cannot be drawn."""
    return "".join(letter if letter.isprintable() or letter == "\u00a0" else " " for letter in text)


# ---- a chart ---------------------------------------------------------------------------------------


def chart(sheet: Sheet, drawing: Drawing, x: float, y: float, width: float, height: float) -> None:
    """A cell: caption, plot, axes."""
    _caption(sheet, drawing, x, y, width)
    axes = sheet.axes(x + _LEFT, y + _CAPTION, width - _LEFT, height - _CAPTION - _BELOW)
    axes.set_xlim(drawing.first, drawing.last)
    if drawing.log:
        axes.set_yscale("log")
    axes.set_ylim(drawing.low, drawing.high)
    _frame(axes, drawing, width)
    for band in drawing.bands:
        colour, alpha = BAND[band.severity]
        if band.last - band.first < _THIN * (drawing.last - drawing.first):
            axes.axvline((band.first + band.last) / 2, color=STATE[band.severity], linewidth=1.5, alpha=0.75, zorder=1)
        else:
            axes.axvspan(band.first, band.last, color=colour, alpha=alpha, linewidth=0, zorder=0)
    for line in drawing.lines:
        if line.has_range and line.role == 1:
            axes.fill_between(line.step, line.low, line.high, color=RANGE, alpha=0.55, linewidth=0, zorder=2)
    for line in reversed(drawing.lines):
        axes.plot(line.step, line.value, color=CURVES[line.role], linewidth=1.5, zorder=3, solid_joinstyle="round")
    if steps := non_finite_steps(drawing):
        axes.plot(
            steps, np.full(len(steps), drawing.below_top(0.16)), "x", color=STATE["error"], markersize=6, zorder=4
        )
    _limits(axes, drawing)
    _top_row(axes, drawing, width - _LEFT)


def _caption(sheet: Sheet, drawing: Drawing, x: float, y: float, width: float) -> None:
    """Name, unit, legend and, at the right, the values; what has no room is left out."""
    right = sheet.text(x + width, y + 14, drawing.at_right, 11, room=0.5 * width, bold=True, align="right")
    at, end = x, x + width - right - 16
    at += sheet.text(at, y + 14, drawing.title, 11, room=max(40, end - at), bold=True) + 8
    if drawing.unit and end - at > 40:
        at += sheet.text(at, y + 14, drawing.unit, 9.5, room=end - at, colour=SOFT) + 10
    if len(drawing.lines) > 1:
        for line in drawing.lines:
            if end - at > 90:
                sheet.line(at, y + 9, at + 18, y + 9, CURVES[line.role])
                at += 24 + sheet.text(at + 22, y + 14, line.label, 9.5, room=end - at, colour=SOFT) + 8


def _frame(axes: Any, drawing: Drawing | Heat, width: float) -> None:
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(length=0, labelsize=10, labelcolor=SOFT, labelfontfamily=_FONT, pad=5)
    ticks = MaxNLocator(4 if width < 700 else 5, integer=True, steps=[1, 2, 2.5, 5, 10])
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if isinstance(drawing, Drawing):
        if drawing.log:
            axes.yaxis.set_major_locator(FixedLocator(log_ticks(drawing.low, drawing.high)))
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: figures(value, 4)))
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    first, last = sorted((drawing.first, drawing.last))
    shown = [at for at in axes.xaxis.get_major_locator().tick_values(first, last) if first <= at <= last]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    for at, label in zip(shown, axes.get_xticklabels(), strict=False):
        if at > first + 0.97 * (last - first):
            label.set_horizontalalignment("right")


def _limits(axes: Any, drawing: Drawing) -> None:
    for limit in drawing.limits:
        axes.axhline(limit.at, color=SOFT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
        axes.text(
            drawing.first, limit.at, f" {plain(limit.text)}", fontsize=9, family=_FONT, color=SOFT, va="bottom",
            parse_math=False, clip_on=True, zorder=5,
            bbox={"facecolor": PAGE, "edgecolor": "none", "pad": 1, "alpha": 0.8},
        )  # fmt: skip


def _top_row(axes: Any, drawing: Drawing, width: float) -> None:
    """Number chips, then values cut off, along the upper edge; a later one that has no room is left out."""
    taken: list[tuple[float, float]] = []
    chips: list[tuple[float, str, Band | None]] = [(band.first, str(band.number), band) for band in drawing.bands]
    for at, text, band in [*chips, *((mark.at, mark.text, None) for mark in drawing.above)]:
        edge = (at - drawing.first) / (drawing.last - drawing.first) * width
        size = 8.2 * len(text) + 8
        after = 3.0 if band else 24.0
        left = edge + after if edge + after + size < width else edge - size - 3
        if left < 0 or any(left < end and left + size > begin for begin, end in taken):
            continue
        taken.append((left, left + size))
        axes.text(
            left / width, 0.985, text, transform=axes.transAxes, fontsize=9.5, family=_FONT, va="top", zorder=6,
            fontweight="bold" if band else "normal", color=TEXT[band.severity] if band else INK, parse_math=False,
            bbox={"facecolor": FILL[band.severity] if band else PAGE, "edgecolor": "none", "pad": 2, "alpha": 0.9},
        )  # fmt: skip


# ---- ranks -----------------------------------------------------------------------------------------


def heat(sheet: Sheet, ranks: Heat, x: float, y: float, width: float, height: float) -> None:
    told = sheet.text(
        x + width, y + 14, f"rank {ranks.rows[0].rank}: {ranks.rows[0].ratio:.2f}", 11, room=0.4 * width, bold=True,
        align="right",
    )  # fmt: skip
    used = sheet.text(x, y + 14, f"{ranks.metric} by rank", 11, room=width - told - 12, bold=True) + 8
    if width - told - used > 90:
        sheet.text(x + used, y + 14, "÷ median rank", 9.5, room=width - told - used - 12, colour=SOFT)
    axes = sheet.axes(x + _LEFT, y + _CAPTION, width - _LEFT, height - _CAPTION - _BELOW)
    count = len(ranks.ranks)
    axes.imshow(
        np.ma.masked_invalid(ranks.shade), cmap=_HEAT, vmin=1.0, vmax=ranks.worst, aspect="auto",
        interpolation="nearest", extent=(ranks.first, ranks.last, count - 0.5, -0.5),
    )  # fmt: skip
    _frame(axes, ranks, width)
    for side in ("left", "right", "top", "bottom"):
        axes.spines[side].set(visible=True, color=LINE)
    ticks = sorted({*range(0, count, max(1, -(-count // 8))), ranks.ranks.index(ranks.rows[0].rank)})
    near = ranks.ranks.index(ranks.rows[0].rank)
    ticks = [at for at in ticks if at == near or abs(at - near) >= max(1, count / 16)]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: str(ranks.ranks[round(value)])))
