"""Rows of a terminal report: a label in 17 columns, text wrapped beside it; nothing in them steers the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.color import ColorSystem
from rich.style import Style

LABEL = 17
NARROWEST = 40

_ASCII = str.maketrans(
    {"▲": "!", "×": "x", "✓": "ok", "●": "*", "○": "-", "→": "->", "−": "-", "–": "-", "·": "|", "…": "...", "±": "+-"}
    | {"\u00a0": " ", "“": '"', "”": '"', "‘": "'", "’": "'", "°": " deg ", "≥": ">=", "≤": "<=", "━": "="}
    | dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """A label of 17 columns and the text beside it; without a label the text begins at the margin."""

    label: str
    text: str = ""
    style: str = ""
    whole: bool = False  # one line as it is, e.g. the sparkline

    def told(self, width: int, *, color: bool, unicode: bool) -> Iterator[str]:
        width = max(NARROWEST, width)
        label, text = (safe(part) if unicode else safe(part).translate(_ASCII) for part in (self.label, self.text))
        indent = LABEL if label else 0
        lines = [text] if self.whole else list(wrapped(text, width - indent))
        if cell_len(label) >= LABEL:  # a label too long for its columns stands alone
            lines = ["", *lines]
        for at, line in enumerate(lines or [""]):
            head = label if at == 0 else ""
            padded = head + " " * max(0, indent - cell_len(head))
            if head.strip() and color and self.style:
                padded = Style.parse(self.style).render(head, color_system=ColorSystem.STANDARD) + padded[len(head) :]
            yield f"{padded}{line}".rstrip() + "\n"


def safe(text: str) -> str:
    """The text with its control characters, line breaks and changes of direction shown instead of sent."""
    return _UNSAFE.sub(lambda found: " " if found[0] in "\n\r\t" else ascii(found[0])[1:-1], text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of at most `width` columns, broken at spaces but not at no-break spaces; words too long are cut."""
    line = ""
    for word in text.split(" "):
        if line and cell_len(line) + 1 + cell_len(word) > width:
            yield line
            line = ""
        pieces = chop_cells(word, width) if cell_len(word) > width else [word]
        yield from ([f"{line} {pieces[0]}" if line else pieces[0], *pieces[1:-1]] if len(pieces) > 1 else ())
        line = pieces[-1] if len(pieces) > 1 or not line else f"{line} {word}"
    if line:
        yield line
