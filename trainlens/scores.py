"""Figures that papers report, of this run: beside the verdicts, to be held against what is published. No judgement.

What the logs do not hold is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trainlens.citations import MEGASCALE, MLPERF, OLMO2, PALM_MFU, TORCH_AMP, USUAL, Citation
from trainlens.detectors import gradient_clipping, skipped_steps
from trainlens.detectors._loss_rules import olmo_score
from trainlens.diagnosis import NotApplicable, PublishedScore
from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import rolling_median

_NEAR = 0.05  # over the final loss, as a share of it
_LEAST = 100  # points of a loss


def scores(run: Run) -> tuple[PublishedScore, ...]:
    """In the order they are told. `run` as its detectors see it."""
    return tuple(score for ask in (_spikes, _clipping, _skipping, _mfu, _target, _useful) for score in ask(run))


def _score(name: str, value: float, unit: str, metric: str, about: str, source: Citation) -> PublishedScore:
    return PublishedScore(name, float(value), unit, metric, about, f"{source.text} {source.link}".strip())


def _spikes(run: Run) -> Iterator[PublishedScore]:
    for metric, name in (("train/loss", "spike score of the loss"), ("grad_norm", "spike score of the gradient norm")):
        series = run.get(metric)
        share = olmo_score(series.value[series.finite]) if series is not None else None
        if series is not None and share is not None:
            window = min(1000, int(series.finite.sum()) // 2)
            about = f"points at least 7 deviations from the mean of the last {window:,}, in the middle 80 % of the run"
            yield _score(name, share, "share", metric, about, OLMO2)


def _clipping(run: Run) -> Iterator[PublishedScore]:
    rows = gradient_clipping.clipped_rows(run)
    if not isinstance(rows, NotApplicable) and len(rows.clipped):
        share = float(np.mean(np.clip(rows.clipped, 0, 1)))
        yield _score("clipped steps", share, "share", rows.metric, "steps clipped after the first 5 %", USUAL)


def _skipping(run: Run) -> Iterator[PublishedScore]:
    if run.with_role("skipped") or any(event.kind == "overflow" for event in run.events):
        step, skips = skipped_steps.skips_of(run)
        if len(step) > 1:
            share = min(1.0, float(skips.sum()) / float(step[-1] - step[0] + np.median(np.diff(step))))
            about = "of all steps, as a dynamic loss scale does"
            yield _score("skipped steps", share, "share", "skipped_steps", about, TORCH_AMP)


def _mfu(run: Run) -> Iterator[PublishedScore]:
    values = [one.value[one.finite & (one.raw > 0)] for one in run.all("mfu")]
    every = np.concatenate([one[len(one) // 50 :] for one in values]) if values else np.empty(0)
    if len(every):
        for name, value in (("median MFU", np.median(every)), ("mean MFU", np.mean(every))):
            yield _score(name, float(value), "share", "mfu", "after the first 2 % of the points", PALM_MFU)


# ---- how fast it learned -------------------------------------------------------------------------------------------


def _target(run: Run) -> Iterator[PublishedScore]:
    """Steps, tokens and seconds until the loss was within 5 % of its final level, of a loss that fell."""
    loss = run.get("train/loss")
    if loss is None or loss.positional or loss.finite.sum() < _LEAST:
        return
    step, value = loss.step[loss.finite], loss.value[loss.finite]
    level = rolling_median(value, max(5, len(value) // 50))
    final = float(level[-1])
    near = np.flatnonzero(level <= final + _NEAR * abs(final))
    if final <= 0 or level[0] < 1.1 * final or not len(near):
        return
    at = int(step[near[0]])
    about = f"until the loss is within {100 * _NEAR:.0f} % of its final level"
    yield _score("steps to the final loss", at, "steps", "train/loss", about, MLPERF)
    tokens = _at(run.get("tokens"), at)
    if tokens is not None:
        yield _score("tokens to the final loss", tokens, "tokens", "tokens", about, MLPERF)
    clock = loss.time[loss.finite]
    seconds = float(clock[near[0]] - clock[0])
    if seconds > 0:
        yield _score("time to the final loss", seconds, "s", "train/loss", about, MLPERF)


def _at(series: Series | None, step: int) -> float | None:
    if series is None or not len(series) or series.step[-1] < step:
        return None
    value = float(series.value[int(np.searchsorted(series.step, step))])
    return value if np.isfinite(value) else None


def _useful(run: Run) -> Iterator[PublishedScore]:
    """Effective training time ratio: what the steps that were kept take at their median pace, of the wall time."""
    loss = run.get("train/loss")
    if loss is None or loss.positional or len(loss) < _LEAST:
        return
    timed = np.isfinite(loss.time)
    step, time = loss.step[timed], loss.time[timed]
    if len(step) < _LEAST or not timed[[0, -1]].all():
        return
    pace = _pace(run, step, time)
    wall = float(time.max() - time.min())
    if wall > 0 and np.isfinite(pace) and pace > 0:
        share = min(1.0, pace * float(step[-1] - step[0]) / wall)
        about = "of the wall time, what the steps that were kept take at their median pace"
        yield _score("effective training time", share, "share", "train/loss", about, MEGASCALE)


def _pace(run: Run, step: Ints, time: Floats) -> float:
    """Median seconds of a step: as logged, else by the clock."""
    logged = run.get("step_time")
    if logged is not None and (known := logged.value[logged.finite & (logged.raw > 0)]).size >= _LEAST:
        return float(np.median(known))
    return float(np.median(np.diff(time) / np.diff(step).clip(1)))
