"""SwanLab run files (`backup.swanlab`, `run-ID.swanlab`), as runs that are offline or saved locally write them.

Every number that was logged is a record of its own, with its step and its clock. Hardware samples
("__swanlab__.gpu.0.pct") count themselves, so each gets the training step of its moment. Pictures, sounds and texts
are left out; the record of the end tells how the run ended. Version 1 (SwanLab 0.6 to 0.9) holds JSON, version 2
protobuf messages; both lie in the frames of a LevelDB log.

The format: https://github.com/SwanHubX/SwanLab (`DataStore`, `swanlab/proto`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Event, EventKind, Fact, Note, Place, Points
from trainlens.parsers._event_record import MalformedError, fields
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._scattered import NON_FINITE, moments
from trainlens.parsers._wandb_frames import HEADER, Frames, remarks
from trainlens.parsers._wandb_records import signed, timestamp
from trainlens.parsers.trackio import unix
from trainlens.sources import Source

TELLS_END = True

MAGIC = b":SWL\xd6\xe1"  # and the version
POINTS = 1 << 19  # held before they are told
_HARDWARE = "__swanlab__."
_START, _FINISH, _COLUMN, _SCALAR, _MEDIA = 10, 11, 12, 13, 14  # fields of a record of version 2
_ENDS: dict[int, tuple[EventKind, str]] = {
    1: ("run-end", "SwanLab: the run finished"),
    2: ("exit-code", "SwanLab: the run crashed"),
    3: ("killed", "SwanLab: the run was aborted"),
}
_WAY_OUT = "`swanlab sync RUN` uploads it; then download the charts as CSV"


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  the first bytes say it
    """How sure it is that this is a run file of SwanLab."""
    return 1.0 if head.startswith(MAGIC[:4]) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    """Points of all curves, names and the end of the run; InputError for a version that is not known."""
    head = source.head(len(HEADER))
    if len(head) == len(HEADER) and (head[:-1] != MAGIC or head[-1] not in (1, 2)):
        what = f"a SwanLab run file of version {head[-1]}, which is not supported (1 and 2 are)"
        raise InputError(what, where=source.name, hint=_WAY_OUT)
    frames, curves = Frames(source), _Curves()
    ended, media, malformed = False, 0, list[int]()
    if since is not None:
        frames.end, ended, curves.last = since.offset, bool(since.state["ended"]), _last(since)
    for at, payload in frames:
        try:
            said = _json_record(payload) if head[-1:] == b"\1" else _record(payload)
        except MalformedError:
            malformed.append(at)
            continue
        if isinstance(said, _Scalar):
            curves.add(said, at)
            if curves.held >= POINTS:
                yield from curves.told()
        elif isinstance(said, dict):
            yield from (Fact(f"swanlab_{name}", value, Place(source.name, byte=at)) for name, value in said.items())
        elif isinstance(said, Event):
            yield from curves.told()
            ended = True
            yield Event(said.kind, said.text, curves.last_step, said.time, place=Place(source.name, byte=at))
        media += said is _Picture
    yield from curves.told()
    if media:
        yield Note("limit", f"{media:,} pictures, sounds, texts or tables are no curves and were left out", count=media)
    yield from remarks(frames, malformed, ended)
    if not source.compressed:
        step, time = curves.last or (0, float("nan"))
        yield Checkpoint(frames.end, {"ended": ended, "step": step, "time": time, "any": curves.last is not None})


def _last(since: Checkpoint) -> tuple[int, float] | None:
    state: Any = since.state
    return (int(state["step"]), float(state["time"])) if state["any"] else None


def columns(source: Source) -> Iterator[str]:
    """The names of the user's own curves, pictures and texts of a file of version 2, in the order of their numbers."""
    for _, payload in Frames(source):
        try:
            for number, wire, start, end in fields(payload, 0, len(payload)):
                if number == _COLUMN and wire == 2:
                    names = [
                        payload[at:to] for inner, kind, at, to in fields(payload, start, end) if (inner, kind) == (3, 2)
                    ]
                    yield from (name for raw in names[:1] if not _is_sample(name := raw.decode("utf-8", "replace")))
        except MalformedError:
            continue


# ---- curves ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scalar:
    key: str
    step: int
    value: float
    time: float


@dataclass(slots=True)
class _Curve:
    step: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    time: array[float] = field(default_factory=lambda: array("d"))
    origin: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class _Curves:
    """The points of all curves since they were told last; `last` is the last training step and when it was."""

    curves: dict[str, _Curve] = field(default_factory=dict)
    held: int = 0
    last: tuple[int, float] | None = None
    clock: _Curve = field(default_factory=_Curve)  # of all training steps, in the order of the file

    @property
    def last_step(self) -> int | None:
        return None if self.last is None else self.last[0]

    def add(self, one: _Scalar, at: int) -> None:
        for curve in (self.curves.setdefault(one.key, _Curve()), self.clock)[: 1 + (not _is_sample(one.key))]:
            curve.step.append(one.step)
            curve.time.append(one.time)
        curve = self.curves[one.key]
        curve.value.append(one.value)
        curve.origin.append(at)
        self.held += 1

    def told(self) -> Iterator[Points]:
        curves, clock = self.curves, self.clock
        self.curves, self.clock, self.held = {}, _Curve(), 0
        steps, times = np.array(clock.step, np.int64), np.array(clock.time, np.float64)
        if self.last is not None:
            steps, times = np.append(self.last[0], steps), np.append(self.last[1], times)
        for key, curve in curves.items():
            time: Any = np.array(curve.time, np.float64)
            step = moments(time, steps, times) if _is_sample(key) else np.array(curve.step, np.int64)
            value, origin = np.array(curve.value, np.float64), np.array(curve.origin, np.int64)
            unit = "MB" if key.endswith(".mem.value") and _is_sample(key) else ""
            yield Points(key, step, value, time if np.isfinite(time).any() else None, origin=origin, unit=unit)
        if len(steps):
            known = times[np.isfinite(times)]
            self.last = int(steps[-1]), float(known[-1]) if len(known) else float("nan")


def _is_sample(key: str) -> bool:
    return key.startswith(_HARDWARE)


# ---- records ---------------------------------------------------------------------------------------------------------


class _Picture:
    """Stands for a record of a picture, a sound or a text."""


_Said = _Scalar | Event | dict[str, str] | type[_Picture] | None


def _json_record(payload: bytes) -> _Said:
    """What a record of version 1 says."""
    whole = decoded(payload)
    told: Any = whole.get("data") if isinstance(whole, dict) else None
    if not isinstance(whole, dict) or not isinstance(told, dict):
        raise MalformedError
    kind = whole.get("model_type")
    if kind == "Scalar":
        inner: Any = told.get("metric")
        found = inner.get("data") if isinstance(inner, dict) else None
        number = NON_FINITE.get(_SHORT.get(found, found)) if isinstance(found, str) else found
        step = told.get("step")
        if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(step, int):
            return None
        return _Scalar(str(told.get("key")), _bounded(step), float(number), unix(inner.get("create_time")))
    if kind in ("Project", "Experiment"):
        return {kind.lower(): told["name"]} if isinstance(told.get("name"), str) else None
    if kind == "Footer":
        end: tuple[EventKind, str] = _ENDS[1 if told.get("success") is True else 2]
        return Event(*end, time=_known(unix(told.get("create_time"))))
    return _Picture if kind == "Media" else None


_SHORT = {"INF": "Infinity", "-INF": "-Infinity", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _record(payload: bytes) -> _Said:
    """What a record of version 2 says."""
    for number, wire, start, end in fields(payload, 0, len(payload)):
        if wire != 2:
            continue
        if number == _SCALAR:
            return _scalar(payload, start, end)
        if number == _START:
            names = {1: "project", 4: "experiment", 7: "group", 8: "job_type"}
            return {
                names[inner]: payload[at:stop].decode("utf-8", "replace")
                for inner, kind, at, stop in fields(payload, start, end)
                if inner in names and kind == 2 and stop > at
            }
        if number == _FINISH:
            return _finish(payload, start, end)
        if number == _MEDIA:
            return _Picture
    return None


def _scalar(payload: bytes, start: int, end: int) -> _Scalar | None:
    key, step, time, value = "", 0, float("nan"), None
    for number, wire, at, stop in fields(payload, start, end):
        if number == 1 and wire == 2:
            key = payload[at:stop].decode("utf-8", "replace")
        elif number == 2 and wire == 0:
            step = _bounded(signed(payload, at))
        elif number == 4 and wire == 2:
            time = timestamp(payload, at, stop)
        elif number == 5 and wire == 2:
            value = 0.0  # which protobuf leaves out
            for inner, kind, place, _ in fields(payload, at, stop):
                if inner == 1 and kind == 1:
                    value = float(struct.unpack_from("<d", payload, place)[0])
    return None if value is None else _Scalar(key, step, value, time)


def _finish(payload: bytes, start: int, end: int) -> Event | None:
    state, why, time = 0, "", float("nan")
    for number, wire, at, stop in fields(payload, start, end):
        if number == 1 and wire == 0:
            state = signed(payload, at)
        elif number == 2 and wire == 2:
            lines = payload[at:stop].decode("utf-8", "replace").strip().splitlines()
            why = lines[-1][:300] if lines else ""
        elif number == 3 and wire == 2:
            time = timestamp(payload, at, stop)
    if state not in _ENDS:
        return None
    kind, text = _ENDS[state]
    return Event(kind, f"{text}: {why}" if why else text, time=_known(time))


def _bounded(step: int) -> int:
    return max(-(1 << 62), min(step, 1 << 62))


def _known(time: float) -> float | None:
    return time if np.isfinite(time) else None
