"""A loss that jumps to another level and goes on from there.

Why it matters
A step in the level mostly means that something else is being measured: other data, another batch, another objective,
a restart without the optimiser's state. Numbers from both sides cannot be compared.

How it is found
Either the run ends above its best level by `size` and 6 standard errors without diverging, and one jump explains it;
or somewhere the median of n / 60 points rises by more than `deviations` of its own scatter and `jump` of the level,
with no spike near. Or a rise like that of a spike lasts to the end of the log while the held-out loss does not rise:
then the measure changed and not the model. Upward only: falls at epochs and at steps of the learning rate are progress.

What to do
Look what changed at that step: data mixture, sequence length, batch size, a restart, loss scaling or masking. Compare
only within one side.

When it is wrong
A change of batch size, of sequence length or a restart at the same step explains the jump: it is then told as info. A
spike that never recovers looks the same when the log begins its new level at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainlens import context
from trainlens.citations import measured
from trainlens.detectors._loss_context import (
    Curve,
    add,
    changes,
    curve_of,
    held_out,
    interval,
    is_evaluation,
    judged,
    near,
    too_short,
)
from trainlens.detectors._loss_levels import LevelLimits, jumps_of, rise_of
from trainlens.detectors._loss_spikes import LEAST, spikes_of
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Run, Series
from trainlens.plugins import threshold
from trainlens.signals import surely

NEEDS = ("role:loss",)
_TUNED = measured("405 labelled runs, 6 shifts and 28 unrecovered spikes")


@dataclass(frozen=True)
class Options:
    size: float = threshold(0.05, "rise over the best level that lasts, as a share", source=_TUNED, unit="share")
    jump: float = threshold(
        0.06, "jump that is learned away again, as a share of the level", source=_TUNED, unit="share"
    )
    deviations: float = threshold(7.0, "jump in robust deviations of the levels", source=_TUNED, unit="deviations")


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = [one for one in judged(run, ("loss",)) if not is_evaluation(one)]
    if not series:
        return NotApplicable("no training loss with a direction")
    findings = [told for one in series if (told := _unfollowed(run, one, options)) is not None]
    if short := too_short([curve_of(one) for one in series], LEAST):
        return findings or short
    for one in series if not findings else []:
        curve = curve_of(one)
        rise = rise_of(one, LevelLimits(size=options.size))
        if rise is not None:
            found = [] if rise.diverges else [(rise.onset, rise.level, rise.end, True)]
        else:
            jumps = jumps_of(one, options.deviations, options.jump)
            found = [(jump.at, jump.before, jump.after, False) for jump in jumps]
        for at, before, after, stays in found:
            add(findings, _told(run, curve, at, before, after, stays, options))
    return findings


def _unfollowed(run: Run, series: Series, options: Options) -> Finding | None:
    """A rise to the end of the log that the held-out loss shows nothing of."""
    curve, rise = curve_of(series), rise_of(series)
    last = next((one for one in reversed(spikes_of(series)) if one.back is None), None)
    if series.metric != "train/loss":
        return None
    if rise is not None and rise.diverges:
        first, peak, before, after = rise.onset, rise.onset, rise.level, rise.end
    elif last is not None and last.height >= options.size * abs(last.base):
        first, peak, before, after = last.first, last.peak, last.base, last.base + last.height
    else:
        return None
    beside = held_out(run, int(curve.step[first]), int(curve.step[peak]))
    if beside is None or first > len(curve) - 2:  # one point tells of no level
        return None
    found = _told(run, curve, first, before, after, True, options)
    other, old, new = beside
    told = f"{other.metric} went from {curve.shown(old)} to {curve.shown(new)}"
    return replace(
        found,
        message=f"{found.message[:-1]}, while {told}: the measure changed, not the model.",
        evidence=(*found.evidence, Evidence("held-out loss", other.metric, found.first_step, None, new, old)),
        actions=("Compare the training loss only within one side of this step",),
    )


def _told(run: Run, curve: Curve, at: int, before: float, after: float, stays: bool, options: Options) -> Finding:
    first, step = int(curve.step[at]), interval(curve.step)
    half = max(10, len(curve) // 50)
    explained = near(first, changes(run), half * step, half * step)
    where = context.of(run).why(first, half * step, half * step, ("batch size", "sequence length", "restart"))
    why = f"; explained by {where}" if explained and where else ""
    fate = "and stayed there" if stays else "and went on from there"
    return Finding(
        detector="loss-shift",
        severity="info" if explained else "warning",
        metric=curve.metric,
        first_step=first,
        last_step=curve.last_step,
        title=f"Loss shift at {first:,}, {curve.shown(before)} to {curve.shown(after)}",
        message=f"{curve.metric} moved from {curve.shown(before)} to {curve.shown(after)} at step {first:,} "
        f"{fate}{why}.",
        confidence=surely((after - before) / max(abs(before), 1e-12), options.size if stays else options.jump),
        ongoing=stays,
        evidence=(
            Evidence(
                "level after against before",
                curve.metric,
                first,
                curve.last_step,
                after,
                before,
                before + (options.size if stays else options.jump) * abs(before),
                limit_name="loss-shift.size" if stays else "loss-shift.jump",
            ),
        ),
    )
