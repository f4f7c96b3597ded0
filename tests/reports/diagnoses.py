"""Made-up diagnoses for all report tests: a faulty run, a healthy one, hostile names, one that is not judged, fleets.

The curves come from made-up series of every step, thinned as the analysis does it. Each function is cached: nobody
changes what it returns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from tests.reports import made_up_findings as made_up
from tests.reports.made_up_findings import SLOW, SPIKE, START, STEPS
from trainlens import catalog, digest
from trainlens.diagnosis import Check, Diagnosis, Evidence, Finding, RunDiagnosis, Summary, Verdict
from trainlens.model import (
    NO_RANK,
    Attempt,
    Event,
    Fact,
    Floats,
    Ints,
    Metric,
    Note,
    Place,
    Run,
    Series,
    SourceReport,
)

EVIL = "<script>alert('x')</script>"

# ---- the runs ------------------------------------------------------------------------------------------------------


def told(*runs: RunDiagnosis, unread: tuple[SourceReport, ...] = ()) -> Diagnosis:
    """A diagnosis of these runs."""
    severities = [finding.severity for run in runs for finding in run.findings if finding.part_of is None]
    points = sum(source.points for run in runs for source in run.sources)
    error, warning, info = (severities.count(name) for name in ("error", "warning", "info"))
    summary = Summary(error, warning, info, len(runs), points, seconds=0.0)
    return Diagnosis("0.1.0", summary, runs, {"detect": {"slowdown": {"rise": 0.05}}}, unread)


@cache
def faulty() -> Diagnosis:
    """One run: a slowdown that goes on, a recovered loss spike with a gradient spike inside it, a rollback (info)."""
    return told(_run("borealis-3b", _series(), made_up.slowdown_spike_rollback(), made_up.CHECKS))


@cache
def broken() -> Diagnosis:
    """One run that ends in NaN: an error without causes, known from the log itself."""
    series = _series(nan_from=9_120, steps=9_400, ranks=0)
    return told(_run("cirrus-7b-lr6e-4", series, (made_up.NON_FINITE,), (Check("non-finite-value", "found"),)))


@cache
def healthy(name: str = "aurora-1b") -> Diagnosis:
    series = _series(spike=0.0, slow=0.0, steps=24_000, ranks=0)
    checks = tuple(replace(check, status="clean") if check.status == "found" else check for check in made_up.CHECKS)
    run = _run(name, series, (), checks)
    return told(replace(run, events=run.events[:1], notes=(), sources=run.sources[:1]))


@cache
def unjudged() -> Diagnosis:
    """A run of twelve points, of which no detector could say anything."""
    step = np.arange(1, 13, dtype=np.int64)
    checks = tuple(Check(name, "not-enough-data", "12 points, 40 are needed") for name in ("loss-spike", "flat-loss"))
    run = _run("nimbus-test", [_one("train/loss", step, np.linspace(9.0, 8.0, 12))], (), checks)
    return told(replace(run, events=(), facts=(), notes=(), sources=run.sources[:1], attempts=()))


@cache
def empty() -> Diagnosis:
    """Nothing could be read."""
    return told(unread=(SourceReport("run.wandb", "wandb", bytes=7, state="not-read", reason="not a W&B file"),))


@cache
def hostile() -> Diagnosis:
    """Names, texts and values of a log that try to become markup, a script's end, a control sequence or a template."""
    metric = f"{EVIL}</style><b>{{{{7*7}}}}"
    step = np.arange(1, 2_001, dtype=np.int64)
    wave = _one(metric, step, 2 + np.sin(step / 90.0))
    finding = Finding(
        "loss-spike",
        "error",
        metric,
        900,
        950,
        title=f"Spike {EVIL} \x1b[31mred",
        message=f'{EVIL} & "quotes" rose from 1 to 3 in [bold]steps[/bold] `900`\u202e</script>',
        confidence=0.9,
        evidence=(Evidence(EVIL, metric, 900, 950, "NaN", 1.0, 2.0, EVIL, EVIL, EVIL, Place(EVIL, line=3)),),
        actions=(f"Look at {EVIL} ]]> <!-- -->",),
        causes=(Verdict(EVIL, "supported", f"{EVIL} is the cause", remedy=f"Remove {EVIL}"),),
        id=f"loss-spike-900-{EVIL}",
    )
    run = replace(
        _run(f"run {EVIL}", [wave, _one("train/loss", step, 3 - step / 1_000.0)], (finding,), made_up.CHECKS),
        path=f"runs/{EVIL}",
        sources=(SourceReport(EVIL, EVIL, 10, 1, 2, 5, (Note("cut-off", EVIL, line=1),)),),
        facts=(Fact(EVIL, EVIL), Fact("javascript:alert(1)", "\u2028</script>")),
        events=(Event("xid", EVIL, step=100, place=Place(EVIL, line=2)),),
        notes=(Note("clock", EVIL),),
    )
    return told(run, unread=(SourceReport(f"{EVIL}.log", "", state="not-read", reason=EVIL),))


@cache
def fleet(count: int = 3) -> Diagnosis:
    """A faulty, a broken and a healthy run, and further healthy ones up to `count`."""
    first = (*faulty().runs, *broken().runs, *healthy().runs)
    more = tuple(replace(first[2], name=f"aurora-1b-s{seed}") for seed in range(1, count - 2))
    return told(*(first + more)[:count])


# ---- their series --------------------------------------------------------------------------------------------------


def _one(name: str, step: Ints, value: Floats, rank: int = NO_RANK) -> Series:
    about = catalog.metric(name) or Metric(name, panel="capability" if name.startswith("bench/") else "other")
    return Series(name, name, about, step, np.asarray(value, np.float64), START + 7.1 * step.astype(float), rank)


def _series(
    spike: float = 2.7, slow: float = 0.06, steps: int = STEPS, ranks: int = 16, nan_from: int = 0
) -> list[Series]:
    """`spike` in nats, `slow` a share; from `nan_from` on (0 for never) loss and gradient norm are NaN."""
    rng = np.random.default_rng(4)
    step = np.arange(1, steps + 1, dtype=np.int64)
    bump = np.exp(-np.maximum(step - SPIKE - 8, 0) / 9.0) * np.clip((step - SPIKE) / 8.0, 0, 1)
    level = 1.7 + 9.2 * (1 + step / 40.0) ** -0.55
    loss = level + rng.normal(0, 0.03, steps) + spike * bump
    norm = np.exp(rng.normal(np.log(0.35), 0.12, steps)) + 3 * np.exp(-step / 400.0)
    norm *= 1 + 5 * spike * np.roll(bump, -4)
    if nan_from:
        loss[step >= nan_from] = norm[step >= nan_from] = np.nan
    late = 1 + slow * (step >= SLOW)
    seconds = 7.1 * late * rng.normal(1, 0.004, steps)
    every = step[999::1000]
    rate = 3e-4 * np.minimum(step / 2_000, 0.55 + 0.45 * np.cos(np.pi * step / max(steps, STEPS)))
    dense = {
        "train/loss": loss,
        "grad_norm": norm,
        "lr": rate,
        "step_time": seconds,
        "tokens_per_second": 2**20 / seconds,
        "mfu": 0.43 / late * rng.normal(1, 0.003, steps),
        "gpu/utilization": np.clip(rng.normal(0.95, 0.01, steps) - 0.04 * (late - 1), 0, 1),
        "gpu/memory_share": 0.81 + rng.normal(0, 0.002, steps),
        "gpu/power": rng.normal(655, 9, steps),
        "comm_share": np.clip(rng.normal(0.13, 0.004, steps) + (late - 1), 0, 1),
        "clipped": (norm > 1.0).astype(float),
    }
    found = [_one(name, step, value) for name, value in dense.items()]
    held_out = level[999::1000] + 0.05 + rng.normal(0, 0.004, len(every))
    found += [_one("eval/loss", every, held_out), _one("eval/perplexity", every, np.exp(held_out))]
    for rank in range(ranks):
        slower = 1 + 0.09 * (step >= SLOW) * (rank == 11)
        found.append(_one("compute_time", step[::20], (5.0 * slower * rng.normal(1, 0.004, steps))[::20], rank))
    for index, name in enumerate(("hellaswag", "piqa", "arc_easy", "gsm8k", "winogrande")):
        scores = 0.25 + 0.4 * (1 - np.exp(-np.arange(1, 7) / (2.0 + index)))
        found.append(_one(f"bench/{name}", step[steps // 6 - 1 :: steps // 6][:6], scores))
    return found


def _run(name: str, series: list[Series], findings: tuple[Finding, ...], checks: tuple[Check, ...]) -> RunDiagnosis:
    run = Run(
        name, f"runs/{name}", tuple(series), facts=tuple(Fact(key, value) for key, value in made_up.FACTS.items())
    )
    last = max(int(one.step[-1]) for one in series)
    points = sum(len(one) for one in series)
    return RunDiagnosis(
        name=name,
        path=f"runs/{name}",
        result=digest.result(run, now=START + 1e9),
        sources=(
            SourceReport("logs/train.log", "megatron", points, 1, last, 12_345_678),
            SourceReport(
                "tb/events.out.tfevents.1775000000.node0",
                "tensorboard",
                points // 2,
                1,
                last,
                4_000_000,
                (Note("cut-off", "the last record is cut off", byte=3_999_812),),
            ),
            SourceReport("profile/rank0.json.gz", "", bytes=48_219, state="not-read", reason="the file ends early"),
            SourceReport("notes.md", "", bytes=310, state="ignored", reason="no format of a training log"),
        ),
        metrics=digest.metric_reports(run),
        facts=run.facts,
        events=(
            *(Event("checkpoint-begin", "saving checkpoint", step) for step in range(4_000, last, 4_000)),
            *((Event("restart", "starting at iteration 15000", 15_000),) if last > 15_240 else ()),
        ),
        checks=checks,
        findings=findings,
        curves=digest.curves(run, findings),
        attempts=(Attempt(1, 15_240), Attempt(15_001, last)) if last > 15_240 else (Attempt(1, last),),
        notes=(Note("duplicate-steps", "steps 15,001–15,240 are there twice; the later pass is used", count=240),),
    )
