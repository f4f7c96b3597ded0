"""What a text log says of failures, checkpoints and the end of a run, as Events: one an incident and rank.

An incident is told by its first text; a traceback by the exception that ends it. What only mentions such words stays
silent: lists of arguments, printed source code, quoted text, warnings at shutdown (`_text_signatures`). A flood of
one kind is thinned, and a Note says how many there were.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from trainlens.later import Later
from trainlens.model import NO_RANK, Event, EventKind, Note, Place
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._text_page import Page
from trainlens.parsers._text_signatures import EACH, ENDING, MARKS, MENTIONED, QUOTED, QUOTES, SIGNATURES
from trainlens.parsers._text_tracebacks import Tracebacks

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")

_ITERATION = re.compile(r"on iteration (\d+)")
_OWN_RANK = re.compile(r"\[rank(\d{1,7})\]")
# Ranks that a line names where none stands before it; the "[Rank 1]" of a process group counts within that group.
_NAMED_RANK = re.compile(
    r"Ranks? (\d{1,7})(?:, \d+)* failed to pass monitoredB|\btasks? (\d{1,7})\b.{0,99}: (?:Exited|Segm|Abort|Out)"
    r"|process rank (\d{1,7}) |\[Rank (\d{1,7})\](?!.*PG (?:GU)?ID)"
)
_MPI = re.compile(r"\[\d+,(\d+)\]<std(?:err|out)>:\s?")
_STAMP = re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]{0,20}\]?\s(?:std(?:err|out) [FP] )?")
_ROOT = re.compile(r"^\s*(time|host|rank|exitcode)\s*: (.{1,200})$")
_TASK = re.compile(r"task (\S+:\d+)")
_WINDOW = 20_000  # lines: the same words within them and at the same step are one incident
_LONGEST = 16_000  # characters of a line that are looked at
_MOST = 2_000  # events of a kind; of those that follow one in ten is kept, then one in a hundred …
_RANKS = 10_000  # different things told, that are remembered


def marked(lines: Sequence[str]) -> set[int]:
    """The places of lines that hold one of MARKS."""
    if not lines:
        return set()
    return set(pl.Series(lines, dtype=pl.String).str.contains_any(list(MARKS)).arg_true().to_list())


class EventLines:
    """Looks at lines that hold one of MARKS, and at all lines while a traceback is open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._tracebacks = Tracebacks()
        # kind, rank and task or exception → step and line of the last one
        self._told: dict[tuple[str, int, str], tuple[int | None, int]] = {}
        self._root: dict[str, str] | None = None
        self._last: list[int | None] = []  # the iteration of the last overflow that was named
        self._count: Counter[str] = Counter()
        self._left: Counter[str] = Counter()  # of a flood, those that are not told

    @property
    def busy(self) -> bool:
        """Whether the next lines are wanted, whatever they hold."""
        return self._tracebacks.busy or self._root is not None

    def read(self, line: str) -> None:
        if len(line) > _LONGEST:
            line = line[: _LONGEST // 2] + line[-_LONGEST // 2 :]
        line = line.removeprefix("^C")  # as terminals show the key
        stamp = _STAMP.match(line)
        whole, line = line, line[stamp.end() :] if stamp else line
        outer = _MPI.match(line)
        rank, rest = unprefixed(line[outer.end() :] if outer else line)
        rank = int(outer[1]) if outer and rank == NO_RANK else rank
        text = rest.rstrip()
        if self._root is not None and self._root_cause(text):
            return
        found = self._tracebacks.read(self.page.line, line, rank, text)
        if isinstance(found, str):
            self._raised(rank, found)
        elif not found:
            if text.startswith("Root Cause"):
                self._root = {}
            else:
                self._signature(whole, rank, text)

    def _raised(self, rank: int, text: str) -> None:
        """An exception: told as what it says, where that is known; else as a traceback."""
        if "ChildFailedError" in text or text.startswith(("SystemExit: 0", "GeneratorExit")):
            return  # the launcher's own, whose summary names the culprit; no failure
        kind = next((kind for kind, pattern in SIGNATURES if kind not in EACH and pattern.search(text)), None)
        if kind is not None:
            self._tell(kind, text, rank)
        if (kind is None or kind in ENDING) and not self._tracebacks.minor:
            self._tell("traceback", text, rank, detail=re.split(r"[:(\s]", text, maxsplit=1)[0][:100])

    def _root_cause(self, text: str) -> bool:
        """The summary of torchrun: rank and exit code of the process that failed first, when and where."""
        assert self._root is not None
        found = _ROOT.match(text)
        if found:
            self._root[found[1]] = found[2].strip()
        if "rank" in self._root and "exitcode" in self._root:
            number = re.match(r"\d{1,7}", self._root["rank"])
            host = f" on {self._root['host']}" if "host" in self._root else ""
            told = f"root cause: rank {self._root['rank']}{host}, exit code {self._root['exitcode']}"
            told += f", {self._root['time']}" if "time" in self._root else ""
            self._tell("exit-code", told, int(number[0]) if number else NO_RANK)
            self._root = None
        elif text.startswith("====="):
            self._root = None
        return bool(found) or self._root is not None

    # ---- single lines --------------------------------------------------------------------------------------------

    def _signature(self, line: str, rank: int, text: str) -> None:
        for kind, pattern in SIGNATURES:
            found = pattern.search(text)
            if not found:
                continue
            start = found.start()
            if MENTIONED.search(text) or _quoted(text[:start]):
                return
            if own := _OWN_RANK.search(line):
                rank = int(own[1])
            elif rank == NO_RANK and (named := _NAMED_RANK.search(text)):
                rank = int(next(number for number in named.groups() if number))
            step = next((int(value[:18]) for value in found.groupdict().values() if value), None)
            text = text[start - 120 :] if start > 250 else text  # behind a progress bar
            if kind == "overflow":
                self._overflow(text, rank)
            elif kind in EACH:
                self._tell(kind, text, rank, step, line=line, each=True)
            else:
                task = _TASK.search(text) if kind == "hang" else None
                self._tell(kind, text, rank, detail=task[1] if task else "", line=line)
            return

    def _overflow(self, text: str, rank: int) -> None:
        """One skipped step. Some optimisers print it on every rank, and in two forms: once an iteration is enough."""
        named = _ITERATION.search(text)
        step = int(named[1][:18]) if named else self.page.step
        engine = "named" if named or "Overflow detected" in text else "scaler"
        if engine == "named":
            if self._last and (self._last[0] == step or not named):
                return
            self._last = [step]
        self._tell("overflow", text, rank, step, each=True)

    def _tell(
        self,
        kind: EventKind,
        text: str,
        rank: int,
        step: int | None = None,
        *,
        detail: str = "",
        line: str = "",
        each: bool = False,
    ) -> None:
        page = self.page
        key = (kind, rank if kind != "exit-code" else NO_RANK, detail)
        told = self._told.get(key)
        if len(self._told) >= _RANKS:
            self._told.clear()
        self._told[key] = (page.step, page.line)
        if not each and told is not None and told[0] == page.step and page.line - told[1] < _WINDOW:
            return
        self._count[kind] += 1
        count = self._count[kind]
        every = 10 ** len(str(count // _MOST)) if count > _MOST else 1
        if count % every:
            self._left[kind] += 1
            return
        more = f" (one of {every:,} like it)" if every > 1 else ""
        time = clock(text, 200)
        time = clock(line, 60) if time is None and line else time
        at = page.step if step is None else step
        page.events.append(Event(kind, text.strip()[:600] + more, at, time, rank, Place(page.name, page.line)))

    def notes(self) -> Iterator[Note]:
        """How much of a flood was left out."""
        for kind, left in self._left.items():
            count = self._count[kind]
            yield Note("limit", f"{count:,} messages of the kind {kind}: {count - left:,} are told", count=count)

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "told": [[*key, *last] for key, last in self._told.items()],
            "root": None if self._root is None else dict(self._root),
            "last": list(self._last),
            "count": dict(self._count),
            "left": dict(self._left),
            "tracebacks": self._tracebacks.state(),
        }

    def restore(self, state: Mapping[str, object]) -> None:
        told, root, last, count, left, tracebacks = (
            state.get(name) for name in ("told", "root", "last", "count", "left", "tracebacks")
        )
        self._told = (
            {(kind, rank, detail): (step, line) for kind, rank, detail, step, line in told}
            if isinstance(told, list)
            else {}
        )
        self._root = dict(root) if isinstance(root, dict) else None
        self._last = list(last) if isinstance(last, list) else []
        self._count = Counter(count if isinstance(count, dict) else {})
        self._left = Counter(left if isinstance(left, dict) else {})
        self._tracebacks.restore(tracebacks if isinstance(tracebacks, dict) else {})


def _quoted(before: str) -> bool:
    if before and before[-1] in QUOTES:
        return True
    return any(before.count(mark) % 2 for mark in QUOTED)
