"""W&B run files (`run-ID.wandb`), as every run writes one, online or offline: history, system metrics, settings, end.

The step is the one that `define_metric` names or the training loop logs ("train/global_step", "iter") where most rows
hold it, else W&B's own `_step`, which counts calls; a metric that was given steps of its own keeps them. Numbers inside
logged dictionaries are joined by "/"; pictures, tables and histograms are left out.

System metrics are named as W&B shows them ("system.gpu.0.powerWatts"), without those of single CPU cores; they bear no
step, so each gets that of its moment, between the rows before and after it. The record of the exit tells how the run
ended; the console lines are left to `files/output.log`.

The format: https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainlens import catalog
from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, Fact, Floats, Ints, Note, Place, Value
from trainlens.parsers import _columns
from trainlens.parsers._faults import kept, restored
from trainlens.parsers._json_documents import flat
from trainlens.parsers._scattered import Scattered, moments
from trainlens.parsers._wandb_frames import HEADER, MAGIC, Frames, remarks
from trainlens.parsers._wandb_layouts import Block, Layout
from trainlens.parsers._wandb_records import MalformedError, Names, Record, parse
from trainlens.sources import Source

TELLS_END = True

CELLS = 2 << 20  # cells of rows held before they become points
_OWN_STEP, _CLOCK, _RUNTIME = "_step", "_timestamp", "_runtime"  # the last says what the clock says
_CORE = re.compile(r"cpu\.\d+\.")
_INTERRUPTED = 255  # what the client records when a KeyboardInterrupt ends the script
_WAY_OUT = (
    "Export the run's history to CSV or JSON (run page, or wandb.Api().run(PATH).history().to_csv(FILE)); "
    "`wandb sync` uploads an offline run first"
)


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a W&B run file; one that is empty or damaged is known by its name."""
    if head.startswith(MAGIC):
        return 1.0
    return 0.95 if path.suffix == ".wandb" else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points of the history and of the system metrics, settings as facts, the end as an event."""
    head = source.head(len(HEADER))
    if not head:
        yield Note("no-points", "an empty W&B run file: the run ended, or was copied, before anything was written")
        return
    if not HEADER.startswith(head):
        _refuse(head, source.name)
    frames, rows = Frames(source), _Rows()
    ended, exits, malformed, media = False, list[tuple[Record, Place]](), list[int](), 0
    names, facts = Names(), dict[str, Value]()
    if since is not None:
        frames.end, state = since.offset, cast(dict[str, Any], dict(since.state))
        ended, facts, malformed = bool(state.pop("ended")), dict(state.pop("facts")), restored(state.pop("malformed"))
        media = int(state.pop("media"))
        frames.bad, frames.damaged, frames.first_bad = state.pop("faults")
        del state["stands"]
        rows = _Rows(**state)
    for at, payload in frames:
        if fitting := names.layouts.fit(payload):
            if rows.add_fitting(*fitting, at) > CELLS:
                yield from rows.told()
            continue
        try:
            record = parse(payload, names)
        except MalformedError:
            malformed.append(at)
            continue
        if record is None:
            continue
        place = Place(source.name, byte=at)
        yield from _facts(record, facts, place)
        media += record.media
        if record.kind == "exit":
            exits.append((record, place))
        elif record.kind == "preempting" or rows.add(record, at) > CELLS:
            yield from rows.told()
        if record.kind == "preempting":
            yield Event("preemption", "W&B was told that the run is being preempted", rows.last_step, place=place)
    yield from rows.told()
    yield from (_ending(record, rows.last_step, place) for record, place in exits)
    ended |= bool(exits)
    if media:
        yield Note("limit", f"{media:,} pictures, tables or histograms are no curves and were left out", count=media)
    yield from remarks(frames, malformed, ended)
    if not source.compressed:
        faults: dict[str, Any] = {
            "malformed": kept(malformed),
            "faults": [frames.bad, frames.damaged, frames.first_bad],
        }
        # Which column counts the steps and where the last samples lie, only the rest of the file can tell.
        faults["stands"] = [frames.end]
        yield Checkpoint(frames.end, {"ended": ended, "facts": facts, "media": media, **faults, **rows.state()})


def _refuse(head: bytes, name: str) -> None:
    if head.startswith(HEADER[:-1]):
        what = f"a wandb run file of version {head[-1]}, which is not supported (0 is)"
    else:
        what = "a wandb run file whose header is damaged; it cannot be read"
    raise InputError(what, where=name, hint=_WAY_OUT)


# ---- rows ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """Collects rows and samples and tells them as points. The rest is what later rows need of earlier ones.

    `axis` names the column that counts the steps, None as long as no row was seen. `defined` has the columns that
    `define_metric` gave to metrics, `last` the last step of each such column.
    """

    axis: str | None = None
    last_step: int | None = None
    last_time: float = float("nan")
    defined: dict[str, str] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    history: Scattered = field(default_factory=Scattered)
    samples: Scattered = field(default_factory=Scattered)
    block: Block | None = None  # rows of one layout that are not yet in the history

    def add_fitting(self, layout: Layout, groups: tuple[bytes, ...], at: int) -> int:
        """Takes a row of a known layout that begins at byte `at`. Returns how many cells wait to be told."""
        if self.block is None or self.block.layout is not layout:
            self._settle()
            self.block = Block(layout)
        self.block.add(groups, at)
        return self.history.cells + self.samples.cells + len(self.block.rows) * len(layout.names)

    def _settle(self) -> None:
        """Puts the rows of the block into the history."""
        block, self.block = self.block, None
        if block is None:
            return
        cells = block.columns()
        own, clock = cells.pop(_OWN_STEP, None), cells.pop(_CLOCK, None)
        step = block.own_steps() if own is None or not (np.abs(own) < 1 << 62).all() else own.astype(np.int64)
        if clock is not None and np.isfinite(clock).all():
            cells.pop(_RUNTIME, None)
        kept = {name: column for name, column in cells.items() if not name.startswith("_wandb")}
        self.history.add_block(kept, step, np.full(len(step), np.nan) if clock is None else clock, block.origin)

    def add(self, record: Record, at: int) -> int:
        """Takes the row or sample of a record that begins at byte `at`. Returns how many cells wait to be told."""
        if record.kind == "history":
            self._settle()
            cells = record.cells
            if any(name.startswith("_wandb") for name in cells):
                cells = {name: value for name, value in cells.items() if not name.startswith("_wandb")}
            own, clock = cells.pop(_OWN_STEP, None), cells.pop(_CLOCK, float("nan"))
            if np.isfinite(clock):
                cells.pop(_RUNTIME, None)
            step = int(own) if own is not None and abs(own) < 1 << 62 else record.step or 0
            self.history.add(cells, step, clock, at)
        elif record.kind == "stats":
            cells = {f"system.{name}": value for name, value in record.cells.items() if not _CORE.match(name)}
            self.samples.add(cells, 0, record.time, at)
        elif record.kind == "axis":
            self.defined[record.axis[0]] = record.axis[1]
        return self.history.cells + self.samples.cells

    def told(self) -> Iterator[Batch]:
        """The points of all that was taken since the last time."""
        self._settle()
        history, samples = self.history, self.samples
        self.history, self.samples = Scattered(), Scattered()
        step, time = history.steps(), history.times()
        if len(history):
            self.axis = self.axis or _axis(history, self._covered(history))
            step = self._steps(history, step)
            yield from self._history(history, step)
        if len(samples):
            yield from samples.points(self._moments(samples, step, time))
        if len(history):
            self.last_step = int(step[-1])
            known = time[np.isfinite(time)]
            self.last_time = float(known[-1]) if len(known) else self.last_time

    def state(self) -> dict[str, Any]:
        known = {"axis": self.axis, "last_step": self.last_step, "last_time": self.last_time}
        return {**known, "defined": dict(self.defined), "last": dict(self.last)}

    def _history(self, history: Scattered, step: Ints) -> Iterator[Batch]:
        """The points of the rows: at the steps of the run, or at those that a metric has for itself."""
        own: dict[str, list[str]] = {}
        for name in history.columns:
            column = _given(name, self.defined)
            if column not in (None, self.axis, name) and (column in self.last or _counts(history, column)):
                own.setdefault(column, []).append(name)
        without = {self.axis or "", *own, *(name for names in own.values() for name in names)}
        yield from history.points(step, without=without)
        for column, names in own.items():
            missing = np.full(len(history), np.nan)
            cells = {column: history.full(column) if column in history.columns else missing}
            steps = _columns.filled_steps(cells, _columns.Axes(step=column), after=self.last.get(column))
            if steps is not None:
                self.last[column] = int(steps[-1])
                yield from history.points(steps, without=history.columns.keys() - set(names))

    def _covered(self, history: Scattered) -> str | None:
        """The column that `define_metric` gave to most points as their steps."""
        weights, whole = dict[str, int](), 0
        for name, column in history.columns.items():
            steps = _given(name, self.defined)
            if name not in self.defined.values():
                whole += len(column.value)
            if steps not in (None, name):
                weights[steps] = weights.get(steps, 0) + len(column.value)
        most = max(sorted(weights), key=lambda one: weights[one], default=None)
        return most if most is not None and 2 * weights[most] > whole else None

    def _steps(self, history: Scattered, own: Ints) -> Ints:
        if self.axis == _OWN_STEP or self.axis not in history.columns:
            return own if self.axis == _OWN_STEP or self.last_step is None else np.full_like(own, self.last_step)
        column = {self.axis: history.full(self.axis)}
        filled = _columns.filled_steps(column, _columns.Axes(step=self.axis), after=self.last_step)
        return own if filled is None else filled

    def _moments(self, samples: Scattered, step: Ints, time: Floats) -> Ints | None:
        """The step of each sample, by its time; None where there is no history to tell it."""
        if self.last_step is not None:
            step, time = np.append(self.last_step, step), np.append(self.last_time, time)
        return moments(samples.times(), step, time)


def _given(name: str, defined: Mapping[str, str]) -> str | None:
    """The column of steps that a metric was given: under its whole name, else under the longest beginning of it."""
    if name in defined:
        return defined[name]
    fitting = [one for one in defined if one.endswith("*") and name.startswith(one[:-1])]
    return defined[max(fitting, key=len)] if fitting else None


def _counts(history: Scattered, name: str) -> bool:
    """Whether a column is there and holds whole numbers that are no epochs."""
    if name not in history.columns:
        return False
    value = np.array(history.columns[name].value, np.float64)
    whole = bool((np.isfinite(value) & (value == np.floor(value))).all())
    return whole and not _columns.plain(name.rpartition("/")[2]).startswith("epoch")


def _axis(history: Scattered, given: str | None = None) -> str:
    """The column that counts training steps: most rows have it and it never begins anew, as one within epochs does.

    `given` is the one that `define_metric` names, whatever it is called.
    """
    chosen = _columns.axes([*history.columns, _OWN_STEP])
    for name in (given, chosen.step, *chosen.also):
        if name not in history.columns or (catalog.axis(name) != "step" and name != given):
            continue
        value = np.array(history.columns[name].value, np.float64)
        if 2 * len(value) < len(history) or not (np.isfinite(value) & (value == np.floor(value))).all():
            continue
        if not (value[1:][np.diff(value) < 0] <= value[0]).any():
            return name
    return _OWN_STEP


# ---- what is no point ------------------------------------------------------------------------------------------------


def _facts(record: Record, known: dict[str, Value], place: Place) -> Iterator[Fact]:
    """The settings that are new or have changed."""
    for name, value in flat(record.config):
        if known.get(name) != value:
            known[name] = value
            yield Fact(name, value, place)


def _ending(record: Record, step: int | None, place: Place) -> Event:
    if record.code == 0:
        return Event("run-end", "W&B recorded exit code 0", step, place=place)
    why = ", as after Ctrl-C (KeyboardInterrupt)" if record.code == _INTERRUPTED else ""
    return Event("exit-code", f"W&B recorded exit code {record.code}{why}", step, place=place)
