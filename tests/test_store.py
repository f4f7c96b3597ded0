"""From batches to runs: one value a step, restarts, ranks, clocks, several files of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlens.model import NO_RANK, Batch, Event, Fact, Note, Place, Points, Run, Series
from trainlens.sources import Source
from trainlens.store import Builder

START = 1.76e9


def points(
    steps: Sequence[int] | None,
    values: Sequence[float],
    *,
    tag: str = "loss",
    time: Sequence[float] | None = None,
    rank: int = NO_RANK,
    run: str = "",
) -> Points:
    return Points(
        tag,
        None if steps is None else np.array(steps, np.int64),
        np.array(values, float),
        None if time is None else np.array(time, float),
        rank,
        np.arange(1, len(values) + 1),
        run,
    )


def runs(*files: tuple[str, Iterable[Batch]], form: str = "tensorboard", prefix: str = "") -> list[Run]:
    builder = Builder("run", "/run")
    for name, batches in files:
        builder.add(Source(Path("/run") / name, name, 1), form, prefix, batches)
    return builder.runs()


def one(*batches: Batch) -> Run:
    (run,) = runs(("log.jsonl", batches), form="jsonl")
    return run


def loss(run: Run) -> Series:
    series = run.get("train/loss")
    assert series is not None
    return series


def kinds(run: Run) -> list[str]:
    return [note.kind for note in run.notes]


def falling(count: int, start: float = 3.0) -> list[float]:
    return list(start - np.arange(count) / 100)


# ---- one file --------------------------------------------------------------------------------------------------------


def test_a_series_in_order_is_the_parsers_own_arrays() -> None:
    batch = points(range(5), falling(5), time=(START + np.arange(5.0)).tolist())
    series = loss(one(batch))
    assert series.raw is batch.value
    assert series.step is batch.step
    assert series.attempt.strides == (0,)
    assert kinds(one(batch)) == []


def test_blocks_are_joined_and_shared_steps_stay_shared() -> None:
    steps = [np.arange(3), np.arange(3, 6)]
    batches = [Points(tag, step, step.astype(np.float64)) for step in steps for tag in ("loss", "lr")]
    run = one(*batches)
    assert list(loss(run).step) == list(range(6))
    assert run.series[0].step is run.series[1].step


def test_a_resume_replaces_what_is_done_again() -> None:
    steps = [*range(1, 188), *range(161, 251)]
    run = one(
        points(steps, [*([1.0] * 187), *([2.0] * 90)]), points([50, 100, 150, 180, 200], [5.0] * 5, tag="eval_loss")
    )
    series = loss(run)
    assert list(series.step) == list(range(1, 251))
    assert list(series.raw[158:162]) == [1.0, 1.0, 2.0, 2.0]
    assert series.replaced is not None
    assert list(series.replaced.step) == list(range(161, 188))
    assert [(attempt.first_step, attempt.last_step) for attempt in run.attempts] == [(1, 187), (161, 250)]
    assert [(event.kind, event.step) for event in run.events] == [("rollback", 161)]
    assert run.attempts[1].place == Place("log.jsonl", line=188)
    assert "resumed" in run.notes[0].message


def test_what_a_resume_has_not_reached_again_is_replaced_too() -> None:
    run = one(points([*range(100), *range(40, 60)], [0.0] * 120))
    assert list(loss(run).step) == list(range(60))
    assert len(loss(run).replaced or ()) == 60


def test_a_short_second_run_does_not_hide_a_long_first_one() -> None:
    series = loss(one(points([*range(1000), *range(2)], [1.0] * 1000 + [2.0] * 2)))
    assert len(series) == 1000
    assert list(series.raw[:4]) == [2.0, 2.0, 1.0, 1.0]


def test_a_sparse_metric_follows_the_restarts_of_the_dense_one() -> None:
    train = Points("loss", np.array([*range(100), *range(50, 100)]), np.zeros(150), origin=np.arange(150))
    held_out = Points("eval_loss", np.array([40, 90, 90]), np.array([1.0, 2.0, 3.0]), origin=np.array([40, 90, 140]))
    series = one(train, held_out).get("eval/loss")
    assert series is not None
    assert list(series.raw) == [1.0, 3.0]
    assert list(series.attempt) == [0, 1]


def test_records_out_of_order_are_no_restart() -> None:
    steps = [0, 1, 3, 2, 4, 5, 8, 6, 7, 9]
    run = one(points(steps, [float(step) for step in steps]))
    assert list(loss(run).raw) == [float(step) for step in range(10)]
    assert len(run.attempts) == 1
    assert kinds(run) == []


def test_several_values_at_each_step_become_their_mean() -> None:
    run = one(points(np.repeat(np.arange(20), 8).tolist(), np.tile(np.arange(8.0), 20).tolist()))
    assert list(loss(run).raw) == [3.5] * 20
    assert kinds(run) == ["duplicate-steps"]


def test_equal_values_at_a_step_are_kept_to_the_bit_and_not_worth_a_note() -> None:
    run = one(points([0, 0, 1, 1], [0.1, 0.1, np.nan, np.nan]))
    assert loss(run).raw[0] == 0.1
    assert np.isnan(loss(run).raw[1])


def test_a_nan_among_several_values_is_not_averaged_away() -> None:
    assert np.isnan(loss(one(points(np.repeat(np.arange(4), 3).tolist(), [1, 2, np.nan] * 4))).raw).all()


def test_one_step_logged_twice_keeps_the_later_value() -> None:
    run = one(points([1, 2, 3, 3, 4, 5], [1, 2, 3, 9, 4, 5]))
    assert list(loss(run).raw) == [1, 2, 9, 4, 5]
    ((note,),) = (source.notes for source in run.sources)
    assert (note.kind, note.line, note.byte, note.count) == ("duplicate-steps", 3, None, 1)
    assert (
        note.message == "1 step logged twice, as after a restart there, the first at 3: the later value is kept (loss)"
    )


def test_steps_logged_twice_are_told_of_the_file_that_holds_them() -> None:
    rows = points([1, 2, 3, 3, 4, 5, 6], [1, 2, 3, 9, 4, 5, 6], tag="accuracy")
    (run,) = runs(("a.log", [points(range(1, 9), falling(8))]), ("b.log", [rows]))
    assert [[note.byte for note in source.notes] for source in run.sources] == [[], [3]]


def test_of_a_counter_the_later_value_holds() -> None:
    series = one(points(np.repeat(np.arange(9), 2).tolist(), list(range(18)), tag="epoch")).get("epoch")
    assert series is not None
    assert list(series.raw) == list(range(1, 18, 2))


@pytest.mark.parametrize("steps", [None, [0] * 12])
def test_without_steps_the_position_counts(steps: list[int] | None) -> None:
    run = one(points(steps, falling(12)))
    assert list(loss(run).step) == list(range(12))
    assert loss(run).positional
    assert kinds(run) == ["no-steps"]


def test_steps_that_overflow_32_bits_are_counted_on() -> None:
    steps = [(655_360_000 * k + 2**31) % 2**32 - 2**31 for k in range(15)]
    run = one(points(steps, falling(15)))
    assert list(loss(run).step) == [655_360_000 * k for k in range(15)]
    assert len(run.attempts) == 1
    assert kinds(run) == ["damaged"]


def test_evaluations_that_count_epochs_are_marked() -> None:
    run = one(points(range(1000), falling(1000)), points(range(10), falling(10), tag="Loss/Valid"))
    held_out = run.get("eval/loss")
    assert held_out is not None
    assert held_out.positional
    assert not loss(run).positional
    assert kinds(run) == ["no-steps"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_steps_always_rise_and_no_step_is_lost_or_made_up(steps: list[int]) -> None:
    found = [
        loss(run) for run in runs(("log.jsonl", [points(steps, [float(k) for k in range(len(steps))])]), form="jsonl")
    ]
    assert all((np.diff(series.step) > 0).all() for series in found)
    if not any(series.positional for series in found):
        gone = [step for series in found if series.replaced is not None for step in series.replaced.step.tolist()]
        assert {*gone, *(step for series in found for step in series.step.tolist())} == set(steps)


# ---- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e6, 1e9])
def test_clocks_in_other_units_are_read_as_such(factor: float) -> None:
    times = (START + np.arange(10.0)) * factor
    run = one(points(range(10), falling(10), time=times.tolist()))
    assert loss(run).time[3] == pytest.approx(START + 3)
    assert kinds(run) == ([] if factor == 1 else ["clock"])


def test_impossible_dates_are_set_aside() -> None:
    run = one(points(range(4), falling(4), time=[START, 0.0, START + 2, 9e10]))
    assert np.isnan(loss(run).time).tolist() == [False, True, False, True]
    assert kinds(run) == ["clock"]


def test_the_end_of_summer_time_is_no_jump() -> None:
    times = START + 10.0 * np.arange(360)
    times[180:] -= 3600
    run = one(points(range(360), falling(360), time=times.tolist()))
    assert np.diff(loss(run).time).tolist() == [10.0] * 359
    assert run.attempts[0].last_time == START + 3590


# ---- ranks -----------------------------------------------------------------------------------------------------------


def test_ranks_that_log_the_same_are_one_series() -> None:
    same = [points(range(9), falling(9), rank=rank) for rank in range(4)]
    differing = [points(range(9), [100.0 + rank] * 9, tag="tokens_per_sec", rank=rank) for rank in range(4)]
    run = one(*same, *differing)
    assert [(series.metric, series.rank) for series in run.series] == [
        *[("tokens_per_second", rank) for rank in range(4)],
        ("train/loss", NO_RANK),
    ]


def test_a_rank_in_the_tag_is_a_rank() -> None:
    run = one(*[points(range(5), [1.0 + rank] * 5, tag=f"step_time/rank{rank}") for rank in range(2)])
    assert [(s.metric, s.tag, s.rank) for s in run.series] == [
        ("step_time", "step_time/rank0", 0),
        ("step_time", "step_time/rank1", 1),
    ]


# ---- several files ---------------------------------------------------------------------------------------


def session(first: int, count: int, begin: float, value: float = 1.0, tag: str = "loss") -> list[Batch]:
    return [points(range(first, first + count), [value] * count, tag=tag, time=(begin + np.arange(count)).tolist())]


def test_sessions_are_put_in_the_order_of_their_clocks() -> None:
    (run,) = runs(("events.a", session(50, 100, START + 5000, 2.0)), ("events.z", session(0, 100, START, 1.0)))
    assert len(loss(run)) == 150
    assert [loss(run).raw[k] for k in (49, 50, 149)] == [1.0, 2.0, 2.0]
    assert [(a.first_step, a.last_step) for a in run.attempts] == [(0, 99), (50, 149)]
    assert loss(run).source.tolist() == [1] * 50 + [0] * 100


def test_where_clocks_of_hosts_disagree_the_steps_decide() -> None:
    (run,) = runs(("events.b", session(50, 50, START - 7100)), ("events.a", session(0, 50, START)))
    assert len(loss(run)) == 100
    assert (np.diff(loss(run).time) >= 0).all()
    assert loss(run).replaced is None
    assert run.events == ()
    assert kinds(run) == ["clock"]


def test_writers_of_different_tags_do_not_disturb_each_other() -> None:
    (run,) = runs(("events.1", session(0, 100, START)), ("events.2", session(0, 20, START, tag="eval/loss")))
    assert {series.metric: len(series) for series in run.series} == {"train/loss": 100, "eval/loss": 20}
    assert len(run.attempts) == 1


def test_a_copy_adds_nothing() -> None:
    rows = falling(100)
    files = ("state", [points(range(100), rows)]), ("checkpoint-50/state", [points(range(50), rows[:50])])
    (run,) = runs(*files, form="hf-trainer")
    assert len(loss(run)) == 100
    assert (run.notes, len(run.attempts)) == ((), 1)


def test_two_tellings_that_differ_are_kept_once_and_noted() -> None:
    builder = Builder("run", "/run")
    builder.add(Source(Path("/run/events"), "events", 1), "tensorboard", "", [points(range(50), [1.0] * 50)])
    builder.add(Source(Path("/run/log.csv"), "log.csv", 1), "csv", "", [points(range(40), [1.5] * 40)])
    (run,) = builder.runs()
    assert loss(run).raw.tolist() == [1.0] * 50
    assert kinds(run) == ["disagreement"]
    assert "log.csv" in run.notes[0].message


def told(*files: tuple[str, str, Sequence[Batch]]) -> list[Run]:
    """The runs of files of several formats: (name, format, batches)."""
    builder = Builder("run", "/run")
    for name, form, found in files:
        builder.add(Source(Path("/run", name), name, 1), form, "", found)
    return builder.runs()


@pytest.mark.parametrize("turned", [False, True])
def test_a_console_beside_a_tracker_is_the_same_run_and_the_fuller_telling_is_kept(turned: bool) -> None:
    console = "output.log", "key-value-text", [points(range(10, 5000, 10), [0.5] * 499)]
    curve, lr = points(range(0, 5001, 250), [0.5] * 21), points(range(0, 5001, 5), [1.0] * 1001, tag="lr")
    tracker = "run-a.wandb", "wandb", [curve, lr] if turned else [curve]
    (run,) = told(console, tracker)
    assert loss(run).step.tolist() == list(range(0, 5001, 10))
    assert np.bincount(loss(run).source).tolist() == [499, 2]
    assert (kinds(run), len(run.attempts)) == ([], 1)


def test_one_curve_told_by_three_trackers_is_told_once() -> None:
    rows, steps = falling(200), range(200)
    events = (
        "events",
        "tensorboard",
        [points(steps, np.array(rows, np.float32).tolist(), time=(START + np.arange(200.0)).tolist())],
    )
    tracker = "run-a.wandb", "wandb", [points(steps, rows, time=(START + 0.1 + np.arange(200.0)).tolist())]
    (run,) = told(events, tracker, ("log.jsonl", "jsonl", [points(range(150), rows[:150])]))
    assert (len(loss(run)), len(run.series)) == (200, 1)
    assert kinds(run) == []


def test_a_fact_that_two_sources_state_is_one() -> None:
    both = ["config.yaml", "run-a.wandb"]
    stated: list[Batch] = [Fact("lr", 0.1), Fact("on", 1)]
    (run,) = told(*((name, name, [points([0], [1.0], tag=name), *stated]) for name in both))
    assert [(fact.name, fact.value) for fact in run.facts] == [("lr", 0.1), ("on", 1)]


def test_one_quantity_under_two_tags_is_judged_once() -> None:
    run = one(points(range(50), falling(50)), points(range(50), falling(50), tag="lm loss"))
    assert [series.about.role for series in run.series] in (["other", "loss"], ["loss", "other"])


def test_foreign_logs_in_one_directory_are_runs_of_their_own() -> None:
    files = ("baseline.csv", [points(range(50), falling(50))]), ("wide.csv", [points(range(50), falling(50, 9.0))])
    assert [run.name for run in runs(*files, form="csv")] == ["run/baseline", "run/wide"]


@pytest.mark.parametrize("schedule", [[1e-3] * 50, np.linspace(1e-3, 0, 50).tolist()], ids=["constant", "falling"])
def test_runs_of_one_schedule_are_no_copies(schedule: list[float]) -> None:
    lr = points(range(50), schedule, tag="zz/lr")
    files = [(f"{name}.csv", [points(range(50), falling(50, first)), lr]) for name, first in (("a", 5.0), ("b", 9.0))]
    assert [(run.name, len(loss(run))) for run in runs(*files, form="csv")] == [("run/a", 50), ("run/b", 50)]


def test_runs_of_several_seeds_do_not_replace_each_other() -> None:
    files = [(f"seed_{seed}.csv", [points(range(50), falling(50, 5.0 + seed))]) for seed in (1, 2, 3)]
    found = runs(*files, form="csv")
    assert [(run.name, len(loss(run)), run.events) for run in found] == [
        (f"run/seed_{seed}", 50, ()) for seed in (1, 2, 3)
    ]


def test_a_job_that_began_again_and_came_further_is_one_run() -> None:
    files = [(f"slurm-{job}.out", [points(range(last), [1.0 * job] * last)]) for job, last in ((7, 30), (8, 50))]
    (run,) = runs(*files, form="key-value-text")
    assert loss(run).raw.tolist() == [8.0] * 50
    assert [(one.first_step, one.last_step) for one in run.attempts] == [(0, 29), (0, 49)]


def test_a_source_may_hold_several_runs() -> None:
    found = one_source = runs(
        ("x.csv", [points([0, 1], [1, 2], run="a"), points([0], [3], run="b"), Fact("lr", 1.0), Fact("bs", 2, run="b")])
    )
    assert [(run.name, len(run.series)) for run in found] == [("run/a", 1), ("run/b", 1)]
    assert [[fact.name for fact in run.facts] for run in one_source] == [["lr"], ["lr", "bs"]]


# ---- what else is passed on ---------------------------------------------------------------------------------------


def test_events_facts_notes_and_counts_are_passed_on() -> None:
    note = Note("not-understood", "3 lines", line=4, count=3)
    run = one(points(range(3), falling(3)), points(range(3), [9] * 3, tag="max_steps"), Event("xid", "Xid 79"), note)
    report = run.sources[0]
    assert (report.points, report.first_step, report.last_step, report.notes) == (6, 0, 2, (note,))
    assert [event.kind for event in run.events] == ["xid"]
    assert run.facts == (Fact("total_steps", 9),)


def test_a_file_without_points_says_so() -> None:
    (run,) = runs(("empty", []))
    assert [note.kind for note in run.sources[0].notes] == ["no-points"]


def test_prefixes_are_put_before_tags() -> None:
    (run,) = runs(("validation/events", [points([0, 1], [1, 2], tag="epoch_loss")]), prefix="validation/")
    assert [(series.metric, series.tag) for series in run.series] == [("eval/loss", "validation/epoch_loss")]


def test_benchmarks_take_no_prefix() -> None:
    (run,) = runs(("eval/results.json", [points([0, 1], [0.1, 0.2], tag="bench/gsm8k")]), prefix="eval/")
    assert [series.metric for series in run.series] == ["bench/gsm8k"]


def test_units_of_the_catalogue_are_applied_to_values_and_not_to_raw() -> None:
    series = one(points(range(3), [1200.0] * 3, tag="elapsed time per iteration (ms)")).get("step_time")
    assert series is not None
    assert (series.raw[0], series.value[0]) == (1200.0, pytest.approx(1.2))


def test_a_unit_written_beside_the_values_is_applied_to_them() -> None:
    first, second = (replace(points(steps, [250.0, 500.0], tag="dt"), unit="ms") for steps in ([1, 2], [3, 4]))
    (series,) = one(first, second).series
    assert (series.metric, series.about.unit) == ("step_time", "s")
    assert series.value.tolist() == [0.25, 0.5, 0.25, 0.5]
    assert series.raw.tolist() == [250.0, 500.0, 250.0, 500.0]


def test_units_that_differ_count_for_nothing() -> None:
    first, second = (replace(points([at], [250.0], tag="dt"), unit=unit) for at, unit in ((1, "ms"), (2, "s")))
    (series,) = one(first, second).series
    assert series.value.tolist() == [250.0, 250.0]


def test_a_units_series_is_cut_and_joined_with_it() -> None:
    batches = [
        replace(points([*range(20), *range(20)], [250.0] * 40, tag="dt"), unit="ms"),
        points(range(9), falling(9)),
    ]
    for run in runs(("log.jsonl", batches), form="jsonl"):
        assert all(series.about.scale == 1e-3 for series in run.series if series.tag == "dt")


def scored(values: Sequence[float]) -> list[Points]:
    return [points(None, [value], tag=f"bench/task{at}") for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("second", "same"),
    [
        ([0.41, 0.52, 0.63, 0.74, 0.85], 5),
        ([0.41, 0.52, 0.63, 0.74, 0.851], 4),
        ([0.41, 0.52, 0.63, 0.741, 0.851], None),  # too many differ
        ([0.41, 0.52, 0.63], None),  # too few are shared
        ([0.42, 0.53, 0.64, 0.75, 0.86], None),
    ],
)
def test_the_scores_of_one_checkpoint_twice(second: list[float], same: int | None) -> None:
    first = [0.41, 0.52, 0.63, 0.74, 0.85]
    (run,) = runs(("a.json", scored(first)), ("b.json", scored(second)), form="lm_eval")
    told = [[note.count for note in source.notes if note.kind == "repeated"] for source in run.sources]
    assert told == [[], [same] if same else []]


def test_scores_of_nothing_or_all_are_equal_in_any_two_evaluations() -> None:
    (run,) = runs(("a.json", scored([0, 0, 1, 1, 0])), ("b.json", scored([0, 0, 1, 1, 0])), form="lm_eval")
    assert [source.notes for source in run.sources] == [(), ()]


@pytest.mark.parametrize("rows", [60, 40, 90])
def test_a_console_without_steps_is_the_run_whose_values_it_tells(rows: int) -> None:
    """The tracker names the steps; an earlier state of it and a console that began and ended with it say no more."""
    values = falling(90)
    state = [points(range(10, 610, 10), values[:60]), points(range(10, 610, 10), values[:60], tag="grad norm")]
    early = [points(range(10, 310, 10), values[:30]), points(range(10, 310, 10), values[:30], tag="grad norm")]
    console = [
        points(None, values[:rows]),
        points(None, values[:rows], tag="grad norm"),
        points(None, values[:rows], tag="x"),
    ]
    found = runs(("trainer_state.json", state), ("checkpoint-300/trainer_state.json", early), ("train.log", console))
    assert len(found) == 1
    assert loss(found[0]).step.tolist() == list(range(10, 610, 10))


def test_a_console_without_steps_of_other_values_is_another_run() -> None:
    state = [points(range(10, 610, 10), falling(60))]
    console = [points(None, falling(60)[::-1])]
    assert len(told(("trainer_state.json", "hf-trainer", state), ("train.log", "key-value-text", console))) == 2


def test_what_a_file_says_stays_in_its_order_where_only_some_lines_have_a_time() -> None:
    said = [
        Event("nccl-timeout", "Watchdog caught collective operation timeout", 3, None, 3, Place("a.log", line=10)),
        Event("preemption", "CANCELLED AT 2026-03-02T11:00:00", 3, START + 60, place=Place("a.log", line=12)),
    ]
    (run,) = runs(("a.log", [points([1, 2, 3], [3, 2, 1]), *said]), form="megatron")
    assert [event.kind for event in run.events] == ["nccl-timeout", "preemption"]
