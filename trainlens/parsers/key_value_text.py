"""Console output of any trainer: names and numbers on lines, and what it says of failures.

Dictionaries of the Hugging Face trainer (behind progress bars, quoted, as tensors), `key=value`, `key: value` between
bars, commas or blanks, names and values side by side; bars of tqdm and Keras that carry metrics, boxed tables, blocks
under a headline, columns under a header. The step is found by name, in the progress bar, as a place in an epoch
(`Epoch [2][50/742]`), or is the position. A text without any metric still tells its events.

Lines of a form of your own are read by your patterns (`--pattern`, or `patterns = [...]` in the settings), regular
expressions whose named groups are the metrics: `it (?P<step>\\d+) took .* L=(?P<loss>\\S+)`. The groups `step`, `time`
and `rank` say where a row belongs; `(?P<name>\\w+)->(?P<value>\\S+)` reads all pairs of a line. Such lines are read by
the pattern alone, and 1,000 characters of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainlens.model import Batch, Checkpoint
from trainlens.parsers import _text_reader
from trainlens.parsers._envelopes import enveloped
from trainlens.parsers._lines import head_text
from trainlens.parsers._pair_lines import PairLines
from trainlens.parsers._text_events import EventLines, marked
from trainlens.parsers._text_page import Page
from trainlens.parsers._text_reader import LINES
from trainlens.sources import Source

TELLS_END = True
READS_TEXT = True

_RUBBISH = 50  # of so many characters at most one is NUL where a few hundred bytes of a log were overwritten
_NOT_LOGS = re.compile(r"\.(?:py|md|rst|toml|ya?ml|sh|jsonl?|csv|tsv|html|ipynb|c|cpp|cu|h|js|ts)", re.I)
_LOG_LINE = re.compile(
    r"^\W*(?:\w+[|: ])?\W*(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d{2,4}|[IWEF]\d{4}|\w{3} \w{3} [ \d]\d)[ T]\d?\d?:?\d\d:\d\d"
    r"|\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b.*[:\]-]"
    r"|\d+/\d+ \[\d+:\d+<|^\[rank\d+\]|^\([\w ]*pid=\d*\)|^\s*\[\s*\d+\.\d{6}\] "
)
_BEGIN = 500  # characters of a line in which it shows what it is


def sniff(head: bytes, path: Path) -> float:
    """0.6 for rows of metrics (0.9 in lines of JSON), 0.3 for what looks like a log or tells a failure, else 0."""
    text = head_text(head)
    no_log = _NOT_LOGS.fullmatch(path.suffix) and not (path.suffix.startswith(".json") and enveloped(head))
    if not text.strip() or text.count("\0") * _RUBBISH > len(text) or no_log:
        return 0.0
    lines = [line for line in text.split("\n") if line.strip()]
    looked = lines[:LINES] + lines[LINES:][-LINES:]
    if sum(line.lstrip().startswith(('{"', '[{"')) for line in looked) > len(looked) // 2:
        return 0.0  # JSON lines
    page = Page("")
    reader = PairLines(page, lines[:LINES])
    rows = sum(reader.read(line) for line in looked)
    if rows >= 2 and rows * 20 >= len(looked):
        return 0.9 if enveloped(head) else 0.6  # more than a reader of JSON can make of it
    logged = sum(bool(_LOG_LINE.search(line[:_BEGIN])) for line in looked)
    if sum(line.startswith(("+ ", "++ ", "+++ ")) for line in looked) >= 4:
        logged = len(looked)  # what a batch script prints under `set -x`
    if rows or logged * 4 >= len(looked) or _fails(looked):
        return 0.4 if rows and logged else 0.3
    return 0.0


def _fails(lines: list[str]) -> bool:
    """Whether a failure is told."""
    events = EventLines(Page(""))
    of_interest = marked(lines)
    for at, line in enumerate(lines):
        if at in of_interest or events.busy:
            events.read(line)
    return bool(events.page.events)


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
    return _text_reader.read(source, since)
