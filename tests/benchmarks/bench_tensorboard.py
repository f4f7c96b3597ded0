"""Event files against TensorBoard's EventAccumulator: CPU seconds of the reading alone, and that both read the same.

    python -m tests.benchmarks.bench_tensorboard --points 1000000 [--peer /path/to/python] [kinds ...]

Each reading is a process of its own; imports are not counted. `--peer` names an interpreter that has tensorboard, by
default this one. The accumulator keeps everything (size_guidance 0); neither checks less than the other is asked to:
trainlens verifies both checksums of every record.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.benchmarks.inputs_events import Kind

Curves = dict[str, tuple[Any, Any, Any]]  # tag -> steps, clocks, values


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=["regular", "irregular", "tf2", "media"])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5, help="readings by trainlens; the median counts")
    parser.add_argument("--peer-repeat", type=int, default=1)
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter that has tensorboard")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen.kinds:
            _compare(Path(folder), kind, chosen)


def _compare(folder: Path, kind: Kind, chosen: argparse.Namespace) -> None:
    from tests.benchmarks import inputs_events

    path = folder / kind / "events.out.tfevents.1750000000.host"
    path.parent.mkdir()
    truth = inputs_events.write(path, kind, chosen.points)
    path.with_name("tags.json").write_text(json.dumps(inputs_events.TAGS))
    ours = [_reading(sys.executable, "trainlens", path) for _ in range(chosen.repeat)]
    cpu = statistics.median(one["cpu"] for one in ours)
    _check(folder, path, "trainlens", truth)
    mib = ours[-1]["mib"]
    print(f"{kind}: {chosen.points:,} points, {path.stat().st_size / 1e6:.1f} MB")
    best = min(one["cpu"] for one in ours)
    print(f"  trainlens {cpu:.3f} CPU s (median of {len(ours)}, {best:.3f} at best), {mib} MiB with the mapped file")
    if not _has_tensorboard(chosen.peer):
        print(f"  tensorboard is not installed in {chosen.peer}: no comparison")
        return
    theirs = [_reading(chosen.peer, "accumulator", path) for _ in range(chosen.peer_repeat)]
    peer = statistics.median(one["cpu"] for one in theirs)
    _check(folder, path, "accumulator", truth)
    print(f"  EventAccumulator {peer:.2f} CPU s: {peer / cpu:.0f} times as long; equal to the bit")


def _reading(python: str, reader: str, path: Path) -> dict[str, float]:
    """One reading in a new process: {"cpu": seconds, "mib": growth of the peak}; its curves are left by the file."""
    out = path.with_name(f"{reader}.npz")
    command = [python, __file__, reader, str(path), str(out)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(answer.splitlines()[-1])
    return measured


def _has_tensorboard(python: str) -> bool:
    return subprocess.run([python, "-c", "import tensorboard"], check=False, capture_output=True).returncode == 0


def _check(folder: Path, path: Path, reader: str, truth: Any) -> None:
    """SystemExit unless the curves that `reader` left are those that were written, bit for bit."""
    from tests.benchmarks import inputs_events

    with np.load(path.with_name(f"{reader}.npz")) as saved:
        for number, tag in enumerate(inputs_events.TAGS):
            here = truth.tag == number
            wanted = (truth.step[here], truth.time[here], truth.value[here].astype(np.float64))
            for column, want in enumerate(wanted):
                if saved[f"{number}/{column}"].tobytes() != want.tobytes():
                    raise SystemExit(f"{reader} reads {tag} of {path.relative_to(folder)} otherwise than written")


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
