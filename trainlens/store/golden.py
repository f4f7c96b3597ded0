"""A run as golden values: the JSON by which the tests of Megatron-LM hold runs, and so a baseline. Part of `store`.

    {"lm loss": {"start_step": 1, "end_step": 2000, "step_interval": 5, "values": {"1": 10.82, "6": 10.79, …}}, …}

Tags as written, values in their own units; "nan" where a step of the grid was not logged.
https://github.com/NVIDIA/Megatron-LM/tree/main/tests/functional_tests
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from trainlens.model import NO_RANK, Run, Series

MOST = 2_000  # values of a curve; of longer ones every k-th step is kept
_ROLES = frozenset((
    "loss", "eval-loss", "score", "reward", "perplexity", "grad-norm", "learning-rate", "step-time", "throughput",
    "utilization", "memory",
))  # fmt: skip


def golden(run: Run) -> bytes:
    """The curves that tell how a run went; those of single ranks only where there are no others."""
    found: dict[str, Mapping[str, object]] = {}
    for series in sorted(run.series, key=lambda one: (one.tag, one.rank)):
        whole = run.get(series.metric)
        if series.about.role in _ROLES and len(series) and (series.rank == NO_RANK or series is whole):
            found.setdefault(series.tag, _values(series))
    return json.dumps(found, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _values(series: Series) -> dict[str, object]:
    step, value = series.step, series.raw
    if len(step) > MOST:
        kept = np.arange(0, len(step), -(-len(step) // MOST))
        step, value = step[kept], value[kept]
    interval = int(np.median(np.diff(step))) if len(step) > 1 else 1
    written = {
        str(at): one if np.isfinite(one) else str(one)
        for at, one in zip(step.tolist(), value.tolist(), strict=True)
    }  # fmt: skip
    return {
        "start_step": int(step[0]), "end_step": int(step[-1]), "step_interval": max(interval, 1), "values": written
    }  # fmt: skip
