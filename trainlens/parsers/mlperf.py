"""MLPerf training logs: lines `:::MLLOG {"key": "eval_accuracy", "value": 2.7, "time_ms": …, "metadata": {…}}`.

Launchers, NCCL and several ranks write between them, in any order; points are put in the order of `time_ms`. What
counts the steps of a key is told by its metadata: steps, samples or epochs. Values that belong to no evaluation or
interval are settings, told as facts. The score of a language model is a log perplexity: `eval_accuracy` is `eval_loss`.

https://github.com/mlcommons/logging (mlperf_logging/mllog), rules and targets:
https://github.com/mlcommons/training_policies/blob/master/training_rules.adoc
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainlens.model import Batch, Checkpoint, Event, EventKind, Note, Place
from trainlens.parsers._lines import blocks, head_text, plain
from trainlens.parsers._mlperf_axis import Axis, Measured, table
from trainlens.parsers._text_events import EventLines, marked
from trainlens.parsers._text_page import Page
from trainlens.sources import Source

TELLS_END = True
READS_TEXT = True

_DECODER = json.JSONDecoder()
_MARK = ":::MLLOG "
_LINE = re.compile(r'^.{0,200}?:::MLLOG \{"', re.MULTILINE)
_MEASURED = re.compile(r"(?:^|_)(?:loss|accuracy|throughput|lr|time|perplexity|score)\Z")
_SETTING = re.compile(r"^(?:opt|lars|sgd|adam|target|submission|init|quality)_")
_ACCURACY = "eval_accuracy"
_LANGUAGE_MODELS = re.compile(r"gpt|llama|lora|mixtral|deepseek|qwen", re.I)
_EVENTS: dict[str, EventKind] = {"run_start": "run-start", "run_stop": "run-end", "eval_start": "evaluation"}


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001
    return 0.9 if _LINE.search(head_text(head)) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  order is told at the end
    """Facts and events in the order of the log, then the points of each key, then notes."""
    log = _Log(source.name)
    for block in blocks(source):
        lines = plain(block.text.decode("utf-8", "replace")).split("\n")
        of_interest = marked(lines)
        for at, line in enumerate(lines):
            log.page.line = block.line + at
            if _MARK in line:
                log.records(line, torn=block.torn and at == len(lines) - 1)
            elif at in of_interest or log.events.busy:
                log.events.read(line)
        yield from log.page.flush()
    for points in table(log.measured, log.axis, runs=log.runs):
        yield replace(points, tag="eval_loss") if log.language_model and points.tag == _ACCURACY else points
    yield from log.notes()
    yield from log.events.notes()


class _Log:
    """What the records of one file have said so far."""

    def __init__(self, name: str) -> None:
        self.page = Page(name)
        self.events = EventLines(self.page)
        self.measured: dict[str, list[Measured]] = {}
        self.axis = Axis()
        self.language_model = False
        self.runs = 0
        self._running = False
        self._last_time = 0.0
        self._late = 0
        self._strange: list[int] = []
        self._cut = 0

    def records(self, line: str, *, torn: bool) -> None:
        """The records on one line: two ranks may have written on it."""
        for text in line.split(_MARK)[1:]:
            try:
                record, _ = _DECODER.raw_decode(text)
            except ValueError:
                record = None
            if isinstance(record, dict) and isinstance(record.get("key"), str):
                self._record(record)
            elif torn:
                self._cut = self.page.line
            else:
                self._strange.append(self.page.line)

    def _record(self, record: dict[str, Any]) -> None:
        key, value = record["key"], record.get("value")
        metadata = record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        clock = record.get("time_ms")
        time = clock / 1000 if isinstance(clock, (int, float)) else None
        if time is not None:
            self._late += time < self._last_time
            self._last_time = max(time, self._last_time)
        self.axis.see(metadata)
        if key in _EVENTS:
            self._event(key, metadata, time)
        elif isinstance(value, dict):
            for name, number in _numbers(value):
                self._measure(name, number, metadata, time)
            rate = metadata.get("lr")
            if isinstance(rate, (int, float)):
                self._measure("lr", float(rate), metadata, time)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and _measures(key, metadata):
            kind = metadata.get("metric")
            self._measure(f"{key}/{kind}" if isinstance(kind, str) else key, float(value), metadata, time)
        elif isinstance(value, (int, float, str)) and record.get("event_type") == "POINT_IN_TIME":
            self._fact(key, value)

    def _fact(self, key: str, value: str | float) -> None:
        if key in ("cache_clear", "init_stop", "epoch_stop", "eval_stop"):
            return
        self.page.fact(key, value)
        self.axis.state(key, value)
        if key == "submission_benchmark":
            self.language_model = _LANGUAGE_MODELS.search(str(value)) is not None

    def _measure(self, tag: str, value: float, metadata: dict[str, Any], time: float | None) -> None:
        counts = {name: metadata[name] for name in Axis.NAMES if isinstance(metadata.get(name), (int, float))}
        self.measured.setdefault(tag, []).append(Measured(self.page.line, value, time, counts))

    def _event(self, key: str, metadata: dict[str, Any], time: float | None) -> None:
        status = metadata.get("status")
        text = f"{key}: status {status}" if status else key
        place = Place(self.page.name, self.page.line)
        if key == "run_start":
            if self._running:
                return  # of another rank
            self.runs += 1
        self._running = key != "run_stop" and (self._running or key == "run_start")
        missed = key == "run_stop" and isinstance(status, str) and status != "success"
        self.page.events.append(Event("exit-code" if missed else _EVENTS[key], text, None, time, place=place))

    def notes(self) -> Iterator[Note]:
        """What could not be used, what stands out of order, and which name was put right."""
        if not self.measured:
            yield Note("no-points", "no metrics in this text; only what it says of settings and events was kept")
        if self._strange:
            first, count = self._strange[0], len(self._strange)
            yield Note("not-understood", f"{count:,} records are no JSON objects and were left out", first, count=count)
        if self._cut:
            yield Note("cut-off", f"the last record (line {self._cut:,}) is incomplete and was left out", self._cut)
        if self._late:
            text = f"{self._late:,} lines are out of order in time: several ranks write; points are in order of time_ms"
            yield Note("clock", text, count=self._late)
        if self.language_model and _ACCURACY in self.measured:
            yield Note("replaced", "'eval_accuracy' of a language model is its log perplexity: told as 'eval_loss'")


def _measures(key: str, metadata: dict[str, Any]) -> bool:
    """Whether a number is a measurement: by its name, with or without a place in the run; settings are not."""
    if _SETTING.search(key):
        return False
    return bool(_MEASURED.search(key)) and (key.startswith("eval") or any(name in metadata for name in Axis.NAMES))


def _numbers(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _numbers(item, f"{prefix}{name}/")
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield prefix + name, float(item)
