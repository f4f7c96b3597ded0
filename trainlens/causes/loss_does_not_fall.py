"""Why a loss does not fall: learning rate, initialisation, vanishing gradients, activations, data.

*Learning rate too small*: zero, below a hundredth of its own peak, or below 1e-6. *Bad initialisation*: the first loss
is far above that of a uniform guess, the logarithm of the vocabulary. *Vanishing gradients*: a norm below 0.001 (the
user's range), or below a hundredth of its early level. *Dead activations*: a layer's deviation near zero. *Data
quality* cannot be told from curves.
"""

from __future__ import annotations

import math

import numpy as np

from trainlens.causes._measure import bounds, fact_number, finite, missing, ruled_out, supported, unmeasured
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import number
from trainlens.model import Floats, Run, Series

EXPLAINS = ("loss-plateau", "flat-loss")

_SMALL_RATE = 1e-6  # a tenth of the smallest usual peak, 1e-5
_DECAYED = 0.01
_SMALL_NORM = 1e-3
_FAINT = 0.01
_ABOVE_UNIFORM = 1.5
_LEARNED = 0.05  # of the first loss: below it there is little left to learn, and gradients are small for that


def learning_rate(finding: Finding, run: Run) -> Verdict:
    cause = "Learning rate too small"
    series = run.get("lr")
    inside = _inside(series, finding, run)
    if series is None or inside is None:
        return missing(cause, "lr")
    first, last = bounds(finding, run)
    rate, peak = float(np.median(inside)), float(finite(series)[1].max())
    share = rate / peak if peak > 0 else 0.0
    evidence = Evidence("learning rate in it", "lr", first, last, rate, peak, max(_SMALL_RATE, _DECAYED * peak))
    if rate == 0:
        return supported(cause, "lr is 0 in it: nothing is learned.", "Mend the schedule: its rate is 0", evidence)
    if rate < _SMALL_RATE or share < _DECAYED:
        told = f"lr is {number(rate)} in it, {number(share, 'share')} of its peak {number(peak)}."
        return supported(cause, told, "Raise the learning rate, or lengthen its decay", evidence)
    return ruled_out(cause, f"lr is {number(rate)} in it, {number(share, 'share')} of its peak.", evidence)


def initialisation(_finding: Finding, run: Run) -> Verdict:
    cause = "Bad initialisation"
    size = fact_number(run, "vocab_size", "padded_vocab_size", "num_classes", "num_labels", "n_classes", "vocab")
    loss = run.get("train/loss")
    if size is None or size < 2:
        return unmeasured(cause, "the logs do not state the vocabulary's size. Log vocab_size to know.")
    if loss is None or not loss.finite.any():
        return missing(cause, "train/loss")
    step, value = finite(loss)
    uniform, begin = math.log(size), float(value[0])
    at, limit = int(step[0]), _ABOVE_UNIFORM * uniform
    evidence = Evidence("first loss, expected of a uniform guess", "train/loss", at, at, begin, uniform, limit)
    told = f"the first loss is {number(begin)}, a uniform guess over {size:,.0f} classes has {number(uniform)}"
    if begin > _ABOVE_UNIFORM * uniform:
        return supported(cause, f"{told}.", "Initialise with smaller weights, the output layer above all", evidence)
    return ruled_out(cause, f"{told}: no worse than that.", evidence)


def vanishing_gradients(finding: Finding, run: Run) -> Verdict:
    cause = "Vanishing gradients"
    series = run.get("grad_norm")
    inside = _inside(series, finding, run)
    if series is None or inside is None:
        return missing(cause, "grad_norm")
    first, last = bounds(finding, run)
    norm, early = float(np.median(inside)), float(np.median(finite(series)[1][:20]))
    evidence = Evidence("gradient norm in it", "grad_norm", first, last, norm, early, _SMALL_NORM)
    loss = _inside(run.get("train/loss"), finding, run)
    if loss is not None and abs(np.median(loss)) < _LEARNED * abs(finite(run.get("train/loss") or series)[1][0]):
        told = f"grad_norm is {number(norm)} in it, as small as a loss of {number(float(np.median(loss)))} lets it be."
        return ruled_out(cause, told, evidence)
    if norm < _SMALL_NORM or norm < _FAINT * early:
        told = f"grad_norm is {number(norm)} in it, against {number(early)} at the start (limit {number(_SMALL_NORM)})."
        return supported(
            cause, told, "Add residual paths or normalisation, and look at the layers' gradients", evidence
        )
    return ruled_out(cause, f"grad_norm is {number(norm)} in it, {number(early)} at the start.", evidence)


def dead_activations(finding: Finding, run: Run) -> Verdict:
    cause = "Dead activations"
    deviations = [series for series in run.with_role("activation") if series.metric.startswith("act_std/")]
    measured = [(series, inside) for series in deviations if (inside := _inside(series, finding, run)) is not None]
    if not measured:
        return missing(cause, "act_std", "mean and deviation of each layer's activations")
    first, last = bounds(finding, run)
    level = {series.metric: float(np.median(inside)) for series, inside in measured}
    usual = float(np.median(list(level.values())))
    weakest = min(level, key=lambda name: level[name])
    evidence = Evidence("deviation of the weakest layer", weakest, first, last, level[weakest], usual, _FAINT * usual)
    if level[weakest] <= max(_FAINT * usual, 1e-8):
        told = f"{weakest} is {number(level[weakest])}, the median layer {number(usual)}."
        return supported(cause, told, f"Look at the layer of {weakest}: its output hardly varies", evidence)
    return ruled_out(cause, f"the weakest layer, {weakest}, still has {number(level[weakest])}.", evidence)


def data_quality(_finding: Finding, _run: Run) -> Verdict:
    message = "the logs hold no loss by data source. Log the loss of each source, or overfit one batch, to know."
    return unmeasured("Data quality", message)


def _inside(series: Series | None, finding: Finding, run: Run) -> Floats | None:
    """The finite values during the finding; None where there are none."""
    if series is None:
        return None
    first, last = bounds(finding, run)
    step, value = finite(series)
    inside: Floats = value[(step >= first) & (step <= last)]
    return inside if len(inside) else None


CAUSES = (learning_rate, initialisation, vanishing_gradients, dead_activations, data_quality)
