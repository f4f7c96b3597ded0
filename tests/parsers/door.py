"""The door of all parser tests: bytes in, points and remarks out.

`rows(csv, "step,loss\\n1,2.5\\n")` reads the text as a file and gives {"loss": [(1, 2.5)]}; with `step=None` where the
log has no steps. `remarks` gives everything that is no point. The file is a real one: parsers read through a Source.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import ModuleType

from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Points
from trainlens.sources import Source

Row = tuple[int | None, float]


def batches(
    parser: ModuleType, content: bytes | str, name: str = "x", since: Checkpoint | None = None, *, folder: str = ""
) -> list[Batch]:
    """All that a parser yields for a file of this content; `folder` is made around it ("mlruns/0/abc/metrics")."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(parser.read(Source.of(path), since))


def points(found: list[Batch]) -> list[Points]:
    """The Points among batches, each held to the contract: arrays of one length and type."""
    kept = [batch for batch in found if isinstance(batch, Points)]
    for one in kept:
        for array in (one.step, one.time, one.origin):
            assert array is None or len(array) == len(one.value), one.tag
        assert one.value.dtype == "float64", one.tag
        assert one.step is None or one.step.dtype == "int64", one.tag
        assert one.origin is None or one.origin.dtype == "int64", one.tag
    return kept


def table(found: list[Batch]) -> dict[str, list[Row]]:
    """Step and value of every point by tag, in the order of the log."""
    rows_of: dict[str, list[Row]] = {}
    for one in points(found):
        steps: list[int | None] = [None] * len(one.value) if one.step is None else list(one.step.tolist())
        rows_of.setdefault(one.tag, []).extend(zip(steps, one.value.tolist(), strict=True))
    return rows_of


def rows(
    parser: ModuleType, content: bytes | str, name: str = "x", since: Checkpoint | None = None
) -> dict[str, list[Row]]:
    """Step and value of every point by tag."""
    return table(batches(parser, content, name, since))


def lines(parser: ModuleType, content: bytes | str, name: str = "x") -> dict[str, list[int]]:
    """The origin (line or byte) of every point by tag."""
    found: dict[str, list[int]] = {}
    for one in points(batches(parser, content, name)):
        assert one.origin is not None, one.tag
        found.setdefault(one.tag, []).extend(one.origin.tolist())
    return found


def notes(parser: ModuleType, content: bytes | str, name: str = "x") -> list[Note]:
    return [batch for batch in batches(parser, content, name) if isinstance(batch, Note)]


def events(parser: ModuleType, content: bytes | str, name: str = "x") -> list[Event]:
    return [batch for batch in batches(parser, content, name) if isinstance(batch, Event)]


def facts(parser: ModuleType, content: bytes | str, name: str = "x") -> dict[str, object]:
    return {batch.name: batch.value for batch in batches(parser, content, name) if isinstance(batch, Fact)}


def checkpoint(found: list[Batch]) -> Checkpoint | None:
    """Where reading may go on; it must be the last thing a parser yields."""
    if found and isinstance(found[-1], Checkpoint):
        return found[-1]
    assert not any(isinstance(batch, Checkpoint) for batch in found)
    return None


def sniffed(parser: ModuleType, content: bytes | str, name: str = "x") -> float:
    """How sure the parser is of a head of this content."""
    score: float = parser.sniff(content.encode() if isinstance(content, str) else content, Path(name))
    assert 0 <= score <= 1
    return score
