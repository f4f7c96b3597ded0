"""How fast a DeepSpeed log is read, against one `re` with an alternative for each line and `str.extract` of polars.

    python -m tests.benchmarks.bench_deepspeed --lines 10000 100000 1000000

The log is made anew (seeded) in a temporary directory; CPU seconds (user + system) of the fastest of several readings
are compared, taken in turn. The peers read nine numbers; trainlens reads all: every group's learning rate and momenta,
memory, clocks, events. Its numbers are printed as Python prints doubles, so that they have no columns.
"""

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from tests.benchmarks.bench_megatron import compared, one_re, ours, told
from trainlens.parsers import deepspeed


def write_deepspeed(path: Path, lines: int, seed: int = 31) -> None:
    """Optimiser, timer and pipeline lines in turn, with a warning now and then."""
    rng = np.random.default_rng(seed)
    loss, speed = 1.2 + 9 * (1 + np.arange(lines)) ** -0.2, rng.normal(52, 2, lines)
    with path.open("w") as file:
        for k in range(0, lines, 3):
            step = k // 3 * 10
            stamp = dt.datetime.fromtimestamp(1.75e9 + step, dt.UTC).strftime("%Y-%m-%d %H:%M:%S") + ",017"
            rate = 3e-4 * (1 - k / lines)
            file.write(
                f"[{stamp}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped={k // 1000},"
                f" lr=[{rate!r}, {rate!r}], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
                f"[{stamp}] [INFO] [timer.py:260:stop] epoch=0/micro_step={step * 4}/global_step={step},"
                f" RunningAvgSamplesPerSec={float(speed[k])!r}, CurrSamplesPerSec={float(speed[k]) + 0.1!r},"
                " MemAllocated=13.62GB, MaxMemAllocated=47.13GB\n"
                f"steps: {step} loss: {loss[k]:.4f} iter time (s): {64 / speed[k]:.3f} samples/sec: {speed[k]:.3f}\n"
            )


_RE = (
    r"step=(\d+), skipped=(\d+), lr=\[([^,\]]+)|global_step=(\d+), Running\w+=([\d.]+), Curr\w+=([\d.]+)"
    r"|steps: (\d+) loss: (\S+) iter time \(s\): (\S+) samples/sec: (\S+)"
)
_FIELDS = (
    ("] step=", r"\] step=(\d+), ", r"skipped=(\d+), ", r"lr=\[([^,\]]+)"),
    ("global_step=", r"global_step=(\d+), ", r"RunningAvgSamplesPerSec=([\d.]+)", r"CurrSamplesPerSec=([\d.]+)"),
    ("steps: ", r"steps: (\d+) ", r" loss: (\S+) ", r"iter time \(s\): (\S+) ", r"samples/sec: (\S+)"),
)


def extract(path: Path) -> int:
    """The same fields by polars; the number of rows."""
    text = pl.read_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"]).lazy()
    line, rows = pl.col("line"), 0
    for mark, *patterns in _FIELDS:
        fields = [line.str.extract(one).cast(pl.Float64).alias(str(at)) for at, one in enumerate(patterns)]
        rows += len(text.filter(line.str.contains(mark, literal=True)).select(fields).collect())
    return rows


def main() -> None:
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    wanted.add_argument("--times", type=int, default=3)
    chosen = wanted.parse_args()
    for lines in chosen.lines:
        with tempfile.TemporaryDirectory() as root:
            path = Path(root, "log.txt")
            write_deepspeed(path, lines)
            assert one_re(path, _RE) == extract(path)
            print(told("DeepSpeed", path, compared(_work(path), chosen.times)))


def _work(path: Path) -> dict[str, Callable[[], object]]:
    return {
        "trainlens": lambda: ours(deepspeed, path),
        "re": lambda: one_re(path, _RE),
        "polars": lambda: extract(path),
    }


if __name__ == "__main__":
    main()
