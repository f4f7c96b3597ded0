"""Results of benchmarks by task: which measure of a task counts, and which checkpoint a result is of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# The measure that stands for a task, best first; what stands behind is told as "bench/TASK/MEASURE".
MAIN = (
    "acc_norm", "acc", "exact_match", "pass@1", "f1", "em", "mcc", "bleu", "rougeL", "word_perplexity", "perplexity",
    "ppl", "byte_perplexity", "bits_per_byte",
)  # fmt: skip
_CHECKPOINT = re.compile(
    r"(?<![A-Za-z])(?:checkpoint|ckpt|global_?step|step|iter(?:ation)?)[-_=]?(\d{1,12})(?![\d.]*[A-Za-z])", re.I
)
_LOWER = re.compile(r"perplexity|^ppl\b|^bits_per")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def scores(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tag and number (or list of numbers) of every measure, of the main one its standard error too.

    A perplexity keeps its name though it is the main one: the lower the better.
    """
    for task, measures in results.items():
        if not isinstance(measures, dict):
            continue
        measures = _latest(measures)
        found = {name.removesuffix(",none"): value for name, value in measures.items() if _counts(value)}
        values = {name: value for name, value in found.items() if "_stderr" not in name}
        if not values:
            continue
        tag = f"bench/{task.replace('+', '/', 1)}"
        main = min(values, key=lambda name: _place(name.partition(",")[0]))
        for name, value in values.items():
            yield (tag if name == main and not _LOWER.search(name) else f"{tag}/{name}"), value
        measure, comma, how = main.partition(",")
        if (spread := found.get(f"{measure}_stderr{comma}{how}")) is not None:
            yield f"stderr/{tag.removeprefix('bench/')}", spread


def _latest(measures: dict[str, Any]) -> dict[str, Any]:
    """Where a task has results by date, those of the last one."""
    dated = [name for name, value in measures.items() if isinstance(value, dict) and _DATE.match(name)]
    return measures[max(dated)] if dated else measures


def _counts(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_counts(one) or one is None for one in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _place(measure: str) -> int:
    return MAIN.index(measure) if measure in MAIN else len(MAIN)


def checkpoint(*texts: object) -> int | None:
    """The step of the checkpoint that the first text to do so names: "checkpoint-500", "step42000", "global_step7"."""
    for text in texts:
        if found := _CHECKPOINT.findall(str(text)):
            return int(found[-1])
    return None
