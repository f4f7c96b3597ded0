"""What the program says of itself and of what it read: plug-ins, settings, how names were understood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from trainlens import plugins
from trainlens.errors import SettingsError
from trainlens.figures import counted, moment
from trainlens.model import NO_RANK, Run, Series, SourceReport
from trainlens.settings import KNOWN, Settings, nearest

SEAMS: tuple[plugins.Seam, ...] = get_args(plugins.Seam)


def explain(name: str, settings: Settings) -> str:
    """The page of one plug-in, whatever its seam, with the thresholds of a detector."""
    plain = name.strip().lower().replace("_", "-")
    found = [seam for seam in SEAMS if plain in plugins.names(seam)]
    if not found:
        every = {one for seam in SEAMS for one in plugins.names(seam)}
        raise SettingsError(f"there is no detector, cause, parser or report {name!r}", hint=nearest(plain, every))
    pages = []
    for seam in found:
        module = plugins.load(seam, plain)
        parts = [f"{plain} ({seam[:-1]})", plugins.page(module)]
        if seam == "detectors":
            needs = ", ".join(need.replace("|", " or ") for need in module.NEEDS) or "nothing beyond the run itself"
            parts += [f"Needs\n\n{needs}", thresholds(plain, module.Options, settings)]
        if seam == "causes":
            parts.append("Explains\n\n" + ", ".join(module.EXPLAINS))
        pages.append("\n\n".join(parts))
    return "\n\n".join(pages) + "\n"


def thresholds(detector: str, options: type[Any], settings: Settings) -> str:
    """Each threshold with its value, what it means and where the figure comes from."""
    made = settings.options_for(detector, options)
    lines = ["Thresholds"]
    for one in plugins.thresholds(options):
        value = getattr(made, one.name)
        origin = settings.origin_of(detector, one.name)
        default = "" if origin == "default" else f" (default {one.default}; set by {origin})"
        unit = f" {one.unit}" if one.unit else ""
        choices = f" One of: {', '.join(one.choices)}." if one.choices else ""
        source = f"{one.source.text} {one.source.link}".strip()
        lines += [
            "",
            f"{detector}.{one.name} = {value}{unit}{default}",
            f"    {one.meaning}.{choices}",
            f"    Source: {source}",
        ]
    return "\n".join(lines)


def listing(seams: Iterable[plugins.Seam]) -> str:
    """The plug-ins of these seams, each with the first line of its page."""
    blocks = []
    for seam in seams:
        rows = [(name, plugins.page(plugins.load(seam, name)).partition("\n")[0]) for name in plugins.names(seam)]
        blocks.append(f"{seam} ({len(rows)})\n" + table(rows))
    return "\n".join(blocks)


def settings_table(settings: Settings) -> str:
    rows = [("setting", "value", "from", "meaning")]
    for name, field in KNOWN.items():
        rows.append(
            (name.replace("_", "-"), _shown(getattr(settings, name)), settings.origin(name), field.metadata["meaning"])
        )
    for detector, options in sorted(settings.options.items()):
        rows += [
            (f"{detector}.{name}", _shown(value), settings.origin_of(detector, name), "")
            for name, value in options.items()
        ]
    return table(rows)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    return (
        {None: "–", True: "true", False: "false"}.get(value, str(value))
        if value is None or isinstance(value, bool)
        else str(value)
    )


# ---- inspect -------------------------------------------------------------------------------------------------------


def inspection(runs: Sequence[Run], unread: Sequence[SourceReport]) -> str:
    """What was read: files, metrics and how each name was understood, and what could not be read."""
    parts = [_run(run) for run in runs]
    if unread:
        rows = [(report.state.replace("-", " "), report.path, report.reason) for report in unread]
        parts.append("Not read\n" + table(rows))
    return "\n".join(parts)


def _run(run: Run) -> str:
    points = sum(len(series) for series in run.series)
    lines = [f"{_safe(run.name)}   {counted(points, 'point')}, {len(run.series):,} series"]
    sources = [("file", "format", "points", "steps", "bytes", "why")]
    for source in run.sources:
        steps = _range(source.first_step, source.last_step)
        why = source.reason or source.state
        sources.append((source.path, source.format or "–", f"{source.points:,}", steps, f"{source.bytes:,}", why))
    lines += ["", table(sources), table([_HEAD, *_metrics(run)])]
    if run.attempts[1:]:
        starts = ", ".join(f"{one.first_step:,}–{one.last_step:,}" for one in run.attempts)
        lines += [f"{len(run.attempts)} attempts: steps {starts}", ""]
    notes = [(source.path, note) for source in run.sources for note in source.notes]
    notes += [(run.path, note) for note in run.notes]
    if notes:
        rows = [(note.kind, path, _place(note.line, note.byte), note.message) for path, note in notes]
        lines.append("Notes\n" + table(rows))
    if run.facts or run.events:
        lines.append(f"{counted(len(run.facts), 'fact')}, {counted(len(run.events), 'event')}\n")
    return "\n".join(lines)


_HEAD = ("metric", "as written", "unit", "role", "ranks", "points", "steps", "time")


def _metrics(run: Run) -> list[tuple[str, ...]]:
    """One row a metric and tag; ranks counted together."""
    groups: dict[tuple[str, str], list[Series]] = {}
    for series in run.series:
        groups.setdefault((series.metric, series.tag), []).append(series)
    rows: list[tuple[str, ...]] = []
    for (metric, tag), group in sorted(groups.items()):
        filled = [series for series in group if len(series)]
        ranks = sum(series.rank != NO_RANK for series in group)
        first = min((int(series.step[0]) for series in filled), default=None)
        last = max((int(series.step[-1]) for series in filled), default=None)
        counted_points = f"{sum(len(series) for series in group):,}"
        about = group[0].about
        rows.append(
            (
                metric,
                tag,
                about.unit or "–",
                about.role,
                str(ranks or "–"),
                counted_points,
                _range(first, last),
                _time(filled),
            )
        )
    return rows


def _time(group: Sequence[Series]) -> str:
    times = [one for series in group for one in (float(series.time[0]), float(series.time[-1])) if one == one]
    ends = dict.fromkeys((moment(min(times)), moment(max(times)))) if times else ["–"]
    return " – ".join(ends)


def _range(first: int | None, last: int | None) -> str:
    if first is None:
        return "–"
    return f"{first:,}" if last is None or last == first else f"{first:,}–{last:,}"


def _place(line: int | None, byte: int | None) -> str:
    return f"line {line:,}" if line is not None else f"byte {byte:,}" if byte is not None else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; what a log wrote is shown, not sent to the terminal."""
    clean = [[_safe(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in clean) for at in range(len(clean[0]))] if clean else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in clean)
    return "".join(f"{line}\n" for line in lines)


def _safe(text: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
