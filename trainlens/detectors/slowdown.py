"""Slowdown: steps take lastingly longer than they did before.

Why it matters
A few per cent more per step are hours over a run, on every GPU of it, and a loss curve never shows them. One slow
GPU, a filling disk or a falling clock rate holds up all the others.

How it is found
Time per step is taken as logged, else from a running clock or the time stamps, else from throughput; the first step
after a start and intervals with an evaluation in them are left out. Medians of 40 to 200 blocks are compared with the
best level that lasted before. A block is slow when it is more than `notable` slower and more than `sigmas` times the
scatter from block to block; three slow blocks in a row are an episode. Where the log has tokens or samples per second
they must fall too, so that longer sequences or larger batches are no slowdown. A gradual episode begins where a
quarter of the rise is reached. An episode that is over is a warning at most. Of fewer than `points` only a move from
one level to another is told that lasts to the end: at once, with each step after it slower than all before and
`sigmas` standard errors (more of very few) between.

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
from trainlens.detectors._levels import cost, share_beyond, surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Floats, Run
from trainlens.plugins import threshold
from trainlens.signals import block_means, block_medians, block_noise, episodes, interpolate_last, rolling_median

NEEDS = ()
_FEW = 8  # step times that one level and another can be told by
_QUIET = 0.0015  # log scatter below which blocks are not believed: clocks are not finer
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 26 slowdowns found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    notable: float = threshold(0.03, "rise that is worth a line", unit="share", source=BLOOM)
    size: float = threshold(0.05, "rise that is a warning when it lasts", unit="share", source=BLOOM)
    severe: float = threshold(0.30, "rise that is an error when it lasts to the end", unit="share", source=_RUNS)
    sigmas: float = threshold(5.0, "rise in scatters of the blocks", source=_RUNS)
    lasting: float = threshold(0.03, "part of the run from which it is no mere burst", unit="share", source=_RUNS)
    points: int = threshold(60, "points needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    pace = _speed.pace(run)
    if pace is None:
        return NotApplicable("the log has no step times, no clock and no throughput")
    logs = np.log(pace.seconds) - _speed.work(run, pace.step)
    if len(logs) < options.points:
        few = _of_few(run, options, pace, logs) if len(logs) >= _FEW and not pace.grain else []
        return few or NotEnoughData(f"{len(logs)} step times, {options.points} are needed")
    size = max(5, min(len(logs) // 40, 50), len(logs) // 200)
    blocks = _blocks(logs, size, pace.grain)
    usual = np.minimum.accumulate(_held(blocks))
    limit = max(np.log1p(options.notable), options.sigmas * max(block_noise(blocks), _QUIET))
    slow = blocks - usual > limit
    rate = _rate(run, pace, size)
    found = []
    for first, last in episodes(slow, 2):
        if last - first >= 2 and _agrees(rate, first, last, limit):
            episode = _speed.measure(logs, blocks, float(usual[first]), size, first, last)
            found.append(_finding(run, options, pace, episode, share_beyond(slow, first, last)))
    return found


def _of_few(run: Run, options: Options, pace: _speed.Pace, logs: Floats) -> list[Finding]:
    """Two levels of a short log, the second to its end."""
    n = len(logs)
    at = np.arange(2, n - 1)  # where the second level may begin
    old, new = np.cumsum(logs)[at - 1] / at, np.cumsum(logs[::-1])[::-1][at] / (n - at)
    left = (logs**2).sum() - at * old**2 - (n - at) * new**2
    scatter = np.maximum(np.sqrt(np.maximum(left, 0) / (n - 2)), _QUIET)
    apart = np.minimum.accumulate(logs[::-1])[::-1][at] > np.maximum.accumulate(logs)[at - 1]
    errors = np.where(apart, (new - old) / (scatter * np.sqrt(1 / at + 1 / (n - at))), 0.0)
    top = int(np.argmax(errors))
    begin, limit = int(at[top]), options.sigmas * (1 + 3 / (n - 2))
    level, reached = (float(np.median(part)) for part in np.split(logs, [begin]))
    found = _speed.Episode(begin, n - 1, level, reached, gradual=False, ongoing=True)
    rise, sudden = found.reached - found.before, float(logs[begin] - logs[begin - 1])
    others = float(np.abs(np.delete(np.diff(logs), begin - 1)).max())
    if errors[top] < limit or rise < np.log1p(options.notable) or not _agrees(_rate(run, pace, 1), begin, n, rise):
        return []
    if sudden < max(0.6 * rise, 2 * others):  # a level that wanders moves many times
        return []
    return [_finding(run, options, pace, found, surely(errors[top], limit))]


def _blocks(logs: Floats, size: int, grain: float) -> Floats:
    """Block medians; of a clock of whole seconds means, as medians would jump from tick to tick, without its stalls."""
    if not grain:
        return block_medians(logs, size)
    level = rolling_median(logs, 12)
    return block_means(np.clip(logs, level - 2 * grain, level + 2 * grain), size)


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


def _finding(run: Run, options: Options, pace: _speed.Pace, found: _speed.Episode, confidence: float) -> Finding:
    first, last, rise = int(pace.step[found.begin]), int(pace.step[found.end]), found.rise
    inside = slice(found.begin, found.end + 1)
    level = rolling_median(pace.seconds, 12)  # single slow steps are lost to what caused them, and told apart
    lost = float(np.maximum((np.minimum(pace.seconds, level) - np.exp(found.before)) * pace.steps, 0)[inside].sum())
    sign = 1 if pace.timed else -1
    old, new = float(np.exp(sign * found.before)), float(np.exp(sign * found.reached))
    unit = "s" if pace.timed else pace.metric.replace("_per_second", "/s")
    change = f"+{number(round(rise, 3), 'share')}" if pace.timed else f"−{number(round(1 - new / old, 3), 'share')}"
    end = "and stayed there to the end of the log" if found.ongoing else f"and was back after step {last:,}"
    return Finding(
        detector="slowdown",
        severity=_severity(options, pace, found, lost),
        metric=pace.metric if run.get(pace.metric) else None,
        first_step=first,
        last_step=last,
        title=f"Steps {number(round(rise, 3), 'share')} slower {'since' if found.ongoing else 'from'} {first:,}"
        + ("" if found.ongoing else f" to {last:,}"),
        message=f"{pace.name} {'rose' if pace.timed else 'fell'} from {number(old, unit)} to {number(new, unit)} "
        f"({change}){' little by little' if found.gradual else ''} from step {first:,} {end}.",
        confidence=confidence,
        ongoing=found.ongoing,
        cost=cost(run, lost if pace.timed else None),
        evidence=(
            Evidence("time per step" if pace.timed else "throughput", pace.metric, first, last, new, old, unit=unit),
            Evidence("rise", pace.metric, first, last, rise, 0.0, options.size, "share", "slowdown.size"),
        ),
        actions=("Compare step times and clock rates of the ranks around the first slow step",),
    )


def _severity(options: Options, pace: _speed.Pace, found: _speed.Episode, lost: float) -> Severity:
    lasting = found.end - found.begin + 1 >= options.lasting * len(pace.step)
    whole = float((pace.seconds * pace.steps).sum())
    if found.rise < options.size or not lasting:
        return "info"
    grave = found.rise >= options.severe or (pace.timed and lost > 0.1 * whole)
    return "error" if grave and found.ongoing else "warning"  # what is over cannot be stopped any more
