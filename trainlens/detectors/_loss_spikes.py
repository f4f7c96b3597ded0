"""Where a curve leaves its level upward and comes back: the robust search behind loss-spike, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainlens.detectors._chance import usual_reach
from trainlens.detectors._loss_context import Curve, curve_of, remembered
from trainlens.model import Floats, Series
from trainlens.signals import GAUSSIAN, block_means, episodes, mad, rolling_median, tail_threshold

LEAST = 40  # points
_BLOCKS = ((1, 0.0), (4, 1.0), (16, 2.5))  # points a block, and how much more than `score` its mean must have
_BEYOND = 20.0  # times the level: a spike by any scatter
_PAIR = 0.8  # of the limit, for two points in a row
_BENT = 0.75  # of the scatter that bends tell: a floor, for a high-passed curve scatters a little less
_EARLY = 9.0  # deviations by which an early explosion is above a start of three points, which are noise themselves
_ROUGHNESS = 1.08  # a median of 17 points follows its own centre: the residual is this much too small


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a spike: see the thresholds of loss-spike."""

    score: float = 6.0
    size: float = 0.02
    size_absolute: float = 0.03
    lone: float = 1.3
    crowd: int = 12
    recovery: float = 0.25


@dataclass(frozen=True, slots=True)
class Spike:
    """Indices into the curve: hits from `first` to `last`, `back` the first point at its level again (None: never)."""

    first: int
    last: int
    peak: int
    base: float
    height: float
    score: float
    back: int | None = None
    early: bool = False

    def end(self, n: int) -> int:
        return n - 1 if self.back is None else min(n - 1, self.back)


@remembered
def spikes_of(series: Series, limits: Limits = Limits()) -> list[Spike]:
    """All spikes of a series in order, with what became of each."""
    return find_spikes(curve_of(series), limits)


def find_spikes(curve: Curve, limits: Limits) -> list[Spike]:
    """The same for a curve."""
    value, n = curve.value, len(curve)
    if n < LEAST:
        return _few(curve, limits)
    half = int(np.clip(n // 15, 24, 128))
    taken = np.zeros(n, bool)
    found: list[Spike] = []
    alone: Floats | None = None  # the scatter of single points
    for size, stricter in _BLOCKS:
        if n // size < LEAST:
            break
        spikes, alone = _search(curve, size, limits.score + stricter, half, limits, alone)
        added = [one for one in spikes if not taken[max(0, one.first - half // 2) : one.last + half // 2].any()]
        for spike in added:
            taken[spike.first : spike.last + 1] = True
        found += added
    found = _early(curve, _uncrowded(found, curve, limits))
    settled = [_settled(curve, spike, half) for spike in sorted(found, key=lambda one: one.first)]
    return _joined([followed(value, spike, limits) for spike in settled])


def _search(
    curve: Curve, size: int, score: float, half: int, limits: Limits, alone: Floats | None = None
) -> tuple[list[Spike], Floats]:
    """Spikes in the means of `size` points, and the scatter of single points."""
    means = block_means(curve.value, size) if size > 1 else curve.value
    n = len(means)
    half = max(12, min(half, n // 8))
    base = rolling_median(means, half)
    above = means - base
    scale = local_scale(means, above, half)
    alone = scale if alone is None else alone
    if size > 1:  # a longer window sees less of a scatter that comes and goes: a mean has no less than its points
        scale = np.maximum(scale, block_means(alone, size) / size**0.5)
    if curve.positive:  # scatter of a loss grows with it: ratios are fair to both sides, differences are not
        moves = np.log(np.maximum(means, 1e-300) / base)
        z = np.where(means > _BEYOND * base, above, moves * base) / scale
    else:
        moves, z = above, above / scale
    z[: max(6, n // 50)] = 0.0
    late = slice(n // 5, None)
    lower = -z[late][z[late] < 0]
    limit = tail_threshold(lower, 3 * n, score) * (_skew(z[late]) if size == 1 else 1.0)
    reach = max(1.3 * usual_reach(-moves[late]), 2.0 * usual_reach(moves))
    enough = size_gate(curve, base, limits)
    paired = np.minimum(z, np.maximum(np.roll(z, 1), np.roll(z, -1))) / _PAIR  # two in a row are rarer by far than one
    hits = (np.maximum(z, paired if size == 1 else z) > limit) & (above > enough) & (moves > reach)
    wander = _together(means[n // 2 :], above[n // 2 :]) * mad(moves[n // 2 :])
    found = []
    for first, last in episodes(hits, max(3, half // 12) if size == 1 else 2):
        peak = first + int(np.argmax(above[first : last + 1]))
        if size == 1 and first == last and z[peak] <= limits.lone * limit:
            continue
        leap = float(np.diff(means[max(0, first - 2) : peak + 1]).max())
        if moves[peak] <= limit * wander and leap <= limit * scale[peak]:
            continue
        start, end = first * size, min(len(curve) - 1, (last + 1) * size - 1)
        hump = float(np.median(curve.value[start : end + 1])) - float(base[first])
        if size > 1 and hump < 0.4 * above[peak]:  # one far point lifts the mean of its block
            continue
        top = start + int(np.argmax(curve.value[start : end + 1]))
        found.append(Spike(start, end, top, float(base[first]), float(above[peak]), float(z[peak])))
    return found, alone


def _skew(z: Floats) -> float:
    """How much further than the lower tail the upper one reaches, from parts of both that rare spikes do not touch.

    What lies near tells little of the furthest point, so the square of the ratio is taken, where it is sure.
    """
    upper, lower = z[z > 0], -z[z < 0]
    if len(upper) < 60 or len(lower) < 60:
        return 1.0
    ratio = float(np.quantile(upper, 0.8) / max(np.quantile(lower, 0.8), 1e-12))
    doubt = 1 + 3.4 / float(min(len(upper), len(lower))) ** 0.5  # two standard errors of such a ratio
    return float(min(2.0, max(1.0, ratio / doubt) ** 2))


def _few(curve: Curve, limits: Limits) -> list[Spike]:
    """Of fewer than 40 points, in the main loss only what is half as high again as the few points before.

    A fifth is enough where these hardly move.
    """
    value, n = curve.value, len(curve)
    if n < 5 or not curve.positive or curve.metric != "train/loss":
        return []
    for at in range(1, n):
        level, highest = curve.level(max(0, at - 5), at), float(value[max(0, at - 5) : at].max())
        calm = at > 6 and value[at] > highest + 10 * float(np.median(np.abs(np.diff(value[at - 6 : at]))))
        leaps = value[at] > (1.5 if at >= 3 else 1.8) * level and value[at] > 1.3 * highest
        if leaps or (calm and value[at] > 1.2 * max(level, highest)):
            last = at + int(np.argmax(np.r_[value[at:] < level + 0.5 * (value[at] - level), True])) - 1
            peak = at + int(np.argmax(value[at : last + 1]))
            height = float(value[peak]) - level
            spike = Spike(at, last, peak, level, height, height / max(mad(np.diff(value[:at])), 0.01 * level))
            return [followed(value, spike, limits)]
    return []


def local_scale(value: Floats, above: Floats, half: int) -> Floats:
    """Scatter around each point as a standard deviation: high-passed, with a floor from the whole second half."""
    n = len(value)
    ripple = np.abs(value - rolling_median(value, 8))
    local = GAUSSIAN * _ROUGHNESS * rolling_median(ripple, max(1, min(2 * half, n // 3)))
    floor = max(0.6 * mad(above[n // 2 :]), 1e-9 * (1.0 + float(np.abs(value).max())))
    # A curve that falls faster than it scatters is its own running median: there only its bends tell the scatter.
    bends = np.abs(value[1:-1] - 0.5 * (value[:-2] + value[2:])) / 1.5**0.5
    bent = _BENT * GAUSSIAN * rolling_median(np.pad(bends, 1, "edge"), max(1, min(2 * half, n // 3)))
    return np.maximum(np.maximum(local, bent), floor)


def _together(value: Floats, above: Floats) -> float:
    """Whether points scatter together about their level: 1 where they do, 0 where each is alone, or in between.

    What a short median leaves over is little of noise that is correlated from point to point, and such noise makes
    humps; but it makes no leaps.
    """
    alone = mad(np.diff(value)) / 2**0.5
    return float(np.clip((0.9 - alone / max(mad(above), 1e-300)) / 0.4, 0.0, 1.0))


def size_gate(curve: Curve, base: Floats, limits: Limits) -> Floats:
    """The rise that matters to a reader: a share of the level, and an absolute amount that fits the curve."""
    level = float(np.median(curve.value))
    start = abs(curve.level(0, 3))
    if curve.positive:
        least = limits.size_absolute if level > 0.5 else min(limits.size_absolute, 0.003 * start)
        return np.maximum(limits.size * np.abs(base), max(least, 0.0 if level > 0.5 else 3 * curve.noise))
    spread = float(np.quantile(curve.value, 0.95) - np.quantile(curve.value, 0.05))
    return np.full(len(base), max(0.1 * spread, 3 * curve.noise))


def _uncrowded(found: list[Spike], curve: Curve, limits: Limits) -> list[Spike]:
    """Without peaks that are this run's normal scatter: many short ones, spread over the run, of like height."""
    short = [spike for spike in found if spike.last - spike.first < max(3, len(curve) // 200)]
    if len(short) <= limits.crowd:
        return found
    eighths = {8 * spike.first // len(curve) for spike in short}
    if len(eighths) < 5:
        return found
    usual = float(np.quantile([spike.height for spike in short], 0.75))
    return [spike for spike in found if spike.height > 3 * usual]


def _early(curve: Curve, found: list[Spike]) -> list[Spike]:
    """Adds explosions in the first fifth, where no level stands yet: above 1.5 times the first values."""
    n = len(curve)
    if not curve.positive:
        return found
    start, value = curve.level(0, 3), curve.value[: max(10, n // 5)]
    high = episodes(value > 1.3 * start, int(np.clip(n // 40, 5, 50)))
    scatter = _scatter(np.log(curve.value)) if high else 0.0
    added = []
    for first, last in high:
        peak = first + int(np.argmax(value[first : last + 1]))
        later = float(curve.value[last + 1 :].max(initial=0.0)) * float(np.exp(scatter))
        beyond = last - first >= 3 and float(np.median(value[first : last + 1])) > later
        least = max(
            1.5, float(np.exp((2 if beyond else _EARLY) * scatter))
        )  # beyond all that the run's scatter reaches
        if value[peak] <= least * start or last == first:
            continue
        found = [spike for spike in found if not first - 5 <= spike.first <= last + 5]
        height = float(value[peak] - start)
        added.append(Spike(first, last, peak, start, height, height / max(curve.noise, 1e-12), early=True))
    return found + added


def _scatter(logs: Floats) -> float:
    """Standard deviation about the level, also of noise that is correlated from point to point."""
    rest = logs - rolling_median(logs, int(np.clip(len(logs) // 15, 24, 128)))
    return max(mad(rest[len(rest) // 5 :]), mad(np.diff(logs)) / 2**0.5)


def _settled(curve: Curve, spike: Spike, half: int) -> Spike:
    """With the level from before the spike: a long one lifts the running median under itself; and its true begin."""
    if spike.early:
        return spike
    value, first = curve.value, spike.first
    before = [
        value[max(0, first - far) : max(0, first - close)]
        for far, close in ((25, 0), (2 * half, half // 2), (4 * half, 2 * half))
    ]
    base = min([spike.base, *(float(np.median(part)) for part in before if len(part) >= 8)])
    height = spike.height + spike.base - base
    begin = max(0, first - 4 * half)
    short = rolling_median(value[begin : first + 1], 3)
    low = np.flatnonzero(short <= base + max(0.15 * height, 2 * curve.noise))
    first = min(first, begin + int(low[-1]) + 1) if len(low) else first
    return replace(spike, first=first, base=base, height=height)


def _joined(spikes: list[Spike]) -> list[Spike]:
    """Without spikes that begin before the one before them is over: they belong to its episode."""
    kept: list[Spike] = []
    for spike in spikes:
        if not kept or kept[-1].back is None or spike.first > kept[-1].back:
            kept.append(spike)
        elif spike.height > kept[-1].height:
            kept[-1] = replace(spike, first=kept[-1].first, base=kept[-1].base)
    return kept


def followed(value: Floats, spike: Spike, limits: Limits) -> Spike:
    """With the first point that is back within a share of the height over the level, as is the mean from there on."""
    after = value[spike.last + 1 :]
    window = max(3, min(25, len(after) // 8))
    if len(after) < window:
        return spike
    sums = np.cumsum(np.r_[0.0, after])
    means = (sums[window:] - sums[:-window]) / window
    level = spike.base + limits.recovery * spike.height
    back = np.flatnonzero((means < level) & (after[: len(means)] < level))
    return replace(spike, back=spike.last + 1 + int(back[0])) if len(back) else spike
