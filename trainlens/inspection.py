"""What was read, told: each file and why it was read so, how each name was understood, and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trainlens import catalog
from trainlens.figures import counted, moment, number, steps
from trainlens.model import NO_RANK, Note, Run, Series, SourceReport
from trainlens.pages import safe, table

Samples = Mapping[tuple[str, str, int], str]  # path of the run, file, line → the text of the line

_ODD = ("not-understood", "damaged", "cut-off", "checksum", "encoding", "limit", "unreadable")
_SHOWN = 8  # names of facts


def inspection(runs: Sequence[Run], unread: Sequence[SourceReport], samples: Samples | None = None) -> str:
    """Files, metrics, what was not understood with a line of it, notes; and the files that were not read."""
    parts = [_run(run, samples or {}) for run in runs]
    if unread:
        rows = [(report.state.replace("-", " "), report.path, report.reason) for report in unread]
        parts.append("Not read\n" + table(rows))
    return "\n".join(parts)


def _run(run: Run, samples: Samples) -> str:
    points = sum(len(series) for series in run.series)
    read = [source for source in run.sources if source.first_step is not None]
    first = min((source.first_step or 0 for source in read), default=None)
    last = max((source.last_step or 0 for source in read), default=None)
    head = [f"{len(run.series):,} series", counted(points, "point"), steps(first, last)]
    lines = [f"{safe(run.name)}   {', '.join(part for part in head if part)}", "", "Files"]
    for at, source in enumerate(run.sources, 1):
        lines += _file(at, source)
    if run.series:
        lines += ["", "Metrics", table(_metrics(run)).rstrip("\n")]
    if run.attempts[1:]:
        starts = ", ".join(f"{one.first_step:,}–{one.last_step:,}" for one in run.attempts)
        lines += ["", f"{len(run.attempts)} attempts: steps {starts}"]
    notes = [(source.path, note) for source in run.sources for note in source.notes]
    lines += _not_understood([one for one in notes if one[1].kind in _ODD], run.path, samples)
    lines += _notes([one for one in notes if one[1].kind not in _ODD] + [("", note) for note in run.notes])
    return "\n".join([*lines, *_said(run), ""])


def _file(at: int, source: SourceReport) -> list[str]:
    """Two lines: what the file gave, and why it was read as it was."""
    gave = [counted(source.points, "point"), steps(source.first_step, source.last_step)]
    gave += [_range(source.first_time, source.last_time), number(source.bytes, "bytes")]
    what = ", ".join(part for part in gave if part)
    return [
        f"{at:>2}  {safe(source.path)}",
        f"    {source.format or 'not read'}: {what}",
        f"    {safe(source.reason or source.state)}",
    ]


def _metrics(run: Run) -> list[tuple[str, ...]]:
    """One row a metric and tag, ranks counted together; without the columns that say nothing."""
    groups: dict[tuple[str, str], list[Series]] = {}
    for series in run.series:
        groups.setdefault((series.metric, catalog.split_rank(series.tag)[0]), []).append(series)
    rows = [_metric(metric, group) for (metric, _), group in sorted(groups.items())]
    head = ("metric", "as written", "unit", "role", "ranks", "points", "steps", "time", "file")
    telling = [at for at in range(len(head)) if any(row[at] not in ("", "–") for row in rows)]
    if len(run.sources) == 1:
        telling.remove(len(head) - 1)
    return [tuple(row[at] for at in telling) for row in [head, *rows]]


def _metric(metric: str, group: Sequence[Series]) -> tuple[str, ...]:
    filled = [series for series in group if len(series)]
    about = group[0].about
    times = [one for series in filled for one in (float(series.time[0]), float(series.time[-1])) if one == one]
    files = sorted({int(at) + 1 for series in filled for at in set(series.source.tolist())})
    first = min((int(series.step[0]) for series in filled), default=None)
    last = max((int(series.step[-1]) for series in filled), default=None)
    tags = list(dict.fromkeys(series.tag for series in group))
    positional = any(series.positional for series in group)
    return (
        metric,
        tags[0] + (f" … {tags[-1]}" if len(tags) > 1 else ""),
        about.unit or "–",
        "–" if about.role == "other" else about.role,
        str(sum(series.rank != NO_RANK for series in group) or "–"),
        f"{sum(len(series) for series in group):,}",
        ("positions " if positional else "") + (steps(first, last).rpartition(" ")[2] or "–"),
        _range(min(times, default=None), max(times, default=None)),
        ", ".join(map(str, files[:4])) + (", …" if len(files) > 4 else ""),
    )


def _range(first: float | None, last: float | None) -> str:
    ends = [moment(one) for one in (first, last) if one is not None]
    return " – ".join(dict.fromkeys(end for end in ends if end))


def _not_understood(notes: Sequence[tuple[str, Note]], run: str, samples: Samples) -> list[str]:
    lines = ["", "Not understood"] if notes else []
    for path, note in notes:
        lines.append(f"{note.kind}  {safe(path)}{_place(note)}: {safe(note.message)}")
        if (sample := samples.get((run, path, note.line or 0), "").strip()) and note.line:
            lines.append(f"    {safe(sample)}")
    return lines


def _notes(notes: Sequence[tuple[str, Note]]) -> list[str]:
    rows = [(note.kind, f"{path}{_place(note)}", note.message) for path, note in notes]
    return ["", "Notes", table(rows).rstrip("\n")] if rows else []


def _place(note: Note) -> str:
    return f" line {note.line:,}" if note.line is not None else f" byte {note.byte:,}" if note.byte is not None else ""


def _said(run: Run) -> list[str]:
    """How many facts and events, and which."""
    lines = []
    names = list(dict.fromkeys(fact.name for fact in run.facts))
    if names:
        more = ", …" if len(names) > _SHOWN else ""
        lines.append(f"{counted(len(names), 'fact')}: {safe(', '.join(names[:_SHOWN]))}{more}")
    kinds = Counter(event.kind for event in run.events)
    if kinds:
        told = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
        lines.append(f"{counted(len(run.events), 'event')}: {told}")
    return ["", *lines] if lines else []
