"""Results of benchmarks by task: which measure of a task counts, and which checkpoint a result is of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainlens.catalog.table import word_set

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
    """Tag and number (or list of numbers) of every measure and of its standard error, the latter under "stderr/".

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
        for name in values:
            measure, comma, how = name.partition(",")
            if (spread := found.get(f"{measure}_stderr{comma}{how}")) is not None:
                told = tag if name == main else f"{tag}/{name}"
                yield f"stderr/{told.removeprefix('bench/')}", spread


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


# ---- tables of scores, a row a checkpoint or a row a benchmark ------------------------------------------------------

# Benchmarks of language models by the first word of their names, as letters.
_KNOWN = word_set(
    "hellaswag mmlu arc piqa winogrande boolq openbookqa obqa copa lambada triviaqa naturalquestions nq squad siqa "
    "socialiqa sciq gsm humaneval mbpp bbh bigbench truthfulqa commonsenseqa csqa wsc rte wic multirc winograd ceval "
    "anli cmmlu agieval ifeval gpqa musr livecodebench aime wikitext logiqa mathqa pubmedqa headqa mgsm medmcqa medqa "
    "race swag superglue glue toxigen coqa quac storycloze jeopardy"
)
_CHECKPOINTS = frozenset(("checkpoint", "ckpt", "checkpoints", "revision", "model", "modelname"))
_SUMMARY = ("dataset", "version", "metric", "mode")  # OpenCompass: https://github.com/open-compass/opencompass
_NAME = re.compile(r"[A-Za-z]+")


def is_benchmark(name: str) -> bool:
    """Whether a column is named for a benchmark: "MMLU", "arc_challenge", "gsm8k (5-shot)"."""
    found = _NAME.findall(name.removeprefix("bench/"))
    return bool(found) and (found[0].lower() in _KNOWN or "".join(found[:2]).lower() in _KNOWN)


def is_summary(names: Sequence[str]) -> bool:
    """Whether a table is a summary with a row for each benchmark and a column for each model."""
    return tuple(name.lower() for name in names[:4]) == _SUMMARY and len(names) > 4


def are_scores(names: Sequence[str]) -> bool:
    """Whether a table holds the scores of several benchmarks, or of one for each checkpoint."""
    return sum(map(is_benchmark, names)) > (checkpoints(names) is None)


def checkpoints(names: Sequence[str]) -> str | None:
    """The column that names the checkpoint of each row."""
    return next((name for name in names if "".join(_NAME.findall(name)).lower() in _CHECKPOINTS), None)
