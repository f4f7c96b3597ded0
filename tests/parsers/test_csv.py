from __future__ import annotations

import codecs
import csv as plain_csv
import gzip
import io
import math
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.door import Row, batches, checkpoint, lines, notes, points, rows, sniffed, table
from trainlens.parsers import csv
from trainlens.parsers._row_blocks import row_blocks

INF = float("inf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step,loss\n1,2.5\n2,2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step;loss;lr\n1;2.5;1e-4\n2;2;1e-4\n", {"loss": [(1, 2.5), (2, 2.0)], "lr": [(1, 1e-4), (2, 1e-4)]}),
        ("step;loss\n1;2,5\n2;2,25\n", {"loss": [(1, 2.5), (2, 2.25)]}),
        ("step\tloss\n1\t2.5\n2\t2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step   loss\n  1    2.5\n  2    2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("  epoch,   train/loss\n    1,   2.5\n    2,   2\n", {"train/loss": [(1, 2.5), (2, 2.0)]}),
        ('"step","a, b"\r\n"1","2.5"\r\n"2","2"\r\n', {"a, b": [(1, 2.5), (2, 2.0)]}),
        ("\ufeffstep,loss\n1,2.5\n", {"loss": [(1, 2.5)]}),
        ("# made by hand\nstep,loss\n1,2.5\n", {"loss": [(1, 2.5)]}),
        ("step,loss,val_loss\n1,2.5,\n1,,3\n", {"loss": [(1, 2.5)], "val_loss": [(1, 3.0)]}),
        ("step,loss\n1,2.5\nstep,loss\n2,2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step,loss,note\n1,2.5,ok\n2,inf,\n", {"loss": [(1, 2.5), (2, INF)]}),
        ("epoch,acc\n0,0.5\n1,0.6\n", {"acc": [(0, 0.5), (1, 0.6)]}),
        ("epoch,step,acc\n0,,0.5\n,9,0.6\n", {"epoch": [(9, 0.0)], "acc": [(9, 0.5), (9, 0.6)]}),
        (",step,loss\n0,1,2.5\n1,2,2\n", {"column 1": [(1, 0.0), (2, 1.0)], "loss": [(1, 2.5), (2, 2.0)]}),
        ("step,loss,loss\n1,2,3\n", {"loss": [(1, 2.0)], "loss (column 3)": [(1, 3.0)]}),
        ("step,loss\n\n1,2.5\n\n2,2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ('step,text,loss\n1,"a,\nb",2.5\n2,c,2\n', {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step,skipped\n1,True\n2,False\n", {"skipped": [(1, 1.0), (2, 0.0)]}),
        ("step,metric,value\n1,loss,2.5\n1,lr,0.1\n", {"loss": [(1, 2.5)], "lr": [(1, 0.1)]}),
        ("step,loss\n", {}),
        ("step,loss\r1,2.5\r2,2\r", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("# lr 0.1\n# step,loss\n1,2.5\n2,2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step,loss\n1,2.5\n# resumed\n2,2\n", {"loss": [(1, 2.5), (2, 2.0)]}),
        ("step,loss\n1,2.5\n2,NA\n3,2\n", {"loss": [(1, 2.5), (3, 2.0)]}),
        ('step,loss\n"1,000",2.5\n"2,000",2\n', {"loss": [(1000, 2.5), (2000, 2.0)]}),
        (
            "epoch,batch,loss\n0,0,3\n0,1,2\n1,0,1\n",
            {"epoch": [(0, 0.0), (1, 0.0), (2, 1.0)], "loss": [(0, 3.0), (1, 2.0), (2, 1.0)]},
        ),
        (
            "1,10,2.5\n2,20,2\n3,30,1\n4,",
            {"column 2": [(1, 10.0), (2, 20.0), (3, 30.0)], "column 3": [(1, 2.5), (2, 2.0), (3, 1.0)]},
        ),
    ],
)
def test_rows(text: str, expected: dict[str, list[Row]]) -> None:
    assert rows(csv, text, "x.csv") == expected


def test_numbers_alone_are_step_and_loss() -> None:
    assert rows(csv, "1 8.049097\n2 7.5\n3 7.25\n", "loss.txt") == {"loss": [(1, 8.049097), (2, 7.5), (3, 7.25)]}


def test_not_a_number_is_a_point_and_an_empty_cell_is_none() -> None:
    found = rows(csv, "step,loss\n1,nan\n2,\n3,NaN\n")["loss"]
    assert [step for step, _ in found] == [1, 3]
    assert all(math.isnan(value) for _, value in found)


def test_chart_export_has_a_run_a_curve() -> None:
    names = [f'"{run} - train/loss{end}"' for run in ("run-a", "run - b") for end in ("", "__MIN", "__MAX")]
    text = ",".join(['"Step"', *names]) + '\n"0","2","2","2","3","3","3"\n"10","1","1","1","","",""\n'
    found = {(one.run, one.tag): one.value.tolist() for one in points(batches(csv, text, "export.csv"))}
    assert found == {("run-a", "train/loss"): [2.0, 1.0], ("run - b", "train/loss"): [3.0]}


@pytest.mark.parametrize("encoded", ["utf-16", "latin-1", "gz"])
def test_other_encodings(encoded: str) -> None:
    text = "step,Größe\n1,2.5\n2,2\n"
    content = gzip.compress(text.encode()) if encoded == "gz" else text.encode(encoded)
    assert rows(csv, content, "x.csv") == {"Größe": [(1, 2.5), (2, 2.0)]}
    assert [one.kind for one in notes(csv, content, "x.csv")] == (["encoding"] if encoded == "latin-1" else [])


def test_rows_that_do_not_fit_the_header_are_named() -> None:
    text = "step,loss,lr\n1,2.5,0.1\n2,2.25,0.\n3,2\n4,2,0.1,7\n5,1.5,0.1\n"
    assert rows(csv, text, "x.csv")["loss"] == [(1, 2.5), (2, 2.25), (5, 1.5)]
    assert lines(csv, text, "x.csv")["loss"] == [2, 3, 6]
    assert [(one.line, one.count) for one in notes(csv, text, "x.csv")] == [(4, 2)]


def test_texts_among_numbers_are_counted() -> None:
    text = "step,loss\n1,2.5\n2,2\n3,oops\n4,1\n"
    assert rows(csv, text, "x.csv") == {"loss": [(1, 2.5), (2, 2.0), (4, 1.0)]}
    assert [one.count for one in notes(csv, text, "x.csv")] == [1]


def test_lines_are_those_of_the_file() -> None:
    assert lines(csv, "# a\n\nstep,loss\n1,2\nstep,loss\n2,3\n", "x.csv") == {"loss": [4, 6]}


@pytest.mark.parametrize(
    ("text", "name", "least", "most"),
    [
        ("step,loss\n1,2.5\n2,2\n", "x.csv", 0.9, 1),
        ("step,loss\n1,2.5\n2,2\n", "x.txt", 0.6, 0.8),
        ("step,loss\n", "x.csv", 0.3, 1),
        ("1 8.049097\n2 7.5\n3 7.2\n", "loss.txt", 0.65, 0.8),
        ("step loss\n1 2.5\n2 2.25\n", "loss.txt", 0.6, 0.8),
        ("1 8.049097\n2 7.5\n", "loss.txt", 0, 0),
        ('{"step": 1, "loss": 2}\n{"step": 2, "loss": 2}\n', "x.jsonl", 0, 0),
        ("iteration 1 loss 2.5\niteration 2 loss 2.4\n", "x.log", 0, 0),
        ("step: 1, loss: 2.5\nstep: 2, loss: 2.4\nstep: 3, loss: 2\n", "x.log", 0, 0),
        ("2024-01-01 10:00:00,123 INFO step 1\n2024-01-01 10:00:01,234 INFO step 2\n" * 3, "x.log", 0, 0),
        ("name,city\nada,london\n", "x.csv", 0, 0),
        ("", "x.csv", 0, 0),
        ("\0\0\0\0", "x.csv", 0, 0),
    ],
)
def test_sniff(text: str, name: str, least: float, most: float) -> None:
    assert least <= sniffed(csv, text, name) <= most


def written(values: list[tuple[float | None, float]], ending: str = "\n") -> str:
    body = "".join(f"{at},{'' if a is None else repr(a)},{b:.5f}{ending}" for at, (a, b) in enumerate(values))
    return f"step,a,b{ending}" + body


VALUES = st.lists(st.tuples(st.one_of(st.none(), st.floats()), st.floats(1, 9)), min_size=3, max_size=20)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.integers(1, 400), st.sampled_from(["\n", "\r\n"]))
def test_same_points_as_a_plain_reader(values: list[tuple[float | None, float]], block: int, ending: str) -> None:
    text = written(values, ending)
    expected: dict[str, list[Row]] = {}
    for row in plain_csv.DictReader(io.StringIO(text)):
        for name in ("a", "b"):
            if row[name]:
                expected.setdefault(name, []).append((int(row["step"]), float(row[name])))
    with mock.patch.object(row_blocks, "__defaults__", (0, block)):
        assert repr(sorted(rows(csv, text, "x.csv").items())) == repr(sorted(expected.items()))


@settings(max_examples=150, deadline=None)
@given(VALUES, st.data())
def test_every_prefix_gives_a_prefix_of_the_points(
    values: list[tuple[float | None, float]], data: st.DataObject
) -> None:
    text = written(values)
    header = text.index("\n", text.index("\n") + 1) + 1
    whole = rows(csv, text, "x.csv")
    first = batches(csv, text[: data.draw(st.integers(header, len(text)))], "x.csv")
    for name, cells in table(first).items():
        assert repr(whole[name][: len(cells)]) == repr(cells)
    later = table(batches(csv, text, "x.csv", checkpoint(first)))
    joined = {name: [*table(first).get(name, []), *later.get(name, [])] for name in whole}
    assert repr(joined) == repr(whole)


def test_byte_order_mark_is_no_part_of_a_name() -> None:
    assert rows(csv, codecs.BOM_UTF8 + b'"step","loss"\r\n1,2\r\n', "x.csv") == {"loss": [(1, 2.0)]}


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_decimal_commas_between_any_marks(mark: str) -> None:
    text = f'"step"{mark}"loss"\n' + "".join(f'"{step}"{mark}"{8 - step},25"\n' for step in range(1, 6))
    assert rows(csv, text, name="m.csv")["loss"] == [(step, 8.25 - step) for step in range(1, 6)]


def test_what_columns_without_a_header_are_is_said() -> None:
    text = "".join(f"{1700000000 + at}.5,{at * 10},{3 - at / 10}\n" for at in range(1, 6))
    (loss,) = points(batches(csv, text, "x.csv"))
    assert (loss.tag, loss.step is not None and loss.step.tolist()) == ("loss", [10, 20, 30, 40, 50])
    assert loss.time is not None
    assert loss.time[0] == 1700000001.5
    (note,) = notes(csv, text, "x.csv")
    assert "column 2 is taken for 'step'" in note.message


def test_columns_of_a_file_named_for_a_loss() -> None:
    text = "".join(f"{at} {3 - at / 10} 0.5\n" for at in range(1, 6))
    assert set(rows(csv, text, "val_loss.txt")) == {"val_loss", "column 3"}
    assert sniffed(csv, text, "matrix.txt") == 0


def test_a_header_longer_than_the_head() -> None:
    names = ["step", *(f"layers.{at}.attention.projection.weight/norm" for at in range(3000))]
    text = ",".join(names) + "\n" + "".join(f"{step}" + ",0.5" * 3000 + "\n" for step in (1, 2))
    assert len(text.split("\n")[0]) > 64 << 10
    assert sniffed(csv, text[: 64 << 10], "x.csv") > 0.5
    found = rows(csv, text, "x.csv")
    assert len(found) == 3000
    assert found[names[-1]] == [(1, 0.5), (2, 0.5)]


@pytest.mark.parametrize("encoded", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(encoded: str) -> None:
    content = "step,loss\n1,2.5\n2,2\n".encode(encoded)
    assert sniffed(csv, content, "x.csv") == 0.9
    assert rows(csv, content, "x.csv") == {"loss": [(1, 2.5), (2, 2.0)]}
