"""Rows with named cells, as JSON lines, CSV and text logs have them, turned into Points.

    chosen = axes(names)                                     # which columns are step, time, rank, run
    yield from points(columns, chosen, lines=lines, present=present, after=last)
    last = last_step(columns, chosen, present, last)         # for the next block of the same file

A column is an array with one cell a row; `present` says for a column which cells were logged (no entry: all). A cell
that was logged as NaN is a point, one that was not logged is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainlens import catalog
from trainlens.model import NO_RANK, Floats, Ints, Points

Mask = NDArray[np.bool_]
Cells = TypeVar("Cells", Ints, Floats)

_SPLIT = frozenset(("split", "mode", "phase", "stage", "subset", "dataset_split", "type", "kind"))
_QUANTITY = frozenset(("metric", "tag", "key", "name"))
_HELD_OUT = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev"))
_TOTALS = frozenset(
    ("totalsteps", "maxsteps", "totaliters", "maxiters", "totaliterations", "maxiterations", "numtrainingsteps")
)
# Where several columns count steps: the step of the optimiser before a count of log calls (W&B's `_step`).
_STEP_ORDER = (
    "globalstep", "globalstepmaxsteps", "step", "currentsteps", "totaltimesteps", "timestepstotal", "iteration", "iter",
    "numupdates",
)  # fmt: skip

EXACT, _FURTHEST = 2.0**53, 2.0**62  # steps that a float holds to the digit, and that are steps at all


@dataclass(frozen=True, slots=True)
class Axes:
    """The columns that are no metrics. `split` tells training from evaluation rows, `tag` names what `value` holds.

    `also` are further columns of steps, for rows that lack the first.
    """

    step: str | None = None
    also: tuple[str, ...] = ()
    time: str | None = None
    rank: str | None = None
    run: str | None = None
    split: str | None = None
    tag: str | None = None

    @property
    def names(self) -> frozenset[str]:
        one = (self.step, *self.also, self.time, self.rank, self.run, self.split, self.tag)
        return frozenset(name for name in one if name is not None)


@dataclass(frozen=True, slots=True)
class Labels:
    """A text column: `code` indexes `names` for each row, −1 where the row has none."""

    code: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Labels:
        index: dict[str, int] = {}
        code = [-1 if text is None else index.setdefault(text, len(index)) for text in texts]
        return cls(np.array(code, np.int64), tuple(index))


def axes(names: Iterable[str], texts: Iterable[str] = ()) -> Axes:
    """The axes among columns of numbers (`names`) and of texts (`texts`). Without a step the epoch is it."""
    names, texts = list(names), list(texts)
    by_axis: dict[str, list[str]] = {}
    for name in names:
        by_axis.setdefault(catalog.axis(name) or "", []).append(name)
    steps = sorted(by_axis.get("step", ()), key=_step_place)
    epochs = [name for name in names if plain(name) in ("epoch", "epochs", "epochnum")]
    run = next((name for name in texts if catalog.axis(name) == "run"), None)
    clock = next((name for name in texts if catalog.axis(name) == "time"), None)
    quantity = next((name for name in texts if name.lower() in _QUANTITY), None)
    return Axes(
        step=next(iter(steps or epochs), None),
        also=tuple(name for name in steps[1:] if name != "_step"),
        time=next(iter(by_axis.get("time", ())), clock),
        rank=next(iter(by_axis.get("rank", ())), None),
        run=run or next(iter(by_axis.get("run", ())), None),
        split=next((name for name in texts if name.lower() in _SPLIT), None),
        tag=quantity if quantity is not None and "value" in names else None,
    )


def is_total(name: str) -> bool:
    """Whether a column repeats how many steps are planned: a fact, no metric."""
    return plain(name) in _TOTALS


def points(
    columns: Mapping[str, Floats],
    chosen: Axes,
    *,
    lines: Ints | None = None,
    present: Mapping[str, Mask] | None = None,
    labels: Mapping[str, Labels] | None = None,
    step: Ints | None = None,
    time: Floats | None = None,
    after: int | None = None,
    units: Mapping[str, str] | None = None,
) -> Iterator[Points]:
    """The points of all columns but the axes, in the order of the columns; those of the same rows share their arrays.

    `after` is the last step of the block before: rows without a step belong to the last step seen. `step` and `time`
    (Unix seconds) replace the columns of that name. `labels` are the text columns of `chosen` (run, split, tag).
    """
    present, labels = present or {}, labels or {}
    if step is None:
        step = filled_steps(columns, chosen, present, after)
    stamps = columns.get(chosen.time or "")
    if time is None and stamps is not None:
        time = unix_seconds(stamps, present.get(chosen.time or ""))
    if time is not None and not np.isfinite(time).any():
        time = None
    chosen = replace(
        chosen,
        step=chosen.step if step is not None else None,
        time=chosen.time if time is not None else None,
        rank=chosen.rank if _are_ranks(columns.get(chosen.rank or ""), present.get(chosen.rank or "")) else None,
    )
    metrics = [name for name in columns if name not in chosen.names and not is_total(name)]
    rows = len(next(iter(columns.values()), ()))
    for rank, run, prefix, renamed, where in _groups(columns, chosen, present, labels, rows):
        shared: dict[bytes, tuple[Ints | None, Floats | None, Ints | None, NDArray[np.intp] | None]] = {}
        for name in metrics:
            mask = present.get(name)
            if where is not None:
                mask = where if mask is None else mask & where
            key = b"" if mask is None else mask.tobytes()
            if key not in shared:
                at = None if mask is None or mask.all() else np.flatnonzero(mask)
                shared[key] = (_take(step, at), _take(time, at), _take(lines, at), at)
            own_step, own_time, own_lines, at = shared[key]
            value = columns[name] if at is None else columns[name][at]
            if not len(value):
                continue
            tag = renamed if renamed and name == "value" else name
            if prefix and _is_train(tag):
                tag = f"{prefix}/{tag}"
            yield Points(tag, own_step, value, own_time, rank, own_lines, run, units.get(name, "") if units else "")


def filled_steps(
    columns: Mapping[str, Floats], chosen: Axes, present: Mapping[str, Mask] | None = None, after: int | None = None
) -> Ints | None:
    """The step of each row; one without belongs to the last step before it. None where there are no steps at all."""
    present = present or {}
    column, known = columns.get(chosen.step or ""), None
    for name in (chosen.step or "", *chosen.also):
        if name not in columns:
            continue
        has = np.abs(columns[name]) <= _FURTHEST  # NaN is not
        if name in present:
            has &= present[name]
        if column is None or known is None:
            column, known = columns[name], has
        elif not known.all():
            column, known = np.where(known, column, columns[name]), known | has
    if column is None or known is None:
        return None if after is None else np.full(len(next(iter(columns.values()), ())), after, np.int64)
    if catalog.axis(chosen.step or "") is None and bool((column[known] != np.floor(column[known])).any()):
        return None  # an epoch with a fraction is a quantity
    if bool(known.all()):
        return _whole(column)
    first = np.flatnonzero(known)[:1]
    if not len(first):
        return None if after is None else np.full(len(column), after, np.int64)
    before = float(column[first[0]]) if after is None else float(after)
    last = np.maximum.accumulate(np.where(known, np.arange(len(column)), -1))
    return _whole(np.where(last >= 0, column[last], before))


def last_step(
    columns: Mapping[str, Floats], chosen: Axes, present: Mapping[str, Mask] | None = None, after: int | None = None
) -> int | None:
    """The step that rows of the next block without one belong to."""
    steps = filled_steps(columns, chosen, present, after)
    return int(steps[-1]) if steps is not None and len(steps) else after


def unix_seconds(stamps: Floats, present: Mask | None = None) -> Floats:
    """Time stamps in s, ms, µs or ns since 1970 as seconds; NaN where one is missing or cannot be a date after 1973."""
    size = np.abs(stamps)
    scale = np.select([size < 1e11, size < 1e14, size < 1e17], [1.0, 1e-3, 1e-6], 1e-9)
    seconds = stamps * scale
    good = seconds > 1e8
    if present is not None:
        good &= present
    return np.where(good, seconds, np.nan)


def plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _step_place(name: str) -> tuple[int, bool, str]:
    letters = plain(name.rpartition("/")[2])
    place = _STEP_ORDER.index(letters) if letters in _STEP_ORDER else len(_STEP_ORDER)
    return (len(_STEP_ORDER) + 1 if name == "_step" else place, "/" in name, name)


def _whole(column: Floats) -> Ints:
    return np.clip(column, -_FURTHEST, _FURTHEST).astype(np.int64)


def _are_ranks(column: Floats | None, present: Mask | None) -> bool:
    if column is None:
        return False
    known = column[np.isfinite(column) if present is None else present & np.isfinite(column)]
    return bool(((known == np.floor(known)) & (known >= 0) & (known < 1 << 20)).all())


def _take(cells: Cells | None, at: NDArray[np.intp] | None) -> Cells | None:
    return cells if cells is None or at is None else cells[at]


def _is_train(tag: str) -> bool:
    return catalog.resolve([tag])[tag].name in ("train/loss", "train/perplexity", "train/accuracy")


def _groups(
    columns: Mapping[str, Floats], chosen: Axes, present: Mapping[str, Mask], labels: Mapping[str, Labels], rows: int
) -> Iterator[tuple[int, str, str, str, Mask | None]]:
    """Rank, run, prefix of evaluation rows, quantity, and which rows (None: all), for each set of rows."""
    none = Labels(np.full(rows, -1, np.int64), ())
    ranks, numbered = (columns[name] if name in columns and name else None for name in (chosen.rank, chosen.run))
    keys: list[Ints] = []
    if ranks is not None:
        known = np.isfinite(ranks) & present.get(chosen.rank or "", np.ones(rows, np.bool_))
        keys.append(np.where(known, _whole(np.where(known, ranks, 0)), NO_RANK))
    else:
        keys.append(np.full(rows, NO_RANK, np.int64))
    if numbered is not None:
        run = Labels.of(f"{cell:g}" if np.isfinite(cell) else None for cell in numbered.tolist())
    else:
        run = labels.get(chosen.run or "", none)
    split, quantity = labels.get(chosen.split or "", none), labels.get(chosen.tag or "", none)
    keys += [run.code, split.code, quantity.code]
    if all(bool((key == key[0]).all()) for key in keys if len(key)):
        found, where = np.array([[key[0] for key in keys]]) if rows else np.empty((0, 4), np.int64), None
    else:
        found, where = np.unique(np.stack(keys, 1), axis=0, return_inverse=True)
    for at, (rank, *codes) in enumerate(found.tolist()):
        run_name, word, name = (
            one.names[code] if code >= 0 else "" for one, code in zip((run, split, quantity), codes, strict=True)
        )
        prefix = word if word.lower() in _HELD_OUT else ""
        yield rank, run_name, prefix, name, None if where is None else where.reshape(-1) == at
