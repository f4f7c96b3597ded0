"""Held-out losses beside the training loss: which pairs share an axis, and the training level around an evaluation."""

from __future__ import annotations

import numpy as np

from trainlens.detectors._loss_context import Curve, judged
from trainlens.model import Floats, Run, Series
from trainlens.signals import rolling_median


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
