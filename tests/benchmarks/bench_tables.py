"""CSV tables and JSON documents: trainlens' readers beside polars' own of the same file.

    python -m tests.benchmarks.bench_tables --rows 1000000

Files: a clean CSV; one with empty cells, as Lightning writes; one with units in its cells (whose texts polars leaves as
they are); an array of rows; an object of columns. Each reading is a process of its own; CPU seconds and peak memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.bench_jsonl import measured

_OURS = """
from trainlens.model import Points
from trainlens.parsers import {parser}
from trainlens.sources import Source
from pathlib import Path
start()
count = sum(len(batch.value) for batch in {parser}.read(Source.of(Path(path))) if isinstance(batch, Points))
"""
_POLARS = """
import polars as pl
start()
frame = pl.{reader}
count = sum(frame.height - column.null_count() for column in frame)
"""
READERS = {
    "clean.csv": ("csv", "read_csv(path, infer_schema_length=None)"),
    "sparse.csv": ("csv", "read_csv(path, infer_schema_length=None)"),
    "units.csv": ("csv", "read_csv(path, infer_schema_length=None)"),
    "rows.json": ("json_table", "read_json(path, infer_schema_length=None)"),
    "columns.json": ("json_table", "read_json(path, infer_schema_length=None)"),
}


def write(path: Path, rows: int, seed: int = 7) -> None:
    """A seeded log of six numbers a row."""
    draw = np.random.default_rng(seed)
    loss, norm = 1.2 + draw.normal(0, 0.05, rows), draw.gamma(4, 0.3, rows)
    names = ("step", "epoch", "loss", "grad_norm", "lr", "memory")
    with path.open("w", encoding="utf-8") as file:
        if path.name == "columns.json":
            columns = {"step": list(range(rows)), "loss": loss.tolist(), "grad_norm": norm.tolist()}
            file.write(json.dumps(columns))
            return
        file.write("[" if path.suffix == ".json" else ",".join(names) + "\n")
        for at in range(rows):
            cells = [at, at // 1000, round(float(loss[at]), 5), float(norm[at]), 5e-5 * (1 - at / rows), 12.5 + at % 7]
            if path.suffix == ".json":
                file.write((",\n" if at else "") + json.dumps(dict(zip(names, cells, strict=True))))
                continue
            texts = [str(cell) for cell in cells]
            if path.name == "sparse.csv":
                texts[2 if at % 3 else 3] = ""
            elif path.name == "units.csv":
                texts[5] += " GiB"
            file.write(",".join(texts) + "\n")
        file.write("]" if path.suffix == ".json" else "")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--only", default="")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, (parser, reader) in READERS.items():
            if chosen.only not in name:
                continue
            path = Path(folder, name)
            write(path, chosen.rows)
            pairs = [
                (measured(_OURS.format(parser=parser), path), measured(_POLARS.format(reader=reader), path))
                for _ in range(chosen.repeat)
            ]
            ours, peer = (statistics.median(pair[side][0] for pair in pairs) for side in (0, 1))
            print(
                f"{name:12} {chosen.rows:,} rows: trainlens {ours:.2f} s {pairs[0][0][1]:.0f} MiB, "
                f"{pairs[0][0][2]:,} points; polars {peer:.2f} s {pairs[0][1][1]:.0f} MiB; ratio {peer / ours:.2f}"
            )
            path.unlink()


if __name__ == "__main__":
    main()
