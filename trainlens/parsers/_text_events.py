"""What a text log says of failures, checkpoints and the end of a run, as Events: one an incident and rank.

An incident is told by its first text; a traceback by the exception that ends it. What only mentions such words stays
silent: lists of arguments, printed source code, warnings at shutdown (`_text_signatures`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from trainlens.model import NO_RANK, Event, EventKind, Place
from trainlens.parsers._lines import clock, unprefixed
from trainlens.parsers._text_page import Page
from trainlens.parsers._text_signatures import EACH, MARKS, MENTIONED, SIGNATURES

_RAISED = re.compile(
    r"^[\w.]*?(?:Error|Exception|Interrupt|Exit|Warning|Stop\w*|Expired|Timeout|Failure)\b(?::|$)"
    r"|^[\w.]+(?:Error|Exception)"
)
_REPR = re.compile(r"'((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)(?:: .*?)?)\\n'\]")
_ITERATION = re.compile(r"on iteration (\d+)")
_OWN_RANK = re.compile(r"\[rank(\d+)\]")
_ROOT = re.compile(r"^\s*(rank|exitcode)\s+: (.+)$")
_AFTER = ("During handling of the above exception", "The above exception was the direct cause")
_WINDOW = 20_000  # lines: the same words within them and at the same step are one incident


def marked(lines: Sequence[str]) -> set[int]:
    """The places of lines that hold one of MARKS."""
    text = "\n".join(lines)
    found: set[int] = set()
    ends: list[int] = []
    for mark in MARKS:
        at = text.find(mark)
        if at >= 0 and not ends:
            ends = list(accumulate(len(line) + 1 for line in lines))
        while at >= 0:
            line = bisect_right(ends, at)
            found.add(line)
            at = text.find(mark, ends[line])
    return found


class EventLines:
    """Looks at lines that hold one of MARKS, and at all lines while a traceback is open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        # kind, rank and task → step and line of the last one
        self._told: dict[tuple[str, int, str], tuple[int | None, int]] = {}
        self._open: dict[str, int] = {}  # prefix of a rank → line where its traceback begins
        self._reprs: set[int] = set()  # ranks whose traceback is printed as one list and was wrapped
        self._root: dict[str, str] | None = None
        self._last: list[int | None] = []  # the iteration of the last overflow that was named

    @property
    def busy(self) -> bool:
        """Whether the next lines are wanted, whatever they hold."""
        return bool(self._open) or self._root is not None or bool(self._reprs)

    def read(self, line: str) -> None:
        rank, rest = unprefixed(line)
        text = rest.rstrip()
        if self._root is not None and self._root_cause(text):
            return
        if "Traceback (most recent call last):" in text or rank in self._reprs:
            if self._begins(line, rank, text):
                return
        elif self._open and self._traceback(line, rank):
            return
        if text.startswith("Root Cause (first observed failure)"):
            self._root = {}
            return
        self._signature(line, rank, text)

    # ---- tracebacks ----------------------------------------------------------------------------------------------

    def _begins(self, line: str, rank: int, text: str) -> bool:
        if text.startswith("Traceback"):
            self._open[line[: line.index("Traceback")].rstrip()] = self.page.line
            return True
        whole = _REPR.findall(text)
        if whole:
            self._reprs.discard(rank)
            self._raised(rank, whole[-1])
        elif rank in self._reprs and not text.endswith("\\n',") and "\\n" not in text:
            self._reprs.discard(rank)
        elif text.startswith("['Traceback"):
            self._reprs.add(rank)
        return bool(whole) or rank in self._reprs

    def _traceback(self, line: str, rank: int) -> bool:
        """Whether the line belongs to an open traceback: its frames are indented, the line that ends it is not."""
        prefix = next((one for one in self._open if line.startswith(one)), None) if len(self._open) < 1000 else None
        if prefix is None:
            return False
        body = line[len(prefix) :].removeprefix(" ").rstrip() if prefix else line.rstrip()
        if self.page.line - self._open[prefix] > _WINDOW:
            del self._open[prefix]
            return False
        if not body or body[0] in " \t" or body.startswith(("  ", "\t")):
            return True
        if not _RAISED.match(body):
            if "  File" not in body and self.page.line - self._open[prefix] > 400:
                del self._open[prefix]
            return body.startswith(_AFTER)
        if "RayTaskError(" in body:  # the remote traceback follows
            return True
        del self._open[prefix]
        self._raised(rank, body)
        return True

    def _raised(self, rank: int, text: str) -> None:
        if "ChildFailedError" in text:  # the launcher's own; its summary names the culprit
            return
        kind = next((kind for kind, pattern in SIGNATURES if kind not in EACH and pattern.search(text)), None)
        self._tell(kind or "traceback", text, rank)

    def _root_cause(self, text: str) -> bool:
        """The summary of torchrun: rank and exit code of the process that failed first."""
        assert self._root is not None
        found = _ROOT.match(text)
        if found:
            self._root[found[1]] = found[2]
        if len(self._root) == 2:
            rank = int(re.match(r"\d+", self._root["rank"])[0]) if self._root["rank"][:1].isdigit() else NO_RANK  # type: ignore[index]
            self._tell("exit-code", f"root cause: rank {self._root['rank']}, exit code {self._root['exitcode']}", rank)
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
            if MENTIONED.search(text):
                return
            own = _OWN_RANK.search(line)
            rank = int(own[1]) if own else rank
            step = next((int(value) for value in found.groupdict().values() if value), None)
            if kind == "overflow":
                self._overflow(text, rank)
            elif kind in EACH:
                self._tell(kind, text, rank, step, each=True)
            else:
                self._tell(kind, text, rank)
            return

    def _overflow(self, text: str, rank: int) -> None:
        """One skipped step. Some optimisers print it on every rank, and in two forms: once an iteration is enough."""
        named = _ITERATION.search(text)
        step = int(named[1]) if named else self.page.step
        engine = "named" if named or "Overflow detected" in text else "scaler"
        if engine == "named":
            if self._last and (self._last[0] == step or not named):
                return
            self._last = [step]
        self._tell("overflow", text, rank, step, each=True)

    def _tell(self, kind: EventKind, text: str, rank: int, step: int | None = None, *, each: bool = False) -> None:
        page = self.page
        detail = text[text.find("task ") :].split(" ")[1] if kind == "hang" else ""
        key = (kind, rank, detail)
        told = self._told.get(key)
        if not each and told is not None and told[0] == page.step and page.line - told[1] < _WINDOW:
            self._told[key] = (page.step, page.line)
            return
        self._told[key] = (page.step, page.line)
        place = Place(page.name, page.line)
        page.events.append(
            Event(kind, text.strip()[:500], page.step if step is None else step, clock(text, 200), rank, place)
        )

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "told": [[*key, *last] for key, last in self._told.items()],
            "open": dict(self._open),
            "reprs": sorted(self._reprs),
            "root": None if self._root is None else dict(self._root),
            "last": list(self._last),
        }

    def restore(self, state: Mapping[str, object]) -> None:
        told, opened, reprs, root, last = (state[name] for name in ("told", "open", "reprs", "root", "last"))
        self._told = (
            {(kind, rank, detail): (step, line) for kind, rank, detail, step, line in told}
            if isinstance(told, list)
            else {}
        )
        self._open = dict(opened) if isinstance(opened, dict) else {}
        self._reprs = set(reprs) if isinstance(reprs, list) else set()
        self._root = dict(root) if isinstance(root, dict) else None
        self._last = list(last) if isinstance(last, list) else []
