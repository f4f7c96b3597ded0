"""What findings cost and say: a second that is lost, and a line of a log, is told once over all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.detectors.door import START, run_of
from trainlens.analysis import diagnose
from trainlens.model import Attempt, Event, Place, Run, SourceReport
from trainlens.settings import load

N = 1000
STEP = np.arange(1, N + 1)
OTHER = np.exp(0.004 * np.random.default_rng(41).normal(size=N))


def costs(run: Run) -> dict[str, float]:
    """Lost seconds by detector, of the findings that are told on their own."""
    run = replace(run, sources=(SourceReport("log", "jsonl"),))
    found = diagnose(run, load(environ={}), START).findings
    alone = [one for one in found if one.part_of is None and one.cost is not None]
    return {one.detector: one.cost.seconds or 0.0 for one in alone if one.cost is not None}


@pytest.mark.parametrize("step", [None, 700])
def test_a_lost_gpu_is_told_once(step: int | None) -> None:
    said = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."
    place = Place("dmesg", line=12)
    lost = Event("gpu-lost", said, step=step, time=START + 699.5, place=place)
    run = run_of({"train/loss": 3 - STEP / 1000}, events=[lost], times={"train/loss": (START + STEP).tolist()})
    run = replace(run, sources=(SourceReport("log", "jsonl"),))
    found = diagnose(run, load(environ={}), START + 9e5).findings
    alone = [one.detector for one in found if one.part_of is None and one.severity == "error"]
    assert alone == ["gpu-hardware-error"]


def test_a_slow_rank_that_slows_all_is_counted_once() -> None:
    slow = np.where(STEP > 500, 1.3, 1.0) * OTHER
    curves = {"step_time": slow, **{f"step_time@{rank}": slow if rank == 2 else OTHER for rank in range(4)}}
    found = costs(run_of(curves))
    assert sum(found.values()) == pytest.approx(500 * 0.3, rel=0.05)


def test_stalls_in_a_slow_stretch_are_counted_once() -> None:
    times = np.where(STEP > 400, 1.2, 1.0) * OTHER + np.where(STEP % 50 == 0, 5.0, 0.0)
    found = costs(run_of({"step_time": times}))
    assert found["slowdown"] == pytest.approx(600 * 0.2, rel=0.06)
    assert found["periodic-stall"] == pytest.approx(20 * 5.0, rel=0.06)


def test_a_wait_for_data_that_grows_is_counted_once() -> None:
    waited = np.where(STEP > 500, 0.8, 0.4)
    found = costs(run_of({"step_time": (0.6 + waited) * OTHER, "data_time": waited * OTHER}))
    assert sum(found.values()) == pytest.approx(float(waited.sum()), rel=0.05)


@pytest.mark.parametrize("first", [401, 301])
def test_a_pause_is_that_of_the_restart(first: int) -> None:
    """A first row behind a restart that holds its pause is no slow step."""
    times = OTHER + np.where(first == STEP, 600.0, 0.0)
    clock = START + np.cumsum(times)
    attempts = (
        Attempt(1, 400, START, float(clock[399])),
        Attempt(first, N, float(clock[399]) + 600, float(clock[-1])),
    )
    curves = {"train/loss": 3 - STEP / 1000 + 0.01 * OTHER, "step_time": times}
    run = run_of(curves, times={name: clock.tolist() for name in curves}, attempts=attempts)
    later = (first <= STEP).astype(np.int16)
    for attempt in (later, 0 * later):  # whether the series itself knows of it or not
        known = replace(run, series=tuple(replace(one, attempt=attempt) for one in run.series))
        assert "slow-step" not in costs(known)
        assert sum(costs(known).values()) == pytest.approx(600 + (401 - first), rel=0.05)
