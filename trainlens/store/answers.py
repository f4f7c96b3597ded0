"""What was answered about a file or a run, kept for when nothing that decides the answer has changed. Part of `store`.

A run's answer holds while its files are what they were, as are trainlens itself, its plug-ins and the settings that
judge, and while the clock tells the same of the run: whether it is still written to, and how long it has been silent.
It lies in a folder of the cache as what was read does; a damaged answer is none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

import trainlens
from trainlens import plugins
from trainlens.diagnosis import RunDiagnosis
from trainlens.model import Run, SourceReport
from trainlens.sources import RunFiles, Source, binary
from trainlens.store.cache import DEAR, root, trim
from trainlens.store.states import State

Answer = tuple[tuple[RunDiagnosis, ...], tuple[SourceReport, ...]]
LARGE = 1 << 20  # bytes of a log whose parser is worth remembering: asking all of them means importing all of them
SILENCES = (60.0, 600.0, 3600.0)  # seconds after which a run, or a file, is told to be over; see `ongoing`, `running`
_KEPT = "answer.bin"
_SEAMS: tuple[plugins.Seam, ...] = ("parsers", "detectors", "causes")


def answered(files: RunFiles, judge: Callable[[], tuple[Answer, Sequence[Run]]], about: object, now: float) -> Answer:
    """What `judge` answers about the run, or has answered before. `about` is all but the files that decides it."""
    place, states = _place(files, about), _states(files)
    if place is None or states is None:
        return judge()[0]
    kept = _load(place)
    if kept is not None and kept[:2] == (states, _moment(files, kept[2], now)):
        return kept[3]
    begin = time.process_time()
    answer, runs = judge()
    ends = [end for run in runs for end in _ends(run)]
    moment = _moment(files, ends, now)
    if time.process_time() - begin > DEAR and moment == _moment(files, ends, time.time()):
        _keep(place, (states, moment, ends, answer))
    return answer


def scored(source: Source, head: bytes, ask: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """How sure each parser is of a large text, which is decided by its head and its path, as answered before."""
    import msgspec

    folder = root() if source.size >= LARGE and source.held is None and not binary(head) else None
    if folder is None:
        return ask()
    name = _name((str(source.path), hashlib.blake2b(head).hexdigest(), _program()))
    with contextlib.suppress(OSError, ValueError):  # ValueError: damaged
        return msgspec.json.decode((folder / name / _KEPT).read_bytes(), type=dict[str, float])
    scores = ask()
    with contextlib.suppress(OSError):
        _write(folder / name, msgspec.json.encode(scores))
    return scores


# ---- what decides an answer ------------------------------------------------------------------------------------------


def _place(files: RunFiles, about: object) -> Path | None:
    """The folder of the answer; None for what lies in archives or comes from afar, and what is read with its like."""
    folder = root()
    if folder is None or any(file.source.held is not None for file in files.files):
        return None
    if any(plugins.says("parsers", name, "READS_BESIDE") for name in {file.format for file in files.files}):
        return None
    told = [
        (str(one.source.path.absolute()), one.source.name, one.source.patterns, one.format, one.prefix, one.reason)
        for one in files.files
    ]
    return folder / _name((files.name, files.path, told, about, _program()))


def _name(key: object) -> str:
    return hashlib.sha256(repr(key).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@cache
def _program() -> tuple[object, ...]:
    """What trainlens itself is: its version, its files, and the plug-ins of others."""
    here = Path(trainlens.__file__).parent
    rooms = [here, *(Path(entry.path) for entry in os.scandir(here) if entry.is_dir() and entry.name[0] != "_")]
    files = [entry for room in rooms for entry in os.scandir(room) if entry.is_file()]
    own = sorted((entry.path, entry.stat().st_mtime_ns) for entry in files)
    return trainlens.__version__, np.__version__, own, [plugins.outsiders(seam) for seam in _SEAMS]


def _states(files: RunFiles) -> list[State] | None:
    try:
        return [State.of(file.source) for file in files.files]
    except OSError:
        return None


def _moment(files: RunFiles, ends: Sequence[float], now: float) -> list[int]:
    """What the clock says of when the files were written and the runs logged last: how many silences have passed."""
    times = [*(file.source.modified for file in files.files), *ends]
    return [-1 if now < time else sum(now - time >= silence for silence in SILENCES) for time in times]


def _ends(run: Run) -> list[float]:
    known = [series.time[np.isfinite(series.time)] for series in run.series]
    return [max(float(times.max()) for times in known if len(times))] if any(map(len, known)) else []


# ---- keeping ---------------------------------------------------------------------------------------------------------

_Kept = tuple[list[State], list[int], list[float], Answer]
_PLAIN = (str, int, float, bool, type(None))


def _keep(folder: Path, kept: _Kept) -> None:
    """Quietly nothing where it cannot be written, or an outsider's finding holds what has no plain form."""
    import msgspec

    with contextlib.suppress(OSError, TypeError, ValueError, OverflowError):
        content = msgspec.msgpack.encode(kept)
        _write(folder, hashlib.blake2b(content, digest_size=16).digest() + content)
        trim(folder.parent)


def _load(folder: Path) -> _Kept | None:
    import msgspec

    try:
        whole = (folder / _KEPT).read_bytes()
        if hashlib.blake2b(whole[16:], digest_size=16).digest() != whole[:16]:
            return None
        kept: _Kept = _made(_Kept, msgspec.msgpack.decode(whole[16:]))
        os.utime(folder / _KEPT)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return kept


def _write(folder: Path, content: bytes) -> None:
    swap = folder / f"{_KEPT}.{os.getpid()}-{time.time_ns()}"
    folder.mkdir(parents=True, exist_ok=True)
    swap.write_bytes(content)
    swap.replace(folder / _KEPT)


def _made(kind: Any, stored: Any) -> Any:
    """A value of that type from plain ones; a whole number stays one also where a float is meant: it is told so."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        if stored is None:
            return None
        kind = next((one for one in get_args(kind) if not _is_plain(one)), Any)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _made(hints[name], value) for name, value in stored.items()})
    if get_origin(kind) not in (tuple, list):
        return stored
    inner = get_args(kind)
    if get_origin(kind) is list or inner[1:] == (...,):
        many = stored if _is_plain(inner[0]) else (_made(inner[0], one) for one in stored)
        return get_origin(kind)(many)
    return tuple(_made(one, value) for one, value in zip(inner, stored, strict=True))


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return all(_is_plain(one) for one in get_args(kind))
    return kind in _PLAIN or get_origin(kind) is Literal


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)
