"""What the names of files add to what stands in them: ranks and splits, and only beside their like."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import trainlens
from trainlens.model import NO_RANK, Run

STEPS = range(1, 30)


def read(folder: Path, files: dict[str, str]) -> tuple[Run, ...]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return tuple(trainlens.read([folder]).runs)


def log(above: float) -> str:
    return "".join(f"step: {step} loss: {above + step / 100} lr: 0.1\n" for step in STEPS)


@pytest.mark.parametrize(
    "name",
    [
        "rank_{}.log",
        "train-rank{}.out",
        "node1_rank.{}.txt",
        "workerlog.{}",
        "rank_{}/train.log",
        "job/attempt_0/{}/stdout.log",
    ],
)
def test_files_of_ranks_are_one_run_without_a_rollback(tmp_path: Path, name: str) -> None:
    (run,) = read(tmp_path, {name.format(rank): log(2.0 + rank) for rank in (0, 1, 10)})
    losses = {one.rank: one for one in run.series if one.metric == "train/loss"}
    assert {rank: one.raw[0].item() for rank, one in losses.items()} == {0: 2.01, 1: 3.01, 10: 12.01}
    assert [one.rank for one in run.series if one.metric == "lr"] == [NO_RANK]  # all logged the same
    assert not run.events
    assert len(run.attempts) == 1


def test_a_rank_alone_and_words_that_end_in_rank_are_no_ranks(tmp_path: Path) -> None:
    (alone,) = read(tmp_path / "a", {"rank_3.log": log(2.0)})
    assert {one.rank for one in alone.series} == {NO_RANK}
    found = read(tmp_path / "b", {"lowrank4.log": log(2.0), "lowrank8.log": log(3.0)})
    assert {one.rank for run in found for one in run.series} == {NO_RANK}


@pytest.mark.parametrize("held_out", ["val", "eval", "test"])
def test_files_of_splits_are_one_run(tmp_path: Path, held_out: str) -> None:
    rows = "".join(f'{{"step": {step}, "loss": 2.5}}\n' for step in STEPS)
    few = "".join(f'{{"step": {step}, "loss": 3.5}}\n' for step in (10, 20))
    (run,) = read(tmp_path, {"train.jsonl": rows, f"{held_out}.jsonl": few})
    assert {one.tag: (len(one), one.raw[0].item()) for one in run.series} == {
        "loss": (len(STEPS), 2.5),
        f"{held_out}/loss": (2, 3.5),
    }


def test_a_held_out_file_alone_keeps_its_names(tmp_path: Path) -> None:
    (run,) = read(tmp_path, {"val.jsonl": "".join(f'{{"step": {step}, "loss": 3.5}}\n' for step in STEPS)})
    assert [one.tag for one in run.series] == ["loss"]


def test_attempts_of_all_ranks_go_on_from_each_other(tmp_path: Path) -> None:
    rows = {0: range(40), 1: range(30, 70)}
    texts = {
        f"attempt_{attempt}/{rank}/stdout.log": "".join(
            f"step: {step} loss: {9 - attempt + rank}.5\n" for step in steps
        )
        for attempt, steps in rows.items()
        for rank in (0, 1)
    }
    (run,) = read(tmp_path, texts)
    assert {one.rank: (len(one), one.raw[0].item(), one.raw[-1].item()) for one in run.series} == {
        0: (70, 9.5, 8.5),
        1: (70, 10.5, 9.5),
    }
    assert [(one.first_step, one.last_step) for one in run.attempts] == [(0, 39), (30, 69)]


# ---- rotated logs ----------------------------------------------------------------------------------------------------

BEGINS = (0, 40, 70)  # of files of 50 steps each, in the order they were written
ROTATED = {
    "by number": ("train.log.2", "train.log.1", "train.log"),
    "by number, packed": ("train.log.2.gz", "train.log.1", "train.log"),
    "by many numbers": ("train.log.10", "train.log.9", "train.log"),
    "by date": ("train.log-20260101", "train.log-20260102.gz", "train.log"),
    "by date as an ending": ("train.log.20260101", "train.log.20260102", "train.log"),
    "numbered on at each start": ("train.log", "train.log.1", "train.log.2"),
    "without a bare one": ("train.log.1", "train.log.2", "train.log.10"),
}


@pytest.mark.parametrize("names", ROTATED.values(), ids=ROTATED)
def test_files_of_a_rotated_log_are_put_in_turn(tmp_path: Path, names: tuple[str, ...]) -> None:
    for number, (name, begin) in enumerate(zip(names, BEGINS, strict=True)):
        text = "".join(f"step: {step} loss: {5 - number}.25 lr: 0.1\n" for step in range(begin, begin + 50)).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    (run,) = trainlens.read([tmp_path]).runs
    loss = next(one for one in run.series if one.metric == "train/loss")
    assert loss.step.tolist() == list(range(120))
    assert [loss.raw[step].item() for step in (0, 39, 40, 69, 70, 119)] == [5.25, 5.25, 4.25, 4.25, 3.25, 3.25]
    assert [(one.first_step, one.last_step) for one in run.attempts] == [(0, 49), (40, 89), (70, 119)]
