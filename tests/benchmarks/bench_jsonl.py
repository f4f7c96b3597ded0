"""JSON lines: trainlens' reader beside polars.read_ndjson that infers the keys from all rows.

    python -m tests.benchmarks.bench_jsonl --rows 1000000

Rows are those of a Hugging Face run: eight keys, every fiftieth row an evaluation with keys of its own. Four files:
clean; with NaN, infinities, junk lines and a cut tail (which polars refuses, so it is timed on the clean file); with a
null in each row; with a text in each row. Each reading is a process of its own; CPU seconds and peak memory count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

KINDS = ("clean", "damaged", "nulls", "texts")

_OURS = """
from trainlens.model import Points
from trainlens.parsers import jsonl
from trainlens.sources import Source
from pathlib import Path
start()
count = sum(len(batch.value) for batch in jsonl.read(Source.of(Path(path))) if isinstance(batch, Points))
"""
_POLARS = """
import polars as pl
start()
frame = pl.read_ndjson(path, infer_schema_length=None)
count = sum(frame.height - column.null_count() for column in frame)
"""
_FRAME = """
import json, resource, sys, time
path = sys.argv[1]
begun = 0.0
def start():
    global begun
    begun = time.process_time()
{body}
print(json.dumps([time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, count]))
"""


def write(path: Path, rows: int, kind: str, seed: int = 11) -> None:
    """A seeded log; `damaged` has NaN or infinity in one row of 2,000 and a junk line in one of 5,000."""
    draw = np.random.default_rng(seed)
    loss = 1.2 + 3 * (1 + np.arange(rows)) ** -0.2 + draw.normal(0, 0.05, rows)
    norm, accuracy, entropy = draw.gamma(4, 0.3, rows), draw.random(rows), draw.random(rows) * 3
    hurt, junk = draw.random(rows) < 1 / 2000, draw.random(rows) < 1 / 5000
    with path.open("w", encoding="utf-8") as file:
        for at in range(rows):
            step = (at + 1) * 10
            row: dict[str, object] = {"epoch": step / 1e6, "step": step}
            if at % 50 == 49:
                row = {
                    "eval_loss": round(float(loss[at]), 6), "eval_runtime": 12.3456, "eval_samples_per_second": 317.5,
                    "eval_steps_per_second": 3.21, "eval_mean_token_accuracy": float(accuracy[at]),
                    "eval_num_tokens": step * 8192.0, **row,
                }  # fmt: skip
            else:
                row = {
                    "loss": round(float(loss[at]), 4), "grad_norm": float(norm[at]),
                    "learning_rate": 5e-5 * (1 - at / rows), "entropy": float(entropy[at]),
                    "mean_token_accuracy": float(accuracy[at]), "num_tokens": step * 8192.0, **row,
                }  # fmt: skip
            if kind == "nulls":
                row["eval_loss"] = row.get("eval_loss")
            elif kind == "texts":
                row["sample"] = f'step {step}: the "quick" brown fox\n'
            elif kind == "damaged" and hurt[at]:
                row["loss"], row["grad_norm"] = float("nan"), float("inf") if at % 2 else float("nan")
            file.write(json.dumps(row) + "\n")
            if kind == "damaged" and junk[at]:
                file.write("W0000 a warning from another library\n" if at % 2 else '{"step": 7, "lo\n')
        if kind == "damaged":
            file.write('{"step": 1, "loss": 2.')


def measured(body: str, path: Path) -> tuple[float, float, int]:
    """CPU seconds, peak MiB and number of cells of one reading."""
    run = [sys.executable, "-c", _FRAME.format(body=body), str(path)]
    seconds, peak, count = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    return seconds, peak, count


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--repeat", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = Path(folder, f"{kind}.jsonl")
            write(path, chosen.rows, kind)
        for kind in KINDS:
            peer_path = Path(folder, "clean.jsonl" if kind == "damaged" else f"{kind}.jsonl")
            pairs = [
                (measured(_OURS, Path(folder, f"{kind}.jsonl")), measured(_POLARS, peer_path))
                for _ in range(chosen.repeat)
            ]
            ours, peer = (statistics.median(pair[side][0] for pair in pairs) for side in (0, 1))
            peak, peer_peak = pairs[0][0][1], pairs[0][1][1]
            print(
                f"{kind:8} {chosen.rows:,} rows: trainlens {ours:.2f} s {peak:.0f} MiB, {pairs[0][0][2]:,} points; "
                f"polars inferred {peer:.2f} s {peer_peak:.0f} MiB; ratio {peer / ours:.2f}"
            )


if __name__ == "__main__":
    main()
