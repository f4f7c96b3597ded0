"""Sources that are dear to read are read once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Place, Points
from trainlens.sources import Source
from trainlens.store import cache

STEP = np.arange(1000)
REAL = STEP.astype(np.float64)
BATCHES: list[Batch] = [
    Points("loss", STEP, np.where(STEP == 7, np.nan, REAL / 3), REAL + 1.76e9, 3, STEP * 50, "a"),
    Points("lr", STEP, REAL * 1e-9),
    Points("odd", None, np.array([np.inf, -0.0])),
    Event("xid", "Xid 79", 12, 1.5, 2, Place("log", line=9)),
    Fact("precision", "bf16", Place("log", byte=4)),
    Note("damaged", "cut off", byte=77, count=2),
    Checkpoint(4096, {"columns": ["loss"], "row": 3}),
]


class Reader:
    """A parser that counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
        assert since is None
        assert source.size
        self.calls += 1
        yield from BATCHES


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "DEAR", -1.0)
    path = tmp_path / "log"
    path.write_text("step 1 loss 2\n")
    return path


def again(path: Path, reader: Reader) -> list[Batch]:
    return list(cache.cached(Source.of(path), "jsonl", reader))


def kept(path: Path) -> list[Path]:
    return list((path.parent / "cache").rglob("*.part"))


def test_an_unchanged_file_is_read_once_and_gives_the_same(log: Path) -> None:
    reader = Reader()
    again(log, reader)
    found = again(log, reader)
    assert reader.calls == 1
    assert found[2:] != []
    for batch, other in zip(BATCHES, found, strict=True):
        if not isinstance(batch, Points):
            assert other == batch
            continue
        assert isinstance(other, Points)
        assert (other.tag, other.rank, other.run) == (batch.tag, batch.rank, batch.run)
        assert other.value.tobytes() == batch.value.tobytes()
        for name in ("step", "time", "origin"):
            mine, its = getattr(batch, name), getattr(other, name)
            assert (mine is None) == (its is None)
            assert mine is None or np.array_equal(mine, its)


def test_arrays_that_tags_share_stay_shared(log: Path) -> None:
    again(log, Reader())
    first, second, *_ = again(log, Reader())
    assert isinstance(first, Points)
    assert isinstance(second, Points)
    assert first.step is second.step


@pytest.mark.parametrize("change", ["content", "time"])
def test_a_changed_file_is_read_again(log: Path, change: str) -> None:
    reader = Reader()
    again(log, reader)
    if change == "content":
        log.write_text("step 1 loss 3\n")
    os.utime(log, (1.0, 1.0))
    again(log, reader)
    assert reader.calls == 2


def test_a_damaged_cache_is_ignored_and_written_anew(log: Path) -> None:
    reader = Reader()
    again(log, reader)
    kept(log)[0].write_bytes(b"no part at all")
    again(log, reader)
    again(log, reader)
    assert reader.calls == 2


def test_what_is_cheap_to_read_is_not_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "DEAR", 60.0)
    again(log, Reader())
    assert kept(log) == []


def test_a_directory_that_cannot_be_written_is_no_fault(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log.parent / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(log.parent / "file"))
    assert len(again(log, Reader())) == len(BATCHES)


def test_the_cache_stays_within_its_limit(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again(log, Reader())
    monkeypatch.setattr(cache, "LIMIT", int(1.5 * sum(path.stat().st_size for path in kept(log)[0].parent.iterdir())))
    other = log.with_name("other")
    other.write_text("x")
    os.utime(kept(log)[0].with_name("table.json"), (1.0, 1.0))
    again(other, Reader())
    assert len(kept(log)) == 1


def test_a_reading_that_is_given_up_is_not_kept(log: Path) -> None:
    stream = cache.cached(Source.of(log), "jsonl", Reader())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert kept(log) == []
