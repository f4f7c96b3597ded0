"""The long table in its four formats."""

from __future__ import annotations

import io
import json

import numpy as np
import polars as pl
import pytest

from tests.test_store import one, points, runs
from trainlens.model import Run
from trainlens.store import export
from trainlens.store.export import COLUMNS, FORMATS, Format

VALUES = [0.1 + 0.2, float("nan"), float("inf"), float("-inf"), 5e-324, 1.0]


def told(run: list[Run], kind: Format, all_attempts: bool = False) -> bytes:
    stream = io.BytesIO()
    export(run, stream, kind, all_attempts)
    return stream.getvalue()


def table(run: list[Run], kind: Format, all_attempts: bool = False) -> pl.DataFrame:
    text = told(run, kind, all_attempts)
    if kind == "jsonl":
        return pl.DataFrame(
            [json.loads(line) | {"value": float(json.loads(line)["value"])} for line in text.splitlines()]
        )
    if kind == "csv":
        texts = pl.read_csv(io.BytesIO(text), schema_overrides={"value": pl.String})
        return texts.with_columns(pl.col("value").cast(pl.Float64))
    return {"parquet": pl.read_parquet, "arrow": pl.read_ipc}[kind](io.BytesIO(text))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_values_to_the_bit(kind: Format) -> None:
    run = one(points(range(6), VALUES, time=[1.76e9, *[np.nan] * 5]), points([3], [2.0], tag="tokens_per_sec", rank=1))
    found = table([run], kind)
    assert tuple(found.columns) == COLUMNS
    mine = found.filter(pl.col("tag") == "loss")
    assert np.array(mine["value"].to_list()).tobytes() == np.array(VALUES).tobytes()
    assert mine["step"].to_list() == list(range(6))
    assert mine["time"].to_list() == [1.76e9, *[None] * 5]
    assert set(mine["metric"]) == {"train/loss"}
    assert set(mine["source"]) == {"log.jsonl"}


def test_csv_has_words_for_what_is_not_finite_and_empty_cells_for_unknown() -> None:
    assert told([one(points(range(6), VALUES))], "csv").decode().splitlines()[1:5] == [
        "run,train/loss,loss,,0,,0.30000000000000004,log.jsonl,0",
        "run,train/loss,loss,,1,,nan,log.jsonl,0",
        "run,train/loss,loss,,2,,inf,log.jsonl,0",
        "run,train/loss,loss,,3,,-inf,log.jsonl,0",
    ]


def test_rows_are_in_order_of_run_tag_rank_and_step() -> None:
    batches = [points([2, 5], [1.0 + rank, 2.0], tag=tag, rank=rank) for tag in ("z", "a") for rank in (1, 0)]
    rows = table(runs(("f", [*batches, points([1], [1.0], run="other")])), "parquet")
    keys = list(zip(rows["run"], rows["tag"], rows["rank"].fill_null(-1), rows["step"], strict=True))
    assert keys == sorted(keys)


def test_replaced_points_are_told_on_demand() -> None:
    run = one(points([*range(10), *range(5, 12)], [1.0] * 10 + [2.0] * 7))
    assert len(table([run], "csv")) == 12
    found = table([run], "csv", all_attempts=True)
    assert len(found) == 17
    assert found.filter(pl.col("step") == 5)["attempt"].to_list() == [0, 1]


def test_names_outside_ascii_and_with_commas_survive() -> None:
    run = one(points([0], [1.0], tag='训练/损失, "a"'))
    assert table([run], "csv")["tag"].to_list() == ['训练/损失, "a"']


def test_no_runs_give_an_empty_table() -> None:
    assert all(len(table([], kind)) == 0 for kind in ("parquet", "arrow", "csv"))


@pytest.mark.parametrize("kind", FORMATS)
def test_names_that_are_no_text_are_shown(kind: Format) -> None:
    found = runs(("bad\udcff.log", [points([1, 2], [2.0, 1.0], tag="bad\udcff")]))
    assert table(found, kind)["tag"].to_list() == ["bad\\udcff"] * 2
