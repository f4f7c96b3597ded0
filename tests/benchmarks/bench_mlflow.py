"""An MLflow SQLite store against MlflowClient.get_metric_history: CPU seconds of the reading, equal points.

    python -m tests.benchmarks.bench_mlflow --points 1000000 [--peer /path/to/python]

`--peer` names an interpreter that has mlflow, which also makes the empty store; the points are put in with SQL. The
client reads the tenth part of them, by `--share`, and its time is scaled: it takes half a minute for all.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KEYS = 10
_MAKE = """
import sys, mlflow
mlflow.set_tracking_uri("sqlite:///" + sys.argv[1])
with mlflow.start_run(run_name="bench") as run:
    print(run.info.run_id)
"""
_PEER = """
import json, sys, time
import numpy as np
from mlflow import MlflowClient
client, run, keys = MlflowClient("sqlite:///" + sys.argv[1]), sys.argv[2], int(sys.argv[3])
start, rows = time.process_time(), []
for key in range(keys):
    rows.append(client.get_metric_history(run, f"metric {key}"))
seconds = time.process_time() - start
found = {str(at): np.array([[one.step, one.value, one.timestamp] for one in some]) for at, some in enumerate(rows)}
np.savez(sys.argv[4], **found)
print(json.dumps({"cpu": seconds}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="readings by trainlens; the median counts")
    parser.add_argument("--share", type=int, default=1, help=f"of {KEYS} metrics how many the client reads")
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter that has mlflow")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlflow.db")
        run = subprocess.run([chosen.peer, "-c", _MAKE, str(path)], check=True, capture_output=True, text=True).stdout
        _fill(path, run.split()[-1], chosen.points)
        ours = [_reading(path) for _ in range(chosen.repeat)]
        cpu = statistics.median(ours)
        print(f"{chosen.points:,} points, {path.stat().st_size / 1e6:.1f} MB")
        print(f"  trainlens {cpu:.2f} CPU s (median of {len(ours)})")
        out = Path(folder, "peer.npz")
        command = [chosen.peer, "-c", _PEER, str(path), run.split()[-1], str(chosen.share), str(out)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peer = json.loads(answer.splitlines()[-1])["cpu"] * KEYS / chosen.share
        _check(path, out)
        print(f"  get_metric_history {peer:.1f} CPU s: {peer / cpu:.0f} times as long; equal to the bit")


def _fill(path: Path, run: str, points: int) -> None:
    values = np.random.default_rng(7).normal(2.0, 0.5, (KEYS, points // KEYS)).tolist()
    rows = (
        (f"metric {key}", value, 1_760_000_000_000 + 500 * at, run, at)
        for key, some in enumerate(values)
        for at, value in enumerate(some)
    )
    database = sqlite3.connect(path)
    query = "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"
    database.executemany(query, rows)
    database.commit()
    database.close()


def _reading(path: Path) -> float:
    """CPU seconds of one reading in a new process; its points are left beside the store."""
    answer = subprocess.run([sys.executable, __file__, "read", str(path)], check=True, capture_output=True, text=True)
    return float(answer.stdout.split()[-1])


def _read(path: Path) -> None:
    from trainlens.model import Points
    from trainlens.parsers import mlflow_db
    from trainlens.sources import Source

    start = time.process_time()
    batches = [batch for batch in mlflow_db.read(Source.of(path)) if isinstance(batch, Points)]
    seconds = time.process_time() - start
    curves: dict[str, list[Points]] = {}
    for batch in batches:
        curves.setdefault(batch.tag.rpartition(" ")[2], []).append(batch)
    stacked = {}
    for tag, some in curves.items():
        columns = [np.concatenate([getattr(one, name) for one in some]) for name in ("step", "value", "time")]
        stacked[tag] = np.column_stack([columns[0], columns[1], columns[2] * 1000])
    np.savez(path.with_name("ours.npz"), **stacked)  # type: ignore[arg-type]
    print(seconds)


def _check(path: Path, out: Path) -> None:
    """SystemExit unless the points that the client read are those that trainlens read, bit for bit."""
    with np.load(path.with_name("ours.npz")) as ours, np.load(out) as theirs:
        for name in theirs.files:
            if not np.array_equal(ours[name], theirs[name]):
                raise SystemExit(f"trainlens reads metric {name} otherwise than MlflowClient")


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        _read(Path(sys.argv[2]))
    else:
        main()
