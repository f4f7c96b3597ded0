"""How fast text of any trainer is read, beside polars (`str.extract` of each field) and one regular expression a line.

Run by hand: `python -m tests.benchmarks.bench_text [LINES …]`. CPU seconds; a ratio above 1 means trainlens is faster.
"""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from trainlens.parsers import key_value_text
from trainlens.sources import Source

_NUMBER = r"([-+.\deE]+)"
SHAPES: dict[str, tuple[Callable[[int], str], tuple[str, ...]]] = {
    "key=value": (
        lambda at: (
            f"2026-01-05 10:{at // 60 % 60:02d}:{at % 60:02d} INFO step={at} loss={2 + at % 977 / 977:.4f}"
            f" lr=3.0e-04 grad_norm={at % 31 / 31:.3f} tps={7000 + at % 999}\n"
        ),
        ("step=", "loss=", "lr=", "grad_norm=", "tps="),
    ),
    "key: value": (
        lambda at: (
            f"[titan] step: {at:>7}  loss: {2 + at % 977 / 977:.4f}  lr: 3.0e-04  grad_norm: {at % 31 / 31:.3f}"
            f"  memory: 9.4{at % 9}GiB  tps: {7000 + at % 999}\n"
        ),
        (r"step: +", "loss: ", "lr: ", "grad_norm: ", "memory: ", "tps: "),
    ),
    "dictionary": (
        lambda at: (
            f"{{'loss': {2 + at % 977 / 977:.4f}, 'grad_norm': {at % 31 / 31:.3f}, 'learning_rate': 3e-05,"
            f" 'epoch': {at / 1e6:.6f}, 'step': {at}}}\n"
        ),
        ("'loss': ", "'grad_norm': ", "'learning_rate': ", "'epoch': ", "'step': "),
    ),
    "bar": (
        lambda at: (
            f"Epoch 0:   6%|██  | {at}/9000000 [6:28:43<94:39:17,  1.37it/s, loss={2 + at % 977 / 977:.3f},"
            f" v_num=9, acc={at % 31 / 31:.3f}]" + ("\n" if at % 100 == 99 else "\r")
        ),
        (r"\| ", "loss=", "acc="),
    ),
    "mmdetection": (
        lambda at: (
            f"2022-02-09 20:{at // 60 % 60:02d}:{at % 60:02d},418 - mmdet - INFO - Epoch [{1 + at // 742}]"
            f"[{1 + at % 742}/742]\tlr: 5.000e-05, eta: 2:15:01, time: 0.396, data_time: 0.159, memory: 4127,"
            f" loss_cls: {at % 31 / 31:.4f}, loss: {2 + at % 977 / 977:.4f}\n"
        ),
        (r"Epoch \[", r"\]\[", "lr: ", ", time: ", "data_time: ", "memory: ", "loss_cls: ", ", loss: "),
    ),
}


def cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def by_polars(text: str, keys: tuple[str, ...]) -> None:
    lines = pl.Series(re.split(r"[\r\n]", text))
    for key in keys:
        lines.str.extract(key + _NUMBER).cast(pl.Float64, strict=False)


def by_expression(text: str, keys: tuple[str, ...]) -> None:
    row = re.compile(".*?".join(re.escape(key) if key.isalpha() else key + _NUMBER for key in keys))
    found = [match.groups() for line in re.split(r"[\r\n]", text) if (match := row.search(line))]
    for column in zip(*found, strict=True):
        list(map(float, column))


def main(sizes: list[int]) -> None:
    for name, (line, keys) in SHAPES.items():
        for size in sizes:
            text = "".join(map(line, range(size)))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "log")
                path.write_text(text)
                points = 0

                def ours(path: Path = path) -> None:
                    nonlocal points
                    points = sum(
                        len(getattr(one, "value", ()))
                        for one in key_value_text.read(Source.of(path))
                        if hasattr(one, "tag")
                    )

                spent = cpu(ours)
            polars, expression = cpu(lambda: by_polars(text, keys)), cpu(lambda: by_expression(text, keys))  # noqa: B023
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name:12} {size:>9,} lines {points:>10,} points {spent:6.2f} s | polars {polars:6.2f} s"
                f" (x {polars / spent:4.2f}) | re {expression:6.2f} s (x {expression / spent:4.2f}) | {peak:,.0f} MiB"
            )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
