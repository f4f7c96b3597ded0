"""Why GPUs are idle: data loading, preprocessing on the processors, communication, small batches.

*Data loading*: more than a tenth of the step is spent waiting for data. *CPU preprocessing*: the processors are above
90 % busy. *Communication*: more than a fifth of the step (the user's range). *Small batch*: less than half of the GPU's
memory is used. Each is measured where the finding lies.
"""

from __future__ import annotations

import numpy as np

from trainlens.causes._measure import bounds, finite, missing, ruled_out, supported
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import number
from trainlens.model import Run, Series

EXPLAINS = ("low-gpu-utilization", "low-mfu")

_WAITING = 0.10
_BUSY = 0.90
_TALKING = 0.20
_ROOMY, _FULL = 0.5, 0.8
_CPU = ("cpu", "cpu_percent", "system/cpu", "cpu/utilization", "system.cpu", "cpu_utilization")


def data_loading(finding: Finding, run: Run) -> Verdict:
    cause = "Data loading"
    share, metric = _of_step("data_time", finding, run), "data_time"
    if share is None:
        profile = run.get("profile/data_share")  # a few steps at some place stand for the others
        share, metric = float(np.median(finite(profile)[1])) if profile is not None else None, "profile/data_share"
    if share is None or not np.isfinite(share):
        return missing(cause, "data_time")
    told = f"waiting for data takes {number(share, 'share')} of the step (limit {number(_WAITING, 'share')})."
    evidence = _evidence("share of the step", metric, finding, run, share, _WAITING)
    if share > _WAITING:
        return supported(cause, told, "Use more loader workers, pinned memory and prefetching", evidence)
    return ruled_out(cause, told, evidence)


def preprocessing(finding: Finding, run: Run) -> Verdict:
    cause = "CPU preprocessing"
    series = next((one for one in run.series if one.metric.lower() in _CPU), None)
    busy = _median(series, finding, run)
    if series is None or busy is None:
        return missing(cause, "processor load", "the processors' load, as system metrics do")
    busy = busy / 100 if busy > 1.5 else busy  # an unknown tag keeps its per cent
    told = f"{series.tag} is {number(busy, 'share')} (limit {number(_BUSY, 'share')})."
    evidence = _evidence("processors busy", series.metric, finding, run, busy, _BUSY)
    if busy > _BUSY:
        return supported(cause, told, "Prepare the data ahead of the run, or give the loader more processors", evidence)
    return ruled_out(cause, told, evidence)


def communication(finding: Finding, run: Run) -> Verdict:
    cause = "Waiting on communication"
    share = _median(run.get("comm_share"), finding, run)
    metric = "comm_share" if share is not None else "comm_time"
    share = _of_step("comm_time", finding, run) if share is None else share
    if share is None:
        return missing(cause, "comm_share", "communication time for each step")
    told = f"communication takes {number(share, 'share')} of the step (limit {number(_TALKING, 'share')})."
    evidence = _evidence("share of the step", metric, finding, run, share, _TALKING)
    if share > _TALKING:
        return supported(
            cause, told, "Overlap communication with computation, or keep tensor parallelism in a node", evidence
        )
    return ruled_out(cause, told, evidence)


def small_batch(finding: Finding, run: Run) -> Verdict:
    cause = "Small batch"
    used = memory_share(finding, run)
    if used is None:
        return missing(cause, "gpu/memory_share", "used and total GPU memory")
    told = f"{number(used, 'share')} of the GPU's memory is used"
    evidence = _evidence("share of memory used", "gpu/memory_share", finding, run, used, _ROOMY)
    if used < _ROOMY:
        return supported(
            cause, f"{told}: the batch could be larger.", "Raise the micro-batch until memory is full", evidence
        )
    verdict = "there is no room for a larger batch" if used >= _FULL else "the batch is not small for this GPU"
    return ruled_out(cause, f"{told}: {verdict}.", evidence)


def memory_share(finding: Finding, run: Run) -> float | None:
    """Used ÷ total memory during the finding, as logged or from both."""
    share = _median(run.get("gpu/memory_share"), finding, run)
    if share is not None:
        return share
    used, total = (_median(run.get(f"gpu/memory_{which}"), finding, run) for which in ("used", "total"))
    return used / total if used is not None and total else None


def _median(series: Series | None, finding: Finding, run: Run) -> float | None:
    """Of the finite values during the finding."""
    if series is None:
        return None
    first, last = bounds(finding, run)
    step, value = finite(series)
    inside = value[(step >= first) & (step <= last)]
    return float(np.median(inside)) if len(inside) else None


def _of_step(metric: str, finding: Finding, run: Run) -> float | None:
    """A duration as a share of the step's."""
    part, whole = (_median(run.get(name), finding, run) for name in (metric, "step_time"))
    return part / whole if part is not None and whole else None


def _evidence(text: str, metric: str, finding: Finding, run: Run, observed: float, limit: float) -> Evidence:
    return Evidence(text, metric, *bounds(finding, run), observed, None, limit, "share")


CAUSES = (data_loading, preprocessing, communication, small_batch)
