"""Slowdown: steps take lastingly longer than they did before.

Why it matters
A few per cent more per step are hours over a run, on every GPU of it, and a loss curve never shows them. One slow
GPU, a filling disk or a falling clock rate holds up all the others.

How it is found
Time per step is taken as logged, else from a running clock or the time stamps, else from throughput; the first step
after a start and intervals with an evaluation in them are left out. Medians of 40 to 200 blocks are compared with the
best level that lasted before. A block is slow when it is more than `notable` slower and more than `sigmas` times
the scatter from block to block; three slow blocks in a row are an episode. Where the log has tokens or samples per second they
must fall too, so that longer sequences or larger batches are no slowdown. A gradual episode begins where a quarter of
the rise is reached.

What to do
Compare the ranks' step times, look at clocks and temperatures of the GPUs, at data loading and at the storage.

When it is wrong
Where batch or sequence grows and the log tells neither this nor throughput; where other jobs share the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import BLOOM, measured
from trainlens.detectors import _speed
from trainlens.detectors._levels import cost, share_beyond
from trainlens.figures import number
from trainlens.model import Evidence, Finding, Floats, NotApplicable, NotEnoughData, Run, Severity
from trainlens.plugins import threshold
from trainlens.signals import block_medians, block_noise, episodes, interpolate_last

NEEDS = ()
_QUIET = 0.0015  # log scatter below which blocks are not believed: clocks are not finer
_RUNS = measured("405 labelled runs, 130 of them healthy: no alarm on a healthy run")


@dataclass(frozen=True)
class Options:
    notable: float = threshold(0.03, "rise that is worth a line", unit="share", source=BLOOM)
    size: float = threshold(0.05, "rise that is a warning when it lasts", unit="share", source=BLOOM)
    severe: float = threshold(0.30, "rise that is an error when it lasts", unit="share", source=_RUNS)
    sigmas: float = threshold(5.0, "rise in scatters of the blocks", source=_RUNS)
    lasting: float = threshold(0.03, "part of the run from which an episode is no mere burst", unit="share", source=_RUNS)
    points: int = threshold(60, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    pace = _speed.pace(run)
    if pace is None:
        return NotApplicable("the log has no step times, no clock and no throughput")
    if len(pace.step) < options.points:
        return NotEnoughData(f"{len(pace.step)} step times, {options.points} are needed")
    logs = np.log(pace.seconds) - _speed.work(run, pace.step)
    size = max(5, min(len(logs) // 40, 50), len(logs) // 200)
    blocks = block_medians(logs, size)
    usual = np.minimum.accumulate(_held(blocks))
    limit = max(np.log1p(options.notable), options.sigmas * max(block_noise(blocks), _QUIET))
    slow = blocks - usual > limit
    rate = _rate(run, pace, size)
    return [
        _finding(run, options, pace, logs, (blocks, usual, slow), size, (first, last))
        for first, last in episodes(slow, 2)
        if last - first >= 2 and _agrees(rate, first, last, limit)
    ]


def _held(blocks: Floats) -> Floats:
    """Median of each block and the four before it (fewer at the start)."""
    padded = np.r_[np.full(4, np.nan), blocks]
    return np.asarray(np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1))


def _rate(run: Run, pace: _speed.Pace, size: int) -> Floats | None:
    """Block medians of log throughput beside the pace's; None when the log has none."""
    for name in ("tokens_per_second", "samples_per_second") if pace.timed else ():
        series = run.get(name)
        if series is not None and np.count_nonzero(use := series.finite & (series.value > 0)) > len(pace.step) / 2:
            beside = interpolate_last(pace.step, series.step[use], np.log(series.value[use]))
            return block_medians(np.nan_to_num(beside, nan=float(np.nanmedian(beside))), size)
    return None


def _agrees(rate: Floats | None, first: int, last: int, limit: float) -> bool:
    """Whether throughput fell by most of the limit too, against the best level before."""
    if rate is None:
        return True
    best = float(np.maximum.accumulate(_held(rate))[first])
    return best - float(np.median(rate[first : last + 1])) > 0.8 * limit


def _finding(
    run: Run, options: Options, pace: _speed.Pace, logs: Floats, curves: tuple[Floats, Floats, Floats], size: int,
    episode: tuple[int, int],
) -> Finding:  # fmt: skip
    blocks, usual, slow = curves
    first, last = episode
    inside = blocks[first : last + 1]
    before = float(usual[first])
    reached = max(float(np.median(inside)), float(np.median(inside[-max(1, len(inside) // 3) :])))
    rise = float(np.expm1(reached - before))
    quarter = before + np.log1p(rise / 4)
    onset = first + int(np.argmax(inside > min(quarter, inside.max() - 1e-12)))
    begin = _sharp(logs, max(0, (onset - 1) * size), min(len(logs), (onset + 2) * size), (before + reached) / 2) if (
        onset == first) else onset * size  # fmt: skip
    end = len(logs) - 1 if (ongoing := last == len(blocks) - 1) else (last + 1) * size - 1
    gradual = (inside >= before + np.log1p(rise * 0.75)).argmax() - (onset - first) > 0.1 * len(blocks)
    excess = (pace.seconds - np.exp(before + logs * 0)) * pace.steps if pace.timed else np.zeros(len(logs))
    lost = float(np.maximum(excess[begin : end + 1], 0).sum())
    spent = float((pace.seconds * pace.steps).sum())
    lasting = end - begin + 1 >= options.lasting * len(logs)
    first_step, last_step = int(pace.step[begin]), int(pace.step[end])
    old, new = (np.exp(before), np.exp(reached)) if pace.timed else (np.exp(-before), np.exp(-reached))
    unit = "s" if pace.timed else pace.metric.replace("_per_second", "/s")
    told = (f"{pace.name} {'rose' if pace.timed else 'fell'} from {number(float(old), unit)} to {number(float(new), unit)}"
            f" ({'+' if pace.timed else '−'}{number(rise if pace.timed else rise / (1 + rise), 'share')})"
            f"{' little by little' if gradual else ''} from step {first_step:,}")  # fmt: skip
    whereto = "and stayed there to the end of the log" if ongoing else f"and was back after step {last_step:,}"
    severity: Severity = "info" if rise < options.size or not lasting else "warning"
    if severity == "warning" and (rise >= options.severe or lost > 0.1 * spent):
        severity = "error"
    return Finding(
        detector="slowdown",
        severity=severity,
        metric=pace.metric if run.get(pace.metric) else None,
        first_step=first_step,
        last_step=last_step,
        title=f"Steps {number(round(rise, 3), 'share')} slower {'since' if ongoing else 'from'} {first_step:,}"
        + ("" if ongoing else f" to {last_step:,}"),
        message=f"{told} {whereto}.",
        confidence=share_beyond(slow, first, last),
        ongoing=ongoing,
        cost=cost(run, lost if pace.timed else None),
        evidence=(
            Evidence("time per step" if pace.timed else "throughput", pace.metric, first_step, last_step,
                     float(new), float(old), None, unit),
            Evidence("rise", pace.metric, first_step, last_step, rise, 0.0, options.size, "share", "slowdown.size"),
        ),
        actions=("Compare step times and clock rates of the ranks around the first slow step",),
    )  # fmt: skip


def _sharp(logs: Floats, low: int, high: int, middle: float) -> int:
    """The point in a span at which the level crosses `middle` for good: the lowest of the cumulative sums about it."""
    return low + int(np.argmin(np.r_[0, np.cumsum(logs[low:high] - middle)][:-1]))
