"""Batches of the sources of one run → Run: order, restarts stitched, ranks, canonical names, one value a step.

Tags stay as written until here; `catalog` gives them their meaning. Arrays are those of the parsers wherever a series
is already one value a step in order, so that a run costs little more than its points.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from trainlens import catalog
from trainlens.catalog.mapping import Meaning
from trainlens.model import (
    NO_RANK,
    Batch,
    Checkpoint,
    Event,
    Fact,
    Note,
    Points,
    Run,
    SourceReport,
    Value,
)
from trainlens.sources import Source
from trainlens.store.axes import with_told_axes
from trainlens.store.cache import cached
from trainlens.store.export import export
from trainlens.store.fresh import stretches
from trainlens.store.golden import golden
from trainlens.store.named import rank_of
from trainlens.store.relate import File, Key, relate
from trainlens.store.runs import Judged, assemble
from trainlens.store.stitch import join

__all__ = ["Builder", "cached", "export", "golden"]

ONGOING = 60.0  # seconds since the last write within which a run counts as running
STALE = 3600.0  # unless its own clock stopped longer ago: a copied log


@dataclass
class _Reading:
    """What one source gave."""

    source: Source
    format: str
    reason: str = ""
    tells_end: bool = False
    pieces: dict[str, dict[Key, list[Points]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    tags: dict[Key, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    points: int = 0
    first_step: int | None = None
    last_step: int | None = None
    times: list[float] = field(default_factory=list)  # the earliest and the latest of each batch
    timed: Any = None  # the array that these were last taken from: tags of the same rows share theirs

    def take(self, points: Points, prefix: str, rank: int) -> None:
        if not len(points.value):
            return
        tag = points.tag if points.tag.startswith("bench/") else prefix + points.tag  # a score is of no split
        bare, of_tag = catalog.split_rank(tag)
        rank = points.rank if points.rank != NO_RANK else of_tag if of_tag != NO_RANK else rank
        self.pieces[points.run][bare, rank].append(points)
        self.tags.setdefault((bare, rank), tag)
        self.points += len(points.value)
        if points.step is not None:
            low, high = int(points.step.min()), int(points.step.max())
            self.first_step = low if self.first_step is None else min(low, self.first_step)
            self.last_step = high if self.last_step is None else max(high, self.last_step)
        if points.time is not None and points.time is not self.timed:
            self.timed = points.time
            known = points.time[np.isfinite(points.time)]
            self.times += [float(known.min()), float(known.max())] if len(known) else []

    def report(self, told: Iterable[Note]) -> SourceReport:
        notes = [*self.notes, *told]
        if not (self.points or self.events or self.facts or notes):
            notes = [Note("no-points", "no points of any metric in this file")]
        return SourceReport(
            self.source.name,
            self.format,
            self.points,
            self.first_step,
            self.last_step,
            self.source.size,
            tuple(notes),
            reason=self.reason,
            tells_end=self.tells_end,
            first_time=min(self.times, default=None),
            last_time=max(self.times, default=None),
        )


class Builder:
    """Collects the batches of the sources of one run; `runs` may be several, when a source names several.

    `meanings` are what the user says of tags; the last one that fits a tag holds.
    """

    def __init__(self, name: str, path: str, meanings: Sequence[Meaning] = ()) -> None:
        self.name = name
        self.path = path
        self._meanings = tuple(meanings)
        self._readings: list[_Reading] = []

    def add(
        self,
        source: Source,
        parser: str,
        prefix: str,
        batches: Iterable[Batch],
        *,
        reason: str = "",
        tells_end: bool = False,
    ) -> int:
        """Take all batches of a source; its tags get the prefix. Returns the number of points. Catches nothing."""
        reading = _Reading(source, parser, reason, tells_end)
        self._readings.append(reading)
        found = catalog.split_rank(PurePath(source.name).stem)
        outright = rank_of(source.name)
        rank = outright if outright is not None else found[1] if "rank" in source.name.lower() else NO_RANK
        for batch in batches:
            if isinstance(batch, Points):
                reading.take(batch, prefix, rank)
            elif isinstance(batch, Event):
                reading.events.append(batch)
            elif isinstance(batch, Fact):
                reading.facts.append(batch)
            elif isinstance(batch, Note):
                reading.notes.append(batch)
            elif not isinstance(batch, Checkpoint):
                raise TypeError(f"the parser {parser} yields {type(batch).__name__}, which is no batch")
        return reading.points

    def runs(self) -> list[Run]:
        """The runs, by name. The batches are given up on the way, so this answers once."""
        readings, self._readings = self._readings, []
        names = sorted({run for reading in readings for run in reading.pieces}) or [""]
        only_named = "" not in names
        runs: list[Run] = []
        for name in names:
            files = [
                _file(index, reading, name, self._meanings)
                for index, reading in enumerate(readings)
                if name in reading.pieces
            ]
            silent = [index for index, reading in enumerate(readings) if not reading.pieces]
            groups = _groups(files)
            for group in groups:
                title = f"{self.name}/{name}" if name else self.name
                if len(groups) > 1:
                    title += f"/{PurePath(group[0].name).stem}"
                told = sorted({file.index for file in group} | (set(silent) if group is groups[0] else set()))
                runs += self._runs(title, name, group, [(at, readings[at]) for at in told], only_named)
        return runs

    def _runs(
        self, title: str, name: str, files: Sequence[File], readings: Sequence[tuple[int, _Reading]], only_named: bool
    ) -> list[Run]:
        """One run; several where a file alone holds runs that each began anew."""
        position = {at: place for place, (at, _) in enumerate(readings)}
        for file in files:
            file.index = position[file.index]
        belongs = {name, ""} if only_named else {name}
        facts = _stated([reading for _, reading in readings], belongs)
        events = [event for _, reading in readings for event in reading.events if event.run in belongs]
        parts = stretches(files[0], events, facts) if len(files) == 1 else []
        if len(parts) < 2:
            return [self._run(title, files, events, facts, readings)]
        return [
            self._run(f"{title}/{number}", [part.file], part.events, part.facts, readings)
            for number, part in enumerate(parts, 1)
        ]

    def _run(
        self,
        title: str,
        files: Sequence[File],
        events: Sequence[Event],
        facts: Sequence[Fact],
        readings: Sequence[tuple[int, _Reading]],
    ) -> Run:
        judged = assemble(files, events, self._meanings)
        return Run(
            name=title,
            path=self.path,
            series=judged.series,
            sources=tuple(
                reading.report(judged.notes_of.get(place, ())) for place, (_, reading) in enumerate(readings)
            ),
            events=_in_order(judged.events),
            facts=(*facts, *judged.facts),
            notes=judged.notes,
            attempts=judged.attempts,
            ongoing=_ongoing(readings, judged),
        )


def _stated(readings: Sequence[_Reading], belongs: Collection[str]) -> list[Fact]:
    """The facts of these runs; one that another source states too is kept once."""
    known: set[tuple[str, type, Value]] = set()
    found: list[Fact] = []
    for reading in readings:
        own = [fact for fact in reading.facts if fact.run in belongs]
        found += [fact for fact in own if (fact.name, type(fact.value), fact.value) not in known]
        known |= {(fact.name, type(fact.value), fact.value) for fact in own}
    return found


def _file(index: int, reading: _Reading, run: str, meanings: Sequence[Meaning]) -> File:
    pieces = reading.pieces.pop(run)
    joined: dict[Any, Any] = {}
    columns = {key: join(pieces.pop(key), reading.tags[key], joined) for key in list(pieces)}
    return File(index, reading.source.name, reading.format, with_told_axes(columns, meanings, reading.source.name))


def _groups(files: Sequence[File]) -> list[list[File]]:
    """The files of each run that they turn out to be of, in the order of their sessions; [[]] without files."""
    groups: dict[int, list[File]] = defaultdict(list)
    for file in relate(files):
        groups[file.group].append(file)
    return [groups[number] for number in sorted(groups)] or [[]]


def _in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events by step and time; one without a time has that of the next or last one of its file, and its place there."""
    files: dict[str, list[int]] = defaultdict(list)
    for at, event in enumerate(events):
        files[event.place.path if event.place is not None else ""].append(at)
    times = np.array([np.nan if event.time is None else event.time for event in events], float)
    for places in files.values():
        own = np.array(sorted(places, key=lambda at: _line(events[at])))
        known = np.flatnonzero(np.isfinite(times[own]))
        if len(known):
            times[own] = times[own][known[np.searchsorted(known, np.arange(len(own))).clip(max=len(known) - 1)]]
    order = sorted(
        range(len(events)),
        key=lambda at: (
            events[at].step is None, events[at].step or 0, bool(np.isnan(times[at])), np.nan_to_num(times[at]),
            _line(events[at]),
        ),
    )  # fmt: skip
    return tuple(events[at] for at in order)


def _line(event: Event) -> int:
    place = event.place
    return -1 if place is None else place.line if place.line is not None else -1


def _ongoing(readings: Sequence[tuple[int, _Reading]], judged: Judged) -> bool:
    now = time.time()
    written = max((reading.source.modified for _, reading in readings), default=0.0)
    if not 0 <= now - written < ONGOING:
        return False
    last = max((float(np.nanmax(s.time)) for s in judged.series if np.isfinite(s.time).any()), default=now)
    return now - last < STALE
