"""Tables of rows told as points, facts and events: what the rows of common trainers mean."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from trainlens import catalog
from trainlens.later import Later
from trainlens.model import Batch, Event, Fact, Floats, Ints, Note, Place
from trainlens.parsers import _columns, _epochs, _lists, _lists_of_devices, _texts
from trainlens.parsers._columns import Axes, Labels, Mask
from trainlens.parsers._tables import Table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

# Hugging Face Trainer closes its history with a row of these, and ms-swift its log with one that holds the history.
# https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_utils.py (speed_metrics)
SUMMARY = ("train_runtime", "log_history")
_MEASURED = frozenset(("loss", "eval-loss", "score", "perplexity", "reward", "grad-norm"))
# Rows of mmcv's JSON log; `mode` tells train from val, `iter` may begin anew each epoch, and counts batches of the
# validation set in a val row. https://github.com/open-mmlab/mmcv/blob/1.x/mmcv/runner/hooks/logger/text.py
_MMCV_KEYS = frozenset(("epoch", "iter", "mode"))
_MMCV_REPEATED = frozenset(("lr", "momentum", "memory", "epoch", "iter"))
# https://docs.ray.io/en/latest/tune (result.json: the whole config in each line)
_SETTINGS = ("config/", "hyperparameters/", "hparams/")


@dataclass(slots=True)
class Teller:
    """Tells the tables of one file in order; what later rows need of earlier ones is kept here, as plain values."""

    path: str
    step: int | None = None  # of the last row
    per_epoch: int = 0  # iterations of an epoch, where they begin anew each epoch
    names: dict[str, None] = field(default_factory=dict)  # columns of numbers, of all rows by now
    texts: dict[str, None] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)  # of columns whose cells are texts with a unit
    widths: dict[str, int] = field(default_factory=dict)  # of columns whose cells are lists of numbers
    epochs: dict[str, object] = field(default_factory=dict)  # what is known of a counter that begins anew each epoch
    batches: str | None = None  # the column that is such a counter and nothing else
    beyond: int = 0  # steps too large to be told apart
    lists: dict[str, int] = field(default_factory=dict)  # lists of numbers that were left out
    unreadable: dict[str, int] = field(default_factory=dict)  # texts in columns that mostly hold numbers
    seen: bool = False  # a row with a step has come by
    hosts: list[str] = field(default_factory=list)  # of rows that are each one device's
    settled: bool = False  # the settings that each row repeats were told

    def tell(self, table: Table) -> Iterator[Batch]:
        """The batches of the next table."""
        table, told = self._without_summaries(table)
        if not self.seen:
            table, settings = self._without_settings(table)
            told += settings
        yield from told
        if not len(table.lines):
            return
        columns, present, texts = _cells(table)
        yield from self._settings_of_rows(table, columns, texts)
        yield from self._steps_of_texts(columns, present, texts)
        self.names |= dict.fromkeys(columns)
        self.texts |= dict.fromkeys(texts)
        chosen = _lists_of_devices.numbered(columns, present, texts, self._axes(columns), self.hosts)
        time = _texts.clock(texts[chosen.time]) if chosen.time in texts and chosen.time else None
        labels = {
            name: _labels(texts[name]) for name in (chosen.run, chosen.split, chosen.tag) if name and name in texts
        }
        for name, cells in texts.items():
            if name not in labels and name != chosen.time and not _texts.is_identity(name):
                self._add_numbers(columns, present, name, cells)
        for name in filter(_columns.is_total, columns):
            yield from self._total(name, *columns[name][present[name]][-1:].tolist())
        step = None
        if "mode" in texts and {*columns, "mode"} >= _MMCV_KEYS:
            step = self._mmcv_steps(columns, present, texts["mode"])
            chosen, labels = Axes(step="iter", time=chosen.time), {}
        if step is None:
            step = self._steps_over_epochs(columns, present, chosen)
        if step is None:
            step = _columns.filled_steps(columns, chosen, present, self.step)
        if step is not None:
            self.step = int(step[-1])
        if chosen.step in columns and chosen.step:
            self.beyond += int((np.abs(columns[chosen.step]) > _columns.EXACT).sum())
        columns, present = _lists.spread(columns, present, texts, self.widths, self.lists)
        yield from _columns.points(
            columns, chosen, lines=table.lines, present=present, labels=labels, step=step, time=time, units=self.units
        )
        if time is None and chosen.time in columns and chosen.time:
            time = _columns.unix_seconds(columns[chosen.time], present.get(chosen.time))
        yield from _lists_of_devices.points(table, step, time, self.hosts)

    def state(self) -> dict[str, object]:
        """What the rows that are yet to come need, for a checkpoint."""
        kept = (
            "step", "per_epoch", "names", "texts", "totals", "units", "widths", "epochs", "batches", "unreadable",
            "seen", "hosts", "settled",
        )  # fmt: skip
        return {name: copy.copy(getattr(self, name)) for name in kept}

    def stands(self) -> str:
        """What earlier rows were told by: where later rows change it, the earlier ones must be told anew."""
        return f"{_columns.axes(self.names, self.texts)} {self.per_epoch} {self.seen}"

    def notes(self) -> Iterator[Note]:
        """What of the rows could not be used."""
        for name, count in self.unreadable.items():
            yield Note("not-understood", f"{count:,} cells of {name!r} are no numbers and were left out", count=count)
        if self.lists:
            names, count = ", ".join(sorted(self.lists)), sum(self.lists.values())
            message = f"{count:,} lists of numbers were left out, for they are long or change their length: {names}"
            yield Note("not-understood", message, count=count)
        if self.beyond:
            message = f"{self.beyond:,} steps are beyond 2^53 and were rounded; those beyond 2^62 count as not logged"
            yield Note("limit", message, count=self.beyond)

    # ---- what is no measurement ------------------------------------------------------------------------------

    def _settings_of_rows(
        self, table: Table, columns: dict[str, Floats], texts: dict[str, pl.Series]
    ) -> Iterator[Batch]:
        """Takes out the settings that every row repeats, as Ray Tune writes them, and tells those of the first row."""
        if not any(name.startswith(_SETTINGS) for name in (*columns, *texts)):
            return
        for cells in (columns, texts):
            for name in [name for name in cells if name.startswith(_SETTINGS)]:
                del cells[name]
        if not self.settled:
            self.settled = True
            first = {name: cell for name, cell in table.row(0).items() if name.startswith(_SETTINGS)}
            yield from _facts(first, Place(self.path, line=int(table.lines[0])))

    def _without_summaries(self, table: Table) -> tuple[Table, list[Batch]]:
        closing = np.zeros(len(table.lines), np.bool_)
        for name in SUMMARY:
            if name in table.present:
                closing |= table.present[name]
            elif name in table.texts:
                closing |= table.texts[name].is_not_null().to_numpy()
        told: list[Batch] = []
        for at in np.flatnonzero(closing).tolist():
            cells = table.row(at)
            place = Place(self.path, line=int(table.lines[at]))
            step = next((cells[name] for name in ("step", "global_step") if name in cells), None)
            told += _facts({name: value for name, value in cells.items() if name not in ("step", "epoch")}, place)
            told.append(Event("run-end", "the trainer wrote its summary", _whole(step), place=place))
        return (table.keep(~closing), told) if told else (table, told)

    def _without_settings(self, table: Table) -> tuple[Table, list[Batch]]:
        """Takes out the rows before the first step that measure nothing: they are told as facts."""
        logged = dict(table.present)
        for name, texts in table.texts.items():
            if catalog.axis(name) == "step":
                logged[name] = texts.is_not_null().to_numpy()
        chosen = _columns.axes(logged)
        stepped = np.zeros(len(table.lines), np.bool_)
        for name in (chosen.step or "", *chosen.also):
            if name in logged:
                stepped |= logged[name]
        self.seen = bool(stepped.any())
        keep, told = np.ones(len(table.lines), np.bool_), list[Batch]()
        for at in range(int(np.argmax(stepped)) if self.seen else 0):
            cells = table.row(at)
            if not _measures(cells):
                keep[at] = False
                told += _facts(cells, Place(self.path, line=int(table.lines[at])))
        return (table.keep(keep), told) if told else (table, told)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def _steps_of_texts(
        self, columns: dict[str, Floats], present: dict[str, Mask], texts: dict[str, pl.Series]
    ) -> Iterator[Fact]:
        """Moves columns like "110/438" from the texts to the numbers; the totals are facts."""
        for name in [name for name in texts if catalog.axis(name) == "step"]:
            columns[name], present[name], total = _texts.steps(texts.pop(name))
            if total is not None:
                yield from self._total(_texts.plain_total(name), total)

    def _total(self, name: str, total: float | None = None) -> Iterator[Fact]:
        if total is not None and self.totals.get(name) != total:
            self.totals[name] = total
            yield Fact(name, int(total) if np.isfinite(total) else total, Place(self.path))

    def _add_numbers(self, columns: dict[str, Floats], present: dict[str, Mask], name: str, cells: pl.Series) -> None:
        found, known, unit = _texts.column(cells, self.units.get(name))
        logged = len(cells) - cells.null_count()
        count = int(known.sum())
        if count:
            columns[name], present[name] = found, known
            if unit is not None:
                self.units[name] = unit
            if logged > count > logged // 2:
                self.unreadable[name] = self.unreadable.get(name, 0) + logged - count

    def _axes(self, columns: dict[str, Floats]) -> Axes:
        chosen = _columns.axes(self.names, self.texts)
        if chosen.step is None or catalog.axis(chosen.step) is None:
            self.batches = self.batches or _epochs.batches(columns)
            if self.batches is not None:
                return replace(chosen, step=self.batches)
        return chosen

    def _steps_over_epochs(self, columns: dict[str, Floats], present: dict[str, Mask], chosen: Axes) -> Ints | None:
        """The step of each row where the chosen counter begins anew with each epoch; None while it never did."""
        epoch, count = _epochs.epochs(columns), chosen.step or ""
        if epoch is None or count not in columns or not _epochs.inside(count):
            return None
        counter = _epochs.Counter(**self.epochs)  # type: ignore[arg-type]
        known = np.isfinite(columns[epoch]) & np.isfinite(columns[count])
        for name in (epoch, count):
            known &= present.get(name, np.True_)
        step = counter.steps(columns[epoch], columns[count], known)
        self.epochs = asdict(counter)
        return None if step is None else _columns.filled_steps({"step": step}, Axes(step="step"), after=self.step)

    def _mmcv_steps(self, columns: dict[str, Floats], present: dict[str, Mask], mode: pl.Series) -> Ints | None:
        """The training step of each row: an evaluation, however labelled, lies on the training row before it."""
        has = present["iter"] & present["epoch"]
        timed = next((present[name] for name in ("data_time", "time", "loss") if name in present), has)
        train = has & timed & (mode == "train").fill_null(False).to_numpy()
        for name in _MMCV_REPEATED & set(columns):
            present[name] = present[name] & train
        iteration, epoch = columns["iter"][train], columns["epoch"][train]
        drops = np.flatnonzero((np.diff(epoch) > 0) & (np.diff(iteration) < 0))
        if not self.per_epoch and len(drops):
            self.per_epoch = int(iteration[: drops[0] + 1].max())
        step = np.full(len(mode), np.nan)
        step[train] = iteration + (epoch - 1) * self.per_epoch
        return _columns.filled_steps({"step": step}, Axes(step="step"), after=self.step)


def _cells(table: Table) -> tuple[dict[str, Floats], dict[str, Mask], dict[str, pl.Series]]:
    """Numbers, which of them were logged, and texts; of flags only those worth a curve."""
    columns, present = dict(table.columns), dict(table.present)
    for name, flags in table.flags.items():
        if _counts_as_number(name):
            columns[name] = flags.cast(pl.Float64).to_numpy()
            present[name] = flags.is_not_null().to_numpy()
    return columns, present, dict(table.texts)


def _measures(cells: dict[str, str | float | bool]) -> bool:
    return any(about.role in _MEASURED for about in catalog.resolve(cells).values())


def _facts(cells: dict[str, str | float | bool], place: Place) -> list[Batch]:
    return [
        Fact(name, int(value) if isinstance(value, float) and value.is_integer() else value, place)
        for name, value in cells.items()
        if (np.isfinite(value) if isinstance(value, float) else not (isinstance(value, str) and _is_long(value)))
    ]


def _is_long(text: str) -> bool:
    return len(text) > 1000 or text.startswith("[")


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, float) and np.isfinite(value) else None


def _labels(texts: pl.Series) -> Labels:
    names = texts.drop_nulls().unique(maintain_order=True)
    code = texts.replace_strict(names, np.arange(len(names)), default=-1, return_dtype=pl.Int64) if len(names) else None
    return Labels(np.full(len(texts), -1, np.int64) if code is None else code.to_numpy(), tuple(names.to_list()))


def _counts_as_number(name: str) -> bool:
    """Whether a true or false is an event worth a curve: a step skipped, a gradient clipped, an overflow."""
    letters = _columns.plain(name)
    role = catalog.resolve([name])[name].role
    return role in ("skipped", "clipped") or "overflow" in letters or "foundinf" in letters
