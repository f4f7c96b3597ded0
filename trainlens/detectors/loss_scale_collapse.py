"""Loss scale collapse: the scale of half precision falls and falls, and steps are lost.

Why it matters
Every halving is an overflow and a skipped step. A scale that keeps falling means that gradients overflow at any
scale: they are not finite any more, and the run will not recover by itself.

How it is found
At least `halvings` halvings net within `span` points or 2 % of the run; the search at the start is not judged: it
ends when the scale first rises, or after 2 % of the run. A log that begins in the middle of a run holds no such
search, and four points of it suffice. A scale below `lowest` counts too. So does a log that says that the scale
cannot be lowered any further.

What to do
Look at the loss and gradient norm where it began; lower the learning rate, use bfloat16, restart before it.

When it is wrong
Where the scale was set by hand in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import DEEPSPEED_FP16, JUDGEMENT, measured
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotEnoughData
from trainlens.figures import counted, number
from trainlens.model import Event, Floats, Ints, Run
from trainlens.plugins import threshold
from trainlens.signals import episodes

NEEDS = ("role:loss-scale|event:loss-scale-floor",)
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 6 collapses found, none in a healthy run")
_LATER = 100  # rows before the first that a log holds, from which on it begins in the middle of a run
_FEW = 4


@dataclass(frozen=True)
class Options:
    halvings: float = threshold(4.0, "net halvings that are a collapse", source=_RUNS)
    span: int = threshold(8, "points within which they follow each other", source=_RUNS)
    lowest: float = threshold(1.0, "scale that is a collapse by itself", source=DEEPSPEED_FP16)
    points: int = threshold(12, "points needed of a run that begins in the log", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotEnoughData:
    floor = [event for event in run.events if event.kind == "loss-scale-floor"]
    series = next(iter(run.with_role("loss-scale")), None)
    if series is None:
        return _stated(run, floor)
    use = series.finite & (series.value > 0)
    step, logs = series.step[use], np.log2(series.value[use])
    apart = np.diff(step, prepend=step[:1])
    interval = int(np.median(apart[1:])) if len(step) > 1 else 1
    later = len(step) > 0 and int(step[0]) > _LATER * interval
    if len(logs) < (_FEW if later else options.points):
        return _stated(run, floor) or NotEnoughData(f"{len(logs)} loss scales, {options.points} are needed")
    begin = 1 if later else _search(logs)
    span = max(options.span, len(logs) // 50)
    falls = np.diff(logs, prepend=logs[0]) < 0
    falls[:begin] = False
    found: list[Finding] = []
    told: set[int] = set()
    for rows in np.split(
        np.arange(len(logs)), np.flatnonzero(apart > span * interval)
    ):  # unseen for longer: no sudden fall
        for begun, over in episodes(falls[rows[1:]], span):
            first, last, depth = _deepest(logs, int(rows[1:][begun]), int(rows[1:][over]))
            if depth >= options.halvings or (depth >= 1 and 2.0 ** logs[last] < options.lowest):
                found.append(_finding(options, series.metric, step, logs, (first, last), depth))
                told.update(range(first, last + 1))
    halvings = np.flatnonzero(np.diff(logs, prepend=logs[0]) < 0)
    usual = [at for at in halvings.tolist() if at not in told]
    return [*(found or _stated(run, floor)), *_usual(series.metric, step, usual, begin)]


def _usual(metric: str, step: Ints, halvings: list[int], begin: int) -> list[Explained]:
    """Halvings that belong to a dynamic scale: its search at the start, and single ones that are won back."""
    search = sum(at < begin for at in halvings)
    parts = [f"{counted(search, 'halving')} in the search at the start"] if search else []
    if later := len(halvings) - search:
        parts.append(f"{counted(later, 'single halving')} after it")
    if not parts:
        return []
    first, last = int(step[halvings[0]]), int(step[halvings[-1]])
    return [Explained("loss-scale-collapse", f"{', '.join(parts)}, as a dynamic loss scale does", first, last, metric)]


def _search(logs: Floats) -> int:
    """Index from which the scale is judged: after the first rise or ten equal values, at least 2 % and 10 points in."""
    least = min(max(10, len(logs) // 50), len(logs) - 1)
    rises = np.flatnonzero(np.diff(logs) > 0)
    runs = episodes(np.diff(logs) == 0, 1)
    steady = next((first + 10 for first, last in runs if last - first >= 9), len(logs))
    return max(least, min(int(rises[0]) + 1 if len(rises) else len(logs), steady))


def _deepest(logs: Floats, first: int, last: int) -> tuple[int, int, float]:
    """The largest net fall among falls that follow each other: its first and last index and its halvings."""
    inside = logs[max(0, first - 1) : last + 1]
    fall = np.maximum.accumulate(inside) - inside
    low = int(np.argmax(fall))
    peak = low - int(np.argmax(inside[: low + 1][::-1]))
    return max(0, first - 1) + peak + 1, max(0, first - 1) + low, float(fall[low])


def _finding(options: Options, metric: str, step: Ints, logs: Floats, at: tuple[int, int], depth: float) -> Finding:
    first, last = int(step[at[0]]), int(step[at[1]])
    old, new = float(2.0 ** logs[max(0, at[0] - 1)]), float(2.0 ** logs[at[1]])
    back = np.flatnonzero(logs[at[1] :] >= logs[max(0, at[0] - 1)] - 1)
    ongoing = not len(back)
    tail = "and did not come back" if ongoing else f"and was back by step {int(step[at[1] + back[0]]):,}"
    return Finding(
        detector="loss-scale-collapse",
        severity="error" if ongoing or new < options.lowest else "warning",
        metric=metric,
        first_step=first,
        last_step=last,
        title=f"Loss scale fell from {number(old)} to {number(new)} at {first:,}",
        message=f"{metric} fell from {number(old)} to {number(new)} ({depth:.0f} halvings) between step {first:,} and "
        f"{last:,} {tail}.",
        confidence=surely(depth, options.halvings / 2),
        ongoing=ongoing,
        evidence=(
            Evidence("halvings", metric, first, last, depth, 0, options.halvings, "", "loss-scale-collapse.halvings"),
        ),
        actions=(f"Look at the loss and gradient norm before step {first:,}", "Use bfloat16 where the hardware has it"),
    )


def _stated(run: Run, floor: list[Event]) -> list[Finding]:
    """The finding that the log itself states: the scale is at its lowest and overflows go on."""
    if not floor:
        return []
    end = floor[0].step
    began = [event.step for event in run.events if event.kind == "overflow" and event.step is not None
             and end is not None and end - event.step <= max(20, end // 20)]  # fmt: skip
    first = min(began, default=end)
    return [
        Finding(
            detector="loss-scale-collapse",
            severity="error",
            metric="loss_scale",
            first_step=first,
            last_step=end,
            title="Loss scale at its lowest, overflows go on",
            message=f"The log says{f' at step {end:,}' if end is not None else ''}: "
            f"“{' '.join(floor[0].text.split())[:140]}”.",
            ongoing=True,
            evidence=(Evidence("overflows before it", "loss_scale", first, end, len(began), place=floor[0].place),),
            actions=("Restart before the overflows began, with a lower learning rate or bfloat16",),
        )
    ]
