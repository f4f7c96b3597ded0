"""What a source gave when it was last read, kept in the user's cache directory, and added to when it has grown.

A source that is dear to read has a folder there, named by its path, parser and what else decides how it is read: parts
of batches, and a table that says which parts there are, of which state of the file, and where its parser may go on.
A file that grew is read from there, and what is new becomes one more part; one that was replaced, rewritten or cut is
read anew. Parts are written under names of their own and the table is swapped in one go, so that several programs may
work on one cache. A damaged or unwritable cache costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainlens import __version__
from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Points
from trainlens.sources import Source
from trainlens.store import parts
from trainlens.store.states import EDGE, State, fingerprint, tail_of

DEAR = 0.1  # CPU seconds of reading; what costs less is not worth the writing
LIMIT = 2 << 30  # bytes of all kept sources; the longest unused go first
MOST_PARTS = 16  # of one source, before they are joined
_LAYOUT = 3
_TABLE = "table.json"
_ABANDONED = 3600.0  # seconds after which a part that no table names is of no program that still runs

Read = Callable[[Source, Checkpoint | None], Iterator[Batch]]


@dataclass(frozen=True)
class _Kept:
    """An earlier reading: its batches, but for the notes and where it may go on."""

    state: State
    parts: tuple[str, ...]
    batches: list[Batch]
    early: list[Batch]  # what was told of a last line that had no end yet
    notes: list[Batch]
    faults: list[Batch]  # of the bytes themselves, which the source knows when it was read
    checkpoint: Checkpoint | None
    tail: str  # print of the bytes before the checkpoint

    def goes_on(self, source: Source, now: State) -> bool:
        """Whether the file only grew, so that what was read of it still stands."""
        if self.checkpoint is None or now.size <= self.state.size or self.checkpoint.offset > now.size:
            return False
        head = now.head if self.state.size >= EDGE else fingerprint(source.path, 0, self.state.size)
        return head == self.state.head and tail_of(source.path, self.checkpoint.offset) == self.tail


def cached(source: Source, parser: str, read: Read) -> Iterator[Batch]:
    """All batches of the source: from the cache where it is unchanged, beyond that where it has grown, else anew."""
    folder = _folder(source, parser)
    try:
        now = State.of(source) if folder is not None else None
    except OSError:
        now = None
    if folder is None or now is None:
        yield from read(source, None)
        return
    kept = _load(folder)
    if kept is not None and kept.state == now:
        for fault in kept.faults:
            if isinstance(fault, Note):
                source.faults.setdefault(fault.kind, fault)
        yield from kept.batches
        yield from kept.early
        yield from kept.notes
        yield from [kept.checkpoint] if kept.checkpoint else []
        return
    if kept is not None and kept.goes_on(source, now):
        try:
            fresh = list(read(source, _from_the_line_on(kept.checkpoint)))
        except (InputError, OSError):
            raise
        except Exception:  # as in reading: what was kept may be of another shape than the parser expects
            kept = None
        else:
            if _stands(kept.checkpoint, fresh):
                yield from kept.batches
                yield from fresh
                _extend(folder, source, now, kept, fresh)
                return
    batches: list[Batch] = []
    spent = 0.0
    stream = read(source, None)
    while True:
        begin = time.process_time()
        batch = next(stream, None)
        spent += time.process_time() - begin
        if batch is None:
            break
        batches.append(batch)
        yield batch
    if spent > DEAR:
        _keep(folder, source, now, (), batches, batches)


def _from_the_line_on(checkpoint: Checkpoint | None) -> Checkpoint | None:
    """Where reading goes on when what was told early is taken back: nothing is known of the last line."""
    if checkpoint is None or not checkpoint.state.get("torn"):
        return checkpoint
    return Checkpoint(checkpoint.offset, {**checkpoint.state, "torn": {}})


def _stands(before: Checkpoint | None, fresh: Sequence[Batch]) -> bool:
    """Whether what was read earlier would be told alike now; `stands` in a parser's state says by what it was told."""
    after = next((batch for batch in fresh if isinstance(batch, Checkpoint)), None)
    if before is None or after is None:
        return False
    return json.dumps(before.state.get("stands")) == json.dumps(after.state.get("stands"))


def _settled(batches: Sequence[Batch], checkpoint: Checkpoint | None) -> tuple[list[Batch], list[Batch]]:
    """Points, events and facts that stay whatever comes, and those of a line without an end ("torn"), told early."""
    told: list[Batch] = [batch for batch in batches if not isinstance(batch, (Note, Checkpoint))]
    if checkpoint is None or not checkpoint.state.get("torn"):
        return told, []
    line, stays, early = int(str(checkpoint.state["line"])), list[Batch](), list[Batch]()
    for batch in told:
        if isinstance(batch, Points):
            closed = np.full(len(batch.value), True) if batch.origin is None else batch.origin < line
            if closed.any():
                stays.append(batch if closed.all() else _rows(batch, closed))
            if not closed.all():
                early.append(_rows(batch, ~closed))
        elif isinstance(batch, (Event, Fact)):
            (early if batch.place and (batch.place.line or 0) >= line else stays).append(batch)
    return stays, early


def _rows(points: Points, which: NDArray[np.bool_]) -> Points:
    arrays = {name: getattr(points, name) for name in ("step", "value", "time", "origin")}
    return replace(points, **{name: array[which] for name, array in arrays.items() if array is not None})


def root() -> Path | None:
    """The directory that all is kept in, made or not; None where the user has no home."""
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("trainlens"))
    except (OSError, RuntimeError):
        return None


def _folder(source: Source, parser: str) -> Path | None:
    """Where the source is kept; None for what lies in an archive, came through a pipe or from far away."""
    kept_in = root()
    if source.held is not None or kept_in is None:
        return None
    try:
        # All of a source that alters how it is read is part of the name; what its file is like now is not.
        about = {
            name: value
            for name, value in vars(source).items()
            if name not in ("path", "size", "modified", "held", "faults")
        }
        key = (str(source.path.resolve()), parser, __version__, _LAYOUT, sorted(about.items()))
    except (OSError, RuntimeError):
        return None
    return kept_in / hashlib.sha256(repr(key).encode("utf-8", "surrogateescape")).hexdigest()[:32]


# ---- writing ---------------------------------------------------------------------------------------------------------


def _extend(folder: Path, source: Source, now: State, kept: _Kept, fresh: list[Batch]) -> None:
    """One more part, or all in one where there are many."""
    if len(kept.parts) >= MOST_PARTS:
        _keep(folder, source, now, (), [*kept.batches, *fresh], fresh)
    else:
        _keep(folder, source, now, kept.parts, fresh, fresh)


def _keep(
    folder: Path, source: Source, now: State, before: tuple[str, ...], told: Sequence[Batch], last: Sequence[Batch]
) -> None:
    """Writes the new part and the table; quietly nothing where the directory cannot be written.

    Notes and the checkpoint are those of the last reading: it tells again what the earlier one had counted.
    """
    checkpoint = next((batch for batch in last if isinstance(batch, Checkpoint)), None)
    told, early = _settled(told, checkpoint)
    table: dict[str, Any] = {
        "state": now.stored(),
        "notes": [parts.plain(batch) for batch in last if isinstance(batch, Note)],
        "checkpoint": parts.plain(checkpoint) if checkpoint else None,
        "faults": [parts.plain(note) for note in source.faults.values()],
    }
    unique = f"{os.getpid()}-{time.time_ns()}"
    swap = folder / f"{_TABLE}.{unique}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        table["tail"] = tail_of(source.path, checkpoint.offset) if checkpoint else ""
        names = [*before]
        if told or not before:
            names.append(f"{unique}.part")
            parts.write(folder / names[-1], told)
        table["parts"], table["early"] = names, []
        if early:
            table["early"] = [f"{unique}.early.part"]
            parts.write(folder / table["early"][0], early)
        swap.write_text(json.dumps(table, default=parts.bare))
        swap.replace(folder / _TABLE)
        _tidy(folder, [*names, *table["early"]])
        trim(folder.parent)
    except (OSError, TypeError, ValueError):  # TypeError: a Checkpoint that JSON cannot hold
        with contextlib.suppress(OSError):
            swap.unlink()


def _tidy(folder: Path, names: Sequence[str]) -> None:
    """Remove the parts that no table names any more."""
    for path in folder.iterdir():
        if path.name not in (*names, _TABLE) and time.time() - path.stat().st_mtime > _ABANDONED:
            path.unlink(missing_ok=True)


def trim(kept_in: Path) -> None:
    """Remove what was longest unused until the rest is within the limit."""
    kept: list[tuple[float, int, Path]] = []
    for folder in kept_in.iterdir():
        with contextlib.suppress(OSError):
            states = [path.stat() for path in folder.iterdir()]
            used = max((state.st_mtime for state in states), default=0.0)
            kept.append((used, sum(state.st_size for state in states), folder))
    total = 0
    for _, size, folder in sorted(kept, reverse=True):
        total += size
        if total > LIMIT:
            shutil.rmtree(folder, ignore_errors=True)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _load(folder: Path) -> _Kept | None:
    """What was kept; None where there is nothing or some of it is damaged."""
    try:
        table = json.loads((folder / _TABLE).read_bytes())
        batches, early = (
            [batch for name in table[which] for batch in parts.read(folder / Path(name).name)]
            for which in ("parts", "early")
        )
        checkpoint = parts.batch(table["checkpoint"], ()) if table["checkpoint"] else None
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            return None
        notes, faults = ([parts.batch(fields, ()) for fields in table[which]] for which in ("notes", "faults"))
        kept = _Kept(
            State.of_table(table["state"]),
            tuple(table["parts"]),
            batches,
            early,
            notes,
            faults,
            checkpoint,
            table["tail"],
        )
        os.utime(folder / _TABLE)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return kept
