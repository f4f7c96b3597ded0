"""The causes of an explosion, of the loss or of the gradient, each tested at the step where it began."""

from __future__ import annotations

import numpy as np

from trainlens.causes._measure import (
    WINDOW,
    bounds,
    finite,
    missing,
    near,
    ruled_out,
    supported,
    unmeasured,
    value_at,
)
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import NBSP, counted, figures, number
from trainlens.model import Run, Series
from trainlens.signals import episodes, mad

LEAD = 50  # points before the onset in which a forerunner counts
_HELD = 10  # points in its band after which a leap of the gradient norm is over
_FEW = 5  # points before an onset below which nothing can be said of what came before
_SAME_RATE = 0.95  # a rate this near to that of the onset had been carried
_LEAP = 1.5  # a rate this many times the one before has leapt
_OF_SHORT = 0.3  # the same where the rate has fallen since
_CARRIED = 0.1  # share of the points before the onset that must have carried the rate
_SIGMAS, _RISE = 6.0, 0.5  # a gradient norm leaves its band beyond both
_NO_SCALE = ("bf16", "bfloat16", "fp32", "float32", "torch.bfloat16", "torch.float32")
_FAULTS = ("xid", "ecc", "gpu-lost")


def learning_rate(finding: Finding, run: Run) -> Verdict:
    """Had the run carried this rate before? The first time at it speaks against it, long use clears it."""
    cause = "Learning rate too large"
    series = run.get("lr")
    first, last = bounds(finding, run)
    rate = value_at(series, first)
    if series is None or rate is None:
        return missing(cause, "lr")
    step, value = finite(series)
    before = step < first
    carried = int(np.count_nonzero(value[before] >= _SAME_RATE * rate))
    peak = float(value[step <= first].max())
    if np.count_nonzero(before) < _FEW:
        earlier_points = counted(int(np.count_nonzero(before)), "learning rate")
        return unmeasured(cause, f"only {earlier_points} before step {first:,}; {_FEW} are needed.")
    needed = max(20, int(_CARRIED * np.count_nonzero(before)))
    if rate < _SAME_RATE**4 * peak:  # it is on its way down: a part of a short log at higher rates is enough
        needed = min(needed, max(_FEW, int(_OF_SHORT * np.count_nonzero(before))))
    since = f"{counted(carried, 'point')} of {np.count_nonzero(before):,} before had that rate or more"
    evidence = Evidence("points before at this rate or more", "lr", None, first, float(carried), None, float(needed))
    later = int(np.count_nonzero(value[step > last] >= _SAME_RATE * rate))
    if rate > 0 and carried < needed <= later and not finding.ongoing:
        message = (
            f"lr was {number(rate)} at step {first:,}; {counted(later, 'point')} after it carried that rate or more."
        )
        return ruled_out(cause, message, evidence)
    if rate > 0 and carried < needed:
        reached = int(step[before][value[before] >= _SAME_RATE * rate][0]) if carried else first
        rows = f"first reached at step {reached:,}, {counted(carried, 'row')} before"
        known = rows if carried else "never reached before"
        message = f"lr was {number(rate)} at step {first:,}, a level {known}."
        earlier = value_at(series, reached - 1)
        remedy = f"Lower the peak learning rate below {number(rate)}, or warm up longer"
        if earlier is not None and rate > _LEAP * earlier:
            remedy = f"See why lr rose from {number(earlier)} to {number(rate)} at step {reached:,}, and lower it"
        return supported(cause, message, remedy, evidence)
    share = f"{number(rate / peak, 'share')} of the highest before" if peak > 0 else "zero"
    return ruled_out(cause, f"lr was {number(rate)} at step {first:,}, {share}; {since}.", evidence)


def bad_samples(finding: Finding, run: Run) -> Verdict:
    """A curve never proves a bad batch: the same data from another state does not spike (PaLM, section 5.1)."""
    first, _ = bounds(finding, run)
    epoch = run.get("epoch")
    begun = ""
    if epoch is not None:
        step, value = finite(epoch)
        starts = step[1:][np.diff(np.floor(value)) >= 1]
        close = [int(start) for start in starts if 0 <= first - start <= _reach(epoch)]
        begun = f" An epoch began at step {close[-1]:,}, {counted(first - close[-1], 'step')} before." if close else ""
    message = "the logs do not name the samples of a batch. Log the sample or shard index for each step to know."
    return unmeasured("Bad samples", message + begun)


def gradient(finding: Finding, run: Run) -> Verdict:
    """Did the gradient norm leave its band at or before the onset?"""
    cause = "Gradient explosion"
    series = run.get("grad_norm")
    if series is None or series.finite.sum() < 10:
        return missing(cause, "grad_norm", "the gradient norm before clipping")
    first, last = bounds(finding, run)
    step, value = finite(series)
    start = int(np.searchsorted(step, first))
    base = value[max(0, start - LEAD - WINDOW) : max(0, start - LEAD)]
    base = base if len(base) >= 10 else value[: max(0, start)]
    if len(base) < _FEW:
        return unmeasured(
            cause, f"only {counted(len(base), 'gradient norm')} before step {first:,}; {_FEW} are needed."
        )
    level, spread = float(np.median(base)), mad(base)
    limit = level + max(_SIGMAS * spread, _RISE * level)
    window = slice(max(0, start - LEAD), int(np.searchsorted(step, max(last, first + _reach(series)), side="right")))
    near_step, near_value = step[window], value[window]
    out = near_value > limit
    band = f"{number(level)} ± {figures(spread, 2)}"
    peak = float(near_value.max()) if len(near_value) else level
    evidence = Evidence("peak of the gradient norm", "grad_norm", first, last, peak, level, limit)
    if not out.any():
        return ruled_out(cause, f"grad_norm stayed in its band ({band}): at most {number(peak)} around it.", evidence)
    onset, slack = int(np.searchsorted(near_step, first)), _reach(series) // LEAD
    # An earlier leap that was over by the onset is another story.
    open_at = [begin for begin, end in episodes(out, _HELD) if end >= onset - _HELD]
    if not open_at:
        return ruled_out(
            cause, f"grad_norm was back in its band ({band}) {_HELD} points before and stayed in it.", evidence
        )
    left = int(near_step[open_at[0]])
    if left > first + slack:
        late = f"grad_norm left its band ({band}) at step {left:,}, {counted(left - first, 'step')} after."
        return ruled_out(cause, late, evidence)
    ahead = f"{counted(first - left, 'step')} before" if left < first else "with it"
    top = int(near_step[int(near_value.argmax())])
    times = f" ({figures(peak / level, 3)}{NBSP}×)" if level > 0 else ""
    clip, remedy = _clipping(run, level)
    message = (
        f"grad_norm left its band ({band}) at step {left:,}, {ahead}, and reached {number(peak)}{times} at step {top:,}"
    )
    return supported(cause, f"{message}; {clip}.", remedy, evidence)


def _clipping(run: Run, level: float) -> tuple[str, str]:
    """What is known of clipping, and the remedy that follows."""
    fact = run.fact("clip_grad", "max_grad_norm", "gradient_clipping", "grad_clip", "gradient_clip_val", "clip_norm")
    if fact is None:
        return "the logs state no clipping", f"Clip the gradient norm at about {figures(max(2 * level, 1e-12), 2)}"
    try:
        limit = float(fact.value)
    except ValueError:
        limit = 0.0
    if limit > 0:
        return (
            f"clipping at {number(limit)} was active",
            f"Clip tighter than {number(limit)}, or lower the learning rate",
        )
    return "clipping was off", f"Clip the gradient norm at about {figures(max(2 * level, 1e-12), 2)}"


def overflow(finding: Finding, run: Run) -> Verdict:
    """Overflows, a falling loss scale or infinite gradients around the onset."""
    cause = "Numeric overflow"
    first, last = bounds(finding, run)
    scale, norm = run.get("loss_scale"), run.get("grad_norm")
    clock = next((one for one in (run.get(finding.metric or ""), norm, scale) if one is not None), None)
    reach = _reach(clock) if clock is not None else LEAD
    low, high = first - reach, max(last, first)
    events = near((event.step for event in run.events if event.kind in ("overflow", "loss-scale-floor")), low, high)
    infinite = _infinite(norm, low, first)
    fallen = _fall(scale, low, high)
    remedy = "Train in bf16, or keep the layers that overflow in fp32"
    if fallen is not None and fallen[1] <= fallen[0] / 4:
        told = f"loss_scale fell from {number(fallen[0])} to {number(fallen[1])} between steps {low:,} and {high:,}."
        return supported(cause, told, remedy, Evidence("loss scale", "loss_scale", low, high, fallen[1], fallen[0]))
    if len(events) >= 2:
        told = f"{len(events)} overflows are logged between steps {events[0]:,} and {events[-1]:,}."
        return supported(cause, told, remedy, Evidence("overflows", None, low, high, float(len(events))))
    if infinite:
        told = f"grad_norm was not finite at step {infinite[0]:,}, before the rest of it."
        return supported(
            cause, told, remedy, Evidence("gradient norm", "grad_norm", infinite[0], infinite[-1], "Infinity")
        )
    if precision := _wide(run):
        return ruled_out(cause, f"precision is {precision}, and no gradient norm was infinite before it.")
    if fallen is not None:
        return ruled_out(cause, f"loss_scale was {number(fallen[0])} before and never below {number(fallen[1])} in it.")
    return missing(cause, "loss_scale", "the loss scale and skipped steps")


def _wide(run: Run) -> str:
    """The precision the run states, when its range is that of fp32; "" else."""
    stated = run.fact("params_dtype", "precision", "dtype", "torch_dtype", "mixed_precision")
    if stated is not None and str(stated.value).lower() in _NO_SCALE:
        return str(stated.value)
    flag = run.fact("bf16")
    return "bf16" if flag is not None and str(flag.value).lower() == "true" else ""


def _infinite(norm: Series | None, low: int, high: int) -> list[int]:
    """Steps with a gradient norm that is no number, before the onset."""
    if norm is None:
        return []
    inside = (norm.step >= low) & (norm.step < high) & ~norm.finite
    return [int(step) for step in norm.step[inside]]


def _fall(scale: Series | None, low: int, high: int) -> tuple[float, float] | None:
    """The loss scale before and its lowest value in a range of steps."""
    if scale is None:
        return None
    step, value = finite(scale)
    inside = value[(step >= low) & (step <= high)]
    before = value_at(scale, low)
    if before is None or not len(inside):
        return None
    return before, float(inside.min())


def hardware(finding: Finding, run: Run) -> Verdict:
    """Xid, ECC or lost-GPU lines shortly before the onset."""
    cause = "Hardware fault"
    first, last = bounds(finding, run)
    faults = [event for event in run.events if event.kind in _FAULTS]
    close = [event for event in faults if event.step is not None and first - 2 * LEAD <= event.step <= last]
    if close:
        where = f" at step {close[0].step:,}" if close[0].step is not None else ""
        told = f"“{close[0].text.strip()[:120]}”{where}" + (f", {close[0].place}" if close[0].place else "")
        return supported(
            cause, f"{told}.", "Drain that node and test its GPU", Evidence(close[0].kind, place=close[0].place)
        )
    if run.events:
        return ruled_out(cause, f"no Xid, ECC or lost-GPU line near step {first:,} in the logs' events.")
    return unmeasured(
        cause, "no system log among the sources. Keep the nodes' Xid and ECC lines beside the log to know."
    )


def _reach(series: Series) -> int:
    """Steps that LEAD points of a series span."""
    if len(series) < 2:
        return LEAD
    return max(LEAD, int(LEAD * np.median(np.diff(series.step))))
