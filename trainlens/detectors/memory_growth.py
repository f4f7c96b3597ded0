"""Memory growth: memory in use grows steadily over the run, as a leak does.

Why it matters
A leak of a few megabytes a step ends the run days later with an out-of-memory error that no setting cures; on the host
it kills the process without a word.

How it is found
Every metric of memory, after the first `start` of the run, where allocators warm up. Medians of 40 blocks must rise
steadily (Kendall's tau above `steady`), along a line (the rise is more than `line` times the scatter about it), in each
third of the run, without one jump making up most of it, and by more than `notable`. Work that grows with it (batch,
sequence length) explains it. Where the limit is known the step is told at which it is reached: a warning when that is
before the planned end, or within another length of the run when no end is known. Without a limit, a rise of more than
`size` is a warning.

What to do
Look for tensors kept over steps (a loss summed without `.item()`, hooks, caches), and for loader workers that grow;
compare memory snapshots of two steps.

When it is wrong
Where a cache fills by design (replay buffers, page cache of the host), or where inputs grow and the log does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors import _levels, _speed
from trainlens.diagnosis import Evidence, Finding, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import block_medians, fit_line, kendall

NEEDS = ("role:memory",)
TOLD_INSIDE = ("out-of-memory", "memory-pressure")
_SIMULATED = measured("simulated runs: warm-up, peaks, fragmentation, random walks and longer sequences stay silent")
_BLOCKS = 40
_LEAST = 8  # blocks
_TOTALS = ("total_steps", "train_iters", "max_steps", "total_iters", "num_iterations", "max_iters")


@dataclass(frozen=True)
class Options:
    notable: float = threshold(0.05, "rise that is worth a line", unit="share", source=JUDGEMENT)
    size: float = threshold(0.25, "rise that is a warning where no limit is known", unit="share", source=JUDGEMENT)
    start: float = threshold(0.10, "part of the run that is warm-up", unit="share", source=_SIMULATED)
    steady: float = threshold(0.9, "Kendall's tau of the blocks", source=_SIMULATED)
    line: float = threshold(12.0, "rise against the scatter about a line", unit="times", source=_SIMULATED)
    points: int = threshold(20, "points needed", source=_SIMULATED)


@dataclass(frozen=True)
class _Growth:
    series: Series
    steps: tuple[int, int]
    level: tuple[float, float]  # on the line, at both ends
    tau: float

    @property
    def rise(self) -> float:
        return self.level[1] / self.level[0] - 1

    @property
    def per_step(self) -> float:
        return (self.level[1] - self.level[0]) / max(1, self.steps[1] - self.steps[0])


def detect(run: Run, options: Options) -> Sequence[Finding] | NotEnoughData:
    group = [one for one in run.series if one.about.role == "memory" and one.metric != "gpu/memory_total"]
    group = [one for one in group if np.count_nonzero(one.finite) >= options.points]
    if not group:
        return NotEnoughData(f"no metric of memory has {options.points} points")
    found: dict[str, list[_Growth]] = {}
    for series in group:
        if (growth := _growth(run, series, options)) is not None:
            found.setdefault(series.metric, []).append(growth)
    worst = [max(same, key=lambda one: one.rise) for same in found.values()]
    of = {name: sum(one.metric == name for one in group) for name in found}
    worst.sort(key=lambda one: (not one.series.metric.startswith("gpu/"), -one.rise))
    kinds: dict[bool, _Growth] = {}
    for one in worst:  # one finding for the GPUs' memory and one for the host's: a leak shows in every counter of it
        kinds.setdefault(one.series.metric.startswith("gpu/"), one)
    return [_finding(run, one, len(found[one.series.metric]), of[one.series.metric], options) for one in kinds.values()]


def _growth(run: Run, series: Series, options: Options) -> _Growth | None:
    step, value = _levels.settled(series, options.start)
    size = max(1, len(value) // _BLOCKS)
    blocks = block_medians(value, size)
    if len(blocks) < _LEAST or blocks[0] <= 0:
        return None
    middle = block_medians(step.astype(float), size)
    slope, _ = fit_line(middle, blocks)
    line = blocks.mean() + slope * (middle - middle.mean())
    risen = float(line[-1] - line[0])
    scatter = max(float(np.std(blocks - line)), 1e-12)
    tau, _ = kendall(blocks)
    if line[0] <= 0 or risen < options.notable * line[0] or risen < options.line * scatter or tau < options.steady:
        return None
    thirds = np.diff(blocks[np.linspace(0, len(blocks) - 1, 4).astype(int)])
    if thirds.min() < 0.2 * risen or np.diff(blocks).max() > 0.4 * risen or _explained(run, step, risen / line[0]):
        return None
    return _Growth(series, (int(step[0]), int(step[-1])), (float(line[0]), float(line[-1])), tau)


def _explained(run: Run, step: Ints, rise: float) -> bool:
    """Whether the work of a step grew by at least half as much."""
    work: Floats = _speed.work(run, step)
    third = max(1, len(work) // 3)
    return float(np.expm1(np.median(work[-third:]) - np.median(work[:third]))) > rise / 3


def _limit(run: Run, series: Series) -> float | None:
    if series.about.unit == "share":
        return 1.0
    if not series.metric.startswith("gpu/"):
        return None
    totals = run.all("gpu/memory_total")
    total = next((one for one in totals if one.rank == series.rank), totals[0] if totals else None)
    value = total.value[total.finite] if total is not None else np.empty(0)
    return float(np.median(value)) if len(value) else None


def _finding(run: Run, found: _Growth, ranks: int, of: int, options: Options) -> Finding:
    (first, last), (low, high) = found.steps, found.level
    limit, planned = _limit(run, found.series), _planned(run)
    full = last + (limit - high) / found.per_step if limit is not None and limit > 0 else None
    end = planned if planned is not None else 2.0 * last
    soon = full is not None and full <= end
    where = f" on {ranks} of {of} ranks" if 1 < ranks < of else f" on rank {found.series.rank}" if ranks < of else ""
    unit = found.series.about.unit
    word = "sample" if found.series.positional else "step"
    when = f"; it is full at {word} {round(full, -2):,.0f}" if full is not None and soon else ""
    when = when or ("; the limit is not reached by the end" if full is not None else "")
    warns = soon if full is not None else found.rise > options.size
    return Finding(
        detector="memory-growth",
        severity="warning" if warns else "info",
        metric=found.series.metric,
        first_step=first,
        last_step=last,
        title=f"{'GPU' if found.series.metric.startswith('gpu/') else 'Host'} memory grows steadily: "
        f"+{number(round(found.rise, 3), 'share')}{where}",
        message=f"{found.series.metric[:60]} grew from {number(low, unit)} to {number(high, unit)}{where}, {word} "
        f"{first:,} to {last:,}, evenly{when}.",
        confidence=round(min(0.99, found.tau), 2),
        rank=found.series.rank if ranks == 1 < of and found.series.rank >= 0 else None,
        ongoing=True,
        evidence=(
            Evidence("rise", found.series.metric, first, last, found.rise, 0.0, options.size, "share",
                     "memory-growth.size"),
            *((Evidence("step at which it is full", found.series.metric, None, None, full, None, end, "steps"),)
              if full is not None else ()),
        ),
        actions=("Look for tensors kept over steps and for loader workers that grow; compare two memory snapshots",),
    )  # fmt: skip


def _planned(run: Run) -> float | None:
    total = run.fact(*_TOTALS)
    return float(total.value) if total and isinstance(total.value, int | float) and total.value > 0 else None
