"""Skipped steps: so many updates were skipped that the run loses ground.

Why it matters
A skipped step costs its time and trains nothing. One in some hundred belongs to half precision; many in a row say
that the gradients overflow whatever the scale.

How it is found
Skips are counted from a logged counter (of each row, or running up: then its increases), else from the overflows that
the log reports, each step once however many ranks print it. After the search at the start (the first 2 %, at least
`start` rows) a window of 5 % of the rows is judged: more than `share` of its steps and at least `count` skips.
The search itself is explained; it is worth a line where it took more than `share` of all steps, and a warning where
a log of at least `start` steps holds no step that was not skipped.

What to do
Look at the gradient norm and the loss where it began; lower the learning rate or use bfloat16.

When it is wrong
Where steps are skipped on purpose, such as batches that a filter rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, TORCH_AMP, measured
from trainlens.detectors._levels import surely
from trainlens.diagnosis import Evidence, Explained, Finding, NotEnoughData
from trainlens.figures import counted, number
from trainlens.model import Floats, Ints, Run
from trainlens.plugins import threshold
from trainlens.signals import episodes

NEEDS = ("role:skipped|event:overflow",)
TOLD_INSIDE = ("loss-scale-collapse",)
_RUNS = measured("405 labelled runs, 130 of them healthy: found where a third of the steps is skipped, no healthy run")


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.05, "part of the steps of a window that is skipped", unit="share", source=TORCH_AMP)
    count: int = threshold(4, "skips in the window", source=_RUNS)
    severe: float = threshold(0.5, "part of the steps of an episode that is an error", unit="share", source=JUDGEMENT)
    start: int = threshold(20, "rows at the start that are not judged", source=TORCH_AMP)
    points: int = threshold(40, "rows needed", source=_RUNS)


def detect(run: Run, options: Options) -> Sequence[Finding | Explained] | NotEnoughData:
    step, every = skips_of(run)
    n = len(step)
    if n < 2:
        return NotEnoughData(f"{counted(n, 'row')}, {options.points} are needed")
    took = np.diff(step, prepend=2 * step[0] - step[1]).clip(1).astype(float)
    begin = max(min(options.start, n // 4), n // 50) if step[0] <= options.start * took[0] else 0
    found = _search(options, step, every, took, begin)
    if n < options.points:
        return found or NotEnoughData(f"{n} rows, {options.points} are needed")
    skips = np.where(np.arange(n) < begin, 0.0, every)
    window = max(5, min(n, max(20, n // 20)) if skips.max() <= 1 else 5)
    sums, steps = np.cumsum(np.r_[0, skips]), np.cumsum(np.r_[0, took])
    many = np.zeros(n, bool)
    lost = sums[window:] - sums[:-window]
    many[window - 1 :] = (lost >= options.count) & (lost > options.share * (steps[window:] - steps[:-window]))
    for first, last in episodes(many, window):
        inside = np.flatnonzero(skips[max(0, first - window + 1) : last + 1]) + max(0, first - window + 1)
        found.append(_finding(options, step, skips, took, int(inside[0]), int(inside[-1])))
    return [*found, *_usual(step, every, found, begin)]


def _search(options: Options, step: Ints, skips: Floats, took: Floats, begin: int) -> list[Finding]:
    """The line that the search for a loss scale took a good part of the log, or all of it: nothing was trained yet."""
    count, steps = float(skips[:begin].sum()), float(took.sum())
    nothing = len(step) < options.points and float(skips.sum()) >= steps
    if count <= options.share * steps and not nothing:
        return []
    last = int(step[np.flatnonzero(skips if nothing else skips[:begin])[-1]])
    count = steps if nothing else count
    share = count / steps
    return [
        Finding(
            detector="skipped-steps",
            severity="warning" if nothing and steps >= options.start else "info",
            metric="skipped_steps",
            first_step=int(step[0]),
            last_step=last,
            title=f"{count:,.0f} steps skipped at the start{', none was trained' if nothing else ''}",
            message=f"{count:,.0f} of {steps:,.0f} steps ({number(share, 'share')}) were skipped by step {last:,}, "
            f"as in the search for a loss scale{', and none was trained' if nothing else ''}.",
            evidence=(
                Evidence("share of steps skipped", "skipped_steps", int(step[0]), last, share, 0.0, options.share,
                         "share", "skipped-steps.share"),
            ),
            actions=("Begin with a lower loss scale, or use bfloat16 where the hardware has it",),
        )
    ]  # fmt: skip


def _usual(step: Ints, skips: Floats, found: list[Finding], begin: int) -> list[Explained]:
    """Skips outside of what was found: those of the search at the start, and single ones."""
    inside = np.zeros(len(step), bool)
    for one in found:
        inside |= (step >= (one.first_step or 0)) & (step <= (one.last_step or 0))
    rest = np.where(inside, 0.0, skips)
    at = np.flatnonzero(rest)
    if not len(at):
        return []
    search, count = float(rest[:begin].sum()), float(rest.sum())
    some = f", {search:,.0f} of them" if search < count else ""
    where = f"{some} in the search at the start" if search else ""
    what = f"{counted(round(count), 'skipped step')}{where}, as a dynamic loss scale does"
    return [Explained("skipped-steps", what, int(step[at[0]]), int(step[at[-1]]), "skipped_steps")]


def skips_of(run: Run) -> tuple[Ints, Floats]:
    """Steps of the rows and how many steps were skipped since the row before."""
    series = next((one for one in run.with_role("skipped") if one.finite.any()), None)
    if series is not None:
        step, value = series.step[series.finite], series.value[series.finite]
        rises = np.diff(value, prepend=value[:1])
        # A count of each row cannot exceed its steps, nor rise all the way and be above 1 for most of it.
        most = np.diff(step).max() if len(step) > 1 else 1
        running = len(value) > 2 and value[-1] > 1 and bool(np.all(rises >= 0))
        running &= bool(value[-1] > most or np.median(value) > 0) and not bool(
            np.all(value == most)
        )  # skipped them all
        return step, np.maximum(rises, 0) if running else value
    rows = next((one.step for one in (run.get("train/loss"), *run.series) if one is not None), np.empty(0, np.int64))
    told = [(event.step, event.place.line if event.place else None, event.text) for event in run.events
            if event.kind == "overflow" and event.step is not None and event.rank <= 0]  # fmt: skip
    if len(rows) < 2:
        return np.empty(0, np.int64), np.empty(0)
    at = np.searchsorted(
        rows, sorted(step for step, _, text in {(s, t): (s, p, t) for s, p, t in told}.values()), "right"
    )
    last = int(rows[-1])
    rows = np.r_[rows, last + int(np.median(np.diff(rows)))]  # overflows after the last row
    return rows, np.bincount(at, minlength=len(rows)).astype(float)[: len(rows)]


def _finding(options: Options, step: Ints, skips: Floats, took: Floats, first: int, last: int) -> Finding:
    count, steps = float(skips[first : last + 1].sum()), float(took[first : last + 1].sum())
    share = min(1.0, count / steps)
    begin, end, ongoing = int(step[first]), int(step[last]), last >= len(step) - 3
    return Finding(
        detector="skipped-steps",
        severity="error" if share >= options.severe or ongoing else "warning",
        metric="skipped_steps",
        first_step=begin,
        last_step=end,
        title=f"{count:,.0f} steps skipped {'since' if ongoing else 'from'} {begin:,}",
        message=f"{count:,.0f} of {steps:,.0f} steps ({number(round(share, 3), 'share')}) were skipped from step "
        f"{begin:,} to {end:,}{', the end of the log' if ongoing else ''}.",
        confidence=surely(share, options.share),
        ongoing=ongoing,
        evidence=(
            Evidence("share of steps skipped", "skipped_steps", begin, end, share, 0.0, options.share, "share",
                     "skipped-steps.share"),
        ),
        actions=(f"Look at the gradient norm and loss scale before step {begin:,}",),
    )  # fmt: skip
