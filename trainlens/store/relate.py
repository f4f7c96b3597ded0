"""How the files of one run belong together: sessions in turn, two tellings of the same, ranks. Part of `store`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

import numpy as np

from trainlens.model import Floats
from trainlens.store import machines
from trainlens.store.alike import begins_alike, common, equal, fuller, repeats
from trainlens.store.named import by_age, natural, told_by_names
from trainlens.store.stitch import Column

Key = tuple[str, int]  # tag without its rank, rank
Relation = Literal["none", "same", "later", "beside", "foreign"]

# Names of files that say nothing of which run they are of: of one run whatever the digits in their names.
_EVENT_FILES = frozenset(("tfevents", "tensorboard"))
ROUNDING = 1e-2  # text logs print few digits; more than this is a disagreement


@dataclass
class File:
    """What one source holds of one run."""

    index: int
    name: str
    format: str
    columns: dict[Key, Column]
    same_as: File | None = None  # another file tells the same: only what that one lacks is taken
    session: int = 0
    beside: int = 0  # number among files that were written at the same time under the same tags
    group: int = 0  # runs that lie in one directory by accident
    aside: bool = False  # tells of no attempt: what others than the training wrote beside it
    _ends: tuple[float, float] | None = field(default=None, repr=False)

    @property
    def points(self) -> int:
        return sum(len(column.value) for column in self.columns.values())

    def times(self) -> tuple[float, float] | None:
        """First and last wall time, None without a clock."""
        if self._ends is None:
            ends = [(np.nanmin(t), np.nanmax(t)) for t in self._clocks() if np.isfinite(t).any()]
            self._ends = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (np.nan, np.nan)
        return None if np.isnan(self._ends[0]) else self._ends

    def _clocks(self) -> Iterable[Floats]:
        return {id(c.time): c.time for c in self.columns.values() if c.time is not None}.values()

    def densest(self) -> Column:
        """The column with most points that has steps of its own; of several the first by name."""
        best = max(self.columns, key=lambda key: (self.columns[key].step is not None, len(self.columns[key].value)))
        return self.columns[best]


def shared(one: File, other: File) -> Key | None:
    """The quantity both hold that has most points in `other`."""
    keys = one.columns.keys() & other.columns.keys()
    return max(keys, key=lambda key: (len(other.columns[key].value), key), default=None)


def relate(files: Sequence[File]) -> list[File]:
    """Sort the files into sessions, in their order; says of each how it stands to the others (fields of File)."""
    watching = [file for file in files if machines.watches(file)]
    seen = {file.index for file in watching}
    training = [file for file in files if file.index not in seen]
    told_by_names(training)
    for file in files:
        file.aside = file.format in machines.BESIDE or (bool(training) and file.index in seen)
    placed = _sessions(training)
    spans: dict[int, tuple[float, float]] = {}
    for file in placed:
        if ends := file.times():
            first, last = spans.get(file.group, ends)
            spans[file.group] = min(first, ends[0]), max(last, ends[1])
    return [*placed, *_of_machines(watching, spans)]


def _of_machines(watching: Sequence[File], spans: Mapping[int, tuple[float, float]]) -> list[File]:
    """Files of machines in the order of their times, each in the group of the run it was written beside."""
    primary: list[File] = []
    for file in sorted(watching, key=lambda file: (-file.points, file.index)):
        file.same_as = next((other for other in primary if machines.repeats(file, other)), None)
        if file.same_as is None:
            file.group = machines.nearest(file, spans)
            primary.append(file)
        else:
            file.group = file.same_as.group
    for group in {file.group for file in primary}:
        own = sorted((file for file in primary if file.group == group), key=lambda file: natural(file.name))
        order = machines.nodes(own)
        for node in order:
            node += [file for file in watching if any(file.same_as is other for other in node)]
        machines.number_ranks(order)
    return sorted(watching, key=lambda file: ((file.times() or (np.inf, 0.0))[0], natural(file.name)))


def _sessions(files: Sequence[File]) -> list[File]:
    primary: list[File] = []
    for file in sorted(files, key=lambda file: (_without_steps(file), -file.points, file.index)):
        file.same_as = next((other for other in primary if _tells_the_same(other, file)), None)
        if file.same_as is None:
            primary.append(file)
    placed: list[File] = []
    for file in _in_order(primary):
        _place(file, placed)
        placed.append(file)
    for file in files:
        if file.same_as is not None:
            file.session, file.group = file.same_as.session, file.same_as.group
            file.beside = file.same_as.beside
            placed.append(file)
    return placed


def _without_steps(file: File) -> bool:
    """Whether nothing in it names a step: what tells the same with steps is the better telling."""
    return all(column.step is None for column in file.columns.values())


def _place(file: File, placed: Sequence[File]) -> None:
    """The group and session of a file among those that come before it."""
    for group in sorted({other.group for other in placed}):
        own = [other for other in placed if other.group == group]
        relations = [(other, _relation(other, file)) for other in own]
        if any(relation == "foreign" for _, relation in relations):
            continue
        file.group = group
        later = [other.session for other, relation in relations if relation == "later"]
        beside = [other for other, relation in relations if relation == "beside"]
        file.session = max(later, default=-1) + 1
        if beside:
            file.session = max(file.session, max(other.session for other in beside))
            file.beside = max(other.beside for other in beside) + 1
        return
    if placed:
        file.group = max(other.group for other in placed) + 1


def _in_order(files: Sequence[File]) -> list[File]:
    """By steps where files that share a quantity never overlap (clocks of hosts differ), else by time, else by name.

    Names of a rotated log count backwards, if the steps allow it: "train.log.2" is older than "train.log.1".
    """
    by_step = sorted(files, key=lambda file: (_reach(file)[0], file.index))
    if all(
        _reach(later)[0] > _reach(file)[1]
        for at, later in enumerate(by_step)
        for file in by_step[:at]
        if shared(file, later)
    ):
        return by_step
    if all(file.times() for file in files):
        return sorted(files, key=lambda file: ((file.times() or (0.0, 0.0))[0], natural(file.name)))
    by_name = sorted(files, key=lambda file: natural(file.name))
    oldest_first = by_age(by_name)
    return by_name if _rises(by_name) and not _rises(oldest_first) else oldest_first


def _rises(files: Sequence[File]) -> bool:
    begins = [_reach(file)[0] for file in files]
    return begins == sorted(begins)


def _reach(file: File) -> tuple[int, int]:
    steps = file.densest().steps()
    return int(steps.min()), int(steps.max())


def _relation(before: File, file: File) -> Relation:
    key = shared(before, file)
    if key is None:
        return "none"
    a, b = before.columns[key].steps(), file.columns[key].steps()
    low, high = max(a.min(), b.min()), min(a.max(), b.max())
    if low > high:
        return "later"
    shorter = max(1, min(a.max() - a.min(), b.max() - b.min()))
    events = before.format == file.format and file.format in _EVENT_FILES
    if _at_once(before, file):
        return "beside" if events else "foreign"
    if not events and a.min() == b.min() < a.max() == b.max():  # from the same step to the same: another seed
        return "foreign"
    alike = events or _stem(before.name) == _stem(file.name)
    return "later" if alike or high - low < 0.5 * shorter else "foreign"


def _stem(name: str) -> str:
    return re.sub(r"\d+", "#", PurePath(name).name)


def _at_once(one: File, other: File) -> bool:
    a, b = one.times(), other.times()
    if a is None or b is None:
        return False
    shorter = min(a[1] - a[0], b[1] - b[0])
    return min(a[1], b[1]) - max(a[0], b[0]) > 0.2 * shorter > 0


def _tells_the_same(file: File, other: File) -> bool:
    """Whether `other` repeats `file`: equal values at their common steps, or another format over the same steps."""
    key = shared(file, other)
    if key is None or not repeats(file.columns[key], other.columns[key], file.format != other.format):
        return False
    # Two runs of one schedule have the same learning rate: a copy has the same of everything.
    stepless = _without_steps(file) or _without_steps(other)
    if stepless:
        return all(
            begins_alike(file.columns[one], other.columns[one]) for one in file.columns.keys() & other.columns.keys()
        )
    keys = file.columns.keys() & other.columns.keys() if file.format == other.format else ()
    return all(equal(file.columns[one], other.columns[one]) for one in keys)


def disagreement(file: File, other: File) -> str:
    """Where two tellings of the same differ by more than rounding, in words: the worst quantity; "" when they agree."""
    worst: tuple[float, str] = (0.0, "")
    for key in sorted(file.columns.keys() & other.columns.keys()):
        kept, left = (other, file) if fuller(other.columns[key], file.columns[key]) else (file, other)
        steps, a, b = common(kept.columns[key], left.columns[key])
        if not len(steps) or _without_steps(file) or _without_steps(other):
            continue
        one, two = kept.columns[key].value[a], left.columns[key].value[b]
        differs = ~np.isclose(one, two, rtol=ROUNDING, atol=1e-12, equal_nan=True)
        if differs.mean() > max(0.01, worst[0]):
            at = int(np.flatnonzero(differs)[0])
            text = (
                f"{key[0]} differs between {kept.name} and {left.name} at {int(differs.sum()):,} of {len(steps):,} "
                f"steps, first at step {int(steps[at]):,}: {one[at]:.6g} and {two[at]:.6g}; the first is kept"
            )
            worst = float(differs.mean()), text
    return worst[1]
