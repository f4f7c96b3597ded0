"""Intervals of a trace: what part of each step the GPU computed, communicated, copied or waited.

An interval counts once however many kernels run in it; of what runs at the same time computation hides communication,
and both hide copies. While a GPU does nothing the host may load data, or work, which loading hides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from trainlens.model import Floats, Ints
from trainlens.parsers._trace_events import Event

Kind = Literal["compute", "communication", "copy", "data", "host"]

_STEP = re.compile(r"^ProfilerStep#(\d+)$")
# Annotations that users put around their steps, with the number of the step.
NUMBERED = re.compile(r"(?:(?:train(?:ing)?|global)?[ _]?(?:step|iter(?:ation)?))[ _:#-]*(\d{1,12})", re.I)
_OPTIMIZER = "Optimizer.step#"  # torch.optim's own annotation, once a step
COLLECTIVE = re.compile(
    r"^(?:void )?(?:nccl|rccl|msccl|oneccl|nvshmem|deep_ep|.*(?:all_?reduce|all_?gather)_?kernel)", re.I
)
_COPIES = frozenset(("gpu_memcpy", "gpu_memset", "memcpy", "memset"))
_ANNOTATIONS = frozenset(("user_annotation", "cpu_op", "operator"))
_HOST = frozenset(("cpu_op", "operator", "cuda_runtime", "cuda_driver", "python_function"))


@dataclass
class Windows:
    """Collects the intervals of a trace, in µs."""

    found: dict[Kind, list[Floats]] = field(default_factory=dict)  # pieces of two columns: begin, end
    steps: dict[int, tuple[float, float]] = field(default_factory=dict)
    named: dict[int, tuple[float, float]] = field(default_factory=dict)  # steps that the user's annotations number
    optimizers: dict[str, list[float]] = field(default_factory=dict)  # when steps of each optimizer ended

    def add(self, events: Sequence[Event]) -> None:
        fresh: dict[Kind, list[tuple[float, float]]] = {
            "compute": [], "communication": [], "copy": [], "data": [], "host": []
        }  # fmt: skip
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat.lower()
            if category == "kernel":
                kind: Kind = "communication" if COLLECTIVE.match(event.name) else "compute"
            elif category in _COPIES:
                kind = "copy"
            elif category in _ANNOTATIONS and self._annotates(event):
                continue
            elif category in _ANNOTATIONS and event.name.startswith("enumerate(DataLoader)"):
                kind = "data"
            elif category in _HOST:
                kind = "host"
            else:
                continue
            fresh[kind].append(_interval(event))
        for one, intervals in fresh.items():
            if intervals:
                spans = np.array(intervals, np.float64)
                if not len(spans := spans[np.isfinite(spans).all(axis=1)]):
                    continue
                self.found.setdefault(one, []).append(np.column_stack(_merged(spans)) if one == "host" else spans)

    def _annotates(self, event: Event) -> bool:
        """Whether an annotation tells of a step; what it tells is kept."""
        if step := _STEP.match(event.name):
            _widen(self.steps, int(step[1]), _interval(event))
            return True
        if event.cat.lower() == "user_annotation" and event.name[:1] in "sSiItTgG":
            if step := NUMBERED.fullmatch(event.name):
                _widen(self.named, int(step[1]), _interval(event))
                return True
        elif event.name.startswith(_OPTIMIZER):
            self.optimizers.setdefault(event.name, []).append(_interval(event)[1])
            return True
        return False

    def of(self, *kinds: Kind) -> Floats:
        """All intervals of some kinds, two columns."""
        pieces = [piece for kind in kinds for piece in self.found.get(kind, ())]
        return np.concatenate(pieces) if pieces else np.empty((0, 2))

    def bounds(self) -> tuple[Ints | None, Floats, Floats]:
        """Numbers, begins and ends of the steps: each ends where the next begins. One window without steps."""
        self.steps = self.steps or self.named
        if self.steps:
            number = np.array(sorted(self.steps), np.int64)
            begin = np.array([self.steps[one][0] for one in number.tolist()])
            end = np.array([self.steps[one][1] for one in number.tolist()])
            pause = begin[1:] - end[:-1]  # the profiler's own work; a long one is another cycle of its schedule
            joined = np.flatnonzero((np.diff(number) == 1) & (pause >= 0) & (pause < 0.5 * (end - begin)[:-1]))
            end[joined] = begin[joined + 1]
            return number, begin, end
        ends = np.unique(next(iter(self.optimizers.values()), []))
        if len(ends) > 1:  # from one end to the next; they have no numbers
            return None, ends[:-1], ends[1:]
        spans = self.of("compute", "communication", "copy")
        if not len(spans):
            return None, np.empty(0), np.empty(0)
        return None, spans[:, 0].min(keepdims=True), spans[:, 1].max(keepdims=True)

    def covered(self, begin: Floats, end: Floats, *kinds: Kind) -> Floats:
        """How long some kinds ran in each window, what ran at the same time counted once."""
        spans = self.of(*kinds)
        if not len(spans):
            return np.zeros(len(begin))
        starts, ends = _merged(spans)
        before = np.r_[0.0, np.cumsum(ends - starts)]
        return _until(end, starts, ends, before) - _until(begin, starts, ends, before)


def measures(windows: Windows) -> tuple[Ints | None, Floats, dict[str, Floats]]:
    """Numbers of the steps, their begins in µs, and what is told of each: seconds and shares of the step, by tag."""
    number, begin, end = windows.bounds()
    length = end - begin
    found: dict[str, Floats] = {}
    if not len(length) or not (length > 0).all():
        return None, begin, found
    if windows.steps or len(length) > 1:
        found["step_time"] = length * 1e-6
    if windows.of("data").size:
        found["data_time"] = windows.covered(begin, end, "data") * 1e-6
    compute = windows.covered(begin, end, "compute")
    both = windows.covered(begin, end, "compute", "communication")
    busy = windows.covered(begin, end, "compute", "communication", "copy")
    if busy.any():
        found["gpu/utilization"] = busy / length
        found["profile/compute_share"] = compute / length
        found["profile/memcpy_share"] = (busy - both) / length
        found["profile/idle_share"] = 1 - busy / length
        loading = windows.covered(begin, end, "compute", "communication", "copy", "data")
        if windows.of("data").size:
            found["profile/data_share"] = (loading - busy) / length
        if windows.of("host").size:
            working = windows.covered(begin, end, "compute", "communication", "copy", "data", "host")
            found["profile/host_share"] = (working - loading) / length
    if windows.of("communication").size:
        found["comm_share"] = (both - compute) / length
        talking = windows.covered(begin, end, "communication")
        found["comm_time"] = talking * 1e-6
        if (talking > 0).all():
            found["profile/comm_overlap"] = 1 - (both - compute) / talking
    return number, begin, found


def _merged(spans: Floats) -> tuple[Floats, Floats]:
    """Begins and ends of what some intervals cover together."""
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.r_[True, spans[1:, 0] > reach[:-1]])
    return spans[first, 0], reach[np.r_[first[1:] - 1, len(spans) - 1]]


def _widen(steps: dict[int, tuple[float, float]], number: int, span: tuple[float, float]) -> None:
    known = steps.get(number, span)
    steps[number] = min(span[0], known[0]), max(span[1], known[1])


def _until(moment: Floats, starts: Floats, ends: Floats, before: Floats) -> Floats:
    """How much of disjoint, sorted intervals lies before each moment."""
    at = np.searchsorted(starts, moment, side="right")
    last = np.maximum(at - 1, 0)
    inside = np.where(at > 0, np.clip(moment, starts[last], ends[last]) - starts[last], 0.0)
    return np.where(at > 0, before[last] + inside, 0.0)


def _interval(event: Event) -> tuple[float, float]:
    try:
        begin = float(event.ts)
        return begin, begin + max(0.0, float(event.dur))
    except ValueError:
        return np.nan, np.nan
