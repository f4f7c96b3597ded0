"""Offline experiments of Comet (`KEY.zip`): its `messages.json`, a line of JSON for each number, setting and text.

Samples of the machine ("sys.gpu.0.…") bear no step, so each gets that of its moment; any other number without a step is
counted by its position. Parameters become facts, but for the counters that Comet logs by itself.

The format: https://www.comet.com/docs/v2/guides/experiment-management/offline-experiments.
"""

from __future__ import annotations

import zipfile
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Floats, Ints, Note, Place, Points
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._scattered import NON_FINITE, moments
from trainlens.sources import Source

MAGIC = b"PK\x03\x04"
MESSAGES = "messages.json"
LONGEST = 1 << 20  # bytes of a line that are read; those of texts may be longer
_SYSTEM = "sys."
_COUNTERS = frozenset(("curr_step", "curr_epoch"))
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError)


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this zip is an offline experiment: the names of its files are looked up."""
    if not head.startswith(MAGIC):
        return 0.0
    try:
        with zipfile.ZipFile(path) as archive:
            return 0.95 if {MESSAGES, "experiment.json"} <= set(archive.namelist()) else 0.0
    except (*_DAMAGE, ValueError):
        return 0.9 if b"experiment.json" in head[:100] else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """Points of all metrics, parameters as facts; InputError when the zip cannot be opened."""
    place, curves, problem = Place(source.name), dict[str, _Curve](), ""
    try:
        archive = zipfile.ZipFile(source.path)
    except (*_DAMAGE, ValueError) as failure:
        what = f"an offline experiment of Comet that cannot be opened ({failure})"
        raise InputError(what, where=source.name, hint="A copy may be cut off: copy the zip again") from failure
    with archive:
        try:
            with archive.open(MESSAGES) as stream:
                for number, line in enumerate(_lines(stream), 1):
                    yield from _take(line, number, curves, place)
        except (*_DAMAGE, KeyError, RuntimeError, NotImplementedError) as failure:
            problem = str(failure)
    yield from _points(curves)
    if problem:
        yield Note("damaged", f"{MESSAGES} in the zip could not be read to its end ({problem})")


def _lines(stream: Any) -> Iterator[bytes]:
    """The lines of a stream; of a longer one the beginning, so that no text fills the memory."""
    while line := stream.readline(LONGEST):
        yield line
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST)


@dataclass(slots=True)
class _Curve:
    step: array[int] = field(default_factory=lambda: array("q"))  # 0 where there is none
    value: array[float] = field(default_factory=lambda: array("d"))
    time: array[float] = field(default_factory=lambda: array("d"))
    origin: array[int] = field(default_factory=lambda: array("q"))
    stepped: bool = True


def _take(line: bytes, number: int, curves: dict[str, _Curve], place: Place) -> Iterator[Fact]:
    whole = decoded(line)
    told: Any = whole.get("payload") if isinstance(whole, dict) else None
    if not isinstance(whole, dict) or not isinstance(told, dict):
        return
    if isinstance(metric := told.get("metric"), dict):
        value = metric.get("metricValue")
        value = NON_FINITE.get(value) if isinstance(value, str) else value
        step, stamp = metric.get("step"), told.get("local_timestamp")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        curve = curves.setdefault(str(metric.get("metricName")), _Curve())
        curve.stepped &= isinstance(step, int) and abs(step) < 1 << 62
        curve.step.append(step if isinstance(step, int) and abs(step) < 1 << 62 else 0)
        curve.value.append(float(value) if abs(value) < 1 << 1000 or isinstance(value, float) else float("inf"))
        curve.time.append(stamp / 1000 if isinstance(stamp, int | float) else float("nan"))
        curve.origin.append(number)
    elif isinstance(param := told.get("param"), dict):
        name, value = str(param.get("paramName")), param.get("paramValue")
        if name not in _COUNTERS and isinstance(value, str | int | float | bool):
            yield Fact(name, value, place)
    elif isinstance(other := told.get("other"), dict) and other.get("key") == "Name":
        yield Fact("comet_name", str(other.get("val")), place)


def _points(curves: dict[str, _Curve]) -> Iterator[Points]:
    own = [curve for name, curve in curves.items() if curve.stepped and not name.startswith(_SYSTEM)]
    steps: Ints = np.concatenate([np.empty(0, np.int64), *(np.array(one.step, np.int64) for one in own)])
    times: Floats = np.concatenate([np.empty(0), *(np.array(one.time, np.float64) for one in own)])
    order = np.argsort(times, kind="stable")
    for name, curve in curves.items():
        time = np.array(curve.time, np.float64)
        step: Ints | None = np.array(curve.step, np.int64) if curve.stepped else None
        if name.startswith(_SYSTEM):
            step = moments(time, steps[order], times[order])
        value, origin = np.array(curve.value, np.float64), np.array(curve.origin, np.int64)
        yield Points(name, step, value, time if np.isfinite(time).any() else None, origin=origin)
