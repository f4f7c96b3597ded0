"""A whole `trainlens analyze` of an event file: `python -m tests.benchmarks.bench_analyze [--points 1000000]`.

Each figure is a process of its own: CPU seconds (user and system) and peak memory, the median of some turns. Beside it
stands what the machine needs to start Python with numpy, so that figures from different machines can be compared.
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


def cost(words: Sequence[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one command; its output goes nowhere."""
    process = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "run").mkdir()
        # In a process of its own: a child's peak memory counts what its parent held when it was started.
        write = "import sys, pathlib; from tests.benchmarks import inputs_events as i; "
        write += "i.write(pathlib.Path(sys.argv[1]), 'regular', int(sys.argv[2]))"
        event_file = folder / "run" / "events.out.tfevents.1"
        subprocess.run([sys.executable, "-c", write, str(event_file), str(options.points)], check=True)
        commands = {
            "python with numpy": [sys.executable, "-c", "import numpy"],
            "trainlens --help": [*TRAINLENS, "--help"],
            "terminal": [*TRAINLENS, "analyze", "run", "--format", "terminal"],
            "JSON": [*TRAINLENS, "analyze", "run", "--format", "json", "-o", "-"],
            "terminal, HTML and PNG": [*TRAINLENS, "analyze", "run"],
        }
        for name, words in commands.items():
            measured = [cost(words, folder) for _ in range(options.turns)]
            seconds, memory = (statistics.median(column) for column in zip(*measured, strict=True))
            print(f"{name:24} {seconds:6.2f} s CPU {memory:7.0f} MiB")
        bytes_a_point = (memory - 200) * 2**20 / options.points
        print(f"beyond 200 MiB: {max(0.0, bytes_a_point):.0f} bytes a point, all reports written")


if __name__ == "__main__":
    main()
