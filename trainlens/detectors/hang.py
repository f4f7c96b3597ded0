"""Hang: the run stood still, and nothing was logged for many times the usual while.

Why it matters
A collective that waits for a dead peer, a frozen file system or a deadlocked data loader holds all GPUs, often until
somebody looks.

How it is found
Time stamps of the training loss. A wait between two rows, beyond what its steps take, is a hang when it is more than
`factor` times the usual wait, `tail` times the longest 1 % (three waits at least) and `seconds`. Waits at a restart
or between two files, and waits with an evaluation or checkpoint in them that take no longer than three times the
usual such wait, are none; nor are waits that come regularly. What the log itself calls a hang (a blocked task, a
stuck rank) is told as well, and a progress bar that was drawn at 0 after a minute or more in a log that has no step
at all.

A run that went on after it is warned of it; hangs that come again and take `severe` of all time are errors.

What to do
Look at what the ranks waited for: NCCL watchdog lines, blocked tasks in the kernel log, the storage.

When it is wrong
Where time stamps are local and the clock is put forward by an hour, or where the job was suspended on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors import _speed
from trainlens.detectors._levels import Mask, cost, surely
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import number, seconds
from trainlens.model import Event, Floats, Ints, Run, Series
from trainlens.plugins import threshold

NEEDS = ()
_MOST = 3  # waits that may be hangs in a short log
_AGAIN = re.compile(r"\(([\d,]+) times, the last at ")
_BAR = re.compile(r"0/(\d{1,15}) \[([\d:]+)<")
_RUNS = measured("405 labelled runs, 130 of them healthy: all of 7 hangs found, none in a healthy run")


@dataclass(frozen=True)
class Options:
    factor: float = threshold(30.0, "wait against the usual one", unit="times", source=_RUNS)
    tail: float = threshold(3.0, "wait against the longest 1 %", unit="times", source=_RUNS)
    seconds: float = threshold(30.0, "shortest wait that is a hang", unit="s", source=_RUNS)
    severe: float = threshold(
        0.10, "part of the whole time that is an error where it hangs again and again", unit="share", source=JUDGEMENT
    )
    points: int = threshold(10, "rows with a time stamp needed", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    said = [event for event in run.events if event.kind == "hang"]
    told = [_stated(said)] if said else _not_begun(run)
    series = _stamped(run)
    if series is None:
        return told or NotApplicable("the log has no time stamps")
    clock = _speed.wall_clock(series)
    known = np.isfinite(clock)
    if known.sum() < options.points:
        return told or NotEnoughData(f"{int(known.sum())} time stamps, {options.points} are needed")
    step, clock = series.step[known], clock[known]
    joined = ~_speed.breaks(series)[known] & ~_speed.resumed(run, step)
    joined[1:] &= ~_speed.starts(series)[known][:-1]  # the first wait after a start holds compilation
    waits, steps = np.diff(clock, prepend=clock[0]), np.diff(step, prepend=step[0])
    sound = joined & (waits > 0)
    if sound.sum() < options.points / 2:
        return told or NotEnoughData("too few time stamps follow each other")
    per_step = float(np.median(waits[sound] / np.maximum(steps[sound], 1)))
    usual = float(np.median(waits[sound]))
    beyond = waits - np.maximum(steps, 1) * per_step
    few = np.sort(waits[sound])[-max(_MOST, waits[sound].size // 100) - 1]  # a short log has a hang in its longest 1 %
    limit = max(options.factor * usual, options.tail * float(few), options.seconds)
    marked = sound & _speed.interrupted(run, step)
    if marked.sum() >= 3:
        beyond[marked & (waits <= 3 * float(np.median(waits[marked])))] = 0
    at = np.flatnonzero(sound & (beyond > limit))
    at = at[~_routine(step[at], waits[at])]
    again = len(at) > 1 and float(waits[at].sum()) > options.severe * float(waits[sound].sum())
    return [*told, *(_finding(run, step, clock, int(i), usual, limit, again) for i in at)]


def _not_begun(run: Run) -> list[Finding]:
    """A progress bar that was still before its first step when it was drawn last, in a log without any step."""
    event = next((event for event in reversed(run.events) if event.kind == "no-step"), None)
    bar = _BAR.search(event.text) if event is not None else None
    if event is None or bar is None or any(len(one) for one in run.series):
        return []
    hours, minutes, rest = (int(part) for part in f"0:{bar[2]}".split(":")[-3:])
    waited = seconds(3600.0 * hours + 60 * minutes + rest)
    return [
        Finding(
            detector="hang",
            severity="warning",
            metric=None,
            first_step=0,
            last_step=0,
            title=f"No step was done in {waited}",
            message=f"The progress bar stands at 0 of {int(bar[1]):,} after {waited}, and the log has no step: stuck, "
            "or still compiling.",
            confidence=0.7,
            rank=event.rank if event.rank >= 0 else None,
            evidence=(Evidence(event.kind, first_step=0, place=event.place),),
            actions=("See what the processes wait for: py-spy dump, the collective of the first step, the compiler",),
        )
    ]


def _routine(step: Ints, waits: Floats) -> Mask:
    """Waits that come regularly: more than three of one length, evenly spaced; and those where two such fall together.

    Evaluations and checkpoints each have their own length and distance.
    """
    regular = np.zeros(len(step), np.bool_)
    lengths: list[float] = []
    order = np.argsort(waits, kind="stable")
    for kind in np.split(order, np.flatnonzero(np.diff(np.log(waits[order])) > 0.1) + 1):
        gaps = np.diff(np.sort(step[kind])).astype(np.float64)
        if len(kind) > 3:
            period = float(np.median(gaps))
            uneven = np.abs(gaps / period - np.maximum(1, np.round(gaps / period)))  # one may lie in a longer wait
            if (uneven <= 0.2).all():
                regular[kind] = True
                lengths.append(float(np.median(waits[kind])))
    if len(lengths) > 1:
        regular |= waits <= 1.1 * sum(lengths)
    return regular


def _stamped(run: Run) -> Series | None:
    loss = run.get("train/loss")
    stamped = [one for one in run.series if np.isfinite(one.time).sum() > 1]
    return loss if loss in stamped else max(stamped, key=len, default=None)


def _finding(run: Run, step: Ints, clock: Floats, at: int, usual: float, limit: float, again: bool) -> Finding:
    first, last, wait = int(step[at - 1]), int(step[at]), float(clock[at] - clock[at - 1])
    return Finding(
        detector="hang",
        severity="error" if again else "warning",
        metric=None,
        first_step=first,
        last_step=last,
        title=f"Stood still for {seconds(wait)} after step {first:,}",
        message=f"Nothing was logged for {seconds(wait)} between step {first:,} and {last:,}; "
        f"rows are {number(usual, 's')} apart as a rule.",
        confidence=surely(wait, limit),
        first_time=float(clock[at - 1]),
        last_time=float(clock[at]),
        cost=cost(run, wait - usual),
        evidence=(Evidence("wait between two rows", None, first, last, wait, usual, limit, "s", "hang.factor"),),
        actions=(f"Look for watchdog lines and blocked tasks after step {first:,}",),
    )


def _times_said(event: Event) -> int:
    """How often it was said: a kernel's log counts what it says again of one process."""
    found = _AGAIN.search(event.text)
    return int(found[1].replace(",", "")) if found else 1


def _stated(said: Sequence[Event]) -> Finding:
    steps = [event.step for event in said if event.step is not None]
    times = [event.time for event in said if event.time is not None]
    said = sorted(said, key=_times_said, reverse=True)
    text, many = " ".join(said[0].text.split()), sum(map(_times_said, said))
    return Finding(
        detector="hang",
        severity="error",
        metric=None,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        title="The log reports that processes hang",
        message=f"The log says {many:,} times that something hangs: “{text[:130]}”."
        if many > 1 else f"The log says: “{text[:150]}”.",
        rank=said[0].rank if said[0].rank >= 0 else None,
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        evidence=tuple(Evidence(event.kind, place=event.place, observed=None) for event in said[:3]),
        actions=("See which call the processes were blocked in, and whether the storage answered",),
    )  # fmt: skip
