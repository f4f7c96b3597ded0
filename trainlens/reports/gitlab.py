"""GitLab code quality: a JSON list that a merge request shows as what is new and what was resolved.

Name the file in `artifacts: reports: codequality`. Accepted findings are left out; what could not be read or judged is
an entry of its own, for an empty list would be a pass.
https://docs.gitlab.com/ci/testing/code_quality/
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.reports import _gate

SUFFIX = ".codequality.json"
_SEVERITY = {"error": "critical", "warning": "major", "info": "info"}


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def render(diagnosis: Diagnosis, options: Options) -> bytes:  # noqa: ARG001
    told = [_entry(run, finding) for run in diagnosis.runs for finding in _gate.told(run)]
    told += [_lack(*one) for one in _gate.missing(diagnosis)]
    return json.dumps(told, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _lack(title: str, path: str, text: str) -> dict[str, Any]:
    return {
        "description": _gate.plain(f"{title}: {text}"),
        "check_name": title.lower().replace(" ", "-"),
        "fingerprint": hashlib.sha256(f"{title}/{path}/{text}".encode("utf-8", "replace")).hexdigest(),
        "severity": "major",
        "location": {"path": _gate.plain(path), "lines": {"begin": 1}},
    }


def _entry(run: RunDiagnosis, finding: Finding) -> dict[str, Any]:
    place = _gate.place(run, finding)
    same = f"{run.name}/{finding.detector}/{finding.metric}/{finding.rank}/{finding.first_step}/{finding.title}"
    return {
        "description": _gate.plain(f"{finding.title}. {finding.message}"),
        "check_name": finding.detector,
        "fingerprint": hashlib.sha256(same.encode("utf-8", "replace")).hexdigest(),
        "severity": _SEVERITY[finding.severity],
        "location": {
            "path": _gate.plain(place.path if place else run.path),
            "lines": {"begin": (place.line if place else None) or 1},
        },
    }
