"""Golden values: what is written reads back as the same curves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from trainlens import read, store
from trainlens.settings import Settings

SETTINGS = Settings(cache=False)


def written(tmp_path: Path, rows: list[str]) -> Path:
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    (run,) = read([tmp_path / "metrics.jsonl"], SETTINGS).runs
    (tmp_path / "golden.json").write_bytes(store.golden(run))
    return tmp_path / "golden.json"


def test_it_reads_back(tmp_path: Path) -> None:
    rows = [f'{{"step": {5 * at}, "loss": {9 - at / 37!r}, "lr": 0.1, "note": {at}}}' for at in range(1, 100)]
    rows[40] = rows[40].replace('"loss": ', '"loss": NaN, "was": ')
    path = written(tmp_path, rows)
    (before,), (again,) = read([tmp_path / "metrics.jsonl"], SETTINGS).runs, read([path], SETTINGS).runs
    old, new = before.get("train/loss"), again.get("train/loss")
    assert old is not None
    assert new is not None
    assert np.array_equal(new.step, old.step[old.finite])  # "nan" is what was not recorded
    assert np.array_equal(new.raw, old.raw[old.finite])
    assert again.get("note") is None


def test_long_curves_are_thinned_on_a_grid(tmp_path: Path) -> None:
    path = written(tmp_path, [f'{{"step": {at}, "loss": {2 - at / 9000}}}' for at in range(1, 9001)])
    loss = json.loads(path.read_text())["loss"]
    assert (loss["start_step"], loss["end_step"], loss["step_interval"]) == (1, 8996, 5)
    assert len(loss["values"]) == 1800
