"""How fast a Megatron log is read, against what one would write at first: one `re` that finds every `name: number |`.

    python -m tests.benchmarks.bench_megatron --lines 10000 100000 1000000
    python -m tests.benchmarks.bench_megatron --lines 6000000 --alone   # 2 GB: the peak of memory

The log is made anew (seeded) in a temporary directory; CPU seconds (user + system) of the fastest of several readings
are compared. `re` reads the fields alone, polars five of them by `str.extract`; trainlens also reads time stamps,
timers, validation and events. Memory does not grow with the file, a block of it is held at a time: 2 GB and 57 million
points took 126 MiB at most, 86 of them before the reading began.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl

from trainlens.model import Points
from trainlens.parsers import key_value_text, megatron
from trainlens.sources import Source

_GENERIC = re.compile(r"([A-Za-z][^|:\[\]]*): +([-+.\dEe]+|nan|inf)(?= *\||$)")
_ITERATION = re.compile(r"iteration +(\d+)/")
_NOISE = (
    "WARNING:megatron.core.rerun_state_machine:Implicit initialization of Rerun State Machine!",
    "> building train, validation, and test datasets ...",
    "/usr/lib/python3/torch/utils/checkpoint.py:87: UserWarning: None of the inputs have requires_grad=True",
    "saving checkpoint at iteration   {:7d} to /ckpt in torch_dist format",
)
RULE = "-" * 105


def write_megatron(path: Path, lines: int, seed: int = 21) -> None:
    """Records of Megatron core with a clock, timers every 100 iterations, validation every 1000, 2 % other lines."""
    rng = np.random.default_rng(seed)
    ms = rng.gamma(100, 12.3, lines)
    loss = 1.2 + 9 * (1 + np.arange(lines)) ** -0.2 + rng.normal(0, 0.02, lines)
    norm, flops, skipped = rng.gamma(4, 0.3, lines), rng.normal(400, 6, lines), rng.random(lines) < 2e-4
    noise, kind = rng.random(lines) < 0.02, rng.integers(0, len(_NOISE), lines)
    clock = 1_748_736_000 + np.cumsum(ms) / 1e3
    with path.open("w") as file:
        file.write("using world size: 512, data-parallel size: 64\n")
        for i in range(lines):
            it = i + 1
            stamp = dt.datetime.fromtimestamp(clock[i], dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
            file.write(
                f" [{stamp}] iteration {it:8d}/{lines:8d} | consumed samples: {it * 1024:12d} |"
                f" elapsed time per iteration (ms): {ms[i]:.1f} | throughput per GPU (TFLOP/s/GPU): {flops[i]:.1f} |"
                f" learning rate: {3e-4 * (1 - i / lines):.6E} | global batch size: {1024:5d} | "
                + ("" if skipped[i] else f"lm loss: {loss[i]:.6E} | ")
                + f"loss scale: 1.0 | grad norm: {norm[i]:.3f} | number of skipped iterations: {int(skipped[i]):3d} |"
                f" number of nan iterations: {0:3d} |\n"
            )
            if it % 100 == 0:
                file.write("(min, max) time across ranks (ms):\n")
                for name in ("forward-backward", "all-grads-sync", "optimizer"):
                    file.write(f"    {name} {'.' * (40 - len(name))}: ({ms[i] * 0.9:.2f}, {ms[i] * 0.95:.2f})\n")
            if noise[i]:
                file.write(_NOISE[kind[i]].format(it) + "\n")
            if it % 1000 == 0:
                file.write(
                    f"{RULE}\n validation loss at iteration {it} | lm loss value: {loss[i] + 0.1:.6E} |"
                    f" lm loss PPL: {np.exp(loss[i] + 0.1):.6E} | \n{RULE}\n"
                )


def write_generic(path: Path, lines: int, seed: int = 41) -> None:
    """`step:… train_loss:… train_time:… step_avg:…`, as modded-nanogpt prints it."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for k, loss in enumerate(3 + rng.normal(0, 0.05, lines)):
            file.write(f"step:{k}/{lines} train_loss:{loss:.4f} train_time:{k * 350}ms step_avg:350.12ms\n")


def generic(path: Path) -> float:
    """Every `name: number |` of every iteration line; the sum of the losses."""
    found: dict[str, list[tuple[int, float]]] = {}
    with path.open() as file:
        for line in file:
            record = _ITERATION.search(line)
            if record:
                for name, number in _GENERIC.findall(line):
                    found.setdefault(name, []).append((int(record[1]), float(number)))
    return sum(value for _, value in found["lm loss"])


def one_re(path: Path, pattern: str) -> int:
    """One expression for the lines of a format, its groups as numbers; the number of rows."""
    search = re.compile(pattern).search
    with path.open() as file:
        found = (search(line) for line in file)
        return len([[float(group) for group in record.groups() if group is not None] for record in found if record])


def ours(parser: ModuleType, path: Path) -> tuple[float, int]:
    """Sum of the training losses and number of points."""
    total, count = 0.0, 0
    for batch in parser.read(Source.of(path)):
        if isinstance(batch, Points):
            count += len(batch.value)
            total += float(batch.value.sum()) if batch.tag == "lm loss" else 0.0
    return total, count


def cpu(work: Callable[[], object], times: int) -> float:
    """The least CPU seconds of several runs."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


_STEP_LOSS = r"step:(\d+)/\d+ train_loss:([\d.]+) train_time:(\d+)ms step_avg:([\d.]+)ms"


def extract(path: Path) -> float:
    """Five fields by `str.extract` of polars; the sum of the losses."""
    lines = pl.read_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"]).lazy()
    found = lines.filter(pl.col("line").str.contains("iteration ", literal=True)).select(
        *(pl.col("line").str.extract(pattern).cast(pl.Float64).alias(name) for name, pattern in _FIELDS.items())
    )
    return float(found.collect()["loss"].sum())


_FIELDS = {
    "step": r"iteration +(\d+)/",
    "ms": r"\(ms\): ([\d.]+) \|",
    "rate": r"learning rate: ([-+.\dE]+) \|",
    "loss": r"lm loss: ([-+.\dE]+) \|",
    "norm": r"grad norm: ([\d.]+) ",
}


def compared(work: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """The least CPU seconds of each, taken in turn so that a busy machine is busy for all."""
    spent: dict[str, float] = {}
    for _ in range(times):
        for name, one in work.items():
            spent[name] = min(spent.get(name, np.inf), cpu(one, 1))
    return spent


def told(name: str, path: Path, spent: dict[str, float]) -> str:
    own = spent["trainlens"]
    peers = "   ".join(f"{peer} {seconds:6.2f} s ×{seconds / own:5.2f}" for peer, seconds in spent.items())
    return f"{name:10} {path.stat().st_size / 1e6:5.0f} MB   {peers}"


def main() -> None:
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    wanted.add_argument("--times", type=int, default=3)
    wanted.add_argument("--alone", action="store_true", help="trainlens alone, with its peak of memory")
    chosen = wanted.parse_args()
    for lines in chosen.lines:
        with tempfile.TemporaryDirectory() as root:
            path = Path(root, "log.txt")
            write_megatron(path, lines)
            if chosen.alone:
                alone(path)
            else:
                beside_peers(path, lines, chosen.times)


def alone(path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = cpu(lambda: ours(megatron, path), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = path.stat().st_size / 1e6
    print(f"Megatron {size:.0f} MB: {spent:.2f} s, peak {peak >> 10} MiB, {before >> 10} MiB before")


def beside_peers(path: Path, lines: int, times: int) -> None:
    assert np.isclose(generic(path), ours(megatron, path)[0], rtol=1e-9)
    assert np.isclose(extract(path), ours(megatron, path)[0], rtol=1e-9)
    own = {"trainlens": lambda: ours(megatron, path), "polars": lambda: extract(path)}
    print(told("Megatron", path, {**compared(own, times), "re": cpu(lambda: generic(path), 1)}))
    write_generic(path, lines)
    pairs = {"trainlens": lambda: ours(key_value_text, path), "re": lambda: one_re(path, _STEP_LOSS)}
    print(told("step:loss", path, compared(pairs, times)))


if __name__ == "__main__":
    main()
