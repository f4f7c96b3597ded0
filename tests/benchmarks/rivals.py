"""How trainlens and other tools for training logs are asked, and what their answers mean. Part of their benchmark.

Each run is a process of its own, start of the interpreter included. Only warnings and worse count, in each tool's own
words. What a tool names without a counterpart among the kinds of faults (no warm-up, few evaluations, …) is advice and
counted apart.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.scoring import Said

ADVICE = "advice"
Found = Iterator[Said]

_TRAINLENS = {
    "loss-divergence": "divergence", "flat-loss": "plateau", "loss-plateau": "plateau", "non-finite-value": "nan_inf",
    "gradient-explosion": "grad_explosion", "gradient-vanishing": "grad_vanishing", "gradient-spike": "grad_spike",
    "gradient-clipping": "clip_ratio_high", "weight-update-ratio": "update_ratio", "learning-rate-jump": "lr_anomaly",
    "logging-gap": "log_gap", "straggler-rank": "straggler", "load-imbalance": "rank_imbalance", "restart": "rollback",
    "low-gpu-utilization": "low_gpu_util", "communication-overhead": "comm_high", "memory-pressure": "memory_high",
    "power-throttling": "power_low", "loss-oscillation": "oscillation", "train-eval-gap": ADVICE, "loss-floor": ADVICE,
}  # fmt: skip
_GRADIENT = ("grad_spike", "grad_explosion")
_LIBRARY = """
import json, sys
from runwise.anomalies import detect_anomalies
rows = [json.loads(line) for line in open(sys.argv[1])]
found = detect_anomalies(rows, val_loss_key="eval_loss", throughput_key="tokens_per_sec")
print(json.dumps([{"type": one.type, "message": one.message, "step": one.step} for one in found]))
"""


def _trainlens(answer: Any) -> Found:
    for run in answer["runs"]:
        for one in run["findings"]:
            if one["severity"] != "info":
                kind = _TRAINLENS.get(one["detector"], one["detector"].replace("-", "_"))
                yield Said((kind,), one["first_step"], one["last_step"])


def _trainspotter(answer: Any) -> Found:
    kinds: dict[str, tuple[str, ...]] = {
        "spikes": ("loss_spike",), "plateau": ("plateau",), "overfitting": ("overfitting",), "grad_norm": _GRADIENT,
        "throughput": ("slowdown",),
    }  # fmt: skip
    for one in answer["findings"]:
        if one["severity"] == "info":
            continue
        named = kinds.get(one["detector"], (ADVICE,))
        if one["detector"] == "divergence":
            named = ("nan_inf",) if "non-finite" in one["title"] else ("divergence",)
        yield Said(named, one["step_start"], one["step_end"])


def _runmedic(answer: Any) -> Found:
    kinds: dict[str, tuple[str, ...]] = {
        "non_finite": ("nan_inf",), "divergence": ("divergence",), "no_learning": ("plateau",),
        "overfitting": ("overfitting",), "loss_spikes": ("loss_spike",), "grad_spikes": _GRADIENT,
        "constant_lr_plateau": ("plateau",), "slow_steps": ("periodic_stall", "hang"), "slowdown": ("slowdown",),
        "memory_growth": ("memory_high",), "input_bound": ("low_gpu_util",),
    }  # fmt: skip
    for run in answer:
        for one in run["findings"]:
            if one["severity"] != "info":
                steps = _listed(" ".join(one["evidence"]), r"spike steps: ([\d.,  ]+)") or [one.get("step")]
                yield from (Said(kinds.get(one["check"], (ADVICE,)), step) for step in steps)


def _trainproof(answer: Any) -> Found:
    kinds: dict[str, tuple[str, ...]] = {
        "TP-NAN": ("nan_inf",), "TP-NAN-GRAD": ("nan_inf",), "TP-ZERO-LOSS": ("plateau",), "TP-FLAT": ("plateau",),
        "TP-ZERO-LOSS-ONSET": ("plateau",), "TP-DEAD-RUN": ("plateau",), "TP-DIVERGE": ("divergence",),
        "TP-ZERO-GRAD": ("grad_vanishing",), "TP-GRAD-SPIKE": _GRADIENT, "TP-ZERO-LR": ("lr_anomaly",),
        "TP-ZERO-LR-PARTIAL": ("lr_anomaly",), "TP-OVERFIT": ("overfitting",), "TP-STEP-CLIFF": ("slowdown",),
        "TP-LOADER-BOUND": ("low_gpu_util",),
    }  # fmt: skip
    for one in answer["reports"][0]["findings"]:
        if one["level"] in ("FAIL", "WARN"):
            step = _listed(one["evidence"], r"(?:Steps: \[|at step |@step)([\d.e+]+)")
            yield Said(kinds.get(one["id"], (ADVICE,)), step[0] if step else None)


def _finetune_doctor(answer: Any) -> Found:
    kinds: dict[str, tuple[str, ...]] = {
        "overfitting": ("overfitting",), "loss_spikes": ("loss_spike",), "lr_schedule": ("lr_anomaly",),
        "stopped_improving": ("plateau",),
    }  # fmt: skip
    titles: dict[str, tuple[str, ...]] = {
        "NaN loss": ("nan_inf",), "Loss is exactly zero": ("plateau",), "Training loss went up": ("divergence",),
        "Not learning": ("plateau",), "NaN gradients": ("nan_inf",), "Zero gradients": ("grad_vanishing",),
        "Gradient spikes": ("grad_spike",),
    }  # fmt: skip
    for one in answer["findings"]:
        if one["severity"] in ("WARNING", "CRITICAL"):
            text = " ".join([one["summary"], *one["evidence"]])
            steps: list[float | None] = [*_listed(text, r"spike steps: ([\d,  ]+)")]
            if not steps and one["check"] == "loss_spikes":
                steps = [float(step) for step in re.findall(r"step (\d+): loss", text)]
            if not steps:
                steps = [one["metrics"].get("best_step") or next(iter(_listed(text, r"at step (\d+)")), None)]
            named = titles.get(one["title"]) or kinds.get(one["check"], (ADVICE,))
            yield from (Said(named, step) for step in steps)


def _runwise(answer: Any) -> Found:
    for one in answer:
        named: tuple[str, ...] = {
            "spike": ("loss_spike",), "overfit": ("overfitting",), "plateau": ("plateau",), "nan": ("nan_inf",),
            "system": ("slowdown",),
        }.get(one["type"], ("grad_vanishing",) if "Vanishing" in one["message"] else _GRADIENT)  # fmt: skip
        yield Said(named, one["step"] if one["type"] in ("spike", "nan") else None)  # others name the log's last step


def _listed(text: str, pattern: str) -> list[float]:
    """The numbers behind the pattern's words; thousands may be parted by commas without a space."""
    found = re.search(pattern, text)
    parts = re.split(r",\s+|\s", found[1].strip()) if found else []
    return [float(number) for part in parts if (number := part.replace(",", "").strip("."))]


@dataclass(frozen=True)
class Tool:
    """`package` on PyPI; `command` with PYTHON, BIN and FILE to be filled in; `forms` it reads, the best first."""

    name: str
    package: str
    command: tuple[str, ...]
    forms: tuple[str, ...]
    means: Callable[[Any], Found]

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")


TABLES = ("jsonl", "csv", "hf")
TOOLS = (
    Tool("trainlens", "trainlens", ("PYTHON", "-m", "trainlens", "analyze", "FILE", "--format", "json", "--output", "-",
         "--no-cache", "--quiet"), TABLES, _trainlens),
    Tool("trainspotter", "trainspotter", ("BIN/trainspotter", "analyze", "FILE", "--output", "json"), TABLES,
         _trainspotter),
    Tool("runmedic", "runmedic", ("BIN/runmedic", "diagnose", "FILE", "--json"), TABLES, _runmedic),
    Tool("trainproof", "trainproof", ("BIN/trainproof", "epoch", "FILE", "--json"), TABLES, _trainproof),
    Tool("finetune-doctor", "finetune-doctor", ("BIN/finetune-doctor", "diagnose", "FILE", "-f", "json"), ("hf",),
         _finetune_doctor),
    Tool("runwise", "runwise", ("PYTHON", "-c", _LIBRARY, "FILE"), ("jsonl",), _runwise),
)  # fmt: skip


def version(tool: Tool, python: str) -> str | None:
    """The version installed beside that interpreter; None where the tool is missing."""
    asked = f"import importlib.metadata as m; print(m.version({tool.package!r}))"
    answer = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def ask(tool: Tool, python: str, file: Path, timeout: float) -> tuple[list[Said] | str, float]:
    """What the tool says of one run, or why it said nothing; and its CPU seconds, children included."""
    places = {"PYTHON": python, "FILE": str(file)}
    command = [places.get(word, word.replace("BIN/", f"{Path(python).parent}/")) for word in tool.command]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"PYTHONPATH": str(Path(__file__).parents[2])} if tool.name == "trainlens" else {}
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=environment)
        watch = threading.Timer(timeout, process.kill)
        watch.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.cancel()
        seconds = used.ru_utime + used.ru_stime
        if process.returncode < 0:
            return f"no answer within {timeout:.0f} s", seconds
        out.seek(0)
        err.seek(0)
        try:
            return list(tool.means(json.loads(out.read()))), seconds
        except (ValueError, KeyError, TypeError) as problem:
            last = err.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            return f"exit status {process.returncode}: {last or problem}"[:120], seconds


OURS = sys.executable
