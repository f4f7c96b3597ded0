"""Data loading wait: a large part of each step is spent waiting for data.

Why it matters
A GPU that waits for its batch costs what a busy one does. The cure is cheap: more loader workers, prefetching, or data
prepared ahead; and the wait grows unseen when the storage slows.

How it is found
The time a log gives for data (a loader's wait, a batch generator's timer) as a share of the time per step, or what a
profiler saw of GPUs idle while data was loaded. A stretch of at least `lasting` of the run where most points are above
`share` is a warning, above `notable` worth a line. Where the time for data scatters and the time per step does not
follow it (a slope below `follows`), loading is hidden behind computation, and nothing is said. Where the time for data
is larger than that of a step, the step is taken to be timed without it.

What to do
More loader workers, pinned memory, prefetching; tokenize ahead; move the data to a faster storage.

When it is wrong
Where the timer runs in a worker beside the training and is too even for that to be seen; where the first rank loads for
all and the others' wait counts as communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainlens.citations import JUDGEMENT, USUAL, measured
from trainlens.detectors import _levels
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Metric, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import fit_line, mad, rolling_median

NEEDS = ("data_time|profile/data_share",)
COST_INSIDE = ("slowdown", "straggler-rank")
_LEVELS = measured("simulated runs: loaders that take 2 to 8 % of a step, or are hidden behind it, stay silent")
_SCATTER = 0.02  # scatter of the time for data, as a share of the step, from which the step's must follow it


@dataclass(frozen=True)
class Options:
    notable: float = threshold(0.10, "part of the step that is worth a line", unit="share", source=JUDGEMENT)
    share: float = threshold(0.20, "part of the step that is a warning", unit="share", source=USUAL)
    severe: float = threshold(0.50, "part of the step that is an error", unit="share", source=JUDGEMENT)
    lasting: float = threshold(0.05, "part of the run it must last", unit="share", source=_LEVELS)
    follows: float = threshold(0.4, "slope of step time over data time that is a wait", source=_LEVELS)
    points: int = threshold(20, "steps needed", source=_LEVELS)
    windows: int = threshold(3, "profiled steps needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    if profiled := _profiled(run, options):
        return profiled
    times = run.all("data_time")
    if not times:
        return NotEnoughData(f"{options.windows} profiled steps are needed")
    if run.get("step_time") is None:
        return NotApplicable("no step_time in the logs to hold the time for data against")
    shares = [share for one in times if (share := _share(run, one, options.follows)) is not None]
    if (found := _levels.longest(shares)) < options.points:
        return NotEnoughData(f"{found} steps after the start with both times, {options.points} are needed")
    for least in (options.share, options.notable):
        if high := _levels.stretches(shares, lambda value, least=least: value > least, options.lasting):  # type: ignore[misc]
            return [_finding(run, one, options) for one in high]
    return []


def _share(run: Run, times: Series, follows: float) -> Series | None:
    """Time for data ÷ time per step; zero where the step does not follow it, None without a step time of the rank."""
    whole = next((one for one in run.all("step_time") if one.rank == times.rank), run.get("step_time"))
    if whole is None:
        return None
    step = _levels.common_steps([times, whole])
    if len(step) < 2:
        return None
    part, full = _levels.at_steps(times, step), _levels.at_steps(whole, step)
    if np.median(part) > np.median(full):
        full = full + part
    elif _hidden(part, full, follows):
        part = np.zeros(len(part))
    shown = Metric("data_time", "share", "lower", "duration", "efficiency")
    return replace(times, step=step, raw=part / np.maximum(full, 1e-12), time=np.full(len(step), np.nan), about=shown,
                   attempt=np.zeros(len(step), np.int16), source=np.zeros(len(step), np.int16), replaced=None,
                   origin=np.full(len(step), -1))  # fmt: skip


def _hidden(part: Floats, full: Floats, follows: float) -> bool:
    """Whether the step's time surely does not follow a time for data that scatters, about their running medians."""
    own, other = part - rolling_median(part, 8), full - rolling_median(full, 8)
    scatter = mad(own)
    if scatter < _SCATTER * float(np.median(full)) or len(own) < 20:
        return False
    usual = (np.abs(own) < 4 * scatter) & (np.abs(other) < 4 * max(mad(other), scatter))  # no single stall decides
    slope, error = fit_line(own[usual], other[usual])
    return slope + 2 * error < follows


def _finding(run: Run, found: _levels.Stretch, options: Options) -> Finding:
    first, last = found.steps
    inside = slice(found.first, found.last + 1)
    waited = _levels.at_steps(next(one for one in run.all("data_time") if one.rank == found.series.rank),
                              found.step[inside])  # fmt: skip
    each = float(np.median(np.diff(found.step))) if len(found.step) > 1 else 1.0
    own = float(np.median(waited))
    return Finding(
        detector="data-loading-wait",
        severity="info" if found.level <= options.share else "error" if found.level > options.severe else "warning",
        metric="data_time",
        first_step=first,
        last_step=last,
        title=f"Waiting for data takes {number(found.level, 'share')} of a step{found.where}",
        message=f"data_time is {number(own, 's')} a step{found.where}, {number(found.level, 'share')} of its time, "
        f"{found.span}; up to {number(options.notable, 'share')} is usual.",
        confidence=found.confidence,
        rank=found.rank,
        ongoing=found.ongoing,
        cost=_levels.cost(run, float(waited.sum()) * each),
        evidence=(
            Evidence("share of the step", "data_time", first, last, found.level, None, options.share, "share",
                     "data-loading-wait.share"),
        ),
        actions=("Use more loader workers, pinned memory and prefetching; look at the storage",),
    )  # fmt: skip


def _profiled(run: Run, options: Options) -> list[Finding]:
    """The finding from a profiler's windows, which are few and hold no start."""
    series = run.get("profile/data_share")
    value = series.value[series.finite] if series is not None else np.empty(0)
    level = float(np.median(value)) if len(value) else 0.0
    if series is None or len(value) < options.windows or level <= options.notable:
        return []
    first, last = int(series.step[series.finite][0]), int(series.step[series.finite][-1])
    return [
        Finding(
            detector="data-loading-wait",
            severity="info" if level <= options.share else "error" if level > options.severe else "warning",
            metric="profile/data_share",
            first_step=first,
            last_step=last,
            title=f"GPUs idle for data for {number(level, 'share')} of a step",
            message=f"In {len(value)} profiled steps, {first:,} to {last:,}, the GPU was idle while the host loaded "
            f"data for {number(level, 'share')} of the time.",
            confidence=_levels.surely(level, options.notable),
            evidence=(
                Evidence("share of the step", "profile/data_share", first, last, level, None, options.share, "share",
                         "data-loading-wait.share"),
            ),
            actions=("Use more loader workers, pinned memory and prefetching; look at the storage",),
        )
    ]  # fmt: skip
