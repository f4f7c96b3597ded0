"""The one timeline of a run: where its findings and events stand between its first and last step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.model import Event
from trainlens.reports import _words as words
from trainlens.reports._panels import extent


@dataclass(frozen=True)
class Tick:
    """An event or a step at `at`, a share of the axis; `text` is "" when there is no room for it."""

    at: float
    text: str = ""
    big: bool = False


QUIET_EVENTS = frozenset({"checkpoint-begin", "checkpoint-end", "evaluation", "run-start", "run-end", "overflow"})


def place(run: RunDiagnosis, step: float) -> float:
    """Where a step stands on the run's axis, 0 to 1."""
    first, last = extent(run)
    return min(1.0, max(0.0, (step - first) / (last - first)))


def event_ticks(run: RunDiagnosis, room: float = 0.1) -> list[Tick]:
    """One tick an event (200 at most of the quiet kinds); loud ones are named where `room` is free."""
    ticks: list[Tick] = []
    end = -1.0
    loud = sorted((one for one in _stepped(run.events) if one.kind not in QUIET_EVENTS), key=lambda one: one.step or 0)
    for event in loud[:200]:
        at = place(run, event.step or 0)
        text = event.kind.replace("-", " ") if at >= end and at < 1 - room else ""
        end = at + room if text else end
        ticks.append(Tick(at, text, big=True))
    quiet = sorted({round(place(run, one.step or 0), 3) for one in _stepped(run.events) if one.kind in QUIET_EVENTS})
    thin = quiet[:: len(quiet) // 200 + 1]
    return [*(Tick(at) for at in thin), *ticks]


def quiet_words(run: RunDiagnosis) -> str:
    """ "thin lines: 48 checkpoints, 12 evaluations"."""
    kinds = [one.kind for one in _stepped(run.events) if one.kind in QUIET_EVENTS]
    checkpoints = max(kinds.count("checkpoint-begin"), kinds.count("checkpoint-end"))
    named = [
        (checkpoints, "checkpoint"),
        (kinds.count("evaluation"), "evaluation"),
        (kinds.count("overflow"), "overflow"),
    ]
    told = ", ".join(f"{count:,} {noun}{'s' * (count > 1)}" for count, noun in named if count)
    return f"thin lines: {told}" if told else ""


def _stepped(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.step is not None]


def step_ticks(run: RunDiagnosis, parts: int = 4) -> list[Tick]:
    first, last = extent(run)
    return [Tick(index / parts, f"{round(first + (last - first) * index / parts):,}") for index in range(parts + 1)]


# ---- findings on it ----------------------------------------------------------------------------------

_WIDTH = 1000  # pixels of the lane that places are reckoned for


def pins(run: RunDiagnosis, cards: Sequence[words.Card], prefix: str) -> list[dict[str, Any]]:
    """Segments and number pins of all findings; a pin has its title where there is room, else its number, else none."""
    taken: list[tuple[float, float]] = []
    found: list[dict[str, Any]] = []
    for card in cards:
        for finding in (card.finding, *card.same):
            if finding.first_step is None:
                continue
            at = place(run, finding.first_step)
            width = place(run, finding.last_step or finding.first_step) - at
            pin: dict[str, Any] = {
                "at": 100 * at,
                "width": 100 * width,
                "severity": finding.severity,
                "number": card.number,
                "anchor": anchor(prefix, card),
            }
            first = finding is card.finding
            pin |= _pin_text(at * _WIDTH, finding.detector.replace("-", " "), taken) if first else _NO_PIN
            found.append(pin)
    return found


_NO_PIN = {"side": "", "text": ""}


def _pin_text(x: float, title: str, taken: list[tuple[float, float]]) -> dict[str, str]:
    for text in (title, ""):
        size = 46 + 7 * len(text)
        for side, left in (("l", x - size - 6), ("r", x + 6)):
            if left >= 0 and left + size <= _WIDTH and all(left > end or left + size < begin for begin, end in taken):
                taken.append((left, left + size))
                return {"side": side, "text": text}
    return _NO_PIN


def spark(curve: Curve | None, width: int, height: int, span: tuple[int, int], points: int = 240) -> str:
    """An SVG path of a curve's medians, the first fall cut at the 98th percentile; "" without a curve."""
    if curve is None or len(curve.step) < 2:
        return ""
    picked = np.unique(np.linspace(0, len(curve.step) - 1, points).astype(int))
    step, value = np.asarray(curve.step, np.float64)[picked], np.asarray(curve.value, np.float64)[picked]
    low, high = float(value.min()), float(np.percentile(value, 98))
    high = max(high, low + 1e-12)
    x = (step - span[0]) / (span[1] - span[0]) * width
    y = height * (0.94 - 0.88 * (np.minimum(value, high) - low) / (high - low))
    return "M" + " ".join(f"{one:.0f} {other:.0f}" for one, other in zip(x, y, strict=True))


# ---- where a link leads ----------------------------------------------------------------------------


def slug(text: str) -> str:
    """The text as it may stand in an address: letters, figures, dots and lines."""
    return re.sub(r"[^\w.]+", "-", text).strip("-")[:80] or "-"


def anchor(prefix: str, card: words.Card) -> str:
    """The id of a finding's card, `loss-spike-1`: as the JSON answer names the finding."""
    return f"{prefix}{slug(card.finding.id) if card.finding.id else f'f{card.number}'}"
