from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.door import batches, checkpoint, events, facts, lines, notes, points, rows, sniffed, table
from tests.parsers.events import message, whole
from tests.parsers.wandb_files import run_file
from trainlens.errors import InputError
from trainlens.parsers import swanlab_records

START = 1_760_000_000


def swanlab_file(records: Iterable[bytes], version: int = 2) -> bytes:
    return run_file(records, b":SWL\xd6\xe1" + bytes((version,)))


def clock(second: float) -> bytes:
    whole_part = int(second)
    return whole(1, START + whole_part) + whole(2, int((second - whole_part) * 1e9))


def scalar(key: str, step: int, value: float, second: float = 0) -> bytes:
    """A number of version 2; as protobuf has it, zeros are left out."""
    number = message(5, b"\x09" + struct.pack("<d", value) if value else b"")
    return message(
        13, message(1, key.encode()) + (whole(2, step) if step else b"") + message(4, clock(second)) + number
    )


def column(key: str) -> bytes:
    return message(12, whole(1, 1) + message(3, key.encode()))


def finish(state: int, error: str = "") -> bytes:
    return message(11, whole(1, state) + (message(2, error.encode()) if error else b"") + message(3, clock(99)))


def said(kind: str, **told: object) -> bytes:
    """A record of version 1."""
    return json.dumps({"model_type": kind, "data": told}).encode() + b"\n"


def number(key: str, step: int, value: object) -> bytes:
    stamp = f"2025-10-09T08:53:{20 + step:02d}+00:00"
    return said("Scalar", metric={"index": step, "data": value, "create_time": stamp}, key=key, step=step, epoch=1)


CURVE = [scalar("train/loss", at, 2.5 - at / 4, at) for at in range(3)]
POINTS = [(0, 2.5), (1, 2.25), (2, 2.0)]


def test_points_of_version_2() -> None:
    content = swanlab_file(
        [message(10, message(1, b"gpt") + message(4, b"first")), column("train/loss"), *CURVE, finish(1)]
    )
    (one,) = points(batches(swanlab_records, content))
    assert rows(swanlab_records, content) == {"train/loss": POINTS}
    assert one.time is not None
    assert one.time.tolist() == [START, START + 1, START + 2]
    assert facts(swanlab_records, content) == {"swanlab_project": "gpt", "swanlab_experiment": "first"}
    assert lines(swanlab_records, content)["train/loss"] == sorted(lines(swanlab_records, content)["train/loss"])
    assert notes(swanlab_records, content) == []


def test_points_of_version_1() -> None:
    curve = [number("loss", at, value) for at, value in enumerate([2.5, "NaN", "INF", -1])]
    content = swanlab_file([said("Experiment", id="ab", name="first"), *curve, said("Footer", success=True)], 1)
    found = rows(swanlab_records, content)["loss"]
    assert [step for step, _ in found] == [0, 1, 2, 3]
    assert math.isnan(found[1][1])
    assert [found[at][1] for at in (0, 2, 3)] == [2.5, math.inf, -1.0]
    (one,) = points(batches(swanlab_records, content))
    assert one.time is not None
    assert one.time[0] == START
    assert facts(swanlab_records, content) == {"swanlab_experiment": "first"}


def test_zero_is_a_value_and_a_record_without_one_is_none() -> None:
    empty = message(13, message(1, b"x") + whole(2, 1))
    assert rows(swanlab_records, swanlab_file([scalar("x", 0, 0.0), empty, finish(1)])) == {"x": [(0, 0.0)]}


def test_hardware_gets_the_step_of_its_moment() -> None:
    curve = [scalar("loss", at, 1.0, at) for at in (0, 100, 200)]
    used = scalar("__swanlab__.gpu.0.mem.value", 7, 1000.0, 150)
    found = batches(swanlab_records, swanlab_file([*curve, used, finish(1)]))
    assert table(found)["__swanlab__.gpu.0.mem.value"] == [(150, 1000.0)]
    assert [one.unit for one in points(found)] == ["", "MB"]


@pytest.mark.parametrize(
    ("version", "record", "kind", "text"),
    [
        (2, finish(1), "run-end", "SwanLab: the run finished"),
        (2, finish(2, "Traceback\nKeyError: 'x'"), "exit-code", "SwanLab: the run crashed: KeyError: 'x'"),
        (2, finish(3), "killed", "SwanLab: the run was aborted"),
        (
            1,
            said("Footer", success=True),
            "run-end",
            "SwanLab: the run finished",
        ),
        (1, said("Footer", success=False), "exit-code", "SwanLab: the run crashed"),
    ],
)
def test_the_end(version: int, record: bytes, kind: str, text: str) -> None:
    (event,) = events(swanlab_records, swanlab_file([record], version))
    assert (event.kind, event.text) == (kind, text)


def test_the_end_bears_the_last_step_and_a_run_without_one_says_so() -> None:
    (event,) = events(swanlab_records, swanlab_file([*CURVE, finish(1)]))
    assert (event.step, event.time) == (2, START + 99)
    (note,) = notes(swanlab_records, swanlab_file(CURVE))
    assert note.kind == "cut-off"


def test_pictures_are_left_out_with_a_word() -> None:
    (note,) = notes(swanlab_records, swanlab_file([*CURVE, message(14, message(1, b"im")), finish(1)]))
    assert (note.kind, note.count) == ("limit", 1)
    (note,) = notes(swanlab_records, swanlab_file([said("Media", key="im"), said("Footer", success=True)], 1))
    assert (note.kind, note.count) == ("limit", 1)


MIXED = swanlab_file(
    [r for at in range(40) for r in (scalar("a", at, at / 2, at), scalar("b", at, -at, at))] + [finish(1)]
)


@settings(max_examples=60, deadline=None)
@given(st.integers(7, len(MIXED)))
def test_any_beginning_reads_as_far_as_it_goes_and_goes_on_from_there(cut: int) -> None:
    first = batches(swanlab_records, MIXED[:cut])
    rest = batches(swanlab_records, MIXED, since=checkpoint(first))
    true = rows(swanlab_records, MIXED)
    assert {tag: table(first).get(tag, []) + table(rest).get(tag, []) for tag in true} == true
    ended = [batch for batch in [*first, *rest] if getattr(batch, "kind", "") == "run-end"]
    assert len(ended) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(7, len(MIXED) - 1), st.integers(0, 255)), min_size=1, max_size=20))
def test_damage_never_raises_nor_invents(changes: list[tuple[int, int]]) -> None:
    content = bytearray(MIXED)
    for at, byte in changes:
        content[at] = byte
    true = rows(swanlab_records, MIXED)
    for tag, found in rows(swanlab_records, bytes(content)).items():
        assert set(found) <= set(true[tag])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([1, 2]))
def test_any_record_is_read_or_noted(payload: bytes, version: int) -> None:
    assert checkpoint(batches(swanlab_records, swanlab_file([payload], version))) is not None


def test_rows_are_told_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = rows(swanlab_records, MIXED)
    monkeypatch.setattr(swanlab_records, "POINTS", 7)
    assert rows(swanlab_records, MIXED) == at_once
    assert len(points(batches(swanlab_records, MIXED))) > 10


def test_an_unknown_version_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match="version 9, which is not supported") as raised:
        batches(swanlab_records, b":SWL\xd6\xe1\x09rest")
    assert "swanlab sync" in raised.value.hint


@pytest.mark.parametrize(("content", "score"), [(b":SWL\xd6\xe1\x02", 1.0), (b":W&B", 0.0), (b"", 0.0)])
def test_sniff(content: bytes, score: float) -> None:
    assert sniffed(swanlab_records, content, "backup.swanlab") == score
