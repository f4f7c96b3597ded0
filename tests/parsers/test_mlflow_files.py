from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.parsers.door import batches, checkpoint, lines, notes, points, rows, sniffed, table
from trainlens.model import Fact
from trainlens.parsers import mlflow_files

RUN = "mlruns/0/0123456789abcdef0123456789abcdef"


def test_points_with_time() -> None:
    (one,) = points(batches(mlflow_files, "1700000000500 2.5 1\n1700000001500 2 2\n", "loss", folder=f"{RUN}/metrics"))
    assert (one.tag, one.run) == ("loss", "")
    assert one.step is not None
    assert one.time is not None
    assert one.step.tolist() == [1, 2]
    assert one.value.tolist() == [2.5, 2.0]
    assert one.time.tolist() == [1_700_000_000.5, 1_700_000_001.5]


def test_tag_holds_the_folders_below_metrics() -> None:
    (one,) = points(batches(mlflow_files, "1700000000500 2.5 1\n", "loss", folder=f"{RUN}/metrics/train"))
    assert one.tag == "train/loss"


def test_not_a_number_and_infinity() -> None:
    found = rows(mlflow_files, "1 nan 0\n2 inf 1\n3 -inf 2\n4 1e-05 3\n", "x")["x"]
    assert math.isnan(found[0][1])
    assert found[1:] == [(1, math.inf), (2, -math.inf), (3, 1e-5)]


@pytest.mark.parametrize("bad", ["1700000000000", "1700000000000 2.5", "x y z", "1 2 3 4", "1 2.5 0.5"])
def test_malformed_line_costs_itself_only(bad: str) -> None:
    text = f"1 2.5 0\n{bad}\n3 1.5 2\n"
    assert rows(mlflow_files, text, "loss") == {"loss": [(0, 2.5), (2, 1.5)]}
    assert lines(mlflow_files, text, "loss") == {"loss": [1, 3]}
    (note,) = notes(mlflow_files, text, "loss")
    assert (note.kind, note.line) == ("not-understood", 2)
    assert "loss" in note.message


def test_growing_file() -> None:
    text = "".join(f"{at} {at / 2} {at}\n" for at in range(20))
    first = batches(mlflow_files, text[:60], "loss")
    rest = batches(mlflow_files, text, "loss", checkpoint(first))
    assert table(first)["loss"] + table(rest)["loss"] == rows(mlflow_files, text, "loss")["loss"]
    assert points(rest)[0].origin is not None


@pytest.mark.parametrize(("text", "value"), [("0.1", 0.1), ("8", 8), ("True", True), ("adamw\n", "adamw")])
def test_parameters_are_facts(text: str, value: object) -> None:
    (fact,) = batches(mlflow_files, text, "lr", folder=f"{RUN}/params")
    assert isinstance(fact, Fact)
    assert (fact.name, fact.value) == ("lr", value)


@pytest.mark.parametrize(
    ("text", "name", "least", "most"),
    [
        ("1700000000000 2.5 0\n", f"{RUN}/metrics/loss", 0.9, 1),
        ("1700000000000 2.5 0\n", "loss", 0.6, 0.8),
        ("1 2.5 0\n", "loss", 0, 0),
        ("0.1", f"{RUN}/params/lr", 0.5, 1),
        ("0.1", "params/lr", 0, 0),
        ("status: 1\n", f"{RUN}/meta.yaml", 0, 0),
        ("", f"{RUN}/metrics/loss", 0, 0),
    ],
)
def test_sniff(text: str, name: str, least: float, most: float) -> None:
    assert least <= mlflow_files.sniff(text.encode(), Path(name)) <= most
    assert sniffed(mlflow_files, text) <= 0.8
