"""What an unchanged and a grown log cost: `python -m tests.benchmarks.bench_incremental [--points 1000000]`.

For event files, JSON lines and Megatron's text: a whole `trainlens analyze` (terminal only) without the cache, then of
the unchanged file, then after each of some appends of one per cent. CPU seconds of processes of their own, in turn,
and the shares of the first.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.bench_analyze import TRAINLENS, cost

_WRITE = "import sys, pathlib; from tests.benchmarks import bench_incremental as b; "
_WRITE += "b.write(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))"


def write(kind: str, path: Path, points: int) -> None:
    """A log of so many points; a shorter one is the beginning of a longer one."""
    import random

    from tests.benchmarks import inputs_events

    if kind == "events":
        inputs_events.write(path, "regular", points)
        return
    chance = random.Random(1)
    with path.open("w") as file:
        for step in range(1, points // 8 + 1):
            loss, norm = 3 / step**0.15 + chance.gauss(0, 0.02), 1 + 0.1 * chance.random()
            if kind == "jsonl":
                file.write(
                    f'{{"step": {step}, "loss": {loss:.6f}, "grad_norm": {norm:.6f}, "lr": 0.0003, '
                    f'"epoch": {step / 1e4}, "tokens_per_second": {9e4 * norm:.2f}, '
                    f'"step_time": {0.4 * norm:.6f}, "memory": 71.5, "mfu": 0.41}}\n'
                )
            else:
                file.write(
                    f" [2025-10-0{1 + step // 86400} {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}] "
                    f"iteration {step:8}/ 1000000 | consumed samples: {step * 8:12} | elapsed time per iteration (ms): "
                    f"{400 * norm:.1f} | learning rate: 1.500000E-04 | global batch size:     8 | "
                    f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | "
                    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    names = {"events": "events.out.tfevents.1", "jsonl": "log.jsonl", "megatron": "train.log"}
    words = [*TRAINLENS, "analyze", "run", "--format", "terminal"]
    print(f"{'':12} {'no cache':>9} {'first':>7} {'unchanged':>17} {'1 % appended':>17}")
    for kind, name in names.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "run").mkdir()
            whole, log = folder / "whole", folder / "run" / name
            subprocess.run([sys.executable, "-c", _WRITE, kind, str(whole), str(options.points)], check=True)
            content = whole.read_bytes()
            part = len(content) // 100
            start = len(content) - options.turns * part
            log.write_bytes(content[:start])
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
