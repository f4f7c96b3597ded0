"""All charts of a page as one Bokeh document: its JSON, the ids of its charts, and Bokeh's own script."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bokeh
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.annotations import Span

from trainlens.reports._axes import Axis
from trainlens.reports._bokeh_charts import SOFT, Box, chart, heat_map
from trainlens.reports._ranks import Heat


def script() -> str:
    """Bokeh's own script, alone: no widgets, tables, WebGL or formulas."""
    path = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return path.read_text("utf-8")


def document(boxes: Sequence[Box], axes: Mapping[str, Sequence[Axis]]) -> str:
    """JSON of {"doc": a document of all charts, "roots": {model id: element}, "axes": of pages}, always the same.

    The charts are the tags of the document's one root, which itself shows nothing: so none is drawn before charts.js
    asks for it.
    """
    document = Document(title="")
    plots: list[Any] = []
    roots: dict[str, str] = {}
    ranges: dict[Hashable, tuple[Range1d, Span]] = {}
    for box in boxes:
        first, last = box.drawing.first, box.drawing.last
        if box.share not in ranges:
            shared = Range1d(start=first, end=last, bounds=(first, last))
            ranges[box.share] = shared, Span(dimension="height", line_width=1, line_color=SOFT, name="cross")
        plot = (heat_map if isinstance(box.drawing, Heat) else chart)(box, *ranges[box.share])
        plots.append(plot)
        roots[plot.id] = box.element
    document.add_root(ColumnDataSource(tags=plots))
    told = json.loads(serialize_json({"doc": document.to_json(deferred=False), "roots": list(roots.items())}))
    names: dict[str, str] = {}
    renamed = _renamed(told["doc"], names)
    return json.dumps(
        {
            "doc": renamed,
            "roots": {names[name]: element for name, element in told["roots"]},
            "axes": {page: {one.name: [one.step, one.at, one.unit] for one in some} for page, some in axes.items()},
        },
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
