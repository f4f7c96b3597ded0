"""Event files against TensorBoard's two readers: CPU seconds of the reading, and that all read the same.

    python -m tests.benchmarks.bench_tensorboard [--points 10000 100000 1000000] [--peer /path/to/python] [kinds ...]

Each reading is a process of its own. `--peer` names an interpreter that has tensorboard and tensorboard-data-server
(rustboard), by default this one. EventAccumulator keeps everything (size_guidance 0), its imports are not counted;
rustboard keeps all samples and verifies checksums (`--checksum`), and its start, some milliseconds, is counted. It
shows only how long its loading took, so that what it read cannot be compared. trainlens verifies both checksums of
every record. `damaged` is the irregular file with a flipped bit in every 5,000th record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.benchmarks.inputs_events import Kind, Truth

Curves = dict[str, tuple[Any, Any, Any]]  # tag -> steps, clocks, values


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=["regular", "irregular", "tf2", "media", "damaged"])
    parser.add_argument("--points", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--accumulator-most", type=int, default=1_000_000, help="points above which it is left out")
    parser.add_argument("--repeat", type=int, default=5, help="readings by trainlens; the median counts")
    parser.add_argument("--peer-repeat", type=int, default=1)
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter that has tensorboard")
    chosen = parser.parse_args()
    for kind in chosen.kinds:
        for points in chosen.points:
            with tempfile.TemporaryDirectory() as folder:
                _compare(Path(folder), kind, points, chosen)


def _compare(folder: Path, kind: str, points: int, chosen: argparse.Namespace) -> None:
    from tests.benchmarks import inputs_events

    path = folder / "events.out.tfevents.1750000000.host"
    written: Kind = "irregular" if kind == "damaged" else kind  # type: ignore[assignment]
    truth = inputs_events.write(path, written, points)
    if kind == "damaged":
        truth = inputs_events.damage(path, truth, every=5_000)
    path.with_name("tags.json").write_text(json.dumps(inputs_events.TAGS))
    ours = [_reading(sys.executable, "trainlens", path) for _ in range(chosen.repeat)]
    cpu = statistics.median(one["cpu"] for one in ours)
    _check(path, "trainlens", truth)
    print(f"{kind}: {points:,} points, {path.stat().st_size / 1e6:.1f} MB")
    best, rate = min(one["cpu"] for one in ours), points / cpu / 1e6
    mib = f"{ours[-1]['mib']:.0f} MiB with the mapped file"
    print(f"  trainlens {cpu:.4f} CPU s (median of {len(ours)}, {best:.4f} at best), {rate:.1f} million/s, {mib}")
    if kind == "damaged":
        print("  EventAccumulator and rustboard end at the first damaged record: no comparison")
        return
    _compare_accumulator(path, truth, cpu, chosen)
    _compare_rustboard(path, cpu, chosen)


def _compare_accumulator(path: Path, truth: Truth, cpu: float, chosen: argparse.Namespace) -> None:
    if not _has(chosen.peer, "tensorboard"):
        print(f"  tensorboard is not installed in {chosen.peer}: no comparison")
        return
    if len(truth.step) > chosen.accumulator_most:
        return
    theirs = [_reading(chosen.peer, "accumulator", path) for _ in range(chosen.peer_repeat)]
    peer = statistics.median(one["cpu"] for one in theirs)
    _check(path, "accumulator", truth)
    print(f"  EventAccumulator {peer:.2f} CPU s: {peer / cpu:.0f} times as long; equal to the bit")


def _compare_rustboard(path: Path, cpu: float, chosen: argparse.Namespace) -> None:
    if not _has(chosen.peer, "tensorboard_data_server"):
        print(f"  rustboard (tensorboard-data-server) is not installed in {chosen.peer}: no comparison")
        return
    show = "import tensorboard_data_server as server; print(server.server_binary())"
    binary = subprocess.run([chosen.peer, "-c", show], check=True, capture_output=True, text=True).stdout.strip()
    peer = statistics.median(_rustboard(binary, path.parent) for _ in range(chosen.repeat))
    print(f"  rustboard {peer:.2f} CPU s (all samples, checksums): {peer / cpu:.1f} times as long")


def _rustboard(binary: str, folder: Path) -> float:
    """CPU seconds from rustboard's start to the end of its first loading."""
    options = ["--reload", "once", "-vv", "--samples-per-plugin", "scalars=all", "--checksum"]
    port = folder / "port"  # else it says its port on the standard output
    command = [binary, "--logdir", str(folder), "--port", "0", "--port-file", str(port), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        if not any("Finished load cycle" in line for line in server.stderr):
            raise SystemExit("rustboard ended before it had loaded the file")
        server.kill()
        spent = os.wait4(server.pid, 0)[2]
    return spent.ru_utime + spent.ru_stime


def _reading(python: str, reader: str, path: Path) -> dict[str, float]:
    """One reading in a new process: {"cpu": seconds, "mib": growth of the peak}; its curves are left by the file."""
    out = path.with_name(f"{reader}.npz")
    command = [python, __file__, reader, str(path), str(out)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(answer.splitlines()[-1])
    return measured


def _has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], check=False, capture_output=True).returncode == 0


def _check(path: Path, reader: str, truth: Truth) -> None:
    """SystemExit unless the curves that `reader` left are those that were written, bit for bit."""
    from tests.benchmarks import inputs_events

    with np.load(path.with_name(f"{reader}.npz")) as saved:
        for number, tag in enumerate(inputs_events.TAGS):
            here = truth.tag == number
            wanted = (truth.step[here], truth.time[here], truth.value[here].astype(np.float64))
            for column, want in enumerate(wanted):
                if saved[f"{number}/{column}"].tobytes() != want.tobytes():
                    raise SystemExit(f"{reader} reads {tag} otherwise than written")


# ---- in the process of one reading ---------------------------------------------------------------------------------


def _read_and_save(reader: str, path: str, out: str) -> None:
    load = {"trainlens": _load_trainlens, "accumulator": _load_accumulator}[reader]
    curves, seconds, mib = load(path)
    tags = json.loads(Path(path).with_name("tags.json").read_text())
    columns = {f"{number}/{column}": curves[tag][column] for number, tag in enumerate(tags) for column in range(3)}
    np.savez(out, **columns)
    print(json.dumps({"cpu": seconds, "mib": mib}))


def _peak() -> float:
    """The process's largest memory so far, in MiB; getrusage would count that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _load_trainlens(path: str) -> tuple[Curves, float, float]:
    from trainlens.model import Points
    from trainlens.parsers import tensorboard
    from trainlens.sources import Source

    before, start = _peak(), time.process_time()
    batches: dict[str, list[Points]] = {}
    for batch in tensorboard.read(Source.of(Path(path))):
        if isinstance(batch, Points):
            batches.setdefault(batch.tag, []).append(batch)
    seconds, mib = time.process_time() - start, round(_peak() - before)
    curves = {
        tag: (
            np.concatenate([one.step for one in some if one.step is not None]),
            np.concatenate([one.time for one in some if one.time is not None]),
            np.concatenate([one.value for one in some]),
        )
        for tag, some in batches.items()
    }
    return curves, seconds, mib


def _load_accumulator(path: str) -> tuple[Curves, float, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = dict.fromkeys(("scalars", "tensors", "images", "histograms", "compressedHistograms", "audio"), 0)
    before, start = _peak(), time.process_time()
    loaded = EventAccumulator(path, size_guidance=everything)
    loaded.Reload()
    rows = {tag: loaded.Scalars(tag) for tag in loaded.Tags()["scalars"]}
    tensors = {tag: loaded.Tensors(tag) for tag in loaded.Tags()["tensors"]}
    seconds, mib = time.process_time() - start, round(_peak() - before)
    curves = {tag: _columns(some, [one.value for one in some]) for tag, some in rows.items()}
    curves |= {tag: _columns(some, [one.tensor_proto.float_val[0] for one in some]) for tag, some in tensors.items()}
    return curves, seconds, mib


def _columns(rows: list[Any], values: list[float]) -> tuple[Any, Any, Any]:
    steps = np.array([one.step for one in rows], np.int64)
    return steps, np.array([one.wall_time for one in rows]), np.array(values)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("trainlens", "accumulator"):
        _read_and_save(*sys.argv[1:])
    else:
        main()
