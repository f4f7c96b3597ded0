"""What an unchanged and a grown log cost: `python -m tests.benchmarks.bench_incremental [--points 1000000]`.

For event files, JSON lines and Megatron's text: a whole `trainlens analyze` (terminal only) without the cache, then of
the unchanged file, then after each of some appends of one per cent. CPU seconds of processes of their own, in turn,
and the shares of the first.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.bench_analyze import NAMES, TRAINLENS, cost, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    words = [*TRAINLENS, "analyze", "run", "--format", "terminal"]
    print(f"{'':12} {'no cache':>9} {'first':>7} {'unchanged':>17} {'1 % appended':>17}")
    for kind, name in NAMES.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "run").mkdir()
            whole, log = folder / "whole", folder / "run" / name
            write(kind, whole, options.points)
            content = whole.read_bytes()
            part = len(content) // 100
            start = len(content) - options.turns * part
            log.write_bytes(content[:start])
            cost([*words, "--no-cache"], folder)  # bytecode, the file's pages
            plain = statistics.median(cost([*words, "--no-cache"], folder)[0] for _ in range(options.turns))
            first = cost(words, folder)[0]
            unchanged = statistics.median(cost(words, folder)[0] for _ in range(options.turns))
            grown = []
            for turn in range(options.turns):
                with log.open("ab") as file:
                    file.write(content[start + turn * part : start + (turn + 1) * part])
                grown.append(cost(words, folder)[0])
            appended = statistics.median(grown)
            shares = [f"{one:6.2f} s ({one / plain:.2f}×)" for one in (unchanged, appended)]
            print(f"{kind:12} {plain:7.2f} s {first:5.2f} s {shares[0]:>17} {shares[1]:>17}")


if __name__ == "__main__":
    main()
