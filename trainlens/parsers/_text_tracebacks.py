"""Python's tracebacks in a text log: which lines belong to one, and the exception that ends it.

Each rank's is known by what a launcher puts before its lines, so that many may be mixed line by line. Of tracebacks
that are chained ("During handling of the above exception …") the first tells the cause. One may also be printed as a
list on one line, wrapped or not. What Python says it ignored, and errors of logging itself, are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,99}\.){0,9}\w{0,99}(?:Error|Exception|Interrupt|Exit|Warning|Stop\w{0,30}|Expired|Timeout"
    r"|Failure|Empty|Fault)(?:\(\w+\))?(?::|$| \[)"
    r"|(?:[A-Za-z_]\w{0,99}\.){1,9}[A-Z]\w{0,99}(?::|$)|[\w.]{1,200}(?:Error|Exception)"
)
_REPR = re.compile(r"'((?:[\w.]{1,200}\.)?\w{0,99}(?:Error|Exception|Interrupt)(?:: .{0,3000}?)?)\\n'\]")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_IGNORED = ("Exception ignored in", "Exception ignored on", "--- Logging error ---")
_HEADS = ("Original Traceback (most recent call last):", "Traceback (most recent call last):")
_MOST = 1000  # open at one time
_LONGEST = 400  # lines from the head of one to its end, those of other ranks between them aside
_WINDOW = 20_000  # lines


class Tracebacks:
    """`read` takes the lines one by one while `busy`, and those that hold a head at any time."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, int]] = {}  # prefix → line of the head, lines of its own since
        self._reprs: set[int] = set()  # ranks whose traceback is printed as one list and was wrapped
        self._chained: dict[str, int] = {}  # prefix → line which says that the next traceback follows from the last
        self._ignored: dict[str, int] = {}  # prefix → line which says that the next traceback does not matter
        self._follows: set[str] = set()  # prefixes of open ones that follow from an earlier, or do not matter
        self.minor = False  # whether the exception read last follows from one before

    @property
    def busy(self) -> bool:
        return bool(self._open) or bool(self._reprs)

    def read(self, at: int, line: str, rank: int, text: str) -> str | bool:
        """The exception, where the line ends a traceback; whether the line belongs to one otherwise."""
        if "raceback (most recent call last):" in text or rank in self._reprs:
            return self._begins(at, line, rank, text)
        words = next((word for word in (*_CHAINED, *_IGNORED) if word in text), None)
        if words and not (before := line[: line.index(words)].rstrip()).endswith(('"', "'", "`")):
            into = self._chained if words in _CHAINED else self._ignored
            if len(into) >= _MOST:
                into.clear()
            into[before] = at
            return True
        return self._goes_on(at, line) if self._open else False

    def _begins(self, at: int, line: str, rank: int, text: str) -> str | bool:
        head = next((one for one in _HEADS if one in line), _HEADS[1])
        before = line[: line.index(head)].rstrip() if head in line else "?" * 200
        if text.startswith(_HEADS) or not before or (len(before) <= 120 and before[-1] in ":]>|)"):
            self._opens(at, before)
            return True
        whole = _REPR.findall(text[-6000:])
        wrapped = rank in self._reprs
        if whole:
            self._reprs.discard(rank)
            self.minor = False
            return str(whole[-1])
        if wrapped and not text.endswith("\\n',") and "\\n" not in text:
            self._reprs.discard(rank)
        elif text.startswith("['Traceback"):
            self._reprs.add(rank)
        return rank in self._reprs

    def _opens(self, at: int, before: str) -> None:
        if len(self._open) >= _MOST:
            self._open.clear()
        self._open[before] = (at, 0)
        self._follows.discard(before)
        chained, ignored = self._chained.pop(before, -_WINDOW), self._ignored.pop(before, -_WINDOW)
        if at - chained <= _LONGEST or at - ignored <= 20:
            self._follows.add(before)

    def _goes_on(self, at: int, line: str) -> str | bool:
        """Frames are indented, the line that ends a traceback is not."""
        if at % 256 == 0:
            self._open = {key: held for key, held in self._open.items() if at - held[0] <= _WINDOW}
        before = max((one for one in self._open if line.startswith(one)), key=len, default=None)
        if before is None:
            return False
        head, count = self._open[before]
        body = line[len(before) :].removeprefix(" ").rstrip() if before else line.rstrip()
        if count > _LONGEST or at - head > _WINDOW:
            del self._open[before]
            return False
        self._open[before] = head, count + 1
        if not body or body[0] in " \t":
            return True
        if not _RAISED.match(body):
            return False
        if "RayTaskError(" in body:  # the remote traceback follows
            return True
        del self._open[before]
        self.minor = before in self._follows
        return body

    # ---- going on later ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        return {
            "open": {key: list(held) for key, held in self._open.items()},
            "reprs": sorted(self._reprs),
            "chained": dict(self._chained),
            "ignored": dict(self._ignored),
            "follows": sorted(self._follows),
        }

    def restore(self, state: Mapping[str, object]) -> None:
        opened, reprs, chained, ignored, follows = (
            state.get(name) for name in ("open", "reprs", "chained", "ignored", "follows")
        )
        self._open = {key: (held[0], held[1]) for key, held in opened.items()} if isinstance(opened, dict) else {}
        self._reprs = set(reprs) if isinstance(reprs, list) else set()
        self._chained = dict(chained) if isinstance(chained, dict) else {}
        self._ignored = dict(ignored) if isinstance(ignored, dict) else {}
        self._follows = set(follows) if isinstance(follows, list) else set()
