"""Settings that the curves contradict: what was set did not arrive, or the facts are those of another run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trainlens import context
from trainlens.citations import JUDGEMENT
from trainlens.detectors import _learning_rate, _setup
from trainlens.detectors._setup_ranges import told
from trainlens.diagnosis import Finding
from trainlens.figures import number
from trainlens.model import Run

_POINTS = 20  # of a curve before it contradicts anything


def contradicted(run: Run, same: float, apart: float) -> Iterator[Finding]:
    yield from _rate(run, same, apart)
    yield from _clip(run)
    yield from _tokens(run, same)
    yield from _batch(run, same)
    yield from _steps(run)


def _rate(run: Run, same: float, apart: float) -> Iterator[Finding]:
    """The configured rate against the logged peak, of a log that holds the whole warmup."""
    configured, series, named = _setup.stated(run, "rate"), run.get("lr"), context.of(run).schedule
    if configured is None or series is None or named is None or named.family == "warmup-only":
        return
    if len(run.with_role("learning-rate")) > 1:
        return  # groups of weights have rates of their own
    step, rate = _learning_rate.points(series)
    interval = float(np.median(np.diff(step)))
    peak = _learning_rate.peak_of(rate)
    ratio = max(peak / configured.value, configured.value / peak)
    whole = step[0] <= max(1.0, interval) or peak > configured.value
    planned = _setup.value_of(run, "warmup steps")
    if ratio <= 1 + same or not whole or series.positional or (planned and step[-1] < 1.1 * planned):
        return
    wide = ratio >= apart
    yield told(
        "learning rate",
        configured.value,
        f"the logged peak is {number(peak)}",
        "it did not arrive",
        JUDGEMENT,
        place=configured.fact.place,
        expected=peak,
        limit=apart * configured.value if wide else None,
        option="apart" if wide else "",
        severity="warning" if wide else "info",
        confidence=0.8,
        metric="lr",
        steps=(int(step[0]), int(step[-1])),
    )


def _clip(run: Run) -> Iterator[Finding]:
    """Norms that are cut at another height than the configured one."""
    bound, norms = _setup.stated(run, "clip"), run.get("grad_norm")
    if bound is None or norms is None or np.count_nonzero(norms.finite) < 2 * _POINTS:
        return
    value = norms.value[norms.finite]
    top = float(value.max())
    at = value >= 0.999 * top
    if (
        at.mean() > 0.05
        and abs(top / bound.value - 1) > 0.01
        and np.count_nonzero(at) >= 5
        and np.ptp(value) > 0.1 * top
    ):
        yield told(
            "gradient clipping",
            bound.value,
            f"the logged norms are cut at {number(top)}",
            "",
            JUDGEMENT,
            place=bound.fact.place,
            expected=top,
            metric="grad_norm",
            confidence=0.7,
            steps=(int(norms.step[0]), int(norms.step[-1])),
        )


def _tokens(run: Run, same: float) -> Iterator[Finding]:
    """Tokens that a step adds to the counter against batch × sequence length."""
    counter, batch, length = run.get("tokens"), _setup.batch(run), _setup.stated(run, "length")
    moving = any(len(context.of(run).at(kind)) for kind in ("batch size", "sequence length"))
    if counter is None or batch is None or length is None or len(counter) < _POINTS or counter.positional or moving:
        return
    step, value = counter.step[counter.finite], counter.value[counter.finite]
    if len(step) < _POINTS or (np.diff(value) <= 0).any():
        return
    each = float(np.median(np.diff(value) / np.diff(step)))
    expected = batch * length.value
    if abs(each / expected - 1) > same and not 0.3 < each / expected < 1:  # padding and packing take a part away
        yield told(
            "tokens per step",
            expected,
            f"the log counts {number(each)}",
            "batch × sequence length",
            JUDGEMENT,
            place=length.fact.place,
            expected=each,
            metric="tokens",
            confidence=0.7,
            steps=(int(step[0]), int(step[-1])),
        )


def _batch(run: Run, same: float) -> Iterator[Finding]:
    """The logged batch size at the end of the run against the configured one."""
    configured, series = _setup.stated(run, "batch"), run.get("batch_size")
    if configured is None or series is None or np.count_nonzero(series.finite) < _POINTS:
        return
    last = float(series.value[series.finite][-1])
    ramp = [fact for name in ("rampup_batch_size", "batch_size_rampup") if (fact := run.fact(name)) is not None]
    if any(str(fact.value) not in ("None", "null", "") for fact in ramp) and last < configured.value:
        return
    if abs(last / configured.value - 1) > same:
        yield told(
            "global batch size",
            configured.value,
            f"the log says {number(last)}",
            "",
            JUDGEMENT,
            place=configured.fact.place,
            expected=last,
            metric="batch_size",
            confidence=0.7,
            steps=(int(series.step[0]), int(series.step[-1])),
        )


def _steps(run: Run) -> Iterator[Finding]:
    """A run that goes on beyond its planned steps."""
    total, loss = _setup.stated(run, "total steps"), run.get("train/loss")
    if total is None or total.value < _POINTS or loss is None or len(loss) < _POINTS or loss.positional:
        return
    last = int(loss.step[-1])
    if last > 1.02 * total.value + 1:
        yield told(
            "planned steps",
            total.value,
            f"the log goes on to step {last:,}",
            "",
            JUDGEMENT,
            place=total.fact.place,
            expected=last,
            metric="train/loss",
            confidence=0.7,
            steps=(int(loss.step[0]), last),
        )
