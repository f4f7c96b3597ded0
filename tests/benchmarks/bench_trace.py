"""Chrome traces: trainlens' reader beside json.load of the same file.

    python -m tests.benchmarks.bench_trace --steps 400

A step of the trace has about 2,000 events, as Kineto writes them: kernels, operators of the host, calls of the runtime
and flows. Each reading is a process of its own; CPU seconds and peak memory count, and how they grow with the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

_OURS = """
from pathlib import Path
from trainlens.parsers import torch_profiler
from trainlens.sources import Source
start()
count = len(list(torch_profiler.read(Source.of(Path(path)))))
"""
_PEER = """
start()
with open(path, encoding="utf-8") as file:
    count = len(json.load(file)["traceEvents"])
"""
_FRAME = """
import json, resource, sys, time
path = sys.argv[1]
begun = 0.0
def start():
    global begun
    begun = time.process_time()
{body}
print(json.dumps([time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, count]))
"""


def write(path: Path, steps: int) -> None:
    """A seeded trace: 500 groups of four events a step, a step of 50 ms."""
    args = {"External id": 17, "Fwd thread id": 0, "Input Dims": [[4096, 4096], [4096, 4096]], "stream": 7}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n')
        for step in range(steps):
            begin = 1e6 + step * 5e4
            events = [_event("user_annotation", f"ProfilerStep#{step}", begin, 49_990, {})]
            for at in range(500):
                now = begin + at * 100
                name = "ncclDevKernel_AllReduce" if at % 10 == 0 else "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_nn"
                events += [
                    _event("kernel", name, now + 5, 80, args),
                    _event("cpu_op", "aten::mm", now, 60, args),
                    _event("cuda_runtime", "cudaLaunchKernel", now + 2, 5, args),
                    {"ph": "f", "id": at, "pid": 0, "tid": 7, "ts": now, "cat": "ac2g", "name": "ac2g", "bp": "e"},
                ]
            file.write(",\n".join(json.dumps(event) for event in events) + (",\n" if step < steps - 1 else "\n"))
        file.write("]}\n")


def _event(category: str, name: str, begin: float, length: float, args: dict[str, object]) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": length, "args": args}


def measured(body: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak memory in MiB of one reading."""
    script = _FRAME.format(body=body)
    told = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    seconds, memory, _ = json.loads(told.stdout)
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for steps in (options.steps // 4, options.steps):
            path = Path(folder, f"{steps}.json")
            write(path, steps)
            ours = min(measured(_OURS, path) for _ in range(options.rounds))
            peer = min(measured(_PEER, path) for _ in range(options.rounds))
            print(
                f"{path.stat().st_size / 1e6:7.1f} MB: trainlens {ours[0]:.2f} s, {ours[1]:.0f} MiB; "
                f"json.load {peer[0]:.2f} s, {peer[1]:.0f} MiB; ratio {ours[0] / peer[0]:.2f}"
            )


if __name__ == "__main__":
    main()
