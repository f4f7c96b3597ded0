from __future__ import annotations

import io
import sqlite3
import zipfile
from pathlib import Path

import pytest

from tests.parsers.door import batches, sniffed
from trainlens.errors import InputError
from trainlens.parsers import tracker_stores
from trainlens.sources import Source

NEPTUNE = '{"obj": {"type": "LogFloats", "path": ["train", "loss"], "values": [[2.5, null, 1.7e9]]}, "version": 1}\n'


def archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name in names:
            made.writestr(name, "{}")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "name", "what", "way"),
    [
        (archive("offline-1/task.json", "offline-1/metrics.jsonl"), "ab.zip", "ClearML", "import_offline_session"),
        (NEPTUNE, "data-1.log", "Neptune", "neptune sync"),
    ],
)
def test_refused_with_the_way_out(content: bytes | str, name: str, what: str, way: str) -> None:
    assert sniffed(tracker_stores, content, name) == 1.0
    with pytest.raises(InputError, match=what) as raised:
        batches(tracker_stores, content, name)
    assert way in raised.value.hint


def test_a_repository_of_aim(tmp_path: Path) -> None:
    path = tmp_path / "run_metadata.sqlite"
    database = sqlite3.connect(path)
    for table in ("run", "experiment", "tag", "run_tag"):
        database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
    database.close()
    assert tracker_stores.sniff(path.read_bytes(), path) == 1.0
    with pytest.raises(InputError, match="Aim") as raised:
        list(tracker_stores.read(Source.of(path)))
    assert "query_metrics" in raised.value.hint


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (archive("model.safetensors"), "ab.zip"),
        (b"PK\x03\x04", "ab.zip"),
        (NEPTUNE, "x.jsonl"),
        ('{"obj": 1}\n', "data-1.log"),
        (b"", "x"),
    ],
)
def test_anything_else_is_left_alone(content: bytes | str, name: str) -> None:
    assert sniffed(tracker_stores, content, name) == 0.0
