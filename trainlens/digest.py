"""What reports need of a run: its metrics in numbers, its curves thinned, how far it came. Plain values, small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from trainlens import catalog
from trainlens.diagnosis import Curve, Finding, MetricReport, Result, State
from trainlens.model import NO_RANK, Floats, Ints, Run, Series

BLOCKS = 320  # of a curve over the whole run: more cannot be told apart on a page
RANK_BLOCKS = 48  # of a curve of one rank among several
CLOSE_UP_POINTS = 400
MOST_CURVES = 120  # of one run; the catalogue's own metrics come first
MOST_STEPS_NAMED = 50  # non-finite steps named in a curve
MANY_RANKS = 512
ALIVE_SECONDS = 600.0  # a run whose last point is younger than this is still going on

_TOTALS = ("total_steps", "train_iters", "max_steps", "total_iters", "num_iterations", "max_iters", "end_step")
_WORLD = ("world_size", "num_gpus", "n_gpus", "gpus", "num_processes")


# ---- metrics in numbers --------------------------------------------------------------------------------------------


def metric_reports(run: Run) -> tuple[MetricReport, ...]:
    """One report a series, in order of name and rank."""
    ordered = sorted(run.series, key=lambda series: (series.metric, series.rank, series.tag))
    return tuple(_metric_report(series) for series in ordered)


def _metric_report(series: Series) -> MetricReport:
    value = series.value[series.finite]
    some = len(value) > 0
    return MetricReport(
        name=series.metric,
        raw=(series.tag,),
        unit=series.about.unit,
        better=series.about.better,
        panel=series.about.panel,
        rank=None if series.rank == NO_RANK else series.rank,
        points=len(series),
        first_step=int(series.step[0]) if len(series) else None,
        last_step=int(series.step[-1]) if len(series) else None,
        first=float(value[0]) if some else None,
        last=float(value[-1]) if some else None,
        min=float(value.min()) if some else None,
        max=float(value.max()) if some else None,
        median=float(np.median(value)) if some else None,
        non_finite=len(series) - len(value),
    )


# ---- curves --------------------------------------------------------------------------------------------------------


def curves(run: Run, findings: Sequence[Finding]) -> tuple[Curve, ...]:
    """The thinned curves of the whole run, then the close-ups of its findings."""
    known = [series for series in run.series if catalog.metric(series.metric) is not None]
    others = [series for series in run.series if catalog.metric(series.metric) is None]
    chosen = [series for series in (*known, *others) if len(series) and series.rank < MANY_RANKS][: 4 * MANY_RANKS]
    edges = sorted({edge for finding in findings for edge in _edges(finding)})
    whole: list[Curve] = []
    for series in chosen:
        ranked = series.rank > 0
        if not ranked and sum(curve.rank in (None, 0) for curve in whole) >= MOST_CURVES:
            continue
        whole.append(thinned(series, edges, RANK_BLOCKS if ranked else BLOCKS))
    whole.sort(key=lambda curve: (curve.metric, -1 if curve.rank is None else curve.rank))
    return (*whole, *(curve for finding in findings for curve in _close_ups(run, finding)))


def _edges(finding: Finding) -> Iterable[int]:
    if finding.first_step is not None and finding.last_step is not None and finding.last_step > finding.first_step:
        yield finding.first_step
        yield finding.last_step + 1


def thinned(series: Series, edges: Sequence[int], blocks: int, of: str = "") -> Curve:
    """Blocks of equal counts of points, cut also at the steps in `edges` so that a step in the curve stays a step."""
    finite = series.finite
    step, value, time = series.step[finite], series.value[finite], series.time[finite]
    bad = series.step[~finite]
    starts = _block_starts(step, edges, blocks)
    low, middle, high = _block_numbers(value, starts)
    gaps = _gaps(series.step, step[starts] if len(starts) else step)
    return Curve(
        metric=series.metric,
        rank=None if series.rank == NO_RANK else series.rank,
        unit=series.about.unit,
        panel=series.about.panel,
        step=tuple(step[starts].tolist()),
        value=_short(middle),
        low=_short(low),
        high=_short(high),
        time=tuple(None if math.isnan(one) else one for one in time[starts].tolist())
        if np.isfinite(time).any()
        else (),
        non_finite=tuple(bad[:MOST_STEPS_NAMED].tolist()),
        gaps=gaps,
        of=of,
    )


def _block_starts(step: Ints, edges: Sequence[int], blocks: int) -> Ints:
    count = len(step)
    if count <= blocks:
        return np.arange(count)
    regular = np.linspace(0, count, blocks, endpoint=False).astype(np.int64)
    inside = np.searchsorted(step, [edge for edge in edges if edge < step[-1]])
    return np.unique(np.concatenate([regular, inside.astype(np.int64)]))


def _block_numbers(value: Floats, starts: Ints) -> tuple[Floats, Floats, Floats]:
    """Smallest, median and largest value of each block."""
    if len(starts) == len(value):
        return value, value, value
    counts = np.diff(np.append(starts, len(value)))
    places = starts[:, None] + np.arange(int(counts.max()))
    ordered = np.sort(np.where(places < (starts + counts)[:, None], value.take(places, mode="clip"), np.inf), axis=1)
    rows = np.arange(len(starts))
    upper, lower = ordered[rows, counts // 2], ordered[rows, (counts - 1) // 2]
    return ordered[:, 0], 0.5 * (lower + upper), ordered[rows, counts - 1]


def _gaps(step: Ints, drawn: Ints) -> tuple[int, ...]:
    """Indices of drawn blocks that follow a hole in the log: more than ten times the usual distance of its points."""
    if len(step) < 20 or len(drawn) < 2:
        return ()
    distance = np.diff(step)
    holes = step[1:][distance > 10 * np.median(distance)]
    return tuple(sorted({int(index) for index in np.searchsorted(drawn, holes) if 0 < index < len(drawn)}))


def _short(values: Floats) -> tuple[float, ...]:
    """Nine significant digits: enough for a picture and for reading a value off it."""
    return tuple(float(f"{value:.9g}") for value in values.tolist())


def _close_ups(run: Run, finding: Finding) -> Iterable[Curve]:
    """The finding's metric, and the ones its causes measured, around the episode."""
    if finding.first_step is None or finding.last_step is None or finding.metric is None:
        return
    supported = [cause for cause in finding.causes if cause.verdict == "supported"]
    explaining = [evidence.metric for cause in supported for evidence in cause.evidence]
    names = [finding.metric, *explaining, *(evidence.metric for evidence in finding.evidence)]
    wanted = dict.fromkeys(name for name in names if name)
    for name in list(wanted)[:2]:
        own = [series for series in run.all(name) if finding.rank in (None, series.rank)]
        series = own[0] if own else run.get(name)
        if series is not None and (part := _around(series, finding.first_step, finding.last_step)) is not None:
            yield thinned(part, (finding.first_step, finding.last_step + 1), CLOSE_UP_POINTS, finding.id)


def _around(series: Series, first: int, last: int) -> Series | None:
    """The points of an episode and 1.3 times its length on each side, at least 40 points; None for the whole run."""
    begin, end = np.searchsorted(series.step, [first, last + 1])
    margin = max(int(1.3 * (end - begin)), (40 - int(end - begin)) // 2, 12)
    begin, end = max(0, int(begin) - margin), min(len(series), int(end) + margin)
    if end - begin >= 0.9 * len(series) or end - begin < 3:
        return None
    cut = slice(begin, end)
    return Series(
        metric=series.metric,
        tag=series.tag,
        about=series.about,
        step=series.step[cut],
        raw=series.raw[cut],
        time=series.time[cut],
        rank=series.rank,
    )


# ---- how far the run came ------------------------------------------------------------------------------------------

_ENDED_BADLY = frozenset((
    "killed", "preemption", "time-limit", "traceback", "out-of-memory", "host-out-of-memory", "disk-full",
    "segmentation-fault", "exit-code", "worker-killed", "nccl-timeout", "gpu-lost",
    "nccl-error", "device-error", "node-failure",
))  # fmt: skip


def result(run: Run, now: float) -> Result:
    """`now` is Unix seconds: a run whose last point is younger than ALIVE_SECONDS is running."""
    last = _last_step(run)
    total = _whole(run, _TOTALS)
    times = [series.time[np.isfinite(series.time)] for series in run.series]
    times = [time for time in times if len(time)]
    end = max((float(time.max()) for time in times), default=None)
    begin = min((float(time.min()) for time in times), default=None)
    ranks = len({series.rank for series in run.series if series.rank != NO_RANK})
    rows = max(run.series, key=len, default=None)
    late = int(rows.step[-3]) if rows is not None and len(rows) > 2 else None  # what rows follow ended nothing
    kinds = {event.kind for event in run.events}
    ended = {event.kind for event in run.events if event.step is None or late is None or event.step >= late}
    state: State
    if "run-end" in kinds or (total and last is not None and last >= total):
        state = "finished"
    elif ended & _ENDED_BADLY:
        state = "stopped"
    elif end is not None and 0 <= now - end < ALIVE_SECONDS:
        state = "running"
    else:
        state = "stopped" if total and last is not None and last < total else "unknown"
    return Result(
        state=state,
        last_step=last,
        total_steps=total if total and (last is None or total >= last) else None,
        ranks=ranks if ranks > 1 else None,
        gpus=_whole(run, _WORLD),
        seconds=end - begin if end is not None and begin is not None and end > begin else None,
    )


def _last_step(run: Run) -> int | None:
    """Of the catalogue's own metrics where there are some: a tag may be logged against samples instead of steps."""
    logged = [series for series in run.series if len(series)]
    known = [series for series in logged if catalog.metric(series.metric) is not None]
    for choice in (known, logged):
        counted = [int(series.step[-1]) for series in choice if not series.positional]
        if counted:
            return max(counted)
    return max((int(series.step[-1]) for series in logged), default=None)


def _whole(run: Run, names: Sequence[str]) -> int | None:
    """A positive whole number among the stated facts."""
    for name in names:
        fact = run.fact(name)
        try:
            number = int(float(fact.value)) if fact is not None else 0
        except (TypeError, ValueError, OverflowError):
            continue
        if number > 0:
            return number
    return None
