"""Rollback: the run went back to an earlier step and did part of its work again.

Why it matters
The steps between the checkpoint and the end of the earlier attempt are paid for twice, and so is the pause.

How it is found
An attempt begins at or before the last step of the one before. The two passes over the same steps are compared: a
loss that is clearly higher the second time says that the state of the optimizer or of the data was not restored. It
is a warning when more than `share` of the run was done twice.

What to do
Save checkpoints more often; see why the earlier attempt ended.

When it is wrong
Where several runs were written into one file: they look like one that starts over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT, measured
from trainlens.detectors import _incidents, _speed
from trainlens.detectors._levels import cost
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.figures import number, seconds
from trainlens.model import Attempt, Run, Series
from trainlens.plugins import threshold
from trainlens.signals import mad

NEEDS = ()


@dataclass(frozen=True)
class Options:
    share: float = threshold(0.01, "part of the run done twice that is a warning", unit="share", source=JUDGEMENT)
    higher: float = threshold(
        4.0,
        "standard errors by which the second pass is higher",
        source=measured("8 resumed runs: clean ones stay below"),
    )


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:
    rows = _incidents.main_series(run)
    if rows is None or rows.positional:
        return NotApplicable("the log has no step numbers")
    pace = _speed.pace(run)
    per_step = float(np.median(pace.seconds)) if pace is not None and pace.timed else None
    row = int(np.median(np.diff(rows.step))) if len(rows) > 1 else 1
    return [
        _finding(run, options, rows, before, after, row, per_step)
        for before, after in zip(run.attempts[:-1], run.attempts[1:], strict=True)
        if after.first_step <= before.last_step
    ]


def _finding(
    run: Run, options: Options, rows: Series, before: Attempt, after: Attempt, row: int, per_step: float | None
) -> Finding:
    first, last = after.first_step, before.last_step
    lost = last - first + row
    share = lost / max(1, int(rows.step[-1]) - int(rows.step[0]) + row)
    pause = (after.first_time - before.last_time) if after.first_time and before.last_time else 0.0
    spent = max(0.0, pause) + (lost * per_step if per_step else 0.0)
    higher, errors = _second_pass(rows, first, last)
    worse = errors > options.higher
    told = f" ({seconds(lost * per_step)})" if per_step else ""
    passes = f"; {rows.metric} is {number(higher)} higher the second time" if worse else ""
    still = f", after a pause of {seconds(pause)}" if pause > 1 else ""
    return Finding(
        detector="rollback",
        severity="warning" if share > options.share or worse else "info",
        metric=None,
        first_step=first,
        last_step=last,
        title=f"Restart at {last:,}: {lost:,} steps done twice",
        message=f"The run stopped after step {last:,} and went on from {first:,}{still}: {lost:,} steps{told} were "
        f"done twice{passes}.",
        first_time=before.last_time,
        last_time=after.first_time,
        cost=cost(run, spent),
        evidence=(
            Evidence("part of the run done twice", None, first, last, share, 0.0, options.share, "share",
                     "rollback.share", place=after.place),
            *((Evidence("second pass above the first", rows.metric, first, last, higher, 0.0),) if worse else ()),
        ),
        actions=(f"Save checkpoints more often than every {lost:,} steps",) if share > options.share else (),
    )  # fmt: skip


def _second_pass(rows: Series, first: int, last: int) -> tuple[float, float]:
    """How much higher the later values are over the repeated steps, and that in standard errors; (0, 0) if unknown."""
    old = rows.replaced
    if old is None or rows.about.role != "loss":
        return 0.0, 0.0
    use = (old.step >= first) & (old.step <= last) & old.finite
    _, before, after = np.intersect1d(old.step[use], rows.step[rows.finite], return_indices=True)
    change = rows.value[rows.finite][after] - old.value[use][before]
    if len(change) < 10:
        return 0.0, 0.0
    error = max(mad(change) / len(change) ** 0.5, 1e-12)
    level = float(np.median(change))
    relevant = level > 0.01 * abs(float(np.median(old.value[use])))
    return level, level / error if relevant else 0.0
