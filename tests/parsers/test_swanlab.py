from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.parsers.door import batches, checkpoint, lines, notes, points, rows, sniffed, table
from tests.parsers.test_swanlab_records import column, swanlab_file
from trainlens.parsers import swanlab
from trainlens.sources import Source


def curve(*data: str, first: int = 1) -> str:
    """Lines of these JSON texts, one a minute, at the steps `first`, `first` + 1, ..."""
    return "".join(
        f'{{"index": {first + at}, "data": {one}, "create_time": "2025-10-09T08:{53 + at}:20+00:00"}}\n'
        for at, one in enumerate(data)
    )


def test_points_with_time() -> None:
    folder = "swanlog/run-20250605_144317-a/logs/train%2Floss"
    (one,) = points(batches(swanlab, curve("2.5", "2"), "1000.log", folder=folder))
    assert one.tag == "train/loss"
    assert one.step is not None
    assert one.time is not None
    assert one.step.tolist() == [1, 2]
    assert one.value.tolist() == [2.5, 2.0]
    assert one.time.tolist() == [1_760_000_000.0, 1_760_000_060.0]


def test_the_name_stands_in_the_database_though_it_was_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "run-20250605_144317-a" / "logs" / "10" / "1000.log"
    path.parent.mkdir(parents=True)
    path.write_text(curve("2.5"))
    database = sqlite3.connect(tmp_path / "runs.swanlab")
    database.executescript(
        "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0;"
        "CREATE TABLE experiment (id INTEGER PRIMARY KEY, run_id TEXT, name TEXT);"
        "CREATE TABLE tag (id INTEGER PRIMARY KEY, experiment_id INTEGER, name TEXT, folder TEXT);"
        "INSERT INTO experiment VALUES (3, 'run-20250605_144317-a', 'first');"
        "INSERT INTO tag VALUES (10, 3, 'train/loss', '10'), (11, 3, 'train/lr', '11');"
    )
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    assert before["runs.swanlab-wal"]
    assert table(list(swanlab.read(Source.of(path)))) == {"train/loss": [(1, 2.5)]}
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()} == before
    database.close()


def test_a_database_that_cannot_be_read_leaves_the_folder_as_the_name(tmp_path: Path) -> None:
    path = tmp_path / "run-20250605_144317-a" / "logs" / "10" / "1000.log"
    path.parent.mkdir(parents=True)
    path.write_text(curve("2.5"))
    (tmp_path / "runs.swanlab").write_bytes(b"no database")
    assert table(list(swanlab.read(Source.of(path)))) == {"10": [(1, 2.5)]}


def test_what_is_no_number_is_no_point() -> None:
    assert list(rows(swanlab, curve('["image-1.png"]', '"text"'), "1000.log").values()) == []
    (found,) = rows(swanlab, curve("1", "null", "3"), "1000.log").values()
    assert found == [(1, 1.0), (3, 3.0)]


@pytest.mark.parametrize("bad", ["{broken", "[1]", "words"])
def test_a_bad_line_costs_itself_only(bad: str) -> None:
    text = curve("1") + bad + "\n" + curve("3", first=3)
    assert list(rows(swanlab, text, "1000.log").values()) == [[(1, 1.0), (3, 3.0)]]
    assert list(lines(swanlab, text, "1000.log").values()) == [[1, 3]]
    assert [note.kind for note in notes(swanlab, text, "1000.log")] == ["not-understood"]


def test_growing_file() -> None:
    text = curve("1", "2", "3")
    for cut in range(len(text)):
        first = batches(swanlab, text[:cut], "1000.log", folder="a")
        rest = batches(swanlab, text, "1000.log", checkpoint(first), folder="a")
        both = table(first).get("a", []) + table(rest).get("a", [])
        assert both == [(1, 1.0), (2, 2.0), (3, 3.0)], cut


def test_the_run_file_beside_it_names_the_curves_that_have_numbers(tmp_path: Path) -> None:
    run = tmp_path / "run-20261201_031509-ab"
    for number in "12":
        (run / "logs" / number).mkdir(parents=True)
        (run / "logs" / number / "1000.log").write_text(curve("2.5"))
    (run / "run-ab.swanlab").write_bytes(swanlab_file([column("train/loss"), column("train/lr")]))
    found = [table(list(swanlab.read(Source.of(run / "logs" / number / "1000.log")))) for number in "12"]
    assert found == [{"train/loss": [(1, 2.5)]}, {"train/lr": [(1, 2.5)]}]


@pytest.mark.parametrize(
    ("content", "name", "score"),
    [
        (curve("2.5"), "1000.log", 0.95),
        (curve("2.5"), "x.jsonl", 0.0),
        ('{"index": 1, "loss": 2}\n', "1000.log", 0.0),
        (b":SWL\xd6\xe1\x02", "backup.swanlab", 0.0),
        (b"", "1000.log", 0.0),
    ],
)
def test_sniff(content: bytes | str, name: str, score: float) -> None:
    assert sniffed(swanlab, content, name) == score
