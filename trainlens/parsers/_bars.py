"""Progress bars that carry metrics: those of tqdm behind the rate or before the bar, those of Keras at an epoch's end.

`Epoch 0:  6%|█ | 30/500 [00:43<04:39,  1.37it/s, loss=2.6]` (https://github.com/tqdm/tqdm, Lightning),
`[loss: 1.64 | kl: 0.1]:  16%|█ | 1024/6400 [1:14:23<1:13:02,  1.23it/s]` (trlx),
`102/102 [=====] - 861s 251ms/step - loss: 0.5 - val_loss: 0.6` (https://github.com/keras-team/keras, progbar.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainlens.parsers._marks import EPOCH, FREE, IGNORED, INSIDE, TOTAL, Mark
from trainlens.parsers._numbers import NUMBER, THOUSANDS, scaled
from trainlens.parsers._pairs import is_step, pairs
from trainlens.parsers._positions import Position

BAR = re.compile(r"(\d+)/(\d+|\?) \[(\d+:[^\[\]]*)(\]?)")
KERAS = re.compile(r"\s*(\d+)/(\d+)\s*(?:\[[=>.]*\]|━+|(?=\s-\s\d+m?s\s))")
_POSTFIX = re.compile(rf"\s*([^\W\d][\w./ -]*?)\s?[=:]\s?({NUMBER})([A-Za-z%/]*)\s*\Z")
_PERCENT = re.compile(r":?\s*\d+%\|")
_DRAWN = re.compile(r"(\d+)%\|([^|]*)\|\s*\Z")
_CLOCKS = re.compile(r"([\d:]+)<([\d:?]+),\s*([\d.]+|\?)(?=[a-zA-Z])")
_EPOCH = re.compile(r"[Ee]poch:?\s*\[?(\d+)(?:/\d+)?\]?")
_REACH = 500  # characters before a bar that are its description
MOST = 1000  # bars of different totals
_NO_METRIC = frozenset(("v_num", "epoch"))

Values = list[tuple[str, float]]


def told(text: str, before: str) -> Values:
    """What a bar of tqdm says: the values behind its rate, else those of its description."""
    before = before[-_REACH:]
    values: Values = []
    for chunk in text.split(", ")[2:]:
        if (found := _POSTFIX.match(chunk)) and found[1] not in _NO_METRIC and not is_step(found[1]):
            values.append((found[1], scaled(found[2], found[3])))
    if not values and (percent := _PERCENT.search(before)):
        values = [(field.key, field.value) for field in pairs(before[: percent.start()]) if not is_step(field.key)]
    return values


def marks(text: str, bar: re.Match[str]) -> list[Mark]:
    """The numbers of a line that is a bar and nothing else: of its place, its values, and of what is drawn."""
    at, found = bar.start(3), []
    for place, chunk in enumerate(bar[3].split(", ")):
        if place >= 2 and (field := _POSTFIX.match(chunk)):
            metric = field[1] not in _NO_METRIC and not is_step(field[1])
            span = at + field.start(2), at + field.end(2)
            found.append(Mark(field[1] if metric else IGNORED, *span, THOUSANDS.get(field[3], "")))
        at += len(chunk) + 2
    begin = max(bar.start() - _REACH, 0)
    head = text[begin : bar.start()]
    if not any(mark.tag for mark in found) and (percent := _PERCENT.search(head)):
        fields = [field for field in pairs(head[: percent.start()]) if not is_step(field.key)]
        found += [
            Mark(field.key, begin + field.number[0], begin + field.number[1], THOUSANDS.get(field.unit, ""))
            for field in fields
        ]
    if epoch := _EPOCH.search(head):
        found.append(Mark(EPOCH, begin + epoch.start(1), begin + epoch.end(1)))
    if drawn := _DRAWN.search(head):
        found += [Mark(IGNORED, *_moved(drawn.span(1), begin)), Mark(FREE, *_moved(drawn.span(2), begin))]
    if clocks := _CLOCKS.match(bar[3]):
        found += [Mark(IGNORED, *_moved(clocks.span(group), bar.start(3))) for group in (1, 2, 3)]
    return [*found, Mark(INSIDE, *bar.span(1)), Mark(TOTAL, *bar.span(2))]


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


def place(count: int, total: int, before: str) -> Position:
    """Where in the run a bar is: its description may name the epoch."""
    epoch = _EPOCH.search(before[-_REACH:])
    return Position(int(epoch[1]) if epoch else None, count, total, 0)


def remembered(bars: dict[int, int], bar: int, main: int) -> dict[int, int]:
    """The bars by their totals, not too many of them."""
    if len(bars) <= MOST:
        return bars
    return {total: count for total, count in bars.items() if total in (bar, main)}


def final(parts: Sequence[str]) -> list[str]:
    """The parts of a line without those bars of Keras that a later one on the line replaces."""
    return [
        part
        for at, part in enumerate(parts)
        if not (KERAS.match(part) and any(KERAS.match(later) for later in parts[at + 1 :]))
    ]
