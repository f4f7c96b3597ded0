"""Published scores of a run in one line, for the reports that have no table."""

from __future__ import annotations

from trainlens.diagnosis import RunDiagnosis
from trainlens.figures import number


def scores_line(run: RunDiagnosis) -> str | None:
    """ "spike score of the loss 0.03 %, median MFU 41.2 %.": what papers report; None where nothing of it is logged."""
    told = [f"{one.name} {number(one.value, '' if one.unit == 'steps' else one.unit)}" for one in run.scores]
    return f"{', '.join(told)}." if told else None
