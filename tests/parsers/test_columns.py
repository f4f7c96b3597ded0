from __future__ import annotations

import numpy as np
import pytest

from trainlens.model import NO_RANK, Floats, Points
from trainlens.parsers._columns import Axes, Labels, axes, filled_steps, last_step, points, unix_seconds

NAN = float("nan")


def col(*cells: float) -> Floats:
    return np.array(cells, np.float64)


@pytest.mark.parametrize(
    ("names", "texts", "expected"),
    [
        (["step", "loss"], [], Axes(step="step")),
        (["loss"], [], Axes()),
        (["epoch", "loss"], [], Axes(step="epoch")),
        (["epoch", "iteration"], [], Axes(step="iteration")),
        (["_step", "train/global_step"], [], Axes(step="train/global_step")),
        (["iter", "global_step"], [], Axes(step="global_step", also=("iter",))),
        (["step", "timestamp", "rank"], ["run"], Axes(step="step", time="timestamp", rank="rank", run="run")),
        (["step", "loss"], ["split", "timestamp"], Axes(step="step", time="timestamp", split="split")),
        (["step", "value"], ["metric"], Axes(step="step", tag="metric")),
        (["step", "loss"], ["metric"], Axes(step="step")),
    ],
)
def test_axes(names: list[str], texts: list[str], expected: Axes) -> None:
    assert axes(names, texts) == expected


@pytest.mark.parametrize(
    ("step", "after", "expected"),
    [
        (col(1, 2, 3), None, [1, 2, 3]),
        (col(1, NAN, NAN, 4, NAN), None, [1, 1, 1, 4, 4]),
        (col(NAN, 2), None, [2, 2]),
        (col(NAN, 2), 1, [1, 2]),
        (col(NAN, NAN), 7, [7, 7]),
        (col(NAN, NAN), None, None),
        (col(3.0, 1.0), None, [3, 1]),
    ],
)
def test_steps_are_filled_from_the_row_before(step: Floats, after: int | None, expected: list[int] | None) -> None:
    found = filled_steps({"step": step}, Axes(step="step"), after=after)
    assert (None if found is None else found.tolist()) == expected
    assert last_step({"step": step}, Axes(step="step"), after=after) == (expected[-1] if expected else after)


def test_other_step_columns_fill_gaps() -> None:
    columns = {"step": col(1, NAN), "iter": col(NAN, 2), "loss": col(5, 6)}
    found = filled_steps(columns, axes(columns))
    assert found is not None
    assert found.tolist() == [1, 2]


def test_absent_cells_are_no_points_and_nan_cells_are() -> None:
    columns = {"step": col(1, 2, 3), "loss": col(5, NAN, NAN)}
    (one,) = points(columns, axes(columns), present={"loss": np.array([True, True, False])})
    assert one.step is not None
    assert one.step.tolist() == [1, 2]
    assert np.isnan(one.value[1])


def test_columns_of_the_same_rows_share_arrays() -> None:
    mask = np.array([True, False, True])
    columns = {"step": col(1, 2, 3), "a": col(1, 2, 3), "b": col(4, 5, 6)}
    one, other = points(columns, axes(columns), lines=np.arange(3), present={"a": mask, "b": mask.copy()})
    assert one.step is other.step
    assert one.origin is other.origin
    assert other.value.tolist() == [4.0, 6.0]


def test_a_fractional_epoch_is_a_quantity() -> None:
    columns = {"epoch": col(0.1, 0.2), "loss": col(2, 1)}
    assert [(one.tag, one.step) for one in points(columns, axes(columns))] == [("epoch", None), ("loss", None)]


def test_runs_ranks_and_splits_are_kept_apart() -> None:
    columns = {"step": col(1, 1, 1, 1), "rank": col(0, 1, NAN, NAN), "loss": col(1, 2, 3, 4)}
    labels = {"run": Labels.of(["a", "a", "b", None]), "split": Labels.of(["train", "train", "val", None])}
    chosen = axes(columns, labels)
    found = {(one.run, one.rank, one.tag): one.value.tolist() for one in points(columns, chosen, labels=labels)}
    assert found == {
        ("a", 0, "loss"): [1.0],
        ("a", 1, "loss"): [2.0],
        ("b", NO_RANK, "val/loss"): [3.0],
        ("", NO_RANK, "loss"): [4.0],
    }


def test_a_column_of_shares_is_no_rank() -> None:
    columns = {"step": col(1, 2), "gpu": col(87.5, 90.25)}
    assert [one.tag for one in points(columns, axes(columns))] == ["gpu"]


@pytest.mark.parametrize("scale", [1, 1e3, 1e6, 1e9])
def test_clocks_of_any_unit(scale: float) -> None:
    found = unix_seconds(col(1_700_000_000 * scale, NAN))
    assert found[0] == pytest.approx(1_700_000_000)
    assert np.isnan(found[1])


def test_seconds_since_the_start_are_no_date() -> None:
    columns = {"step": col(1, 2), "timestamp": col(0.5, 1.5)}
    found: list[Points] = list(points(columns, axes(columns)))
    assert [(one.tag, one.time) for one in found] == [("timestamp", None)]
