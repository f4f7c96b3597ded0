from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.parsers.door import points, table
from trainlens.errors import InputError
from trainlens.model import Batch, Fact, Note
from trainlens.parsers import mlflow_db, trackio
from trainlens.sources import Source

SCHEMA = """
CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT NOT NULL, run_name TEXT NOT NULL,
    step INTEGER NOT NULL, metrics TEXT NOT NULL);
CREATE TABLE configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_name TEXT NOT NULL, config TEXT NOT NULL);
"""
Row = tuple[str, int, Mapping[str, object] | str]


def project(path: Path, rows: Sequence[Row] = (), configs: Mapping[str, Mapping[str, object]] | None = None) -> Path:
    """A database of rows (run, step, metrics), one a second, and of the settings of runs."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    for at, (run, step, metrics) in enumerate(rows):
        text = metrics if isinstance(metrics, str) else json.dumps(metrics)
        stamp = f"2025-10-09T08:53:{20 + at:02d}+00:00"
        database.execute(
            "INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?,?,?,?)", (stamp, run, step, text)
        )
    for run, settings in (configs or {}).items():
        database.execute("INSERT INTO configs (run_name, config) VALUES (?,?)", (run, json.dumps(settings)))
    database.commit()
    database.close()
    return path


def read(path: Path) -> list[Batch]:
    return list(trackio.read(Source.of(path)))


def test_points_with_time_and_run(tmp_path: Path) -> None:
    rows: list[Row] = [("a", 0, {"loss": 2.5}), ("b", 0, {"loss": 9}), ("a", 10, {"loss": 2, "train": {"lr": 0.1}})]
    found = points(read(project(tmp_path / "p.db", rows)))
    shown = {
        (one.run, one.tag): list(zip(one.step.tolist(), one.value.tolist(), one.time.tolist(), strict=True))
        for one in found
        if one.step is not None and one.time is not None
    }
    assert shown == {
        ("a", "loss"): [(0, 2.5, 1_760_000_000.0), (10, 2.0, 1_760_000_002.0)],
        ("a", "train/lr"): [(10, 0.1, 1_760_000_002.0)],
        ("b", "loss"): [(0, 9.0, 1_760_000_001.0)],
    }


def test_not_a_number_infinity_and_what_is_no_number(tmp_path: Path) -> None:
    media = {"_type": "trackio.image", "width": 3}
    row: Row = ("a", 1, {"x": "NaN", "y": "-Infinity", "text": "3", "flag": True, "none": None, "image": media})
    found = table(read(project(tmp_path / "p.db", [row])))
    assert set(found) == {"x", "y"}
    assert math.isnan(found["x"][0][1])
    assert found["y"] == [(1, -math.inf)]


def test_a_row_that_is_no_object_costs_itself_only(tmp_path: Path) -> None:
    found = read(project(tmp_path / "p.db", [("a", 0, {"x": 1}), ("a", 1, "{broken"), ("a", 2, {"x": 3})]))
    assert table(found) == {"x": [(0, 1.0), (2, 3.0)]}
    (note,) = [one for one in found if isinstance(one, Note)]
    assert (note.kind, note.count) == ("not-understood", 1)


def test_settings_are_facts(tmp_path: Path) -> None:
    path = project(tmp_path / "p.db", [], {"a": {"lr": 0.1, "model": {"layers": 2}, "_Username": "me"}})
    assert [(one.name, one.value, one.run) for one in read(path) if isinstance(one, Fact)] == [
        ("lr", 0.1, "a"),
        ("model.layers", 2, "a"),
    ]


NEWER = """
CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT);
CREATE TABLE system_metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, metrics TEXT);
CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT);
"""


def stamped(second: int) -> str:
    return f"2025-10-09T08:53:{20 + second:02d}+00:00"


def newer(path: Path) -> Path:
    """Two runs of one name, with hardware samples between the rows of the first, as versions with ids write them."""
    database = sqlite3.connect(path)
    database.executescript(NEWER)
    for own, begin, steps in (("aaaaaaaa1", 0, (0, 100, 200)), ("bbbbbbbb2", 30, (0,))):
        for at, step in enumerate(steps):
            row = own, stamped(begin + 10 * at), "gpt", step, json.dumps({"loss": at}).encode()
            database.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?,?,?,?,?)", row)
    sample = json.dumps({"gpu/0/utilization": 50.0}).encode()
    query = "INSERT INTO system_metrics (run_id, timestamp, run_name, metrics) VALUES (?,?,?,?)"
    database.executemany(query, [("aaaaaaaa1", stamped(at), "gpt", sample) for at in (5, 15)])
    database.execute("INSERT INTO configs VALUES (1, 'bbbbbbbb2', 'gpt', ?)", (b'{"lr": 0.1}',))
    database.commit()
    database.close()
    return path


def test_runs_of_one_name_are_told_apart_and_samples_get_the_step_of_their_moment(tmp_path: Path) -> None:
    found = read(newer(tmp_path / "p.db"))
    shown = {(one.run, one.tag): [] if one.step is None else one.step.tolist() for one in points(found)}
    assert shown == {
        ("gpt-aaaaaaaa", "loss"): [0, 100, 200],
        ("gpt-aaaaaaaa", "gpu/0/utilization"): [50, 150],
        ("gpt-bbbbbbbb", "loss"): [0],
    }
    assert [(one.name, one.value, one.run) for one in found if isinstance(one, Fact)] == [("lr", 0.1, "gpt-bbbbbbbb")]


def test_rows_are_told_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(tmp_path / "p.db", [("a", at, {"x": at}) for at in range(30)])
    monkeypatch.setattr(trackio, "CELLS", 7)
    assert table(read(path)) == {"x": [(at, float(at)) for at in range(30)]}
    assert len(points(read(path))) == 4


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = project(tmp_path / "p.db", [("a", at, {"x": at, "pad": "y" * 9000}) for at in range(30)])
    path.write_bytes(path.read_bytes()[:40_000])
    with pytest.raises(InputError, match="Trackio database that cannot be read"):
        read(path)


def test_sniff(tmp_path: Path) -> None:
    path = project(tmp_path / "p.db")
    head = path.read_bytes()[:65536]
    assert trackio.sniff(head, path) == 1.0
    assert mlflow_db.sniff(head, path) == 0.0
    assert trackio.sniff(b"{}", path) == 0.0
    assert trackio.sniff(head, tmp_path / "gone.db") == 0.0
