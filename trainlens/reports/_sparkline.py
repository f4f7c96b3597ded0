"""The loss as a row of block characters, the findings under it, and the steps: three rows of one width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from trainlens.diagnosis import Curve, RunDiagnosis
from trainlens.reports._words import Card

_BLOCKS = "▁▂▃▄▅▆▇█"
_TOP = 0.95  # share of the columns that fit the scale; the start of a loss curve would flatten all the rest


@dataclass(frozen=True)
class Sparkline:
    metric: str
    levels: str
    marks: str  # numbers of findings, with a line as long as they last
    ticks: str


def sparkline(run: RunDiagnosis, cards: Sequence[Card], width: int) -> Sparkline | None:
    """Of the training loss, else of the first finding's metric, else of the first curve; None without a curve."""
    curve = _chosen(run, cards)
    if curve is None or width < 10:
        return None
    first, last = curve.step[0], max(curve.step[-1], *curve.non_finite, run.result.last_step or 0)
    if first < 0.02 * last:
        first = 0
    column = _Columns(first, last, width)
    of_metric = [card for card in cards if card.finding.metric == curve.metric]
    return Sparkline(curve.metric, _levels(curve, of_metric, column), _marks(cards, column), _ticks(column))


def close_up(run: RunDiagnosis, card: Card, width: int) -> Sparkline | None:
    """A finding's own metric around its episode; None where the episode is most of the run."""
    finding = card.finding
    curve = next((one for one in run.curves if finding.id and one.of == finding.id and len(one.step) > 2), None)
    if curve is None or width < 10:
        return None
    column = _Columns(curve.step[0], max(curve.step[-1], *curve.non_finite, 0), min(width, 2 * len(curve.step)))
    alone = [replace(card, same=(), includes=())]
    own = alone if finding.metric == curve.metric else []
    return Sparkline(curve.metric, _levels(curve, own, column, top=1.0), _marks(alone, column), _ticks(column))


@dataclass(frozen=True)
class _Columns:
    first: int
    last: int
    count: int

    def of(self, step: int) -> int:
        share = (step - self.first) / max(1, self.last - self.first)
        return min(self.count - 1, max(0, int(share * self.count)))


def _chosen(run: RunDiagnosis, cards: Sequence[Card]) -> Curve | None:
    whole = [curve for curve in run.curves if not curve.of and len(curve.step) > 1]
    wanted = ["train/loss", *(card.finding.metric for card in cards)]
    for name in wanted:
        own = [curve for curve in whole if curve.metric == name]
        if own:  # where each rank logs its own, the first rank's
            return min(own, key=lambda curve: -1 if curve.rank is None else curve.rank)
    return next((curve for curve in whole if curve.rank in (None, -1)), None)


def _levels(curve: Curve, cards: Sequence[Card], column: _Columns, top: float = _TOP) -> str:
    """Column by column the median; where a finding of this metric lies, what departs most from it."""
    lying: set[int] = set()
    for card in cards:
        for finding in (card.finding, *card.same):
            if finding.first_step is not None:
                end = finding.first_step if finding.last_step is None else finding.last_step
                lying.update(range(column.of(finding.first_step), column.of(end) + 1))
    groups: dict[int, list[int]] = {}
    for at, step in enumerate(curve.step):
        groups.setdefault(column.of(step), []).append(at)
    shown: dict[int, float] = {}
    for where, members in groups.items():
        values = [curve.value[at] for at in members if curve.value[at] == curve.value[at]]
        if values:
            middle = median(values)
            ends = [one for at in members for one in (curve.low[at], curve.high[at])]
            shown[where] = max(ends, key=lambda one: abs(one - middle)) if where in lying else middle
    text = [" "] * column.count
    for where, level in _scaled(shown, top).items():
        text[where] = _BLOCKS[level]
    for step in curve.non_finite:
        text[column.of(step)] = "×"
    return _bridged(text)


def _bridged(text: list[str]) -> str:
    """Fewer points than columns: a point reaches to the next one, but not over a gap in the log."""
    filled = [at for at, letter in enumerate(text) if letter != " "]
    widest = 2 * len(text) // max(1, len(filled))
    if filled and filled[0] <= widest:
        text[: filled[0]] = [text[filled[0]].replace("×", " ")] * filled[0]
    for left, right in pairwise(filled):
        if right - left <= widest:
            text[left + 1 : right] = [text[left].replace("×", " ")] * (right - left - 1)
    return "".join(text)


def _scaled(shown: dict[int, float], top_share: float) -> dict[int, int]:
    """Level 0 to 7 of each column; `top_share` of them fit the scale."""
    ordered = sorted(shown.values())
    if not ordered:
        return {}
    low, top = ordered[0], ordered[int(top_share * (len(ordered) - 1))]
    span = top - low
    return {where: min(7, int(8 * (value - low) / span)) if span > 0 else 0 for where, value in shown.items()}


def _marks(cards: Sequence[Card], column: _Columns) -> str:
    text = [" "] * column.count
    for card in cards:
        for finding in (card.finding, *card.same):
            if finding.first_step is None:
                continue
            label = str(card.number)
            at = min(column.of(finding.first_step), column.count - len(label))
            end = column.of(finding.last_step) if finding.last_step is not None else at
            if any(letter != " " for letter in text[max(0, at - 1) : at + len(label)]):
                continue
            text[at : at + len(label)] = label
            for place in range(at + len(label), end + 1):
                if text[place] != " ":
                    break
                text[place] = "━"
    return "".join(text).rstrip()


def _ticks(column: _Columns) -> str:
    parts = 4 if column.count >= 48 else 2
    text = [" "] * column.count
    for part in range(parts + 1):
        label = f"{column.first + (column.last - column.first) * part // parts:,}"
        at = min(column.count * part // parts, column.count - len(label))
        if at >= 0 and not "".join(text[max(0, at - 1) : at + len(label)]).strip():
            text[at : at + len(label)] = label
    return "".join(text).rstrip()
