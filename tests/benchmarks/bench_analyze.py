"""What a whole `trainlens analyze` costs: `python -m tests.benchmarks.bench_analyze`.

Each figure is a process of its own: CPU seconds (user and system) and peak memory, the median of some turns, with the
bytecode of modules kept as an installed program has it. Beside them stands what the machine needs to start Python with
numpy, and the help of a typer program of one command, so that figures from different machines can be compared.
`--points 10000 100000 1000000 10000000` shows how the cost grows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TRAINLENS = [sys.executable, "-m", "trainlens"]


BARE = "import typer; app = typer.Typer(rich_markup_mode=None); app.command()(lambda: None); app()"
NAMES = {"events": "events.out.tfevents.1", "jsonl": "log.jsonl", "megatron": "train.log"}
# In a process of its own: a child's peak memory counts what its parent held when it was started.
_WRITE = "import sys, pathlib; from tests.benchmarks import inputs_events as i; "
_WRITE += "i.write_log(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))"


def cost(words: Sequence[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one command; its output goes nowhere."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def write(kind: str, path: Path, points: int) -> None:
    """A log of so many points, of a kind in NAMES; a shorter one is the beginning of a longer one."""
    subprocess.run([sys.executable, "-c", _WRITE, kind, str(path), str(points)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--kinds", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        starts = {
            "python with numpy": [sys.executable, "-c", "import numpy"],
            "a bare typer program --help": [sys.executable, "-c", BARE, "--help"],
            "trainlens --help": [*TRAINLENS, "--help"],
            "trainlens --version": [*TRAINLENS, "--version"],
        }
        for name, words in starts.items():
            print(f"{name:40} {_median(words, Path(scratch), max(options.turns, 7))[0]:6.3f} s CPU")
    for kind in options.kinds:
        for points in options.points:
            with tempfile.TemporaryDirectory() as scratch:
                (Path(scratch) / "run").mkdir()
                write(kind, Path(scratch) / "run" / NAMES[kind], points)
                _measure(f"{kind}, {points:,}", points, Path(scratch), options.turns)


def _measure(title: str, points: int, folder: Path, turns: int) -> None:
    analyze = [*TRAINLENS, "analyze", "run", "--no-cache"]
    reports = {
        "terminal": ["--format", "terminal"],
        "JSON": ["--format", "json", "-o", "-"],
        "terminal, HTML, PNG": [],
    }
    for name, flags in reports.items():
        seconds, memory = _median([*analyze, *flags], folder, turns)
        beyond = max(0.0, (memory - 150) * 2**20 / points)
        print(
            f"{title:20} {name:19} {seconds:6.2f} s CPU {memory:6.0f} MiB, {beyond:4.0f} bytes a point beyond 150 MiB"
        )


def _median(words: Sequence[str], folder: Path, turns: int) -> tuple[float, float]:
    cost(words, folder)  # bytecode, the files' pages
    measured = [cost(words, folder) for _ in range(turns)]
    seconds, memory = (statistics.median(column) for column in zip(*measured, strict=True))
    return seconds, memory


if __name__ == "__main__":
    main()
