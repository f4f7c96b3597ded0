"""Target missed: the run does not hold what was required of it.

Why it matters
A target set before the run ("held-out loss at most 2.1", "no slower than the baseline by 5 %") is the one measure that
needs no judgement: it is met or it is not.

How it is found
Each requirement of `require` is read as METRIC, relation, bound:
  eval/loss <= 2.1                      the last evaluation
  eval/loss <= 2.4 at 20000             the last value at or before that step
  bench/gsm8k >= 0.5 by 40000           the best value up to that step
  median(step_time) < 120 ms            also last, first, end, min, max, mean, p1 to p99; with `by` of all up to there
  fall(train/loss) >= 20 %              how far it fell, as a share of its begin; `rise` alike
  tokens_per_second >= 0.95 * baseline  the same figure of the baseline (`--baseline`)
  train/loss <= baseline + 0.02 +- 1%   with a tolerance, absolute or as a share of the bound
Without a statistic a training loss is judged by the median of its last 1 % of points, speed, utilisation and power by
the median of the run, memory by its greatest value, all else by the last value. Without a unit values are in the
catalogue's: seconds, bytes, shares. A step counts as reached when the log ends less than an interval before it (steps
from 0, the last rows not logged). A metric that the run did not log is a miss: what was not measured was not met.

What to do
Compare the run with the last one that met the target; look at the other findings first, which may say why.

When it is wrong
Where the target was set for another model, batch size or number of GPUs; where a run is judged that has not ended: then
name the step (`at`), for a step that a running run has not reached yet is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainlens.citations import JUDGEMENT
from trainlens.detectors._requirements import Requirement, figure, parse, shown
from trainlens.diagnosis import Evidence, Finding, NotApplicable, NotEnoughData
from trainlens.figures import figures
from trainlens.model import Run, Series
from trainlens.plugins import threshold

NEEDS = ()


@dataclass(frozen=True)
class Options:
    require: tuple[str, ...] = threshold((), "what the run must hold, e.g. eval/loss <= 2.1", source=JUDGEMENT)

    def __post_init__(self) -> None:
        for text in self.require:
            parse(text)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable | NotEnoughData:
    if not options.require:
        return NotApplicable("no targets were set")
    findings: list[Finding] = []
    waiting: list[Requirement] = []
    for required in map(parse, dict.fromkeys(options.require)):
        series = named(run, required.metric)
        if required.step is not None and run.ongoing and _ends_before(run, series, required.step):
            waiting.append(required)
        elif series is None or not len(series):
            findings.append(_missing(required, f"no {required.metric} in the logs"))
        elif required.factor and (run.baseline is None or named(run.baseline, required.metric) is None):
            lack = "no baseline was given" if run.baseline is None else f"no {required.metric} in the baseline"
            findings.append(_missing(required, lack))
        elif required.unit and required.unit != series.about.unit:
            told = series.about.unit or "no unit"
            findings.append(_missing(required, f"{series.metric} is in {told}, not in {required.unit}"))
        elif (missed := _judged(run, series, required)) is not None:
            findings.append(missed)
    if waiting and len(waiting) == len(set(options.require)):
        return NotEnoughData("; ".join(map(_not_reached, waiting)))
    return [*findings, *(_missing(one, _not_reached(one), waits=True) for one in waiting)]


def _not_reached(required: Requirement) -> str:
    return f"{required.metric} has not reached step {required.step:,}"


def _ends_before(run: Run, series: Series | None, step: int) -> bool:
    """Whether a step lies beyond the log: by more than an interval of the series, or of any series of the run."""
    known = [one for one in run.series if len(one)]
    longest = max((int(one.step[-1]) for one in known), default=0) + min(map(_interval, known), default=1)
    return longest < step or (
        series is not None and len(series) > 0 and int(series.step[-1]) + _interval(series) < step
    )


def _interval(series: Series) -> int:
    return max(1, int(np.median(np.diff(series.step)))) if len(series) > 1 else 1


def named(run: Run, name: str) -> Series | None:
    """A series by its canonical name or as it is written in the log."""
    return run.get(name) or next((one for one in run.series if one.tag == name), None)


def _judged(run: Run, series: Series, required: Requirement) -> Finding | None:
    other = named(run.baseline, required.metric) if run.baseline is not None and required.factor else None
    reference = figure(other, required)[0] if other is not None else None
    bound = required.bound(reference)
    observed, step = figure(series, required)
    if not required.by and required.step is not None and _ends_before(run, series, required.step):
        observed, step = float("nan"), int(series.step[-1])
    if np.isfinite(bound) and required.met(observed, bound):
        return None
    of = f"{required.statistic_for(series)} of {series.metric}" if required.statistic else series.metric
    if not np.isfinite(observed) and required.step is not None and step is not None and step < required.step:
        what = f"{series.metric} ends at step {step:,}, before step {required.step:,}"
    else:
        at = f" at step {step:,}" if step is not None else ""
        what = f"{of} is {shown(observed)}{at}"
    against = f", the baseline has {shown(reference)}" if reference is not None else ""
    return Finding(
        detector="target-missed",
        severity="error",
        metric=series.metric,
        first_step=step if step is not None else int(series.step[0]),
        last_step=step if step is not None else int(series.step[-1]),
        title=_title(required),
        message=f"{what}; required is {required.text}{against}.",
        evidence=(
            Evidence(
                required.text,
                series.metric,
                step,
                step,
                observed if np.isfinite(observed) else None,
                reference,
                bound if np.isfinite(bound) else None,
                unit=series.about.unit,
                limit_name="target-missed.require",
            ),
        ),
    )


def _missing(required: Requirement, lack: str, *, waits: bool = False) -> Finding:
    return Finding(
        detector="target-missed",
        severity="info" if waits else "error",
        metric=required.metric,
        first_step=None,
        last_step=None,
        title=_title(required, "Target not judged yet" if waits else "Target missed"),
        message=f"{lack[0].upper()}{lack[1:]}; required is {required.text}.",
        evidence=(Evidence(required.text, required.metric, limit_name="target-missed.require"),),
    )


def _title(required: Requirement, what: str = "Target missed") -> str:
    bound = "baseline" if required.factor else figures(required.offset, 4)
    return f"{what}: {required.metric} {required.relation} {bound}"[:60]
