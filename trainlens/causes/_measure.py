"""What all causes share: the three verdicts, and the level of a series before and during a finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import number
from trainlens.model import Floats, Metric, Run, Series
from trainlens.signals import mad

WINDOW = 200  # points before a finding that make its level


def supported(cause: str, message: str, remedy: str, *evidence: Evidence) -> Verdict:
    return Verdict(cause, "supported", message, evidence, remedy)


def ruled_out(cause: str, message: str, *evidence: Evidence) -> Verdict:
    return Verdict(cause, "ruled-out", message, evidence)


def unmeasured(cause: str, message: str) -> Verdict:
    return Verdict(cause, "not-measured", message)


def missing(cause: str, name: str, log: str = "") -> Verdict:
    """Not measured, because a metric is not in the logs; `log` says what to log when it is more than that metric."""
    return unmeasured(cause, f"no {name} in the logs. Log {log or f'{name} for each step'} to know.")


@dataclass(frozen=True, slots=True)
class Levels:
    """Medians before and during a finding; `spread` is the scatter before, as a standard deviation."""

    before: float
    during: float
    spread: float

    @property
    def ratio(self) -> float:
        return self.during / self.before if self.before else (np.inf if self.during else 1.0)

    def told(self, unit: str = "") -> str:
        """ "from 7.1 s to 7.53 s"."""
        return f"from {number(self.before, unit)} to {number(self.during, unit)}"

    def evidence(self, series: Series, finding: Finding) -> Evidence:
        return Evidence(
            "level during it, expected the level before",
            series.metric,
            finding.first_step,
            finding.last_step,
            self.during,
            self.before,
            unit=series.about.unit,
        )


def bounds(finding: Finding, run: Run) -> tuple[int, int]:
    """First and last step of a finding; of one without steps, the end of the run."""
    if finding.first_step is not None:
        return finding.first_step, finding.first_step if finding.last_step is None else finding.last_step
    last = max((int(series.step[-1]) for series in run.series if len(series)), default=0)
    return last, last


def finite(series: Series) -> tuple[Floats, Floats]:
    """Steps and values of the finite points."""
    return series.step[series.finite].astype(float), series.value[series.finite]


def levels(series: Series | None, finding: Finding, run: Run) -> Levels | None:
    """The level before a finding (at most 200 points, not the run's first) and during it; None where one is unknown."""
    if series is None:
        return None
    first, last = bounds(finding, run)
    step, value = finite(series)
    begin, end = int(np.searchsorted(step, first)), int(np.searchsorted(step, last, side="right"))
    before, during = value[max(min(1, begin - 1), begin - WINDOW) : begin], value[begin:end]
    if len(before) < 3 or not len(during):
        return None
    return Levels(float(np.median(before)), float(np.median(during)), mad(before))


def step_times(run: Run) -> Series | None:
    """Seconds a step: as logged, else between the time stamps of the training loss; None without either."""
    logged, loss = run.get("step_time"), run.get("train/loss")
    if logged is not None or loss is None or len(loss) < 2:
        return logged
    spent = np.diff(loss.time) / np.maximum(1, np.diff(loss.step))
    if not np.isfinite(spent).any() or not (spent > 0).any():
        return None
    about = Metric("step_time", "s", "lower", "step-time")
    return Series("step_time", "time stamps", about, loss.step[1:], spent, loss.time[1:])


def value_at(series: Series | None, step: int) -> float | None:
    """The last finite value at or before a step."""
    if series is None:
        return None
    steps, values = finite(series)
    at = int(np.searchsorted(steps, step, side="right")) - 1
    return float(values[at]) if at >= 0 else None


def fact_number(run: Run, *names: str) -> float | None:
    """A positive number among the stated facts."""
    for name in names:
        fact = run.fact(name)
        if fact is None or isinstance(fact.value, bool):
            continue
        try:
            stated = float(fact.value)
        except ValueError:
            continue
        if np.isfinite(stated) and stated > 0:
            return stated
    return None


def near(steps: Iterable[int | None], first: int, last: int) -> list[int]:
    """Those of the steps that lie in a range."""
    return [step for step in steps if step is not None and first <= step <= last]
