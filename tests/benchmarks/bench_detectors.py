"""Speed of all detectors on 20 metrics: 50,000 points each within a second of CPU, a million each within 20 s.

`python -m tests.benchmarks.bench_detectors [--points 50000 200000 1000000]` prints the whole and the dearest ones for
each length; `pytest -m benchmark tests/benchmarks/bench_detectors.py` holds the first limit. What several detectors
share, such as the spikes of a loss, is counted for the first that asks.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pytest

from tests.detectors.door import run_of
from trainlens import analysis, plugins
from trainlens.model import Floats, Run
from trainlens.settings import Settings

OTHERS = ("lr", "grad_norm", "step_time", "tokens_per_second", "mfu", "gpu/utilization", "gpu/power", "clipped")


def power_law(n: int, seed: int) -> Floats:
    noise = np.random.default_rng(seed).normal(0, 0.012, n)
    return np.asarray((3.0 + 7.9 * (np.arange(n) / (0.004 * n) + 1) ** -0.6) * np.exp(noise))


def run_with(points: int) -> Run:
    """Twenty metrics: the training loss, three parts of it, eight other roles and eight activations."""
    parts = {f"loss/part{i}": power_law(points, i) for i in range(3)}
    others = {name: np.random.default_rng(7).uniform(0.4, 0.6, points) for name in OTHERS}
    layers = {f"act_std/layer{i}": np.random.default_rng(i).uniform(0.9, 1.1, points) for i in range(8)}
    about = dict.fromkeys(parts, ("loss", "lower"))
    return run_of({"train/loss": power_law(points, 11), **parts, **others, **layers}, about=about)  # type: ignore[arg-type]


def cpu_seconds(run: Run) -> dict[str, float]:
    """CPU seconds of each detector with its usual options, as the analysis asks them."""
    seconds = {}
    for name in plugins.names("detectors"):
        begin = time.process_time()
        check, _ = analysis.check_run(run, name, Settings())
        seconds[name] = time.process_time() - begin
        assert check.status != "failed", f"{name}: {check.reason}"
    return seconds


@pytest.mark.benchmark
def test_twenty_metrics_of_fifty_thousand_points_take_a_second() -> None:
    cpu_seconds(run_with(2_000))  # imports
    assert sum(cpu_seconds(run_with(50_000)).values()) < 1.0


@pytest.mark.benchmark
def test_cost_grows_with_the_points_and_no_faster() -> None:
    cpu_seconds(run_with(2_000))
    short, long = (sum(cpu_seconds(run_with(points)).values()) for points in (50_000, 500_000))
    assert long < 15 * short


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, nargs="+", default=[50_000, 200_000, 1_000_000], help="of each metric")
    parser.add_argument("--named", type=int, default=8, help="how many detectors are named")
    options = parser.parse_args()
    cpu_seconds(run_with(2_000))
    for points in options.points:
        run = run_with(points)
        seconds = cpu_seconds(run)
        total = sum(seconds.values())
        print(f"{len(run.series)} metrics of {points:,} points, {len(seconds)} detectors: {total:.3f} s CPU")
        for name in sorted(seconds, key=lambda one: -seconds[one])[: options.named]:
            print(f"    {name:24} {1e3 * seconds[name]:8.1f} ms")


if __name__ == "__main__":
    main()
