from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.parsers.door import points, table
from trainlens.errors import InputError
from trainlens.model import Batch, Fact
from trainlens.parsers import trackio_parquet
from trainlens.sources import Source


def row(at: int, run: str = "gpt", own: str = "aaaaaaaa1", **metrics: Any) -> dict[str, Any]:
    stamp = f"2025-10-09T08:53:{20 + at:02d}+00:00"
    return {"id": at, "run_id": own, "timestamp": stamp, "run_name": run, "step": 10 * at, "log_id": "x", **metrics}


def export(path: Path, rows: list[dict[str, Any]]) -> Path:
    columns = {name: [one.get(name) for one in rows] for name in dict.fromkeys(key for one in rows for key in one)}
    pq.write_table(pa.table(columns), path)
    return path


def read(path: Path) -> list[Batch]:
    return list(trackio_parquet.read(Source.of(path)))


def test_points_with_time_and_what_was_not_logged(tmp_path: Path) -> None:
    rows = [row(0, loss=2.5, n=7), row(1, val={"loss": 3.0}), row(2, loss=float("nan"), text="word")]
    found = read(export(tmp_path / "p.parquet", rows))
    shown = table(found)
    assert set(shown) == {"loss", "n", "val/loss"}
    assert shown["loss"][0] == (0, 2.5)
    assert shown["loss"][1][0] == 20
    assert math.isnan(shown["loss"][1][1])
    assert (shown["n"], shown["val/loss"]) == ([(0, 7.0)], [(10, 3.0)])
    (val,) = [one for one in points(found) if one.tag == "val/loss"]
    assert val.time is not None
    assert (val.time.tolist(), val.run) == ([1_760_000_001.0], "gpt")


def test_infinity_among_texts_and_pictures(tmp_path: Path) -> None:
    rows = [row(0, x="Infinity", image={"_type": "trackio.image", "width": 3}), row(1, x="word")]
    assert table(read(export(tmp_path / "p.parquet", rows))) == {"x": [(0, math.inf)]}


def test_runs_are_told_apart(tmp_path: Path) -> None:
    rows = [row(0, loss=1.0), row(1, own="bbbbbbbb2", loss=2.0), row(2, run="other", loss=3.0), row(3, loss=4.0)]
    found = points(read(export(tmp_path / "p.parquet", rows)))
    assert {one.run: one.value.tolist() for one in found} == {
        "gpt-aaaaaaaa": [1.0, 4.0],
        "gpt-bbbbbbbb": [2.0],
        "other": [3.0],
    }


def test_samples_have_no_step_and_settings_are_facts(tmp_path: Path) -> None:
    sample = {name: cell for name, cell in row(0, gpu=50.0).items() if name != "step"}
    assert table(read(export(tmp_path / "p_system.parquet", [sample]))) == {"gpu": [(None, 50.0)]}
    settings = {"id": 1, "run_id": "a", "run_name": "gpt", "created_at": "x", "lr": 0.1, "m": {"l": 2}, "_Group": "g"}
    found = read(export(tmp_path / "p_configs.parquet", [settings]))
    assert [(one.name, one.value, one.run) for one in found if isinstance(one, Fact)] == [
        ("lr", 0.1, "gpt"),
        ("m.l", 2, "gpt"),
    ]


def test_a_damaged_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = export(tmp_path / "p.parquet", [row(at, loss=at / 3) for at in range(50)])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="Parquet file that cannot be read") as raised:
        read(path)
    assert ".db" in raised.value.hint


def test_sniff(tmp_path: Path) -> None:
    path = export(tmp_path / "p.parquet", [row(0, loss=1.0)])
    assert trackio_parquet.sniff(path.read_bytes(), path) == 0.95
    pq.write_table(pa.table({"loss": [1.0]}), path)
    assert trackio_parquet.sniff(path.read_bytes(), path) == 0.0
    assert trackio_parquet.sniff(b"PAR1", tmp_path / "gone.parquet") == 0.0
    assert trackio_parquet.sniff(b"{}", path) == 0.0
