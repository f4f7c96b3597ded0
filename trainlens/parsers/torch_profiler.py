"""PyTorch Profiler: chrome traces as Kineto writes them (`*.pt.trace.json`, also compressed), step by step.

Of each profiled step (ProfilerStep#N, from its begin to that of the next) is told how long it took, how long loading
of data took in it (enumerate(DataLoader)), which part the GPU was busy (gpu/utilization), and how its time divides:
kernels that compute (profile/compute_share), collectives that nothing hides (comm_share), copies that nothing hides
(profile/memcpy_share), and nothing at all (profile/idle_share); the four add up to 1. Parts of the idle share are told
too: the host loaded data (profile/data_share), or worked on something else (profile/host_share). `comm_time` is that of
all collectives, hidden or not, `profile/comm_overlap` the part that computation hid. Kernels run behind the host, so
that a share belongs to the step in which it ran. Without ProfilerStep the user's own annotations count ("step 12"),
else the ends of the optimizer's steps; a trace without any is one window. The rank is the one that the trace names.

Files of any size are read in bounded memory. Names of users and hosts in a trace are not taken over.

The format: https://docs.pytorch.org/docs/stable/profiler.html, https://github.com/pytorch/kineto,
https://github.com/facebookresearch/HolisticTraceAnalysis (the breakdown in time).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import NO_RANK, Batch, Checkpoint, Fact, Floats, Note, Place, Points
from trainlens.parsers._columns import unix_seconds
from trainlens.parsers._trace_events import Trace
from trainlens.parsers._trace_windows import Windows, measures
from trainlens.sources import Source

READS_TEXT = True

_BEGINS = re.compile(rb'^\s*(?:\{|\[)\s*(?:"|\{|\])')
_BARE_EVENT = re.compile(rb'^\s*\[\s*\{[^{}]{0,300}"ph"\s*:\s*"')


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a chrome trace, with Kineto's marks or without."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if not _BEGINS.match(head):
        return 0.0
    if b'"traceEvents"' in head or (b'"schemaVersion"' in head[:2000] and b'"deviceProperties"' in head[:4000]):
        return 1.0
    if ".trace" in "".join(path.suffixes) and b'"ph"' in head:
        return 0.9
    return 0.9 if _BARE_EVENT.match(head) and b'"ts"' in head else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  written as a whole
    """Points of each step, facts of the devices and the world, notes of what is missing."""
    trace, windows, events = Trace(), Windows(), 0
    for some in trace.events(source):
        windows.add(some)
        events += len(some)
    if not events:
        hint = "Export it again with prof.export_chrome_trace or tensorboard_trace_handler"
        raise InputError("has no events of a chrome trace", where=source.name, hint=hint)
    yield from _points(windows, trace.about)
    yield from _facts(trace.about, source.name)
    if not trace.complete:
        yield Note("cut-off", f"the trace breaks off after {events:,} events; what stands before was read", count=1)
    if trace.damaged:
        yield Note("damaged", f"{trace.damaged:,} pieces of the trace are malformed", count=trace.damaged)
    if not windows.of("compute", "communication", "copy").size:
        yield Note("no-points", "the trace holds no work of a GPU, so its time was not divided")


def _points(windows: Windows, about: dict[str, Any]) -> Iterator[Points]:
    number, begin, found = measures(windows)
    world = about.get("distributedInfo")
    rank = world.get("rank") if isinstance(world, dict) else None
    rank = rank if isinstance(rank, int) and rank >= 0 else NO_RANK
    time = _clock(begin, about)
    for tag, value in found.items():
        yield Points(tag, number, value, time, rank)


def _clock(begin: Floats, about: dict[str, Any]) -> Floats | None:
    """Unix seconds; time stamps count from baseTimeNanoseconds, or from 1970 where there is none."""
    base = about.get("baseTimeNanoseconds")
    stamps = begin + (float(base) / 1e3 if isinstance(base, (int, float)) else 0.0)
    time = unix_seconds(np.where(stamps > 1e14, stamps, np.nan))
    return time if np.isfinite(time).all() else None


def _facts(about: dict[str, Any], name: str) -> Iterator[Fact]:
    place = Place(name)
    world = about.get("distributedInfo")
    for key in ("backend", "world_size", "nccl_version"):
        value = world.get(key) if isinstance(world, dict) else None
        if isinstance(value, (str, int)):
            yield Fact(key, value, place)
    devices = about.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        yield Fact("gpus_per_node", len(devices), place)
        if isinstance(devices[0].get("name"), str):
            yield Fact("gpu_name", devices[0]["name"], place)
        if isinstance(devices[0].get("totalGlobalMem"), int):
            yield Fact("gpu_memory_bytes", devices[0]["totalGlobalMem"], place)
