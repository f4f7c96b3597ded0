"""From decoded event records to curves: one batch a tag, with steps and clocks put right.

Which tensors are scalars: those of one number whose tag the first metadata in the file gives to the plug-in "scalars"
or to none. TensorBoard reads it so: metadata stands in the first event of a tag, or in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from trainlens.model import Floats, Ints, Note, Points
from trainlens.parsers._event_columns import Decoded, Piece

_LATEST = 7_258_118_400.0  # the year 2200: no training clock shows more
_EARLIEST = 946_684_800.0  # the year 2000, for clocks in other units
_UNITS = (1e3, 1e6, 1e9)  # milliseconds, microseconds, nanoseconds
_HALF = 1 << 31
_WRAP = 1 << 32
_POSITIONAL = 3  # so many points at step 0 and no other step: nobody passed a step


@dataclass(slots=True)
class _Tag:
    """What must be known of a tag from earlier stretches. `last` is its last step as written."""

    last: int = 0
    wraps: int = 0
    points: int = 0
    stepped: bool = False  # a step other than 0 was seen


class Curves:
    """Takes stretches in file order and gives out points; counts what it had to mend."""

    def __init__(self, state: Mapping[str, object]) -> None:
        saved = cast(Mapping[str, list[int]], state.get("tags", {}))
        self.tags = {tag: _Tag(last, wraps, points, True) for tag, (last, wraps, points) in saved.items()}
        self.plugins = dict(cast(Mapping[str, str], state.get("plugins", {})))
        self.points = 0
        self._waiting: dict[str, list[Points]] = {}  # tags that have shown no step but 0
        faults = cast(Mapping[str, list[int]], state.get("faults", {}))
        self._faults = {kind: list(count_and_first) for kind, count_and_first in faults.items()}

    def take(self, decoded: Decoded) -> Iterator[Points]:
        """The points of one stretch, a tag at a time, in order of the tags' first appearance in it."""
        by_tag: dict[str, list[Piece]] = {}
        for piece in [*decoded.pieces, *_single_pieces(decoded)]:
            by_tag.setdefault(piece.value.tag, []).append(piece)
        owners = self._owners(decoded, by_tag)
        for tag, pieces in sorted(by_tag.items(), key=lambda one: min(int(piece.origin[0]) for piece in one[1])):
            kept = [piece for piece in (_owned(piece, owners.get(tag, -1)) for piece in pieces) if len(piece.origin)]
            if kept:
                yield from self._batch(tag, _joined(kept))

    def finish(self) -> Iterator[Points]:
        """Points that waited for a step until the end."""
        for tag, waiting in self._waiting.items():
            if self.tags[tag].points >= _POSITIONAL:
                self._fault("no-steps", self.tags[tag].points, int(cast(Ints, waiting[0].origin)[0]))
                for one in waiting:
                    yield Points(tag, None, one.value, one.time, origin=one.origin)
            else:
                yield from waiting

    @property
    def continuable(self) -> bool:
        """Whether a later reading can go on: not while it is undecided whether a tag has steps at all."""
        return all(self.tags[tag].points < 2 for tag in self._waiting)

    def state(self) -> dict[str, object]:
        """What a later reading must know."""
        tags = {name: [tag.last, tag.wraps, tag.points] for name, tag in self.tags.items() if tag.stepped}
        return {"tags": tags, "plugins": dict(self.plugins), "faults": self._faults}

    def notes(self) -> Iterator[Note]:
        said = {
            "encoding": ("encoding", "tags are not valid UTF-8; their odd bytes are shown as \\x.."),
            "negative": ("disagreement", "steps are negative: no training counts so; they are kept as written"),
            "wrapped": (
                "disagreement",
                "steps overflow a 32-bit counter and turn negative; they are unwrapped by adding 2^32",
            ),
            "unit": ("clock", "wall times are not in seconds; their unit was told from their size"),
            "impossible": ("clock", "wall times are impossible; these points have no time"),
            "no-steps": ("no-steps", "points have no step (all are 0); their position serves as the step"),
        }
        for kind, (count, byte) in self._faults.items():
            name, text = said[kind]
            yield Note(name, f"{count:,} {text}", byte=byte, count=count)

    def _owners(self, decoded: Decoded, by_tag: Mapping[str, list[Piece]]) -> dict[str, int]:
        """Tags whose tensors belong to another plug-in, with the byte from which on this is known."""
        first: dict[str, tuple[int, str]] = {}
        sightings = [
            (int(one.origin[0]), one.value.plugin, tag)
            for tag, pieces in by_tag.items()
            for one in pieces
            if one.value.plugin
        ]
        sightings += [
            (at, one.plugin, one.tag) for at, record in decoded.records for one in record.values if one.plugin
        ]
        for at, plugin, tag in sightings:
            if tag not in self.plugins and (tag not in first or at < first[tag][0]):
                first[tag] = (at, plugin)
        owners = {tag: 0 for tag in by_tag if self.plugins.get(tag, "scalars") != "scalars"}
        for tag, (at, plugin) in first.items():
            self.plugins[tag] = plugin
            if plugin != "scalars":
                owners[tag] = at
        return owners

    def _batch(self, tag: str, piece: Piece) -> Iterator[Points]:
        known = self.tags.setdefault(tag, _Tag())
        first = int(piece.origin[0])
        if piece.value.bad_name and not known.points:
            self._fault("encoding", 1, first)
        step = self._steps(known, piece.step, piece.origin)
        points = Points(tag, step, piece.number, self._times(piece.time, piece.origin), origin=piece.origin)
        known.points += len(step)
        self.points += len(step)
        if not known.stepped and not piece.step.any():
            self._waiting.setdefault(tag, []).append(points)
            return
        known.stepped = True
        yield from self._waiting.pop(tag, ())
        yield points

    def _steps(self, known: _Tag, step: Ints, origin: Ints) -> Ints:
        """Steps with a wrapped 32-bit counter unwrapped."""
        before, known.last = known.last, int(step[-1])
        if not known.wraps and int(step.min()) >= 0:
            return step
        small = (step >= -_HALF) & (step < _HALF)
        change = np.diff(step, prepend=before)
        up = small & (step < 0) & (change < -_HALF)
        down = small & (step >= 0) & (change > _HALF)
        # a run that went back to before the wrap takes its wrap back; there are never fewer than none
        sums = known.wraps + np.cumsum(up.astype(np.int64) - down)
        wraps = sums - np.minimum.accumulate(np.minimum(sums, 0))
        known.wraps = int(wraps[-1])
        self._fault("wrapped", int((wraps > 0).sum()), int(origin[(wraps > 0).argmax()]))
        unwrapped = step + wraps * _WRAP
        self._fault("negative", int((unwrapped < 0).sum()), int(origin[(unwrapped < 0).argmax()]))
        return unwrapped

    def _times(self, time: Floats, origin: Ints) -> Floats | None:
        """Unix seconds, NaN where there is no possible clock; None when there is none at all."""
        if time.min() > 0 and time.max() < _LATEST:
            return time
        seconds = time.copy()
        late = ~(time < _LATEST)
        for unit in _UNITS:
            fits = late & (time / unit > _EARLIEST) & (time / unit < _LATEST)
            if fits.any():
                seconds[fits] = time[fits] / unit
                late &= ~fits
                self._fault("unit", int(fits.sum()), int(origin[fits.argmax()]))
        impossible = late | (time < 0)
        if impossible.any():
            self._fault("impossible", int(impossible.sum()), int(origin[impossible.argmax()]))
        seconds[impossible | (time == 0)] = np.nan  # an omitted clock reads as 0
        return None if np.isnan(seconds).all() else seconds

    def _fault(self, kind: str, count: int, byte: int) -> None:
        if not count:
            return
        fault = self._faults.setdefault(kind, [0, byte])
        fault[0] += count
        fault[1] = min(fault[1], byte)


def _single_pieces(decoded: Decoded) -> Iterator[Piece]:
    """Scalars of the records that were decoded alone, a piece for each run of one tag and kind."""
    found: dict[tuple[str, bool, str], list[tuple[int, int, float, float]]] = {}
    values = {}
    for at, record in decoded.records:
        for one in record.values:
            if one.number is not None:
                key = (one.tag, one.tensor, one.plugin)
                values[key] = one
                found.setdefault(key, []).append((at, record.step, record.time, one.number))
    for key, rows in found.items():
        origin, step, time, number = zip(*rows, strict=True)
        whole = np.array(origin, np.int64), np.array(step, np.int64)
        yield Piece(values[key], *whole, np.array(time, np.float64), np.array(number, np.float64))


def _owned(piece: Piece, foreign_from: int) -> Piece:
    """The part of a piece that stands before `foreign_from`; all of it when -1 or when it is no tensor."""
    if foreign_from < 0 or not piece.value.tensor:
        return piece
    stop = int(np.searchsorted(piece.origin, foreign_from))
    return Piece(piece.value, piece.origin[:stop], piece.step[:stop], piece.time[:stop], piece.number[:stop])


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    origin = np.concatenate([piece.origin for piece in pieces])
    order = np.argsort(origin, kind="stable")
    return Piece(
        next((piece.value for piece in pieces if piece.value.bad_name), pieces[0].value),
        origin[order],
        np.concatenate([piece.step for piece in pieces])[order],
        np.concatenate([piece.time for piece in pieces])[order],
        np.concatenate([piece.number for piece in pieces])[order],
    )
