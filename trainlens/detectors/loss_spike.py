"""A loss that jumps and comes back, or does not.

Why it matters
A spike costs the steps until the loss is back at its level. Some never come back, and frequent ones announce a
divergence. They come from a learning rate too large for the batch, a bad stretch of data, numerical trouble in half
precision, or all of these at once: the same data does not spike from another checkpoint.

How it is found
Level: running median around each point. Scatter: local, of what a short median leaves over. A point counts when its
score is above `score` and above what a Student-t tail fitted to the *downward* moves allows for a run of this length,
when the rise is more than `size` of the level, and when it is beyond what this run's own scatter reaches all along.
Means of 4 and 16 points are tested the same way for slow humps. Where noise is correlated from point to point, a hump
without a leap is held against all of it. Neighbouring points make one episode; it has recovered once the loss is back
within `recovery` of its height; it is an error while it has not, or where it is `severe` and lasts or repeats, for
then the run can still be helped. A lone point needs `lone` times the limit. `rule` chooses other definitions:
`ratio3` (3 times the point before, for losses above 0 only; it misses nearly all spikes of language models), `olmo`
(7 deviations over 1,000 points), `olmo-core` (6 over 128), `foundry` (twice the mean, 5 in a row), `zclip` (2.5
deviations, exponential mean), `hampel` (3 over 21 points; fires often). The OLMo spike score stands beside.

What to do
Recovered: note the step; if they grow or repeat, lower the learning rate, clip tighter, raise Adam's epsilon or lower
beta2. Not recovered: restart from the checkpoint before it and skip some hundred batches.

When it is wrong
In the first 2 % of the points (warm-up) only explosions count; a rise there that was learned away is told as info.
Another batch size or sequence length at the same step explains a rise. Losses of policies have no direction and are
not judged. Scatter that reaches far up all along the run (tiny batches) is normal for that run and hides spikes of
like size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens import context
from trainlens.citations import COMPOSER, HAMPEL, LLM_FOUNDRY, OLMO2, OLMO_CORE, ZCLIP, Citation, measured
from trainlens.detectors import _loss_rules as rules
from trainlens.detectors._loss_context import (
    LOSSES,
    Curve,
    add,
    changes,
    count,
    curve_of,
    held_out,
    interval,
    is_evaluation,
    judged,
    near,
    restarts,
    too_short,
)
from trainlens.detectors._loss_levels import rise_of
from trainlens.detectors._loss_spikes import LEAST, Limits, Spike, spikes_of
from trainlens.detectors._start_up import StartUp, start_up
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData, Severity
from trainlens.figures import number
from trainlens.model import Run, Series
from trainlens.plugins import threshold
from trainlens.signals import mad, rolling_median, surely

NEEDS = ("role:loss|role:eval-loss|role:perplexity",)
_RULES = Citation("; ".join(f"{one.text} {one.link}" for one in (OLMO2, OLMO_CORE, LLM_FOUNDRY, ZCLIP, HAMPEL)))
_TUNED = measured("405 labelled runs, 94 spikes: F1 and false alarms per healthy run")


@dataclass(frozen=True)
class Options:
    rule: str = threshold("robust", "definition of a spike", source=_RULES, choices=rules.NAMES)
    score: float = threshold(6.0, "robust standard deviations above the level", source=OLMO2, unit="deviations")
    size: float = threshold(0.02, "rise over the level, as a share of the level", source=_TUNED, unit="share")
    lone: float = threshold(1.3, "how much more a single point needs, times the limit", source=_TUNED, unit="times")
    crowd: int = threshold(12, "short peaks all over the run from which they are its scatter", source=_TUNED)
    recovery: float = threshold(
        0.25, "share of the height within which the loss is back", source=COMPOSER, unit="share"
    )
    severe: float = threshold(
        0.30, "rise over the level from which one that lasts or repeats is an error", source=_TUNED, unit="share"
    )
    lasting: float = threshold(
        0.05, "part of the run from which a spike lasts, and in which three repeat", source=_TUNED, unit="share"
    )
    minor: float = threshold(0.03, "rise over the level below which it is told as info", source=_TUNED, unit="share")


_MANY = 3  # spikes close together announce a divergence


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = judged(run, LOSSES)
    if not series:
        return NotApplicable("no loss with a direction")
    findings: list[Finding] = []
    for one in series:
        curve = curve_of(one)
        if is_evaluation(one) and len(curve) < LEAST:  # a handful of evaluations: eval-shift and overfitting judge it
            continue
        spikes = _kept(run, one, curve, options)
        for spike in spikes:
            near_it = sum(abs(other.first - spike.first) < options.lasting * len(curve) for other in spikes)
            add(findings, _told(run, curve, spike, near_it, options))
        if one.metric == "train/loss" and (begun := start_up(curve)) is not None:
            free = not any(spike.first <= begun.back and begun.low <= spike.end(len(curve)) for spike in spikes)
            findings += [_start(curve, begun)] if free else []
    return findings or too_short([curve_of(one) for one in series], LEAST) or []


def _start(curve: Curve, begun: StartUp) -> Finding:
    first, peak, back = (int(curve.step[at]) for at in (begun.low, begun.top, begun.back))
    low, high = float(curve.value[begun.low]), float(curve.value[begun.top])
    return Finding(
        detector="loss-spike",
        severity="info",
        metric=curve.metric,
        first_step=first,
        last_step=back,
        title=f"Loss rose in the first steps, back by {back:,}",
        message=f"{curve.metric} rose from {curve.shown(low)} at step {first:,} to {curve.shown(high)} at step "
        f"{peak:,} and was back at step {back:,}: a start that is too fast.",
        confidence=0.7,
        evidence=(Evidence("rise within the first points", curve.metric, first, back, high, low),),
        actions=("Warm the learning rate up for longer",),
    )


def _kept(run: Run, series: Series, curve: Curve, options: Options) -> list[Spike]:
    """The spikes of one series without what other ailments or lawful changes explain."""
    if options.rule != "robust":
        return rules.find(options.rule, curve, Limits(recovery=options.recovery))
    limits = Limits(options.score, options.size, 0.03, options.lone, options.crowd, options.recovery)
    spikes = [one for one in spikes_of(series, limits) if one.back is not None or not is_evaluation(series)]
    width = max(5, len(curve) // 50)
    if (rise := rise_of(series)) is not None:  # a divergence has its own finding from its onset on, a shift its jump
        spikes = [
            one
            for one in spikes
            if (one.first < rise.onset - 2 * width if rise.diverges else abs(one.first - rise.onset) > 2 * width)
        ]
    if series.metric == "train/loss":
        spikes = [one for one in spikes if not _of_the_measure(run, curve, one)]
    return [one for one in spikes if not _explained(run, curve, one, options)]


def _of_the_measure(run: Run, curve: Curve, spike: Spike) -> bool:
    """Whether the loss stays high and the held-out loss did not follow: loss-shift tells it."""
    lasts = spike.back is None and spike.first <= len(curve) - 2
    return lasts and held_out(run, int(curve.step[spike.first]), int(curve.step[spike.peak])) is not None


def _explained(run: Run, curve: Curve, spike: Spike, options: Options) -> bool:
    """Whether another batch size, sequence length or a restart lies just before; a severe one at a restart counts."""
    first, step = int(curve.step[spike.first]), interval(curve.step)
    if near(first, restarts(run), 2 * step, 10 * step):
        return spike.height < options.severe * abs(spike.base)
    alike = curve.value[context.of(run).logged_alike(curve.step, spike.peak)]
    if LEAST <= len(alike) < len(curve) and spike.height < options.score * mad(alike - rolling_median(alike, 24)):
        return True  # the scatter of rows that are logged as often
    return near(first, changes(run), 2 * step, max(10, len(curve) // 50) * step)


def _told(run: Run, curve: Curve, spike: Spike, near_it: int, options: Options) -> Finding:
    n = len(curve)
    first, peak, end = (int(curve.step[at]) for at in (spike.first, spike.peak, spike.end(n)))
    top, height = float(curve.value[spike.peak]), spike.height / max(abs(spike.base), 1e-12)
    lasted = end - first
    if spike.back is None:
        outcome, fate = "not recovered", "and had not come back when the log ends"
    else:
        outcome = f"recovered in {count(max(1, lasted), 'step')}"
        fate = f"and was back to within {number(options.recovery, 'share')} of its height by step {end:,}"
    minor = height < options.minor and spike.back is not None
    lasting = spike.end(n) - spike.first > options.lasting * n or near_it >= _MANY
    grave = spike.back is None or (height > options.severe and lasting)
    severity: Severity = "error" if grave else "info" if minor else "warning"
    at_restart = near(first, restarts(run), 2 * interval(curve.step), 10 * interval(curve.step))
    where = f"step {peak:,}" + (", right after a restart," if at_restart else "")
    return Finding(
        detector="loss-spike",
        severity=severity,
        metric=curve.metric,
        first_step=first,
        last_step=end,
        title=f"Loss spike at {first:,}, {outcome}",
        message=f"{curve.metric} rose from {curve.shown(spike.base)} to {curve.shown(top)} at {where} {fate}.",
        confidence=surely(spike.score, options.score),
        ongoing=spike.back is None,
        evidence=_evidence(curve, spike, options, first, end),
    )


def _evidence(curve: Curve, spike: Spike, options: Options, first: int, end: int) -> tuple[Evidence, ...]:
    peak = float(curve.value[spike.peak])
    lost = float(
        (curve.value[spike.first : spike.end(len(curve)) + 1] - spike.base).clip(0).sum() / max(spike.height, 1e-12)
    )
    score = rules.olmo_score(curve.value)
    evidence = [
        Evidence(
            "peak against the level before",
            curve.metric,
            first,
            end,
            peak,
            spike.base,
            spike.base + options.size * abs(spike.base),
            limit_name="loss-spike.size",
        ),
        Evidence(
            "score of the rise",
            curve.metric,
            first,
            end,
            spike.score,
            None,
            options.score,
            "deviations",
            "loss-spike.score",
        ),
        Evidence("area above the level, in points at full height", curve.metric, first, end, lost),
    ]
    if score is not None:
        evidence.append(Evidence("OLMo spike score of the run", curve.metric, observed=100 * score, unit="%"))
    return tuple(evidence)
