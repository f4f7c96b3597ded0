"""Exit statuses: a promise of design and README."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlens.diagnosis import Diagnosis
    from trainlens.reading import Reading

OK, FOUND, REFUSED, INCOMPLETE = 0, 1, 2, 3


def of_diagnosis(diagnosis: Diagnosis, fail_on: str, *, gate: bool) -> int:
    """The exit status that README promises: findings first, then what is missing from the answer.

    Of a gate also a run that could not be judged is missing: silence about it is no pass.
    """
    from trainlens.reports._gate import SEVERITIES, unjudged

    enough = SEVERITIES[SEVERITIES.index(fail_on) :] if fail_on in SEVERITIES else ()
    if any(finding.severity in enough for run in diagnosis.runs for finding in run.findings):
        return FOUND
    sources = [*diagnosis.unread, *(source for run in diagnosis.runs for source in run.sources)]
    failed = any(check.status == "failed" for run in diagnosis.runs for check in run.checks)
    silent = gate and fail_on in SEVERITIES and any(map(unjudged, diagnosis.runs))
    return INCOMPLETE if failed or silent or any(source.state == "not-read" for source in sources) else OK


def of_reading(found: Reading) -> int:
    sources = [*found.unread, *(source for run in found.runs for source in run.sources)]
    return INCOMPLETE if any(source.state == "not-read" for source in sources) else OK
