"""What a user says that names mean: metrics, units and axes in place of the catalogue's guesses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainlens import Run, reading
from trainlens.catalog.mapping import meaning
from trainlens.errors import InputError, SettingsError
from trainlens.settings import load

ROWS = """{"n": 5, "t": 1.7e9, "worker": 0, "objective": 3.0, "dt": 100, "loss": 9.0}
{"n": 10, "t": 1.70000001e9, "worker": 1, "objective": 2.0, "dt": 110, "loss": 8.0}
{"n": 15, "t": 1.70000002e9, "worker": 0, "objective": 1.0, "dt": 90, "loss": 7.0}
"""


def read(tmp_path: Path, entries: Sequence[str], text: str = ROWS) -> Run:
    (tmp_path / "metrics.jsonl").write_text(text)
    found = reading.read([tmp_path / "metrics.jsonl"], load({"map": list(entries), "cache": False}, environ={}))
    return found.runs[0]


@pytest.mark.parametrize(
    ("entries", "metric", "tag", "value"),
    [
        ([], "train/loss", "loss", [9.0, 8.0, 7.0]),
        (["objective=train/loss"], "train/loss", "objective", [3.0, 2.0, 1.0]),
        (["obj*=train/loss"], "train/loss", "objective", [3.0, 2.0, 1.0]),
        (["objective=train/loss"], "loss", "loss", [9.0, 8.0, 7.0]),
        (["loss=none"], "loss", "loss", [9.0, 8.0, 7.0]),
        (["loss=none", "loss=eval/loss"], "eval/loss", "loss", [9.0, 8.0, 7.0]),
        (["dt=step_time:ms"], "step_time", "dt", [0.1, 0.11, 0.09]),
        (["dt=step_time"], "step_time", "dt", [100.0, 110.0, 90.0]),
        (["objective=bench/gsm8k"], "bench/gsm8k", "objective", [3.0, 2.0, 1.0]),
    ],
)
def test_a_name_means_what_the_user_says(
    entries: list[str], metric: str, tag: str, value: list[float], tmp_path: Path
) -> None:
    series = read(tmp_path, entries).get(metric)
    assert series is not None
    assert (series.tag, series.value.tolist()) == (tag, pytest.approx(value))


def test_what_is_no_metric_has_no_role(tmp_path: Path) -> None:
    assert read(tmp_path, ["loss=none", "objective=none"]).with_role("loss") == ()


def test_a_column_named_as_the_step_and_one_as_the_time(tmp_path: Path) -> None:
    run = read(tmp_path, ["n=step", "t=time"])
    loss = run.get("train/loss")
    assert loss is not None
    assert loss.step.tolist() == [5, 10, 15]
    assert loss.time.tolist() == [1.7e9, 1.70000001e9, 1.70000002e9]
    assert not loss.positional
    assert run.get("n") is not None  # it stays as a quantity


def test_a_column_named_as_the_rank(tmp_path: Path) -> None:
    found = {series.rank: series.raw.tolist() for series in read(tmp_path, ["n=step", "worker=rank"]).all("train/loss")}
    assert found == {0: [9.0, 7.0], 1: [8.0]}


def test_rows_without_the_axis_are_at_the_row_before(tmp_path: Path) -> None:
    text = '{"n": 5, "loss": 2.0}\n{"eval_loss": 3.0}\n{"n": 9, "loss": 1.0}\n{"eval_loss": 2.0}\n'
    series = read(tmp_path, ["n=step"], text).get("eval/loss")
    assert series is not None
    assert series.step.tolist() == [5, 9]


@pytest.mark.parametrize("entry", ["dt=step", "dt=rank"])
def test_an_axis_of_broken_numbers_is_refused(entry: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"1\.5, which is no whole number"):
        read(tmp_path, [entry], '{"dt": 1.5, "loss": 2.0}\n{"dt": 2.5, "loss": 1.0}\n')


def test_a_name_that_nothing_has_is_refused_where_it_was_asked_for_just_now(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing logged is called 'los'. Did you mean 'loss'"):
        read(tmp_path, ["los=train/loss"])
    (tmp_path / "trainlens.toml").write_text('[map]\nlos = "train/loss"\n')
    kept = load({"cache": False}, environ={}, config=tmp_path / "trainlens.toml")
    assert reading.read([tmp_path / "metrics.jsonl"], kept).runs


@pytest.mark.parametrize("entry", ["", "=", "a=", "=train/loss", "a=train/los", "a=step_time:", "a=grad_norm:ms"])
def test_what_makes_no_sense(entry: str) -> None:
    with pytest.raises(ValueError, match=r"raw=canonical|no metric|cannot be in"):
        meaning(entry)


@pytest.mark.parametrize(
    ("forced", "formats"),
    [
        (["key-value-text"], ["key-value-text", "key-value-text"]),
        (["*.jsonl=key-value-text"], ["jsonl", "key-value-text"]),
        (["jsonl", "b.*=key-value-text"], ["jsonl", "key-value-text"]),
        (["b.*=key-value-text", "jsonl"], ["jsonl", "jsonl"]),
    ],
)
def test_a_parser_for_all_files_or_for_some(forced: list[str], formats: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ROWS)
    (tmp_path / "b.jsonl").write_text(ROWS)
    jobs, unread = reading.work([tmp_path], load({"parser": forced}, environ={}))
    assert [file.format for files in jobs for file in files.files] == formats
    assert not unread
