"""Columns of numbers under a header that names them: fastai, spaCy, and loops that print a table of their own.

```
epoch     train_loss  valid_loss  accuracy  time          E    #       LOSS TOK2VEC  LOSS NER  SCORE
0         0.602134    0.501234    0.801234  00:30         ---  ------  ------------  --------  ------
```
(https://github.com/fastai/fastai callback/progress.py, https://github.com/explosion/spaCy training/loggers.py). A table
counts when its first column is the step or the epoch and another one measures; a row has a number in each column, and
pandas one before (https://pandas.pydata.org, DataFrame.to_string).
"""

from __future__ import annotations

import re

from trainlens.parsers._numbers import NUMBER, scaled
from trainlens.parsers._pairs import is_metric, is_step
from trainlens.parsers._text_page import Page

_BEGINS = re.compile(r"[\s|│┃]{0,40}(?:epoch|e|#|step|iter|iteration|round|it)(?:\s{2,}|\t|\s?[|│┃])\s*[^\W\d#]?", re.I)
_APART = re.compile(r"\s{2,}|\t|\s*[|│┃]\s*")
_NAME = re.compile(r"[^\W\d][\w ./@%-]{0,40}\Z|#\Z")
_CELL = re.compile(rf"({NUMBER})(%?)\Z")
_BLANK = re.compile(
    r"(?:\d+:)?\d?\d:\d\d\Z|-+\Z|None\Z|\d+m?s\Z|n/a\Z|no log\Z", re.I
)  # durations, and what is not there
_RULE = re.compile(r"[\s|+=:.\u2500-\u257f-]*\Z")  # box drawing, Markdown, rows that pandas leaves out
_WIDEST = 400  # characters of a row


class HeadedTable:
    def __init__(self, page: Page) -> None:
        self.page = page
        self._names: list[str] = []
        self._index = 0  # least number of the next row, where rows are numbered under no name as pandas prints them

    def read(self, text: str) -> bool | None:
        """Whether the line gave points; None when it is neither a header nor part of the table under one."""
        if len(text) > _WIDEST:
            return None
        if self._names and (known := self._row(text)) is not None:
            return known
        if not _BEGINS.match(text):
            return None
        names = _cells(text)
        if len(names) < 3 or not all(_NAME.match(name) for name in names) or not any(map(is_metric, names)):
            return None
        self._names, self._index = names, 0
        return False

    def _row(self, text: str) -> bool | None:
        if _RULE.match(text):
            return False
        cells = _cells(text)
        if len(cells) == len(self._names) + 1 and cells[0].isdigit() and int(cells[0][:15]) >= self._index:
            self._index = int(cells[0][:15]) + 1
            cells = cells[1:]
        numbers = [_CELL.match(cell) for cell in cells]
        fits = len(cells) == len(self._names) and cells[0].isdigit() and len(cells[0]) < 16
        if not fits or any(not found and not _BLANK.match(cell) for cell, found in zip(cells, numbers, strict=True)):
            if "%|" not in text:  # a progress bar may stand between two rows
                self._names = []
            return None
        named = {name: found for name, found in zip(self._names, numbers, strict=True) if found}
        counts = [name for name in named if name == "#" or is_step(name)]
        step = counts[0] if counts else self._names[0]
        if not named[step][1].isdigit():
            return None
        self.page.time = None
        self.page.at_step(int(named[step][1]))
        self.page.steps_from[f"the column '{step}'"] += 1
        for name, found in named.items():
            if name != step:
                self.page.point("epoch" if name == "E" else name, scaled(found[1]))
        return True

    def state(self) -> list[str]:
        return [str(self._index), *self._names]

    def restore(self, held: object) -> None:
        index, *self._names = [str(one) for one in held] if isinstance(held, list) and held else ["0"]
        self._index = int(index)


def _cells(text: str) -> list[str]:
    return [cell for cell in _APART.split(text.strip().strip("|│┃").strip()) if cell]
