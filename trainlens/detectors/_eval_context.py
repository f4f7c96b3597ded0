"""Held-out losses beside the training loss: which pairs share an axis, and the training level around an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trainlens.detectors._loss_context import Curve, add, curve_of, judged
from trainlens.diagnosis import Finding, NotApplicable, NotEnoughData
from trainlens.model import Floats, Run, Series
from trainlens.signals import rolling_median

LEAST = 6  # evaluations below which nothing is said of a held-out curve


def eval_losses(run: Run) -> list[Series]:
    """Held-out losses, the catalogue's eval/loss first; perplexities only where no loss of that kind is logged."""
    found = judged(run, ("eval-loss",))
    if not found:
        found = [one for one in judged(run, ("perplexity",)) if one.metric != "train/perplexity"]
    return sorted(found, key=lambda one: one.metric != "eval/loss")


def training(run: Run) -> Series | None:
    """The training loss: train/loss, else the first series of role loss."""
    found = judged(run, ("loss",))
    return found[0] if found else None


def share_an_axis(held_out: Series, train: Series) -> bool:
    """Whether both count the same steps: evaluations numbered by epoch beside iterations do not."""
    if not len(held_out) or not len(train):
        return False
    if held_out.positional or train.positional:
        return held_out.positional and train.positional and len(held_out) == len(train)
    begin, end = int(train.step[0]), int(train.step[-1])
    return int(held_out.step[-1]) >= begin + 0.2 * (end - begin) and int(held_out.step[0]) <= end


def levels_at(train: Curve, steps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Median training loss around each of some steps (a twentieth of its points, at least 5)."""
    half = max(2, len(train) // 40)
    at = np.minimum(np.searchsorted(train.step, steps), len(train) - 1)
    return rolling_median(train.value, half)[at]


def each_pair(
    run: Run, judge: Callable[[Curve, Curve], Finding | None]
) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    """What `judge` says of each held-out loss beside the training loss on the same axis."""
    train = training(run)
    pairs = [one for one in eval_losses(run) if train is not None and share_an_axis(one, train)]
    if train is None or not pairs:
        return NotApplicable("no held-out loss on the axis of a training loss")
    most = max(len(curve_of(one)) for one in pairs)
    if most < LEAST:
        return NotEnoughData(f"{most} evaluations, {LEAST} are needed")
    findings: list[Finding] = []
    for one in pairs:
        finding = judge(curve_of(one), curve_of(train))
        if finding is not None:
            add(findings, finding)
    return findings
