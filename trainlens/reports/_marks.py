"""What is written on a chart: findings as numbered bands, limits, and where a curve leaves the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from trainlens.diagnosis import Curve, Finding, RunDiagnosis, Severity
from trainlens.figures import number
from trainlens.model import Floats
from trainlens.reports._words import cards

MOST_BANDS = 12
START = 0.02  # share of a run that says nothing about the range worth seeing: losses fall from far above


@dataclass(frozen=True)
class Band:
    number: int
    severity: Severity
    first: int
    last: int


@dataclass(frozen=True)
class Mark:
    """A short text at a step (values cut off) or at a height (a limit)."""

    at: float
    text: str


def bands(run: RunDiagnosis, curve: Curve, first: int, last: int) -> tuple[Band, ...]:
    """The findings as numbered stretches, those of this metric first where there are many; by step."""
    told: list[tuple[bool, int, Finding]] = []
    for card in cards(run):
        for finding in (card.finding, *card.same, *card.includes):
            inside = finding.first_step is not None and finding.first_step <= last
            if inside and (finding.last_step or finding.first_step or 0) >= first:
                told.append((finding.metric != curve.metric, card.number, finding))
    told.sort(key=lambda one: (one[0], one[1], one[2].first_step or 0))
    if curve.of:
        whole = [one for one in told if one[2].id == curve.of]
        told = whole or told
    found = [
        Band(shown, one.severity, max(one.first_step, first), min(one.last_step or one.first_step, last))
        for shown, one in ((card, one) for _, card, one in told[:MOST_BANDS])
        if one.first_step is not None
    ]
    return _merged(sorted(found, key=lambda band: (band.number, band.severity, band.first)))


def _merged(found: list[Band]) -> tuple[Band, ...]:
    """Bands of one number that overlap as one; by step."""
    kept: list[Band] = []
    for band in found:
        before = kept[-1] if kept else None
        if (
            before
            and (before.number, before.severity) == (band.number, band.severity)
            and band.first <= before.last + 1
        ):
            kept[-1] = replace(before, last=max(before.last, band.last))
        else:
            kept.append(band)
    return tuple(sorted(kept, key=lambda band: (band.first, band.number)))


def limits(run: RunDiagnosis, curve: Curve, scale: float) -> tuple[Mark, ...]:
    """Limits that findings on this metric passed, and the clipping threshold on the gradient norm; two at most.

    The limit of a short episode is its own: it stands on the close-up, not on the whole run.
    """
    marks: dict[float, str] = {}
    for finding in run.findings:
        if not (finding.id == curve.of if curve.of else _is_long(finding, curve)):
            continue
        for evidence in finding.evidence:
            fits = evidence.metric == curve.metric and evidence.unit in ("", curve.unit)
            if (
                fits
                and evidence.limit_name
                and isinstance(evidence.limit, int | float)
                and math.isfinite(evidence.limit)
            ):
                marks.setdefault(evidence.limit, f"limit {number(evidence.limit, curve.unit)}")
    if curve.metric == "grad_norm" and (clip := _clip(run)) is not None:
        marks.setdefault(clip, f"clip {number(clip)}")
    return tuple(Mark(value * scale, text) for value, text in sorted(marks.items())[:2])


def _is_long(finding: Finding, curve: Curve) -> bool:
    if finding.first_step is None or finding.last_step is None:
        return False
    return finding.ongoing or finding.last_step - finding.first_step >= 0.05 * (curve.step[-1] - curve.step[0])


_CLIP = {"clipgrad", "maxgradnorm", "gradclip", "gradientclipping", "gradientclipval", "gradclipnorm"}


def _clip(run: RunDiagnosis) -> float | None:
    for fact in run.facts:
        name = fact.name.lower().rpartition(".")[2].rpartition("/")[2]
        if name.replace("_", "").replace("-", "") in _CLIP:
            try:
                value = float(fact.value)
            except (TypeError, ValueError):
                continue
            if math.isfinite(value) and value > 0:
                return value
    return None


def above(
    step: Floats, highest: Floats, limit: float, scale: float, unit: str, first: int, last: int
) -> tuple[Mark, ...]:
    """Where the curve leaves the drawing at the top: one mark an episode with its largest value, largest first."""
    over = np.flatnonzero(highest > limit)
    if not len(over):
        return ()
    marks: list[tuple[float, Mark]] = []
    for part in np.split(over, np.flatnonzero(np.diff(over) > 3) + 1):
        peak = part[np.argmax(highest[part])]
        value = float(highest[peak])
        early = bool(step[peak] <= first + START * (last - first))
        marks.append((value, Mark(float(step[peak]), f"▲ {'from ' if early else ''}{number(value / scale, unit)}")))
    marks.sort(key=lambda one: -one[0])
    return tuple(mark for _, mark in marks[:3])


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 10, 100, and between them as many of 1, 2, 3, 5, 7 as there is room for."""
    decades = math.log10(high / low)
    steps = (1, 2, 3, 5, 7) if decades < 0.8 else (1, 2, 5) if decades < 1.8 else (1, 3) if decades < 3.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, max(1, round(decades / 5)))
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
