"""Why steps take longer: checkpoints, evaluation, data, communication, a slow rank, falling clocks, larger batches.

A share of the lost time decides: what rose by at least half of what the step rose by is *supported*, less is *ruled
out*. Checkpoints and evaluations are *supported* when most of the slow steps stand at one. A *straggling rank* takes
4 % more than the median rank, which it did not before. *Clocks throttled*: power or clock fell by 5 % or more while the
step took longer, or the temperature is above 85 °C; less power of a GPU that had less to do proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainlens.causes._measure import Levels, levels, missing, ruled_out, step_times, supported, unmeasured
from trainlens.causes._slow_steps import at_events, at_interval, slow_steps
from trainlens.diagnosis import Evidence, Finding, Verdict
from trainlens.figures import NBSP, number
from trainlens.model import Run, Series

EXPLAINS = ("slowdown", "periodic-stall", "slow-step")

_SHARE = 0.5  # part of the lost time that supports a cause
_LAGGING = 0.04
_CLOCK_FALL = 0.05
_HOT = 85.0
_LONGER = 0.03


def checkpoints(finding: Finding, run: Run) -> Verdict:
    cause = "Checkpoint saving"
    kinds = ("checkpoint-begin", "checkpoint-end")
    return _regular(cause, finding, run, kinds, ("save_interval", "save_steps", "checkpoint_interval"),
                    "Save checkpoints asynchronously, to faster storage, or less often")  # fmt: skip


def evaluation(finding: Finding, run: Run) -> Verdict:
    return _regular("Evaluation", finding, run, ("evaluation",), ("eval_interval", "eval_steps", "eval_every"),
                    "Evaluate less often, on fewer batches, or outside the timed loop")  # fmt: skip


def _regular(
    cause: str, finding: Finding, run: Run, kinds: tuple[str, ...], settings: tuple[str, ...], remedy: str
) -> Verdict:
    """Do the slow steps stand where the run did this? By its events, else by its stated interval."""
    slow = slow_steps(finding, run)
    if slow is None:
        return missing(cause, "step_time")
    found = at_events(slow, run, kinds) or at_interval(slow, run, settings)
    if found is None:
        name = cause.lower()
        return unmeasured(
            cause, f"the logs do not tell when it happened. Log the begin and end of each {name} to know."
        )
    share = found.hits / found.slow
    told = f"{found.hits} of {found.slow} slow steps stand at one ({found.source})."
    where = ("step_time", finding.first_step, finding.last_step)
    evidence = Evidence("share of the slow steps", *where, share, None, _SHARE, "share")
    return supported(cause, told, remedy, evidence) if share > _SHARE else ruled_out(cause, told, evidence)


def data_reads(finding: Finding, run: Run) -> Verdict:
    return _part(
        "Data reads", "data_time", finding, run, "Look at the storage and the loader's workers: reads got slower"
    )


def communication(finding: Finding, run: Run) -> Verdict:
    cause = "Communication"
    if run.get("comm_time") is None and (share := levels(run.get("comm_share"), finding, run)) is not None:
        step = levels(step_times(run), finding, run)
        if step is not None:
            times = Levels(share.before * step.before, share.during * step.during, 0.0)
            return _judged(cause, "communication", times, step, finding, _NETWORK)
    return _part(cause, "comm_time", finding, run, _NETWORK)


_NETWORK = "Test the network between the nodes: collectives got slower"


def _part(cause: str, metric: str, finding: Finding, run: Run, remedy: str) -> Verdict:
    part, step = levels(run.get(metric), finding, run), levels(step_times(run), finding, run)
    if part is None or step is None:
        return missing(cause, metric if part is None else "step_time")
    return _judged(cause, metric, part, step, finding, remedy)


def _judged(cause: str, name: str, part: Levels, step: Levels, finding: Finding, remedy: str) -> Verdict:
    """Of what the step takes longer, how much this part does."""
    lost = step.during - step.before
    share = (part.during - part.before) / lost if lost > 0 else 0.0
    told = f"{name} went {part.told('s')} while the step went {step.told('s')}"
    evidence = Evidence(
        "share of the lost time", None, finding.first_step, finding.last_step, share, None, _SHARE, "share"
    )
    if share >= _SHARE:
        return supported(cause, f"{told}: {number(share, 'share')} of the lost time.", remedy, evidence)
    return ruled_out(cause, f"{told}: {number(max(0.0, share), 'share')} of the lost time.", evidence)


def straggler(finding: Finding, run: Run) -> Verdict:
    """One rank slower than the median rank, in computing where that is logged, and not so before."""
    cause = "Straggling rank"
    for metric in ("compute_time", "step_time"):
        ranks = {series.rank: found for series in run.all(metric) if series.rank >= 0
                 and (found := levels(series, finding, run)) is not None}  # fmt: skip
        if len(ranks) < 2:
            continue
        during = sorted(found.during for found in ranks.values())
        before = sorted(found.before for found in ranks.values())
        middle, usual = during[(len(during) - 1) // 2], before[(len(before) - 1) // 2]
        slowest = max(ranks, key=lambda rank: ranks[rank].during)
        excess = ranks[slowest].during / middle - 1
        earlier = ranks[slowest].before / usual - 1
        told = (
            f"rank {slowest} takes {number(ranks[slowest].during, 's')}, the median rank {number(middle, 's')} "
            f"({_more(excess)}, limit {number(_LAGGING, 'share')}; before: {_more(earlier)})"
        )
        where = (metric, finding.first_step, finding.last_step)
        evidence = Evidence("slowest rank over the median", *where, excess, earlier, _LAGGING, "share")
        if excess > _LAGGING and excess > earlier + _LAGGING / 2:
            remedy = f"Take the GPU of rank {slowest} out of the pool, and check its clocks and cooling"
            return supported(cause, f"{told}.", remedy, evidence)
        return ruled_out(cause, f"{told}.", evidence)
    return missing(cause, "time by rank", "compute time for each rank")


def clocks(finding: Finding, run: Run) -> Verdict:
    cause = "Clocks throttled"
    clock = next(
        (series for series in run.series if "clock" in series.metric.lower() and "sm" in series.metric.lower()), None
    )
    drawn = [one for one in run.all("gpu/power") if not _idles(one.rank, finding, run)]
    groups = [run.all(clock.metric) if clock is not None else (), drawn]
    known = [lowest for group in groups if (lowest := _lowest(group, finding, run)) is not None]
    heat = levels(run.get("gpu/temperature"), finding, run)
    if not known and heat is None:
        return missing(cause, "GPU clock, power or temperature", "SM clock, power and temperature of each GPU")
    hot = f"; the GPU is at {number(heat.during)}{NBSP}°C" if heat is not None else ""
    for series, found in known:
        if found.ratio < 1 - _CLOCK_FALL:
            where = f" on rank {series.rank}" if series.rank >= 0 and len(run.all(series.metric)) > 1 else ""
            told = f"{series.metric} fell {found.told(series.about.unit)}{where}{hot}."
            return supported(cause, told, "Check cooling and power limits of that GPU", found.evidence(series, finding))
    if not known and heat is not None and heat.during > _HOT and heat.during > heat.before + 3:
        told = f"gpu/temperature went {heat.told('°C')} (limit {number(_HOT)}{NBSP}°C)."
        evidence = Evidence(
            "temperature", "gpu/temperature", observed=heat.during, expected=heat.before, limit=_HOT, unit="°C"
        )
        return supported(cause, told, "Check the cooling of that GPU", evidence)
    if known:
        series, found = known[0]
        return ruled_out(
            cause, f"{series.metric} went {found.told(series.about.unit)}{hot}.", found.evidence(series, finding)
        )
    return unmeasured(cause, f"only the temperature is in the logs{hot}. Log SM clock and power to know.")


def _lowest(group: Sequence[Series], finding: Finding, run: Run) -> tuple[Series, Levels] | None:
    """Of several ranks the one that fell most."""
    known = [(one, found) for one in group if (found := levels(one, finding, run)) is not None]
    return min(known, key=lambda pair: pair[1].ratio, default=None)


def _idles(rank: int, finding: Finding, run: Run) -> bool:
    """Whether a GPU had less to do: then it draws less power for that."""
    busy = next((one for one in run.all("gpu/utilization") if one.rank == rank), None)
    found = levels(busy, finding, run)
    return found is not None and found.ratio < 1 - _CLOCK_FALL


def work(finding: Finding, run: Run) -> Verdict:
    """More tokens a step: by sequence length, batch size, or tokens per second × step time."""
    cause = "Longer sequences or larger batches"
    for metric in ("sequence_length", "batch_size"):
        series = run.get(metric)
        found = levels(series, finding, run)
        if series is not None and found is not None and found.ratio > 1 + _LONGER:
            told = f"{metric} went {found.told()}: a step does more work."
            return supported(
                cause, told, f"Compare time per token, not per step: {metric} grew", found.evidence(series, finding)
            )
    rate = run.get("tokens_per_second") or run.get("samples_per_second")
    speed, step = levels(rate, finding, run), levels(step_times(run), finding, run)
    if speed is None or step is None:
        return missing(cause, "tokens_per_second")
    grown = speed.ratio * step.ratio - 1
    told = f"a step does {number(round(abs(grown), 3), 'share')} {'more' if grown >= 0 else 'less'} work than before"
    evidence = Evidence(
        "work of a step against before", rate.metric if rate else None, observed=grown, limit=_LONGER, unit="share"
    )
    if grown > _LONGER and grown > _SHARE * (step.ratio - 1):
        return supported(cause, f"{told}.", "Compare time per token, not per step", evidence)
    return ruled_out(cause, f"{told}.", evidence)


def log_writing(_finding: Finding, _run: Run) -> Verdict:
    return unmeasured("Log writing", "the logs do not tell how long logging takes. Log the time of each write to know.")


def _more(share: float) -> str:
    """ "+47.7 %", "−3 %"."""
    return f"{'+' if share >= 0 else '−'}{number(round(abs(share), 3), 'share')}"


CAUSES = (checkpoints, evaluation, data_reads, communication, straggler, clocks, work, log_writing)
