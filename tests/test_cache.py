"""Sources that are dear to read are read once."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Place, Points
from trainlens.sources import Source, find
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


# ---- files that grew, or did something else --------------------------------------------------------------------------


class Lines:
    """A parser of one number a line, which remembers from which byte it was asked to read."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
        start = since.offset if since else 0
        self.asked.append(start)
        content = b"".join(source.blocks(start=start))
        whole = content.rpartition(b"\n")[0]
        if values := [float(line) for line in whole.split()]:
            yield Points("x", None, np.array(values))
        if content[len(whole) + 1 :]:
            yield Note("cut-off", "the last line is incomplete")
        yield Checkpoint(start + (len(whole) + 1 if whole else 0), {})


def values(log: Path, reader: Lines) -> list[float]:
    found = again(log, reader)  # type: ignore[arg-type]
    return [value for one in found if isinstance(one, Points) for value in one.value.tolist()]


def test_a_grown_file_costs_what_is_new(log: Path) -> None:
    reader = Lines()
    content = ""
    for count in range(1, 40):
        content += f"{count}\n"
        log.write_text(content + str(count + 1)[0])  # the beginning of the next line
        assert values(log, reader) == list(range(1, count + 1))
        assert values(log, reader) == list(range(1, count + 1))
    assert reader.asked == [0, *(len(content[: content.index(f"{count}\n")]) for count in range(2, 40))]
    (folder,) = {path.parent for path in kept(log)}
    table = json.loads((folder / "table.json").read_text())
    assert len(table["parts"]) <= cache.MOST_PARTS


def test_notes_of_an_earlier_end_go(log: Path) -> None:
    log.write_text("1\n2")
    assert any(isinstance(one, Note) for one in again(log, Lines()))  # type: ignore[arg-type]
    log.write_text("1\n22\n")
    assert not any(isinstance(one, Note) for one in again(log, Lines()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "after",
    ["7\n2\n3\n4\n5\n", "1\n2\n4\n4\n5\n", "1\n2\n", "", "1\n2\n9\n"],
    ids=["head", "end", "cut", "empty", "same size"],
)
def test_what_is_no_growth_is_read_anew(log: Path, after: str) -> None:
    reader = Lines()
    log.write_text("1\n2\n3\n")
    values(log, reader)
    log.write_text(after)
    os.utime(log, (1.0, 1.0))
    assert values(log, reader) == [float(line) for line in after.split()]
    assert reader.asked == [0, 0]


def test_a_replaced_file_of_the_same_beginning_goes_on(log: Path) -> None:
    reader = Lines()
    log.write_text("1\n2\n3\n")
    values(log, reader)
    (log.parent / "new").write_text("1\n2\n3\n4\n")
    (log.parent / "new").replace(log)
    assert values(log, reader) == [1, 2, 3, 4]
    assert reader.asked == [0, 6]


def test_a_parser_that_cannot_go_on_reads_anew(log: Path) -> None:
    class Lame(Lines):
        def __call__(self, source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:
            if since is not None:
                raise KeyError("state")
            yield from super().__call__(source)

    log.write_text("1\n")
    values(log, Lame())
    log.write_text("1\n2\n")
    assert values(log, Lame()) == [1, 2]


def test_other_parsers_do_not_share(log: Path) -> None:
    reader = Reader()
    list(cache.cached(Source.of(log), "csv", reader))
    list(cache.cached(Source.of(log), "jsonl", reader))
    assert reader.calls == 2


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_every_damage_of_the_cache_is_noticed(log: Path, place: float) -> None:
    again(log, Reader())
    (folder,) = {path.parent for path in kept(log)}
    for path in [*folder.glob("*.part"), folder / "table.json"]:
        whole = path.read_bytes()
        at = int(len(whole) * place)
        turned = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes(turned if path.suffix == ".part" else whole[:at])
        reader = Reader()
        assert len(again(log, reader)) == len(BATCHES)
        assert reader.calls == 1, path.name


def test_several_programs_may_work_on_one_cache(log: Path) -> None:
    content = "".join(f"{number}\n" for number in range(3000))
    log.write_text(content[:3000])
    values(log, Lines())
    faults: list[object] = []

    def work(seed: int) -> None:
        for turn in range(30):
            size = 3000 + (turn * 97 + seed * 13) % (len(content) - 3000)
            held = log.with_name(f"log{turn % 2}")
            part = held.with_name(f"{held.name}.{seed}")
            part.write_text(content[:size])
            part.replace(held)
            found = values(held, Lines())
            if found != [float(number) for number in range(len(found))]:
                faults.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_what_was_wrong_with_the_bytes_is_told_again(log: Path) -> None:
    log.write_bytes(gzip.compress(b"1\n2\n3\n" * 100)[:-4])
    for _ in range(2):
        source = Source.of(log)
        assert list(cache.cached(source, "lines", Lines()))
        assert list(source.faults) == ["cut-off"]


def test_what_lies_in_an_archive_is_not_kept(log: Path) -> None:
    with tarfile.open(log.with_name("x.tar"), "w") as archive:
        archive.add(log, "log")
    (source,) = find(log.with_name("x.tar")).sources
    assert list(cache.cached(source, "jsonl", Reader()))
    assert kept(log) == []
