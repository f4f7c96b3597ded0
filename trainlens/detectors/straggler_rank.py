"""Straggler rank: one rank is lastingly slower than the others, which wait for it.

Why it matters
Synchronous training runs at the pace of its slowest rank: one hot GPU of a thousand slows down all of them.

How it is found
Time per step of each rank, without its communication where that is logged by rank: where ranks wait for each other
the time of a whole step is the same for all, and only the slow one does not wait. Ratios to the median rank, as
medians of 40 blocks: `size` above it, and five times the scatter, for at least three blocks. At most a quarter of the
ranks can be stragglers; more are a matter of how the model is split.

What to do
Compare clocks, temperature and memory errors of that GPU and node; take the node out of the pool and restart.

When it is wrong
Where stages of a pipeline differ by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import MEGASCALE, measured
from trainlens.detectors._levels import at_steps, common_steps, cost, surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number
from trainlens.model import Floats, Ints, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import block_medians, block_noise, episodes

NEEDS = ("step_time",)
COST_INSIDE = ("slowdown",)
_RUNS = measured("405 labelled runs: all of 6 stragglers found, none among ranks that scatter by 1 %")


@dataclass(frozen=True)
class Options:
    size: float = threshold(0.04, "time above the median rank", unit="share", source=MEGASCALE)
    severe: float = threshold(0.20, "time above the median rank that is an error", unit="share", source=_RUNS)
    share: float = threshold(0.25, "part of the ranks that can be stragglers", unit="share", source=_RUNS)
    points: int = threshold(30, "steps that all ranks log", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    ranks = [one for one in run.all("step_time") if one.rank >= 0 and one.finite.any()]
    if len(ranks) < 3:
        return NotApplicable("fewer than 3 ranks log their step time")
    step, times = _together(ranks, {one.rank: one for one in run.all("comm_time")})
    if len(step) < options.points:
        return NotEnoughData(f"{len(step)} steps that all ranks log, {options.points} are needed")
    middle = np.median(times, axis=0)
    size = max(5, len(step) // 40)
    found = []
    for series, own in zip(ranks, times, strict=True):
        blocks = block_medians(own / middle, size)
        slow = blocks > 1 + max(options.size, 5 * block_noise(blocks))
        found += [
            _finding(run, options, series, step, (own, middle), (first * size, min(len(step), (last + 1) * size) - 1))
            for first, last in episodes(slow, 2)
            if last - first >= 2
        ]
    return found if len({one.rank for one in found}) <= max(1, options.share * len(ranks)) else []


def _together(ranks: Sequence[Series], waits: dict[int, Series]) -> tuple[Ints, Floats]:
    """Steps that all ranks log, after the first, and each rank's own time (ranks × steps)."""
    apart = all(one.rank in waits for one in ranks)
    step = common_steps([*ranks, *(waits[one.rank] for one in ranks if apart)])[1:]
    times = np.array([at_steps(one, step) for one in ranks])
    if apart:
        own = times - np.array([at_steps(waits[one.rank], step) for one in ranks])
        times = own if (own > 0).all() else times
    return step, np.maximum(times, 1e-12)


def _finding(
    run: Run, options: Options, series: Series, step: Ints, times: tuple[Floats, Floats], at: tuple[int, int]
) -> Finding:
    own, middle = times[0][at[0] : at[1] + 1], times[1][at[0] : at[1] + 1]
    first, last, ongoing = int(step[at[0]]), int(step[at[1]]), at[1] >= len(step) - max(5, len(step) // 40) - 1
    slow, usual = float(np.median(own)), float(np.median(middle))
    more = slow / usual - 1
    each = float(np.median(np.diff(step))) if len(step) > 1 else 1.0
    return Finding(
        detector="straggler-rank",
        severity="error" if more > options.severe else "warning",
        metric="step_time",
        first_step=first,
        last_step=last,
        title=f"Rank {series.rank} is {number(more, 'share')} slower {'since' if ongoing else 'from'} {first:,}",
        message=f"Rank {series.rank} takes {number(slow, 's')} a step, the median rank {number(usual, 's')} "
        f"(+{number(more, 'share')}), from step {first:,} to {last:,}{', the end of the log' if ongoing else ''}.",
        confidence=surely(more, options.size),
        rank=series.rank,
        ongoing=ongoing,
        cost=cost(run, float(np.maximum(own - middle, 0).sum() * each)),
        evidence=(
            Evidence("time per step of the rank", "step_time", first, last, slow, usual, usual * (1 + options.size),
                     "s", "straggler-rank.size"),
        ),
        actions=(f"Compare clocks and temperature of rank {series.rank}; take its node out of the pool",),
    )  # fmt: skip
