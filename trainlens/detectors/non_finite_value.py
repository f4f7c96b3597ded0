"""NaN or infinity where a number belongs.

Why it matters
A loss that is not a number has spoilt the weights or is about to: every later step may be wasted. A gradient norm
that is not a number is often its only trace, because trainers filter the loss they log.

How it is found
Every NaN and infinity in losses, gradient norms, scores and other measured series, grouped into episodes (`gap`).
Loss: always an error. Gradient norm: isolated overflows of half precision are normal when the loss scale is logged
and fewer than `overflow_share` of the steps have them (info). Steps where the rate or the step time is no number
either were not recorded, and are left out. A series of another kind is told when most of it is no number. If the loss
turns to exactly 0 while the gradient norm is no number, the trainer's filter hides a dead run.

What to do
Find the first step. Look for a spike of loss or gradient norm just before it; check the data of that step, the loss
scale, divisions and logarithms; restart from a checkpoint before it.

When it is wrong
Some loggers write NaN for "not measured here". Dynamic loss scaling skips steps whose gradient overflowed, by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainlens.citations import TORCH_AMP, measured
from trainlens.detectors._loss_context import count
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.model import Role, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import episodes

NEEDS = ()
_LOSS: tuple[Role, ...] = ("loss", "eval-loss", "policy-loss", "perplexity")
_MEASURED: tuple[Role, ...] = ("grad-norm", "score", "reward", "update-ratio", "activation")
_ALWAYS_KNOWN: tuple[Role, ...] = ("learning-rate", "step-time", "throughput", "clock")
_OWN = measured("11 labelled runs with NaN and 16 bug reports about them")


@dataclass(frozen=True)
class Options:
    gap: int = threshold(3, "points between two that belong to one episode", source=_OWN, unit="points")
    overflow_share: float = threshold(
        0.01,
        "share of gradient norms lost to overflow that is normal with a loss scale",
        source=TORCH_AMP,
        unit="share",
    )
    most: float = threshold(0.5, "share of a series of any other kind that must be affected", source=_OWN, unit="share")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    findings: list[Finding] = []
    for metric in dict.fromkeys(series.metric for series in run.series):
        told = [finding for series in run.all(metric) for finding in _of_series(run, series, options)]
        findings.extend(told[:1] if len(run.all(metric)) > 1 else told)
    return findings


def _of_series(run: Run, series: Series, options: Options) -> list[Finding]:
    role = series.about.role
    if series.finite.all():
        return []
    bad = ~series.finite & ~_not_recorded(run, series)
    if not bad.any():
        return []
    if role not in _LOSS + _MEASURED and (bad.mean() < options.most or not series.finite.any()):
        return []
    stretches = episodes(bad, options.gap)
    if len(stretches) > 5 or role not in _LOSS + _MEASURED:
        stretches = [(stretches[0][0], stretches[-1][1])]
    return [_told(run, series, bad, first, last, options) for first, last in stretches]


def _not_recorded(run: Run, series: Series) -> NDArray[np.bool_]:
    """Points at whose step a quantity that is always known is no number either: a row of place-holders."""
    empty = np.zeros(len(series), bool)
    if series.about.role in _ALWAYS_KNOWN:
        return empty
    for role in _ALWAYS_KNOWN:
        for other in run.with_role(role):
            if not other.finite.all():
                empty |= np.isin(series.step, other.step[~other.finite])
    return empty


def _told(run: Run, series: Series, bad: NDArray[np.bool_], first: int, last: int, options: Options) -> Finding:
    begin, end = int(series.step[first]), int(series.step[last])
    number = int(bad[first : last + 1].sum())
    values = series.raw[first : last + 1][bad[first : last + 1]]
    nans = int(np.isnan(values).sum())
    what = "NaN" if nans == number else "infinity" if nans == 0 else "NaN and infinity"
    to_the_end = last == len(series) - 1
    if to_the_end:
        fate, short = "to the end of the log", "to the end"
    else:
        back = int(series.step[last + 1])
        fate, short = f"and a number again at step {back:,}", f"back at {back:,}"
    before = series.value[:first][series.finite[:first]]
    came_from = f" after {before[-1]:.4g}" if len(before) else " from the start"
    share = f" ({count(number, 'value')} of {len(series):,})"
    return Finding(
        detector="non-finite-value",
        severity=_severity(run, series, bad, to_the_end, options),
        metric=series.metric,
        first_step=begin,
        last_step=end,
        title=f"{series.metric[:24]} is {what} at {begin:,}, {short}"[:60],
        message=f"{series.metric} became {what} at step {begin:,}{came_from}{share}, {fate}."[:200],
        rank=series.rank if series.rank >= 0 else None,
        ongoing=to_the_end,
        evidence=(
            Evidence(
                "first value that is no number",
                series.metric,
                begin,
                end,
                "NaN" if np.isnan(values[0]) else "Infinity" if values[0] > 0 else "-Infinity",
            ),
            Evidence("values that are no number", series.metric, begin, end, float(number), limit=0.0),
        ),
    )


def _severity(run: Run, series: Series, bad: NDArray[np.bool_], to_the_end: bool, options: Options) -> Severity:
    role = series.about.role
    if role in _LOSS:
        return "error"
    if role == "grad-norm":
        if to_the_end and bad[-min(3, len(bad)) :].all():
            return "error"
        scaled = run.get("loss_scale") is not None or run.get("skipped_steps") is not None
        settled = bad[len(bad) // 50 :]
        if scaled and settled.mean() < options.overflow_share:
            return "info"
    return "warning"
