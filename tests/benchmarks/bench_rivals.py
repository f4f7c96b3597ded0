"""trainlens beside its rivals on runs whose faults are known: F1 by kind, false alarms of healthy runs, CPU seconds.

    python -m tests.benchmarks.bench_rivals [FOLDER] --rivals /path/to/python [--tools trainlens runmedic] [--jobs 2]

Make the rivals' environment with

    python -m venv rivals && rivals/bin/pip install trainspotter runmedic trainproof finetune-doctor runwise

and give `--rivals rivals/bin/python`. FOLDER holds labelled runs: TRUTH.jsonl, a JSON object a run with `run`,
`healthy`, `events` (kind, first_step, last_step, optional, accept) and `attrs` (steps, log_every, eval_every), and
RUN/metrics.jsonl or RUN/metrics.jsonl.gz, in it or one folder below. Without one, 126 runs are made (inputs_labelled).
How it is scored is told in scoring.py, what the tools' words are taken for in rivals.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import inputs_labelled, rivals
from tests.benchmarks.rivals import ADVICE, TOOLS, Tool
from tests.benchmarks.scoring import Said, Score

INSTALL = "python -m venv rivals && rivals/bin/pip install {}; then --rivals rivals/bin/python"


@dataclass
class Outcome:
    """What came of one tool on all runs."""

    score: Score = field(default_factory=Score)
    said: Counter[str] = field(default_factory=Counter)
    advice: int = 0  # warnings on healthy runs that no kind of fault stands for
    seconds: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, truth: Mapping[str, Any], answer: list[Said] | str, seconds: float) -> None:
        self.seconds.append(seconds)
        if isinstance(answer, str):
            self.failed[answer] += 1
            answer = []
        faults = [one for one in answer if one.kinds[0] != ADVICE]
        self.said.update(kind for one in faults for kind in one.kinds)
        self.advice += truth["healthy"] * (len(answer) - len(faults))
        self.score.add(truth, faults)


def main() -> None:
    chosen = _arguments()
    with tempfile.TemporaryDirectory(prefix="rivals-") as scratch:
        folder = chosen.folder
        if folder is None:
            folder = Path(scratch, "made")
            inputs_labelled.write(folder, chosen.seed)
        truths = [json.loads(line) for line in (folder / "TRUTH.jsonl").read_text("utf-8").splitlines()][
            :: chosen.every
        ]
        if chosen.source:
            truths = [truth for truth in truths if truth.get("source") == chosen.source]
        tools: dict[str, tuple[Tool, str, str]] = {}
        for tool in TOOLS:
            python = rivals.OURS if tool.name == "trainlens" else chosen.rivals
            found = rivals.version(tool, python)
            if tool.name not in chosen.tools:
                continue
            if found is None:
                print(f"{tool.name} is missing in {python}: {INSTALL.format(tool.package)}", file=sys.stderr)
            else:
                tools[tool.name] = (tool, python, found)
        outcomes = {name: Outcome() for name in tools}

        def judge(truth: Mapping[str, Any]) -> list[tuple[str, list[Said] | str, float]]:
            with tempfile.TemporaryDirectory(dir=scratch) as place:
                files = forms(rows_of(folder, truth["run"]), Path(place, truth["run"]))
                return [
                    (name, *rivals.ask(tool, python, files[_form(tool, chosen.form)], chosen.timeout))
                    for name, (tool, python, _) in tools.items()
                ]

        with ThreadPoolExecutor(chosen.jobs) as pool:
            for truth, answers in zip(truths, pool.map(judge, truths), strict=True):
                for name, answer, seconds in answers:
                    outcomes[name].add(truth, answer, seconds)
    print("\n".join(table(truths, outcomes, {name: found for name, (_, _, found) in tools.items()})))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="labelled runs; default: a set is made")
    parser.add_argument("--rivals", default=sys.executable, metavar="PYTHON", help="interpreter that has the rivals")
    parser.add_argument(
        "--tools", nargs="+", default=[tool.name for tool in TOOLS], choices=[one.name for one in TOOLS]
    )
    parser.add_argument("--form", choices=rivals.TABLES, default="jsonl", help="for the tools that read it")
    parser.add_argument("--source", help="only runs of this `source`")
    parser.add_argument("--seed", type=int, default=inputs_labelled.SEED, help="of the runs that are made")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th run only")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for a tool and run")
    return parser.parse_args()


def _form(tool: Tool, wished: str) -> str:
    return wished if wished in tool.forms else tool.forms[0]


def rows_of(folder: Path, run: str) -> list[dict[str, Any]]:
    """The rows of a run. SystemExit where it is not there."""
    for place in sorted({folder, *(one for one in folder.iterdir() if one.is_dir())}):
        plain, packed = place / run / "metrics.jsonl", place / run / "metrics.jsonl.gz"
        if plain.exists():
            return [json.loads(line) for line in plain.read_text("utf-8").splitlines()]
        if packed.exists():
            return [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
    raise SystemExit(f"{folder} has no {run}/metrics.jsonl")


def forms(rows: Sequence[Mapping[str, Any]], place: Path) -> dict[str, Path]:
    """The run as JSON lines, as CSV with a column a metric, and as the state that Hugging Face's Trainer saves."""
    place.mkdir()
    files = {"jsonl": place / "metrics.jsonl", "csv": place / "metrics.csv", "hf": place / "trainer_state.json"}
    files["jsonl"].write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    files["csv"].write_text("".join(",".join(line) + "\n" for line in lines), "utf-8")
    state = {"global_step": rows[-1]["step"], "max_steps": rows[-1]["step"], "log_history": list(rows)}
    files["hf"].write_text(json.dumps(state), "utf-8")
    return files


def table(
    truths: Sequence[Mapping[str, Any]], outcomes: Mapping[str, Outcome], versions: Mapping[str, str]
) -> Iterator[str]:
    """The answer in Markdown. "–" is a kind that the tool never named."""
    faults = Counter(one["kind"] for truth in truths for one in truth["events"] if not one.get("optional"))
    healthy = sum(bool(truth["healthy"]) for truth in truths)
    yield f"F1 by kind; {len(truths)} runs, {healthy} of them healthy; {sum(faults.values())} faults to find.\n"
    yield f"| | faults | {' | '.join(f'{name} {versions[name]}' for name in outcomes)} |"
    yield f"| --- | ---: |{' ---: |' * len(outcomes)}"
    for kind, count in faults.most_common():
        cells = (f"{one.score.f1([kind]):.2f}" if one.said[kind] else "–" for one in outcomes.values())
        yield f"| {kind.replace('_', ' ')} | {count} | {' | '.join(cells)} |"
    every = {kind for one in outcomes.values() for kind in one.score.false} | set(faults)
    lines: dict[str, tuple[int | str, list[str]]] = {
        "**all kinds**": (sum(faults.values()), [f"**{one.score.f1(every):.2f}**" for one in outcomes.values()]),
        "mean over kinds": ("", [f"{_mean(one.score.f1([kind]) for kind in faults):.2f}" for one in outcomes.values()]),
        "mean over the kinds it names": (
            "", [f"{_mean(one.score.f1([kind]) for kind in faults if one.said[kind]):.2f}" for one in outcomes.values()]
        ),
        "false alarms per healthy run": (
            "", [f"{sum(one.score.healthy) / max(1, healthy):.2f}" for one in outcomes.values()]
        ),
        "healthy runs with one": (
            "", [f"{sum(map(bool, one.score.healthy)) / max(1, healthy):.0%}" for one in outcomes.values()]
        ),
        "other warnings per healthy run": ("", [f"{one.advice / max(1, healthy):.2f}" for one in outcomes.values()]),
        "runs without an answer": ("", [str(one.failed.total()) for one in outcomes.values()]),
        "CPU s per run, median": ("", [f"{statistics.median(one.seconds):.2f}" for one in outcomes.values()]),
        "CPU s per run, mean": ("", [f"{_mean(one.seconds):.2f}" for one in outcomes.values()]),
    }  # fmt: skip
    for name, (total, figures) in lines.items():
        yield f"| {name} | {total} | {' | '.join(figures)} |"
    for name, outcome in outcomes.items():
        yield from (f"\n{name}: {count} × {why}" for why, count in outcome.failed.most_common(3))


def _mean(numbers: Iterator[float] | Sequence[float]) -> float:
    known = [number for number in numbers if number == number]
    return sum(known) / len(known) if known else 0.0


if __name__ == "__main__":
    main()
