"""Samples with a clock and no steps, beside a training: they get its steps, or keep apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_store import START, falling, kinds, points, runs
from trainlens import analyze
from trainlens.model import Event, Points, Run, Series
from trainlens.sources import Source
from trainlens.store import Builder
from trainlens.store.placing import Clock

HOUR = 3600.0


def training(steps: int = 100, every: float = 10.0, start: float = START) -> Points:
    """Step 1 is done at `start`, each next one `every` seconds later."""
    time = (start + every * np.arange(steps)).tolist()
    return points(range(1, steps + 1), falling(steps), time=time)


def samples(
    first: float, last: float, every: float = 5.0, *, rank: int = 0, tag: str = "utilization.gpu [%]"
) -> Points:
    time = np.arange(first, last, every)
    return points(None, (90 + time % 7).tolist(), tag=tag, time=time.tolist(), rank=rank)


def beside(*machine: Points, steps: int = 100, every: float = 10.0, name: str = "gpu.csv") -> Run:
    return together(training(steps, every), (name, list(machine)))


def together(train: Points, *files: tuple[str, list[Points]]) -> Run:
    builder = Builder("run", "/run")
    builder.add(Source(Path("/run/train.jsonl"), "train.jsonl", 1), "jsonl", "", [train])
    for name, batches in files:
        builder.add(Source(Path("/run") / name, name, 1), "nvidia-smi", "", batches)
    (run,) = builder.runs()
    return run


def busy(run: Run, rank: int = -1) -> Series:
    (series,) = [one for one in run.all("gpu/utilization") if rank in (-1, one.rank)]
    return series


def test_each_sample_is_of_the_step_under_way() -> None:
    run = beside(samples(START - 20, START + 1000, 10.0))
    series = busy(run)
    assert not series.positional
    assert series.step.tolist() == list(range(1, 101))
    assert series.time[5] == START + 50
    assert series.value[5] == pytest.approx((90 + (START + 50) % 7) / 100)


def test_several_samples_of_a_step_are_its_mean_and_that_is_said() -> None:
    raw = samples(START + 1, START + 990, 2.5)
    run = beside(raw)
    series = busy(run)
    assert raw.time is not None
    inside = raw.value[(raw.time > START + 10) & (raw.time <= START + 20)]
    assert series.value[series.step == 3] == pytest.approx(inside.mean() / 100)
    assert "duplicate-steps" in kinds(run)


def test_between_logged_steps_time_decides() -> None:
    train = points(range(0, 1001, 100), falling(11), time=(START + 100.0 * np.arange(11)).tolist())
    series = busy(together(train, ("gpu.csv", [samples(START + 50, START + 1000, 100.0)])))
    assert series.step.tolist() == list(range(50, 1000, 100))


def test_what_lies_long_after_the_end_is_kept_apart() -> None:
    raw = samples(START - 10, START + 2000, 10.0)
    run = beside(raw)
    series = busy(run)
    assert series.step[-1] == 100
    assert series.time[-1] <= START + 990 + 20
    (apart,) = [one for one in run.series if one.metric.startswith("outside the run")]
    assert (apart.positional, apart.about.role, len(apart) + len(series)) == (True, "other", len(raw.value) - 3)
    assert apart.time.min() > START + 990 + 20
    (note,) = [note for note in run.notes if note.kind == "clock"]
    assert f"{len(apart):,} values lie outside" in note.message


@pytest.mark.parametrize("hours", [-8, -7, 2, 5.5, 9, -3.5])
def test_clocks_of_another_zone_are_shifted(hours: float) -> None:
    raw = samples(START - 30 + hours * HOUR, START + 1000 + hours * HOUR)
    run = beside(raw)
    series = busy(run)
    assert (series.step[0], series.step[-1]) == (1, 100)
    assert series.time[0] < START + 1
    assert any(f"{abs(hours):g} h {'earlier' if hours > 0 else 'later'}" in note.message for note in run.notes)


def test_several_zones_that_would_do_are_not_guessed() -> None:
    run = beside(samples(START - 30 * HOUR, START - 4 * HOUR, 60.0))
    assert busy(run).positional
    assert any("several time zones" in note.message for note in run.notes)


def test_what_never_met_the_training_is_not_judged() -> None:
    run = beside(samples(START + 60 * HOUR, START + 80 * HOUR, 60.0))
    assert not run.all("gpu/utilization")
    assert any("no part was taken" in note.message for note in run.notes)


def test_without_clocks_positions_stay() -> None:
    timeless = points(None, [90.0] * 30, tag="utilization.gpu [%]", rank=0)
    assert busy(beside(timeless)).positional
    train = points(range(50), falling(50))
    assert busy(together(train, ("gpu.csv", [samples(START, START + 100)]))).positional


def test_nodes_are_one_run() -> None:
    own = [("node1/gpu.csv", 0.0), ("node0/gpu.csv", 3.0), ("node2/gpu.csv", 1.0)]
    files = [
        (name, [samples(START + late, START + 900, rank=0), samples(START + late + 1, START + 900, rank=1)])
        for name, late in own
    ]
    run = together(training(), *files)
    ranks = {one.rank: run.sources[int(one.source[0])].path for one in run.all("gpu/utilization")}
    hosts = {0: "node0", 1: "node0", 2: "node1", 3: "node1", 4: "node2", 5: "node2"}
    assert ranks == {rank: f"{host}/gpu.csv" for rank, host in hosts.items()}


def test_nodes_without_clocks_are_known_by_their_names() -> None:
    own = [points(None, [90.0, value], tag="sm [%]", rank=0) for value in (91.0, 92.0)]
    run = together(training(), ("node1.txt", own[:1]), ("node2.txt", own[1:]))
    assert [one.rank for one in run.all("gpu/utilization")] == [0, 1]
    (series,) = together(training(), ("dmon-1.txt", own[:1]), ("dmon-2.txt", own[1:])).all("gpu/utilization")
    assert series.raw.tolist() == [90, 91, 90, 92]


def test_trainings_of_many_ranks_have_one_clock() -> None:
    builder = Builder("run", "/run")
    for rank in range(4):
        values, time = np.random.default_rng(rank).random(100).tolist(), (START + 10.0 * np.arange(100)).tolist()
        train = points(range(1, 101), values, time=time)
        name = f"events.out.tfevents.{rank}"
        builder.add(Source(Path("/run") / name, name, 1), "tensorboard", "", [train])
    builder.add(Source(Path("/run/gpu.csv"), "gpu.csv", 1), "nvidia-smi", "", [samples(START + 5, START + 985, 10.0)])
    (run,) = builder.runs()
    assert busy(run).step.tolist() == list(range(2, 100))


def test_files_in_turn_are_of_one_node() -> None:
    run = together(
        training(), ("gpu-1.csv", [samples(START, START + 400)]), ("gpu-2.csv", [samples(START + 400, START + 900)])
    )
    (series,) = run.all("gpu/utilization")
    assert (series.step[0], series.step[-1], len(series.step)) == (1, 91, 91)


def test_a_copy_adds_nothing() -> None:
    own = [samples(START, START + 400)]
    run = together(training(), ("gpu.csv", own), ("copy of gpu.csv", list(own)))
    assert len(busy(run)) == 41
    assert "duplicate-steps" in kinds(run)  # two samples a step, not four
    assert busy(run).value[3] == pytest.approx(own[0].value[5:7].mean() / 100)


def test_a_restart_replaces_its_samples() -> None:
    steps = [*range(1, 61), *range(41, 101)]
    time = [*(START + 10.0 * np.arange(60)), *(START + 2000 + 10.0 * np.arange(60))]
    train = points(steps, falling(120), time=time)
    series = busy(together(train, ("gpu.csv", [samples(START - 5, START + 2600, 10.0)])))
    again = series.step > 41
    assert (series.time[again] > START + 1900).all()
    assert series.step[-1] == 100
    assert series.replaced is not None
    assert series.replaced.step.max() == 60


def test_events_get_the_step_that_was_done_by_then() -> None:
    said = [Event("xid", "early", time=START - 100), Event("xid", "x", time=START + 499), Event("xid", "no clock"),
            Event("killed", "end", time=START + 1500), Event("xid", "later", time=START + 90 * HOUR)]  # fmt: skip
    (run,) = runs(("log.jsonl", [training(), *said]), form="jsonl")
    assert {event.text: event.step for event in run.events} == {
        "early": None, "x": 50, "no clock": None, "end": 100, "later": None
    }  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=2, max_size=20),
    st.lists(st.floats(-9000, 9000), min_size=1, max_size=30),
)
def test_steps_never_go_back_as_time_goes_on(gaps: list[tuple[int, int]], moments: list[float]) -> None:
    time = START + np.cumsum([gap for gap, _ in gaps]).astype(np.float64)
    step = np.cumsum([more for _, more in gaps]).astype(np.int64)
    clock = Clock(time, step, np.zeros(len(step), np.int16))
    found, _, inside = clock.under_way(START + np.sort(np.array(moments, np.float64)))
    kept = found[inside]
    assert (np.diff(kept) >= 0).all()
    assert ((kept >= step[0]) & (kept <= step[-1])).all()
    for at in range(len(time)):
        first = int(np.searchsorted(time, time[at]))  # of those logged at the same moment
        assert step[max(first - 1, 0)] <= clock.under_way(time[[at]])[0][0] <= step[at]
        assert (clock.reached(float(time[at])) or 0) >= step[at]


def write(folder: Path, low: tuple[int, int] = (0, 0), hours: float = 0.0) -> None:
    """A training of 200 steps of 10 s; two GPUs are polled every 2 s, the first is idle for most of `low`."""
    noise = np.random.default_rng(5).normal(0, 0.01, 201).tolist()
    rows = [
        {"step": n, "loss": 3 - 0.005 * n + noise[n], "timestamp": START + 10.0 * n, "step_time": 10 + noise[-n]}
        for n in range(1, 201)
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = ["timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"]
    for at in range(-20, 2040, 2):
        stamp = np.datetime64(int((START + at + hours * HOUR) * 1000), "ms").astype(str)
        stamp = stamp.replace("-", "/").replace("T", " ")
        for gpu in range(2):
            share = 20 if low[0] * 10 < at <= low[1] * 10 and gpu == 0 else 97 + at % 3
            share = share if 0 < at <= 2000 else 0
            lines.append(f"{stamp}, {gpu}, {share} %, {40000 + at % 9} MiB, 81920 MiB, {300 + at % 4}.00 W")
    (folder / "gpu.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("hours", [0, -7])
def test_findings_on_gpus_speak_of_steps(tmp_path: Path, hours: float) -> None:
    write(tmp_path, (80, 140), hours)
    (run,) = analyze([tmp_path]).runs
    (finding,) = [one for one in run.findings if one.severity != "info"]
    assert (finding.detector, finding.rank) == ("low-gpu-utilization", 0)
    assert finding.first_step is not None
    assert finding.last_step is not None
    assert abs(finding.first_step - 81) <= 2
    assert abs(finding.last_step - 140) <= 2
    assert "from step" in finding.message


def test_a_healthy_run_with_a_poller_is_silent(tmp_path: Path) -> None:
    write(tmp_path)
    (run,) = analyze([tmp_path]).runs
    assert not [one for one in run.findings if one.severity != "info"]
