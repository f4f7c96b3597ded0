"""A loss that swings with a fixed period.

Why it matters
The usual cause is the order of the data: sources that take turns, a short shuffle buffer, files sorted by length. The
model learns and forgets in turns; the last checkpoint depends on where the swing stood.

How it is found
The level (a running mean over a sixth of the run) is taken off, and the spectrum of the rest has one narrow line:
`line` times its neighbours, at least `share` of all power, a period of 5 points to an eighth of the run, and an
amplitude above 0.8 of the scatter and 0.8 % of the level. It swings in step all along: each quarter has at least
`steady` of the mean amplitude at the phase of the whole, which noise that wanders has not. The last nine tenths are
asked, then the last half.

What to do
Compare the period with the steps of an epoch, of a data file or of a change of source; shuffle better. A period of a
few hundred steps without such a cause may be momentum with too high a learning rate.

When it is wrong
A metric averaged over a moving window, or restarts of a cyclic learning rate, swing by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import measured
from trainlens.detectors._loss_context import Curve, curve_of, figure, interval, is_evaluation, judged
from trainlens.detectors._loss_levels import rise_of
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.model import Floats, Run
from trainlens.plugins import threshold
from trainlens.signals import mad, surely

NEEDS = ("role:loss",)
LEAST = 150
_TUNED = measured("405 labelled runs, 9 oscillations, 130 healthy runs")
_WANDERS = measured("1,200 simulated losses of 200 to 5,000 points with noise correlated up to 0.97 a point")


@dataclass(frozen=True)
class Options:
    line: float = threshold(40.0, "power of the line over the median of its neighbours", source=_TUNED, unit="times")
    share: float = threshold(0.3, "power of the line as a share of all", source=_TUNED, unit="share")
    steady: float = threshold(
        0.4, "amplitude of each quarter in phase with the whole, against their mean", source=_WANDERS, unit="share"
    )
    size: float = threshold(0.008, "amplitude as a share of the level", source=_TUNED, unit="share")


@dataclass(frozen=True, slots=True)
class Swing:
    """Begin as an index, period in points, amplitude in the metric's unit, and what the line had."""

    first: int
    period: float
    amplitude: float
    line: float
    share: float


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    series = [one for one in judged(run, ("loss",)) if not is_evaluation(one)]
    if not series:
        return NotApplicable("no training loss with a direction")
    curve = curve_of(series[0])
    if len(curve) < LEAST:
        return NotEnoughData(f"{len(curve)} points, {LEAST} are needed")
    rise = rise_of(series[0])
    if rise is not None and rise.diverges:
        return []
    for begin in (len(curve) // 10, len(curve) // 2):
        if swing := _swing(curve, begin, options):
            return [_told(curve, swing, options)]
    return []


def _swing(curve: Curve, begin: int, options: Options) -> Swing | None:
    value = curve.value[begin:]
    n = len(value)
    rest, width = detrended(value)
    power = np.abs(np.fft.rfft(rest * np.hanning(n))) ** 2
    power[: n // width + 2] = 0.0
    peak = int(np.argmax(power))
    total = float(power.sum())
    if peak == 0 or total <= 0:
        return None
    period = n / peak
    beside = np.r_[power[max(1, peak // 2) : max(1, peak - 3)], power[peak + 4 : 2 * peak + 4]]
    beside = beside[beside > 0]
    if len(beside) <= 8 or not 5 <= period <= n / 8:
        return None
    line = float(power[peak] / np.median(beside))
    share = float(power[max(0, peak - 2) : peak + 3].sum()) / total
    amplitude = float(np.sqrt(2 * share * rest.var()))
    least = max(0.8 * curve.noise, options.size * abs(float(np.median(value))))
    if line <= options.line or share <= options.share or amplitude <= least or _is_staircase(rest, period):
        return None
    onset = _onset(rest, period)
    if _steadiness(rest[onset:], peak * (n - onset) / n) < options.steady:
        return None
    return Swing(begin + onset, period, amplitude, line, share)


def _steadiness(rest: Floats, peak: float) -> float:
    """The least amplitude of a quarter in phase with the whole, over the mean of the quarters; `peak` cycles in all."""
    n = len(rest)
    along = np.arange(n) / n
    tuned = peak + np.linspace(-0.6, 0.6, 25)
    waves = [rest * np.exp(-2j * np.pi * cycles * along) for cycles in tuned.tolist()]
    wave = max(waves, key=lambda one: abs(one.sum()))
    whole = wave.sum()
    parts = np.array(
        [part.mean() for part in np.array_split((wave * np.conj(whole)).real / max(abs(whole), 1e-300), 4)]
    )
    return float(parts.min() / max(parts.mean(), 1e-300))


def _is_staircase(rest: Floats, period: float) -> bool:
    """Whether a period falls at once and climbs slowly: the steps of a loss at the begin of each epoch."""
    bins = int(np.clip(period, 5, 24))
    phase = (np.arange(len(rest)) % period / period * bins).astype(int)
    profile = np.bincount(phase, rest, bins) / np.maximum(np.bincount(phase, minlength=bins), 1)
    moves = np.diff(np.r_[profile, profile[0]])
    return bool(-moves.min() > 2.5 * moves.max())


def detrended(value: Floats) -> tuple[Floats, int]:
    """The values without their running mean over a sixth of them, clipped at 4 deviations; and the window's length."""
    n = len(value)
    width = max(21, n // 6)
    padded = np.pad(value, (width // 2, width - 1 - width // 2), "reflect")
    sums = np.cumsum(np.r_[0.0, padded])
    rest = value - (sums[width:] - sums[:-width]) / width
    reach = 4 * max(mad(rest), 1e-12)
    return np.clip(rest, -reach, reach), width


def _onset(rest: Floats, period: float) -> int:
    """Where the swing has 60 % of its later strength for the first time."""
    window = int(max(20, 3 * period))
    starts = range(0, len(rest) - window, max(1, window // 4))
    strength = np.array([rest[at : at + window].std() for at in starts])
    if len(strength) <= 4:
        return 0
    strong = np.flatnonzero(strength > 0.6 * np.quantile(strength, 0.8))
    return int(strong[0]) * max(1, window // 4)


def _told(curve: Curve, swing: Swing, options: Options) -> Finding:
    first, last = int(curve.step[swing.first]), int(curve.step[-1])
    period = swing.period * interval(curve.step)
    return Finding(
        detector="loss-oscillation",
        severity="warning",
        metric=curve.metric,
        first_step=first,
        last_step=last,
        title=f"Loss oscillation every {period:,.0f} steps from {first:,}",
        message=f"{curve.metric} swings by ±{figure(swing.amplitude)} with a period of {period:,.0f} steps "
        f"from step {first:,} on.",
        confidence=min(surely(swing.line, options.line), surely(swing.share, options.share)),
        ongoing=True,
        evidence=(
            Evidence(
                "power of the line over its neighbours",
                curve.metric,
                first,
                last,
                swing.line,
                limit=options.line,
                unit="times",
                limit_name="loss-oscillation.line",
            ),
            Evidence(
                "power of the line as a share of all",
                curve.metric,
                first,
                last,
                swing.share,
                limit=options.share,
                unit="share",
                limit_name="loss-oscillation.share",
            ),
            Evidence("period", curve.metric, first, last, period, unit="steps"),
        ),
    )
