"""What the program says of itself: plug-ins, thresholds, settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from trainlens import plugins
from trainlens.errors import SettingsError
from trainlens.settings import KNOWN, Settings, nearest

# The same for all: `signals.confidence` holds the arithmetic.
CONFIDENCE = """How sure a finding is, apart from how bad it is: of findings that say 90 % or more, at least nine in ten
were right on the labelled runs. What just passes its limit says 70 %, at twice the limit 92 %, at four times 98 %; of
several limits the one that was passed most narrowly counts. A stretch says what share of its points lies beyond the
bound. A rule of thumb, which has nothing to measure, says 50 to 85 %. What the log itself states is certain and has no
number."""

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
            parts += [f"Needs\n\n{needs}", f"Confidence\n\n{CONFIDENCE}", thresholds(plain, module.Options, settings)]
        if seam == "reports" and any(one.meaning for one in plugins.thresholds(module.Options)):
            parts.append(options(plain, module.Options, settings))
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


def options(report: str, fields: type[Any], settings: Settings) -> str:
    """Each option of a report with its value and what it means."""
    made = settings.options_for(report, fields)
    lines = ["Options"]
    for one in plugins.thresholds(fields):
        if one.meaning:
            choices = f" One of: {', '.join(name for name in one.choices if name)}." if one.choices else ""
            lines += ["", f"{report}.{one.name} = {getattr(made, one.name)}".rstrip(), f"    {one.meaning}.{choices}"]
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


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; what a log wrote is shown, not sent to the terminal."""
    clean = [[safe(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in clean) for at in range(len(clean[0]))] if clean else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in clean)
    return "".join(f"{line}\n" for line in lines)


def safe(text: str) -> str:
    """Text of a log without what would steer the terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
