"""Results of benchmarks: lm-evaluation-harness (`results_*.json`), tables of them through training, pass@k.

Each task has one score "bench/TASK" (acc_norm before acc before exact_match, …), and its other measures, and
perplexities, "bench/TASK/MEASURE"; standard errors are kept apart under "stderr/". Read are the harness' 0.4
("acc,none"), its 0.3 ("acc"), merged results by date, tables with a list of checkpoints and a list of scores for each
measure, and the "pass@1" of HumanEval and the like, named for the file.

The step is the one in the checkpoint's name: in the model's arguments ("…/checkpoint-500", "revision=step42000"), else
in the path of the file. Where no name tells it, a result has no step. What the model was is told as facts.

The format: https://github.com/EleutherAI/lm-evaluation-harness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Note, Place, Points
from trainlens.parsers._benchmarks import checkpoint, scores
from trainlens.parsers._columns import unix_seconds
from trainlens.parsers._json_documents import document
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._row_blocks import in_utf8
from trainlens.sources import HEAD, Source

READS_TEXT = True

_RESULTS = re.compile(rb'"results"\s*:\s*\{\s*"[^"\n]{1,200}"\s*:\s*\{')
_MEASURE = re.compile(
    rb'"(?:acc(?:_norm)?|exact_match|mcc|f1|em|ppl|(?:\w+_)?perplexity|bleu|[\w@]+_stderr)(?:,[^"\n]{1,60})?"\s*:\s*[-\[\dN]'
)
_PASSED = re.compile(rb'^\s*\{\s*"pass@\d+"\s*:')
_SAMPLES = re.compile(rb'\s*\{[^\n]*"(?:doc_id|doc_hash)"\s*:')
_ANSWERS = re.compile(rb'"(?:filtered_)?resps"\s*:')
_TABLE = re.compile(rb'"(?:checkpoints|steps|tokens)"\s*:\s*\[')
# Of the harness' settings those that say what was judged: its batches and seeds are none of the training.
MOST_TASKS = 500  # whose numbers of shots are told one by one
_TOLD = (
    "model", "model_args", "model_num_parameters", "model_dtype", "model_revision", "model_sha", "num_fewshot", "limit",
    "gen_kwargs",
)  # fmt: skip


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  known by its keys
    """How sure it is that these are results of benchmarks."""
    text = in_utf8(head)
    if _PASSED.match(text) or _are_samples(text):
        return 0.95
    if not text.lstrip().startswith(b"{") or not _MEASURE.search(text):
        return 0.0
    return 0.95 if _RESULTS.search(text) or (b'"results"' in text and _TABLE.search(text)) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  written as a whole
    """Points of all scores; facts of the model."""
    if _are_samples(in_utf8(source.head(HEAD))):
        yield Note(
            "no-points", "the questions and answers of an evaluation one by one; its scores are in results_*.json"
        )
        return
    whole = decoded(document(source))
    if not isinstance(whole, dict):
        hint = "Run the evaluation again, or copy the file again"
        raise InputError("a JSON document that is incomplete or malformed", where=source.name, hint=hint)
    tables = {"": whole} if "results" in whole else {name: one for name, one in whole.items() if _is_table(one)}
    if not tables:
        whole = {"results": {source.path.stem: whole}}
        tables = {"": whole}
    found = 0
    for run, table in tables.items():
        for points in _table(table, run) if _is_table(table) else _moment(table, source):
            found += 1
            yield points
    yield from _facts(whole, source.name)
    if not found:
        yield Note("no-points", "the results hold no score")


def _are_samples(text: bytes) -> bool:
    return _SAMPLES.match(text) is not None and _ANSWERS.search(text) is not None


def _is_table(value: object) -> bool:
    """Whether it holds scores through training: lists, beside one of checkpoints, steps or tokens."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("results"), dict)
        and any(isinstance(value.get(key), list) for key in ("checkpoints", "steps", "tokens"))
    )


def _table(table: dict[str, Any], run: str) -> Iterator[Points]:
    """The curves of a table; a list of another length than that of the checkpoints has no steps."""
    steps = next((table[key] for key in ("checkpoints", "steps") if isinstance(table.get(key), list)), None)
    lists = list(scores(table["results"]))
    if isinstance(table.get("tokens"), list):
        lists.append(("tokens", table["tokens"]))
    for tag, values in lists:
        if not isinstance(values, list):
            continue
        column = np.array([np.nan if value is None else value for value in values], np.float64)
        told = np.array([value is not None for value in values])
        own = _whole(steps) if steps is not None and len(steps) == len(values) else None
        yield Points(tag, None if own is None else own[told], column[told], run=run)


def _whole(steps: list[Any]) -> Any:
    found = [step if isinstance(step, int) else checkpoint(step) for step in steps]
    return None if None in found else np.array(found, np.int64)


def _moment(whole: dict[str, Any], source: Source) -> Iterator[Points]:
    """The scores of one checkpoint."""
    config = whole.get("config") or whole.get("config_general") or {}
    model = [config.get(key, "") for key in ("model_args", "model_name")] if isinstance(config, dict) else []
    step = checkpoint(*model, whole.get("model_name", ""), "/".join(source.path.parts[-3:]))
    steps = None if step is None else np.array([step], np.int64)
    date = whole.get("date")
    time = unix_seconds(np.array([date], np.float64)) if isinstance(date, (int, float)) else None
    groups: Any = whole.get("groups")
    for tag, value in scores({**(groups if isinstance(groups, dict) else {}), **whole["results"]}):
        if not isinstance(value, list):
            yield Points(tag, steps, np.array([value], np.float64), time)


def _facts(whole: dict[str, Any], name: str) -> Iterator[Fact]:
    config = whole.get("config")
    for key in _TOLD:
        value = config.get(key) if isinstance(config, dict) else None
        if isinstance(value, dict):
            value = ",".join(f"{part}={what}" for part, what in value.items())
        if isinstance(value, (str, int, float)) and value != "":
            yield Fact(f"config.{key}", value, Place(name))
    shots = whole.get("n-shot")
    told = {task: shot for task, shot in shots.items() if isinstance(shot, int)} if isinstance(shots, dict) else {}
    if told and len({*told.values()}) == 1:
        yield Fact("n-shot", next(iter(told.values())), Place(name))
    else:
        yield from (Fact(f"n-shot.{task}", shot, Place(name)) for task, shot in list(told.items())[:MOST_TASKS])
