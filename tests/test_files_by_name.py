"""What the names of files add to what stands in them: ranks and splits, and only beside their like."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", ["rank_{}.log", "train-rank{}.out", "node1_rank.{}.txt", "workerlog.{}"])
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
