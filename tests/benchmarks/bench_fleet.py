"""Many event files at once: CPU seconds and peak memory of `trainlens.reading` over a whole directory of runs.

    python -m tests.benchmarks.bench_fleet [--runs 200] [--points 120000] [--tiny 5000]

Two directories are made: a fleet of long runs, one file each, and as many tiny files of 100 points. Every record's
checksums are verified. `choosing` is the search for files and the choice of their parsers; `reading` ends with runs
whose curves are canonical, ordered and stitched. Nothing is cached. `parsing` is the parser's share, measured apart.
Last comes a whole `trainlens analyze` of the directory, told in the terminal.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--points", type=int, default=120_000)
    parser.add_argument("--tiny", type=int, default=5_000, help="files of 100 points")
    chosen = parser.parse_args()
    for files, points in ((chosen.runs, chosen.points), (chosen.tiny, 100)):
        if files:
            with tempfile.TemporaryDirectory() as folder:
                _measure(Path(folder), files, points)


def _measure(folder: Path, files: int, points: int) -> None:
    from tests.benchmarks import inputs_events
    from tests.benchmarks.bench_analyze import TRAINLENS, cost

    for number in range(files):
        path = folder / f"run_{number:04d}" / f"events.out.tfevents.{1_750_000_000 + number}.host"
        path.parent.mkdir()
        inputs_events.write(path, "regular", points, seed=number)
    size = sum(path.stat().st_size for path in folder.rglob("*tfevents*"))
    print(f"{files:,} files of {points:,} points, {size / 1e6:,.0f} MB")
    answer = subprocess.run([sys.executable, __file__, str(folder)], check=True, capture_output=True, text=True).stdout
    found = json.loads(answer)
    if (found["runs"], found["points"]) != (files, files * points):
        raise SystemExit(f"{found['points']:,} points of {found['runs']:,} runs were read, others were written")
    total = found["choosing"] + found["reading"]
    each = 1e3 * total / files
    print(f"  {total:.2f} CPU s in all, {each:.2f} ms a file: choosing {found['choosing']:.2f}, ", end="")
    print(f"reading {found['reading']:.2f} (parsing alone {found['parsing']:.2f}); {found['mib']:.0f} MiB at the peak")
    seconds, memory = cost([*TRAINLENS, "analyze", str(folder), "--no-cache", "--format", "terminal"], folder)
    print(f"  {seconds:.2f} CPU s for a whole analysis, {memory:.0f} MiB at the peak")


# ---- in the process of one reading ---------------------------------------------------------------------------------


def _read(folder: str) -> dict[str, float]:
    from trainlens import plugins, reading
    from trainlens.settings import Settings

    plugins.load_all("parsers")  # imports are not counted
    settings = dataclasses.replace(Settings(), cache=False)
    start = time.process_time()
    jobs, _ = reading.work([folder], settings)
    chosen = time.process_time()
    runs = points = 0
    for files in jobs:
        found, _ = reading.read_run(files, settings)
        runs += len(found)
        points += sum(len(series) for run in found for series in run.series)
    end = time.process_time()
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    parser = plugins.load("parsers", "tensorboard")
    for files in jobs:
        for file in files.files:
            for _ in parser.read(file.source):
                pass
    parsing = time.process_time() - end
    seconds = {"choosing": chosen - start, "reading": end - chosen, "parsing": parsing}
    return {**seconds, "runs": runs, "points": points, "mib": peak}


if __name__ == "__main__":
    if len(sys.argv) == 2 and Path(sys.argv[1]).is_dir():
        print(json.dumps(_read(sys.argv[1])))
    else:
        main()
