"""Findings as JSON lines: one object a line, with the run it is of. For `jq`, log shippers and data bases.

Accepted findings have their `accepted` reason, others null. What could not be read or judged is a line with `missing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.reports import _gate
from trainlens.reports.json import finding_as_told, text_only

SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    lines = [one for run in diagnosis.runs for one in _lines(run)]
    lines += [{"missing": title, "message": text} for title, _, text in _gate.missing(diagnosis)]
    return b"".join(msgspec.json.encode(text_only(one)) + b"\n" for one in lines)


def _lines(run: RunDiagnosis) -> Iterator[dict[str, Any]]:
    for finding in run.findings:
        yield _line(run, finding, None)
    for one in run.accepted:
        yield _line(run, one.finding, one.reason)


def _line(run: RunDiagnosis, finding: Finding, accepted: str | None) -> dict[str, Any]:
    return {"run": run.name, "path": run.path, "accepted": accepted, **finding_as_told(finding)}
