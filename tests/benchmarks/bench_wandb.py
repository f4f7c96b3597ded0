"""A W&B run file against the client's own reader (DataStore and protobuf): CPU seconds of the reading, equal points.

    python -m tests.benchmarks.bench_wandb --points 1000000 [--peer /path/to/python] [old new]

`--peer` names an interpreter that has wandb before 0.20, whose reader is written in Python. It yields records; their
items are decoded with json, as the client's own sync does. Each reading is a process of its own; imports do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TAGS = ("train/loss", "train/lr", "train/grad_norm", "train/tokens_per_second", "step_time")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=["old", "new"])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="readings by trainlens; the median counts")
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter that has wandb")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen.kinds:
            path = Path(folder, f"run-{kind}.wandb")
            _write(path, kind == "new", chosen.points // len(TAGS))
            ours = [_reading(sys.executable, "trainlens", path) for _ in range(chosen.repeat)]
            cpu = statistics.median(one["cpu"] for one in ours)
            print(f"{kind}: {chosen.points:,} points, {path.stat().st_size / 1e6:.1f} MB")
            print(f"  trainlens {cpu:.2f} CPU s (median of {len(ours)}), {ours[-1]['mib']} MiB more at the peak")
            try:
                theirs = _reading(chosen.peer, "datastore", path)
            except subprocess.CalledProcessError:
                print(f"  no wandb with a reader in Python in {chosen.peer}: no comparison")
                continue
            _check(path)
            print(f"  DataStore {theirs['cpu']:.2f} CPU s: {theirs['cpu'] / cpu:.1f} times as long; equal to the bit")


def _write(path: Path, nested: bool, rows: int) -> None:
    from tests.parsers.wandb_files import exited, row, run_file

    numbers = np.random.default_rng(7).normal(2.0, 0.5, (rows, len(TAGS)))
    records = (
        row(
            {
                **{tag: repr(cell) for tag, cell in zip(TAGS, cells, strict=True)},
                "_step": str(at),
                "_timestamp": f"{1.76e9 + at * 0.5:.6f}",
                "_runtime": f"{at * 0.5}",
            },
            at,
            nested=nested,
        )
        for at, cells in enumerate(numbers.tolist())
    )
    path.write_bytes(run_file([*records, exited(0)]))


def _reading(python: str, reader: str, path: Path) -> dict[str, float]:
    command = [python, __file__, reader, str(path), str(path.with_suffix(f".{reader}.npz"))]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(answer.splitlines()[-1])
    return measured


def _check(path: Path) -> None:
    """SystemExit unless both readers left the same steps, clocks and values, bit for bit."""
    with (
        np.load(path.with_suffix(".trainlens.npz")) as ours,
        np.load(path.with_suffix(".datastore.npz")) as theirs,
    ):
        for name in theirs.files:
            if ours[name].tobytes() != theirs[name].tobytes():
                raise SystemExit(f"trainlens reads column {name} of {path.name} otherwise than wandb")


# ---- in the process of one reading ---------------------------------------------------------------------------------


def _read_and_save(reader: str, path: str, out: str) -> None:
    load = {"trainlens": _load_trainlens, "datastore": _load_datastore}[reader]
    curves, seconds, mib = load(path)
    np.savez(out, **{f"{tag}/{at}".replace("/", "|"): one for tag in TAGS for at, one in enumerate(curves[tag])})
    print(json.dumps({"cpu": seconds, "mib": mib}))


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _load_trainlens(path: str) -> tuple[dict[str, list[Any]], float, float]:
    from trainlens.model import Points
    from trainlens.parsers import wandb
    from trainlens.sources import Source

    before, start = _peak(), time.process_time()
    batches: dict[str, list[Points]] = {}
    for batch in wandb.read(Source.of(Path(path))):
        if isinstance(batch, Points):
            batches.setdefault(batch.tag, []).append(batch)
    seconds, mib = time.process_time() - start, round(_peak() - before)
    columns = {
        tag: [np.concatenate([getattr(one, name) for one in some]) for name in ("step", "time", "value")]
        for tag, some in batches.items()
    }
    return columns, seconds, mib


def _load_datastore(path: str) -> tuple[dict[str, list[Any]], float, float]:
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    before, start = _peak(), time.process_time()
    store = DataStore()
    store.open_for_scan(path)
    curves: dict[str, list[list[Any]]] = {tag: [[], [], []] for tag in TAGS}
    while (content := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            cells = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for tag, columns in curves.items():
                if tag in cells:
                    for column, name in zip(columns, ("_step", "_timestamp", tag), strict=True):
                        column.append(cells[name])
    arrays = {
        tag: [np.array(step, np.int64), np.array(stamp, np.float64), np.array(value, np.float64)]
        for tag, (step, stamp, value) in curves.items()
    }
    return arrays, time.process_time() - start, round(_peak() - before)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("trainlens", "datastore"):
        _read_and_save(*sys.argv[1:4])
    else:
        main()
