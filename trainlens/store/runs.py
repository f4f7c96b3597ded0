"""The files of one run, sorted into sessions → its series, attempts, and what to say of them. Part of `store`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trainlens import catalog
from trainlens.catalog.mapping import Meaning
from trainlens.catalog.mapping import told as told_metrics
from trainlens.model import NO_RANK, Attempt, Event, Fact, Metric, Note, Series
from trainlens.store.alike import agreed, common, fuller, lacking
from trainlens.store.attempts import Numbers, attempts, numbered
from trainlens.store.placing import OUTSIDE, Placing
from trainlens.store.relate import ROUNDING, File, Key, disagreement
from trainlens.store.stitch import Column
from trainlens.store.stitcher import Line, Part, Stitcher, Told, names

# A held-out metric at 0, 1, 2, ... whose last step is below this share of the last training step counts epochs.
EPOCH_LIKE = 0.05
_TOTAL = frozenset(("totalsteps", "maxsteps", "trainiters", "totaliterations", "numtrainsteps"))
_HELD_OUT = frozenset(("eval-loss", "score", "perplexity"))


# Scores equal to the last digit in two evaluations, and their share: other weights answer other questions right.
_REPEATED, _SAME = 4, 0.75


@dataclass(frozen=True)
class Judged:
    series: tuple[Series, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    events: tuple[Event, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()
    notes_of: Mapping[int, tuple[Note, ...]] = field(default_factory=dict)  # by file


def assemble(files: Sequence[File], events: Sequence[Event], meanings: Sequence[Meaning] = ()) -> Judged:
    """The series of a run from its files, which are in the order of their sessions and know how they stand together.

    The files are emptied on the way.
    """
    told = Told()
    tellings = [disagreement(file.same_as, file) for file in files if file.same_as is not None]
    repeated = _repeated_scores(files)
    numbers = numbered(files, events)
    found, rollbacks, notes = attempts(files, numbers)
    placing = Placing(files, numbers)
    placing.columns()
    lines = _stitched(files, numbers, told)
    series, own_axis = _own_axis(_named(_without_equal_ranks(lines), meanings))
    facts = tuple(fact for one in series if (fact := _total_steps(one)))
    notes += [*told.notes(), *placing.told, *own_axis, *(Note("disagreement", text) for text in tellings if text)]
    notes_of = {file.index: (*told.notes_of(file), *repeated.get(file.index, ())) for file in files}
    happened = (*placing.events(events), *rollbacks)
    return Judged(tuple(series), tuple(found), happened, facts, tuple(notes), notes_of)


def _repeated_scores(files: Sequence[File]) -> dict[int, list[Note]]:
    """Files that hold the very scores of an earlier one: the same weights were evaluated twice."""
    known: list[tuple[File, dict[Key, float]]] = []
    found: dict[int, list[Note]] = {}
    for file in files:
        scores = {
            key: float(column.value[0])
            for key, column in file.columns.items()
            if key[0].startswith("bench/") and len(column.value) == 1
        }
        if len(scores) < _REPEATED:  # most files hold none, and there may be many
            continue
        for other, before in known:
            both = [key for key in scores if before.get(key, 0.0) not in (0.0, 1.0)]
            same = sum(scores[key] == before[key] for key in both)
            if same >= max(_REPEATED, _SAME * len(both)):
                text = f"{same} of {len(both)} scores are identical to those of {other.name}: the same weights again"
                found.setdefault(file.index, []).append(Note("repeated", text, count=same))
                break
        known.append((file, scores))
    return found


def _stitched(files: Sequence[File], numbers: Mapping[int, Numbers], told: Told) -> dict[Key, Line]:
    parts: dict[Key, list[Part]] = defaultdict(list)
    at_once = {file.session for file in files if file.beside}
    for file in files:
        for (tag, rank), column in file.columns.items():
            twin = file.same_as.columns.get((tag, rank)) if file.same_as is not None else None
            key = tag, file.beside if rank == NO_RANK and file.session in at_once else rank
            if file.same_as is None or twin is None:
                parts[key].append((file, column))
            else:
                parts[key] = _told_once(parts[key], (file.same_as, twin), (file, column))
    for file in files:
        file.columns = {}
    stitcher = Stitcher(numbers, told)
    return {key: stitcher.line(parts.pop(key)) for key in sorted(parts)}


def _told_once(parts: Sequence[Part], first: Part, second: Part) -> list[Part]:
    """The parts with a second telling of a column that is among them: the fuller one, and what only the other has."""
    at = next((place for place, (file, column) in enumerate(parts) if column is first[1]), None)
    if at is None:  # another telling took its place
        return list(parts)
    kept, other = (second, first) if fuller(second[1], first[1]) else (first, second)
    before, after = lacking(kept[1], other[1])
    sides = [(other[0], before)] if before else [], [(other[0], after)] if after else []
    return [*parts[:at], *sides[0], kept, *sides[1], *parts[at + 1 :]]


# ---- from lines to series --------------------------------------------------------------------------------------------


def _without_equal_ranks(lines: Mapping[Key, Line]) -> list[tuple[int, Line]]:
    """The lines with their ranks; where all ranks logged the same, or there is but one, one line of no rank."""
    of_tag: dict[str, dict[int, Line]] = defaultdict(dict)
    for (tag, rank), line in lines.items():
        of_tag[tag][rank] = line
    found: list[tuple[int, Line]] = []
    for ranks in of_tag.values():
        ranked = {rank: line for rank, line in ranks.items() if rank != NO_RANK}
        if NO_RANK not in ranks and agreed({rank: line.column() for rank, line in ranked.items()}):
            fullest = max(ranked, key=lambda rank: (len(ranked[rank].value), -rank))
            found.append((NO_RANK, ranked[fullest]))
        else:
            found += sorted(ranks.items())
    return found


def _named(lines: Sequence[tuple[int, Line]], meanings: Sequence[Meaning] = ()) -> list[Series]:
    """The lines as series under their canonical names, by name, tag and rank."""
    sizes: dict[str, int] = {}
    for _, line in lines:
        sizes[line.tag] = max(len(line.value), sizes.get(line.tag, 0))
    told = told_metrics(meanings, sizes)
    about = catalog.resolve(sizes, sizes, {line.tag: line.unit for _, line in lines}, told)
    claimed = frozenset(one.name for one in about.values())
    for _, line in lines:
        if line.tag not in told:
            about[line.tag] = catalog.settle(about[line.tag], line.tag, line.value, claimed)
    series = [_series(line, rank, about[line.tag]) for rank, line in lines]
    series = [replace(one, about=_unjudged(one.about)) if _told_twice(one, series) else one for one in series]
    series = [
        replace(one, about=replace(_unjudged(one.about), panel="other")) if one.tag.startswith(OUTSIDE) else one
        for one in series
    ]
    return sorted(series, key=lambda one: (one.metric, one.tag, one.rank))


def _told_twice(series: Series, all_series: Sequence[Series]) -> bool:
    """Whether it repeats the series that has the canonical name it claimed: one quantity under two tags."""
    claimed = catalog.resolve([series.tag])[series.tag].name
    if series.metric == claimed or series.positional:
        return False
    for other in all_series:
        if other.metric == claimed and other.rank == series.rank and not other.positional:
            steps, a, b = common(_column(other), _column(series))
            alike = np.isclose(other.value[a], series.value[b], rtol=ROUNDING, atol=0.0, equal_nan=True)
            return len(steps) >= max(2, len(series) / 2) and bool(alike.mean() > 0.9)
    return False


def _column(series: Series) -> Column:
    return Column(series.tag, series.step, series.value, None, None)


def _unjudged(about: Metric) -> Metric:
    return replace(about, role="other", better="none")


def _series(line: Line, rank: int, about: Metric) -> Series:
    replaced = None if line.replaced is None else _series(line.replaced, rank, about)
    arrays = line.step, line.value, line.time, rank, line.attempt, line.source, line.origin
    return Series(about.name, line.tag, about, *arrays, replaced, line.positional)


def _own_axis(series: Sequence[Series]) -> tuple[list[Series], list[Note]]:
    """Held-out metrics that count epochs beside training steps are marked, so that nobody lines them up by step."""
    trained = [one for one in series if one.about.role == "loss" and not one.positional and len(one)]
    top = max((int(one.step[-1]) for one in trained), default=0)
    found, marked = [], []
    for one in series:
        counts = len(one) >= 3 and one.step[0] in (0, 1) and int(one.step[-1] - one.step[0]) == len(one) - 1
        if one.about.role in _HELD_OUT and not one.positional and counts and one.step[-1] < EPOCH_LIKE * top:
            marked.append(one.tag)
            one = replace(one, positional=True)
        found.append(one)
    text = f"the steps of {names(marked)} count something else than those of training, which go to {top:,}"
    return found, [Note("no-steps", text, count=len(marked))] if marked else []


def _total_steps(series: Series) -> Fact | None:
    letters = "".join(letter for letter in series.tag.lower() if letter.isalnum())
    if letters in _TOTAL and len(series) and (series.raw == series.raw[0]).all() and series.raw[0] > 0:
        return Fact("total_steps", int(series.raw[0]))
    return None
