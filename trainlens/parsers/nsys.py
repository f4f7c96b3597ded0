"""NVIDIA Nsight Systems: the SQLite export (`nsys export --type sqlite`), step by step.

Steps are the NVTX ranges that are named and numbered as such ("step 12", "iteration_12", "ProfilerStep#12"), or, where
they have no number, those named "step" or "iteration", counted from 0; without them the recording is one window. Of
each step and GPU is told what a PyTorch trace tells: its length, the part the GPU was busy (gpu/utilization), and how
its time divides into kernels that compute (profile/compute_share), collectives that nothing hides (comm_share), copies
that nothing hides (profile/memcpy_share) and nothing at all (profile/idle_share). Ranges named for a data loader make
data_time. Where several GPUs were recorded, their numbers are ranks. The file is opened read-only. Recordings that were
not exported (.nsys-rep, .qdrep, .ncu-rep) are refused, with the command that exports them.

The schema: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trainlens.errors import InputError
from trainlens.model import NO_RANK, Batch, Checkpoint, Fact, Floats, Note, Place, Points
from trainlens.parsers import _sqlite
from trainlens.parsers._columns import unix_seconds
from trainlens.parsers._trace_windows import COLLECTIVE, Kind, Windows, measures
from trainlens.sources import Source

ROWS = 1 << 18  # rows held at once
_KERNELS, _RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"
_COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_NUMBERED = re.compile(
    r"(?:ProfilerStep|(?:train(?:ing)?|global)?[ _]?(?:step|iter(?:ation)?))[ _:#-]*(\d{1,12})", re.I
)
_PLAIN = re.compile(r"(?:train(?:ing)?[ _])?(?:step|iter(?:ation)?)", re.I)
_LOADING = re.compile(
    r"data[ _-]?(?:load\w*|fetch\w*)|enumerate\(DataLoader\).*|(?:load|next|fetch)[ _-]?(?:data|batch)", re.I
)
Columns = dict[str, frozenset[str]]


# What the tools of NVIDIA write in formats of their own, and how each is exported.
_OWN_FORMATS = {
    ".nsys-rep": "nsys export --type sqlite",
    ".qdrep": "nsys export --type sqlite",
    ".qdstrm": "nsys export --type sqlite",
    ".ncu-rep": "ncu --import FILE --csv --page raw",
}


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is of Nsight: a database by its tables, a recording by its ending and its bytes."""
    if path.suffix.lower() in _OWN_FORMATS:
        return 0.9 if b"\0" in head else 0.0
    if not head.startswith(_sqlite.MAGIC):
        return 0.0
    tables = _sqlite.columns(path)
    return 1.0 if "StringIds" in tables and (_KERNELS in tables or _RANGES in tables) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  written as a whole
    """Points of each step and GPU, the names of the GPUs as facts; InputError when the database cannot be read."""
    if (export := _OWN_FORMATS.get(source.path.suffix.lower())) is not None:
        what = f"is a recording in NVIDIA's own format ({source.path.suffix}), which only its tools read"
        raise InputError(what, where=source.name, hint=f"Export it with `{export}` and name what that writes")
    tables = _sqlite.columns(source.path)
    try:
        with _sqlite.connected(source.path) as database:
            steps = _ranges(database, tables)
            gpus = _work(database, tables)
            start = _start(database, tables)
            names = _gpu_names(database, tables)
    except sqlite3.Error as problem:
        hint = "Export it again with `nsys export --type sqlite`"
        raise InputError(f"cannot be read as a database ({problem})", where=source.name, hint=hint) from problem
    for gpu, windows in sorted(gpus.items()) or [(0, Windows())]:
        windows.steps = steps.steps
        windows.found |= {"data": steps.found.get("data", [])}
        number, begin, found = measures(windows)
        time = None if start is None else unix_seconds(start + begin * 1e-6)
        for tag, value in found.items():
            yield Points(tag, number, value, time, gpu if len(gpus) > 1 else NO_RANK)
    for name in names:
        yield Fact("gpu_name", name, Place(source.name))
    if not gpus:
        yield Note("no-points", "the recording holds no work of a GPU (trace with --trace=cuda,nvtx)")


def _work(database: sqlite3.Connection, tables: Columns) -> dict[int, Windows]:
    """The intervals of kernels and copies by GPU, in µs."""
    found: dict[int, Windows] = {}
    names = tables.get(_KERNELS, frozenset())
    name = next((one for one in ("shortName", "demangledName") if one in names), None)
    if name is not None:
        texts = database.execute("SELECT id, value FROM StringIds")
        collectives = np.array(sorted(int(key) for key, text in texts if COLLECTIVE.match(str(text))), np.int64)
        rows = database.execute(f"SELECT deviceId, start, end, {name} FROM {_KERNELS}")
        for device, spans, keys in _pieces(rows):
            shared = np.isin(keys, collectives)
            _add(found, device, "communication", spans[shared])
            _add(found, device, "compute", spans[~shared])
    for table in _COPIES:
        if table in tables:
            for device, spans, _ in _pieces(database.execute(f"SELECT deviceId, start, end, 0 FROM {table}")):
                _add(found, device, "copy", spans)
    return found


def _pieces(rows: sqlite3.Cursor) -> Iterator[tuple[int, Floats, Floats]]:
    """Device, begins and ends in µs, and the last column, for each block of rows and device."""
    while block := rows.fetchmany(ROWS):
        cells = np.array(block, np.float64)
        for device in np.unique(cells[:, 0]).tolist():
            own = cells[cells[:, 0] == device]
            yield int(device), own[:, 1:3] * 1e-3, own[:, 3]


def _add(found: dict[int, Windows], device: int, kind: Kind, spans: Floats) -> None:
    if len(spans):
        found.setdefault(device, Windows()).found.setdefault(kind, []).append(spans)


def _ranges(database: sqlite3.Connection, tables: Columns) -> Windows:
    """Steps and loading of data among the NVTX ranges."""
    found = Windows()
    columns = tables.get(_RANGES, frozenset())
    named = [column for column in ("text", "textId") if column in columns]
    if not columns >= {"start", "end"} or not named:
        return found
    text = {"text": "n.text", "textId": "s.value"}[named[0]] if len(named) == 1 else "COALESCE(n.text, s.value)"
    join = "LEFT JOIN StringIds s ON n.textId = s.id" if "textId" in columns else ""
    rows = database.execute(
        f"SELECT {text}, n.start, n.end FROM {_RANGES} n {join} WHERE n.end > n.start ORDER BY n.start"
    )
    plain: list[tuple[float, float]] = []
    data: list[tuple[float, float]] = []
    for name, begin, end in rows:
        span = begin * 1e-3, end * 1e-3
        if number := _NUMBERED.fullmatch(str(name).strip()):
            known = found.steps.get(int(number[1]), span)
            found.steps[int(number[1])] = min(known[0], span[0]), max(known[1], span[1])
        elif _PLAIN.fullmatch(str(name).strip()):
            plain.append(span)
        elif _LOADING.fullmatch(str(name).strip()):
            data.append(span)
    if not found.steps:
        found.steps = dict(enumerate(plain))
    if data:
        found.found["data"] = [np.array(data, np.float64)]
    return found


def _start(database: sqlite3.Connection, tables: Columns) -> float | None:
    """When the recording began, Unix seconds."""
    if "utcEpochNs" not in tables.get("TARGET_INFO_SESSION_START_TIME", frozenset()):
        return None
    row = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    return row[0] * 1e-9 if row and isinstance(row[0], int) else None


def _gpu_names(database: sqlite3.Connection, tables: Columns) -> list[str]:
    if "name" not in tables.get("TARGET_INFO_GPU", frozenset()):
        return []
    return sorted({str(name) for (name,) in database.execute("SELECT name FROM TARGET_INFO_GPU")})
