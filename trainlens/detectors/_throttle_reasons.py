"""Why GPUs lower their clocks, by what the driver says: reasons by name, and the bit mask of all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from trainlens.model import Ints, Run, Series

# NVML, clocks event reasons: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
_BITS = {
    "sw_power_cap": 0x04, "hw_slowdown": 0x08, "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}  # fmt: skip
_MASK = "active"
FAULTS = {
    "hw_thermal_slowdown": "too hot",
    "sw_thermal_slowdown": "too hot",
    "hw_power_brake_slowdown": "external power brake",
    "hw_slowdown": "hardware slowdown",
}  # in the order of telling: the cause before what it leads to
LIMIT = "sw_power_cap"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason on one GPU: the share of its samples, and the first and last step at which it held."""

    name: str
    series: Series
    share: float
    first_step: int
    last_step: int
    samples: int
    ongoing: bool


def reasons(run: Run) -> list[Reason]:
    """Each reason that held at all, of each GPU; a reason that is logged by name is not looked up in the mask."""
    found: dict[tuple[str, int], Reason] = {}
    masks: dict[int, Series] = {}
    for series in (one for metric in run.with_role("throttle") for one in run.all(metric.metric)):
        name = series.metric.rpartition("/")[2]
        if name == _MASK:
            masks[series.rank] = series
        elif (reason := _reason(name, series, series.value > 0)) is not None:
            found[name, series.rank] = reason
    for rank, series in masks.items():
        bits: Ints = np.where(series.finite, series.value, 0).astype(np.int64)
        for name, bit in _BITS.items():
            reason = _reason(name, series, (bits & bit) > 0)
            if reason is not None:
                found.setdefault((name, rank), reason)
    return list(found.values())


def _reason(name: str, series: Series, holds: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Reason | None:
    holds = holds & series.finite
    at = np.flatnonzero(holds)
    if not len(at):
        return None
    many = int(series.finite.sum())
    ends = bool(holds[series.finite][-max(3, many // 50) :].any())
    return Reason(name, series, len(at) / many, int(series.step[at[0]]), int(series.step[at[-1]]), many, ends)


def by_name(found: list[Reason]) -> dict[str, list[Reason]]:
    """The reasons with all GPUs of each, the worst first."""
    named: dict[str, list[Reason]] = defaultdict(list)
    for reason in sorted(found, key=lambda one: -one.share):
        named[reason.name].append(reason)
    return named
