"""Time to first paint of the HTML page beside TensorBoard's: `python -m tests.benchmarks.bench_report`.

One million points in an event file. Of each page: bytes, milliseconds to the first text on the screen, to the first
chart, and until all its charts are drawn (of TensorBoard: those in view); medians of some turns in a fresh window of
one headless Chromium. TensorBoard is
another environment's (`--tensorboard PATH`); its server has read the file before the clock begins, which is to its
favour. `--page NAME=FILE` adds the page of another tool. Needs playwright and a browser.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.benchmarks import inputs_events
from tests.browser import chromium

PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def measured(browser: Any, address: str, chart: str, ready: str, turns: int) -> tuple[float, float, float]:
    """Milliseconds to the first paint, the first `chart` and until `ready` (selectors) is there, medians."""
    paints, firsts, whole = [], [], []
    for _ in range(turns):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        begin = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_selector(chart, timeout=120_000, state="attached")
        firsts.append(1000 * (time.perf_counter() - begin))
        page.wait_for_selector(ready, timeout=120_000, state="attached")
        whole.append(1000 * (time.perf_counter() - begin))
        page.wait_for_function(PAINT)
        paints.append(page.evaluate(PAINT))
        context.close()
    return statistics.median(paints), statistics.median(firsts), statistics.median(whole)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def served(command: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """TensorBoard's server once it has read the file, and the address of its scalars."""
    port = free_port()
    words = [command, "--logdir", str(folder), "--port", str(port), "--host", "127.0.0.1", "--load_fast", "false"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        time.sleep(0.5)
        try:
            with urllib.request.urlopen(f"{address}/data/plugin/timeseries/tags", timeout=30) as answer:
                if len(answer.read()) > 100:
                    return process, f"{address}/#timeseries"
        except OSError:
            continue
    raise SystemExit("TensorBoard did not answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tensorboard", help="the program tensorboard of an environment that has it")
    parser.add_argument("--page", action="append", default=[], metavar="NAME=FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        folder = Path(scratch) / "run"
        folder.mkdir()
        inputs_events.write(folder / "events.out.tfevents.1", "regular", options.points)
        page = Path(scratch) / "report.html"
        words = [sys.executable, "-m", "trainlens", "analyze", str(folder), "-f", "html", "-o", str(page), "-q"]
        subprocess.run(words, check=True)
        pages = [("trainlens", page.as_uri(), "canvas", "html[data-drawn]", page.stat().st_size)]
        for text in options.page:
            name, _, file = text.partition("=")
            pages.append((name, Path(file).resolve().as_uri(), "svg, canvas", "body", Path(file).stat().st_size))
        server = None
        if options.tensorboard:
            server, address = served(options.tensorboard, folder)
            pages.append(("TensorBoard", address, "line-chart canvas, line-chart svg", "body", 0))
        for name, address, chart, ready, size in pages:
            paint, first, whole = measured(browser, address, chart, ready, options.turns)
            times = f"first paint {paint:6.0f} ms  first chart {first:6.0f} ms  all {whole:6.0f} ms"
            print(f"{name:12} {size / 1e6:6.2f} MB  {times}")
        if server is not None:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
