"""Why a validation loss rises or stays far above the training loss: overfitting, or held-out data of another kind.

*Overfitting*: the training loss fell on by 1 % or more of its level while the validation loss rose. *Different
distribution*: the gap was there from the first evaluations, before anything could be learned by heart, or the
validation loss rose in one leap while training went on as before. *Data seen repeatedly*: more than one epoch was done.
"""

from __future__ import annotations

import numpy as np

from trainlens.causes._measure import WINDOW, bounds, finite, missing, ruled_out, supported, unmeasured, value_at
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import number
from trainlens.model import Floats, Run, Series

EXPLAINS = ("overfitting", "eval-shift")

_FALL = 0.01  # fall of the training loss, a share of its level, that says it learns on
_EARLY_GAP = 0.1  # gap at the first evaluations, a share of the training loss
_LEAP = 0.7  # part of the whole rise that lies between two evaluations


def overfitting(finding: Finding, run: Run) -> Verdict:
    cause = "Overfitting"
    if _held_out(finding, run) is None:
        return missing(cause, "eval/loss", "a validation loss")
    train = run.get("train/loss")
    first, last = bounds(finding, run)
    before, after = (_level(train, step) for step in (first, last))
    if train is None or before is None or after is None:
        return missing(cause, "train/loss")
    fall = (before - after) / abs(before) if before else 0.0
    told = f"train/loss went from {number(before)} at step {first:,} to {number(after)} at step {last:,}"
    evidence = Evidence("fall of the training loss", "train/loss", first, last, fall, 0.0, _FALL, "share")
    if fall >= _FALL:
        told += ", falling on while validation rose."
        return supported(cause, told, "Regularise more, augment, or add data; else stop early", evidence)
    return ruled_out(cause, f"{told}: it no longer falls.", evidence)


def distribution(finding: Finding, run: Run) -> Verdict:
    cause = "Different distribution"
    train, held_out = run.get("train/loss"), _held_out(finding, run)
    if train is None or held_out is None:
        return missing(cause, "train/loss" if train is None else "eval/loss")
    step, value = finite(held_out)
    if len(step) < 4:
        return missing(cause, "fourth evaluation", "a validation loss at least four times")
    first, last = bounds(finding, run)
    if step[2] > first:
        told = f"fewer than three evaluations came before it began at step {first:,}. Evaluate more often to know."
        return unmeasured(cause, told)
    early = [(value[at], level) for at in range(3) if (level := _level(train, int(step[at]))) is not None]
    gap = float(np.median([(held - level) / abs(level) for held, level in early if level])) if early else 0.0
    where = (held_out.metric, int(step[0]), int(step[2]))
    evidence = Evidence("gap at the first evaluations", *where, gap, 0.0, _EARLY_GAP, "share")
    remedy = "Compare the sources and the preparation of training and validation data"
    if gap > _EARLY_GAP:
        told = f"the first evaluations were already {number(gap, 'share')} above the training loss."
        return supported(cause, told, remedy, evidence)
    leap, at = _leap(step, value, first, last)
    if leap > _LEAP:
        told = f"{number(leap, 'share')} of the rise came between two evaluations, at step {at:,}."
        return supported(cause, told, remedy, evidence)
    return ruled_out(cause, f"the first evaluations were within {number(gap, 'share')} of the training loss.", evidence)


def repetition(finding: Finding, run: Run) -> Verdict:
    cause = "Data seen repeatedly"
    first, _ = bounds(finding, run)
    epoch = value_at(run.get("epoch"), first)
    if epoch is None:
        return missing(cause, "epoch")
    evidence = Evidence("epochs done when it began", "epoch", None, first, epoch, None, 1.0, "epochs")
    if epoch > 1:
        told = f"{number(epoch)} epochs were done when it began at step {first:,}."
        return supported(cause, told, "Train for fewer epochs, or add data", evidence)
    return ruled_out(cause, f"it began in the first epoch ({number(epoch)}).", evidence)


def _held_out(finding: Finding, run: Run) -> Series | None:
    own = run.get(finding.metric) if finding.metric else None
    return own if own is not None and own.about.role == "eval-loss" else run.get("eval/loss")


def _level(series: Series | None, step: int) -> float | None:
    """The level of a loss around a step: the median of up to 100 points to each side, at the ends of what there is."""
    if series is None:
        return None
    steps, values = finite(series)
    at = int(np.searchsorted(steps, step))
    half = min(WINDOW // 2, max(2, len(values) // 40))
    near = values[max(0, at - half) : at + half + 1]
    return float(np.median(near)) if len(near) else None


def _leap(step: Floats, value: Floats, first: int, last: int) -> tuple[float, int]:
    """The largest rise between two evaluations as a share of the whole rise, and its step; 0 of fewer than four."""
    inside = (step >= first) & (step <= last)
    if inside.sum() < 4:
        return 0.0, first
    rises = np.diff(value[inside])
    whole = float(value[inside].max() - value[inside][0])
    at = int(rises.argmax())
    return (float(rises[at]) / whole if whole > 0 else 0.0), int(step[inside][at + 1])


CAUSES = (overfitting, distribution, repetition)
