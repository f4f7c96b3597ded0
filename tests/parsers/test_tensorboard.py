"""Event files: both scalar encodings, damage of every kind, and that the ways of reading agree to the bit."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.parsers import events as e
from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Points
from trainlens.parsers import _crc32c, _event_columns, _event_tiles, tensorboard
from trainlens.sources import Source, compression

Curve = list[tuple[int | None, bytes, float | None]]  # step, bits of the value, time


@dataclass
class Got:
    """What a reading gave, points joined by tag."""

    curves: dict[str, Curve] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    checkpoint: Checkpoint | None = None

    def values(self, tag: str) -> list[float]:
        return [struct.unpack("<d", bits)[0] for _, bits, _ in self.curves[tag]]

    def steps(self, tag: str) -> list[int | None]:
        return [step for step, _, _ in self.curves[tag]]


def read(content: bytes, folder: Path, since: Checkpoint | None = None, name: str = "events.out.tfevents.1.h") -> Got:
    path = folder / name
    path.write_bytes(content)
    return got(tensorboard.read(Source.of(path), since))


def got(batches: Iterator[Batch]) -> Got:
    answer = Got()
    for batch in batches:
        if isinstance(batch, Points):
            assert batch.origin is not None
            times = [None] * len(batch.value) if batch.time is None else batch.time.tolist()
            steps = [None] * len(batch.value) if batch.step is None else batch.step.tolist()
            bits = [struct.pack("<d", number) for number in batch.value.tolist()]
            answer.curves.setdefault(batch.tag, []).extend(zip(steps, bits, times, strict=True))
            answer.places.setdefault(batch.tag, []).extend(batch.origin.tolist())
        elif isinstance(batch, Note):
            assert batch.kind not in answer.notes, "one note for a kind of fault"
            answer.notes[batch.kind] = batch
        elif isinstance(batch, Fact):
            answer.facts[batch.name] = batch.value
        elif isinstance(batch, Event):
            answer.events.append(batch)
        else:
            answer.checkpoint = batch
    return answer


def curve(count: int, tag: str = "loss", first: int = 1) -> list[bytes]:
    return [e.event([e.simple(tag, 1 / step)], step, e.VERSION_TIME + step) for step in range(first, first + count)]


# ---- encodings ----------------------------------------------------------------------------------------------------

ENCODINGS = {
    "simple": (e.simple("x", 0.1), float(np.float32(0.1))),
    "simple zero": (e.simple("x", 0.0), 0.0),
    "float list": (e.tensor("x", e.floats(0.1)), float(np.float32(0.1))),
    "float without metadata": (e.tensor("x", e.floats(2.5), None), 2.5),
    "one-element vector": (e.tensor("x", e.floats(2.5), shape=(1,)), 2.5),
    "not packed": (e.tensor("x", e.whole(1, 1) + b"\x2d" + struct.pack("<f", 2.5)), 2.5),
    "double list": (e.tensor("x", e.doubles(0.1)), 0.1),
    "int list": (e.tensor("x", e.whole(1, 3) + e.message(7, e.varint(-7))), -7.0),
    "int64 list": (e.tensor("x", e.whole(1, 9) + e.whole(10, 1 << 40)), float(1 << 40)),
    "half list": (e.tensor("x", e.whole(1, 19) + e.message(13, e.varint(0x3E00))), 1.5),
    "float content": (e.tensor("x", e.content(1, struct.pack("<f", 0.1))), float(np.float32(0.1))),
    "double content": (e.tensor("x", e.content(2, struct.pack("<d", 0.1))), 0.1),
    "int64 content": (e.tensor("x", e.content(9, struct.pack("<q", -5))), -5.0),
    "bfloat16 content": (e.tensor("x", e.content(14, b"\xc0\x3f")), 1.5),
    "omitted zero": (e.tensor("x", e.whole(1, 1)), 0.0),
}


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("kind", ENCODINGS)
def test_a_scalar_of_every_encoding_is_read(kind: str, rows: int, tmp_path: Path) -> None:
    value, number = ENCODINGS[kind]
    content = e.version() + b"".join(e.event([value], step) for step in range(1, rows + 1))
    answer = read(content, tmp_path)
    assert answer.values("x") == [number] * rows
    assert answer.steps("x") == list(range(1, rows + 1))
    assert not answer.notes


NOT_SCALARS = {
    "vector": e.tensor("x", e.floats(1, 2), shape=(2,)),
    "vector without values": e.tensor("x", e.whole(1, 1), shape=(3,)),
    "empty tensor": e.tensor("x", e.floats(), shape=(0,)),
    "text": e.text("x", "words"),
    "image": e.image("x", 512),
    "hyper-parameters": e.hyperparameters({"lr": 0.1}, {}),
    "another plug-in's number": e.tensor("x", e.floats(1), "hparams"),
    "an empty value": e.message(1, b"x"),
}


@pytest.mark.parametrize("kind", NOT_SCALARS)
def test_what_is_no_scalar_gives_no_point(kind: str, tmp_path: Path) -> None:
    content = e.version() + b"".join(e.event([NOT_SCALARS[kind]], step) for step in range(30))
    answer = read(content, tmp_path)
    assert not answer.curves
    assert answer.notes["no-points"].message.startswith("31 records were read; none is a scalar")


def test_metadata_of_the_first_event_of_a_tag_holds_for_all(tmp_path: Path) -> None:
    def values(step: int) -> list[bytes]:
        first = step == 1
        return [
            e.tensor("mine", e.floats(step), "scalars" if first else None),
            e.tensor("theirs", e.floats(step), "hparams" if first else None),
        ]

    answer = read(b"".join(e.event(values(step), step) for step in range(1, 50)), tmp_path)
    assert answer.values("mine") == list(range(1, 50))
    assert "theirs" not in answer.curves


def test_several_values_in_one_event(tmp_path: Path) -> None:
    values = [e.simple(f"layer{n}/norm", n / 8) for n in range(30)] + [e.simple("layer0/norm", 9.0)]
    answer = read(b"".join(e.event(values, step) for step in range(1, 20)), tmp_path)
    assert len(answer.curves) == 30
    assert answer.values("layer0/norm") == [0.0, 9.0] * 19
    assert answer.steps("layer29/norm") == list(range(1, 20))


def test_tags_are_kept_as_written(tmp_path: Path) -> None:
    tags = ["训练/损失", "perte d’entraînement 🚀", "", "a/b c"]
    content = b"".join(e.event([e.simple(tag, 1)], step) for step in range(1, 9) for tag in tags)
    answer = read(content, tmp_path)
    assert sorted(answer.curves) == sorted(tags)
    assert not answer.notes


def test_tags_that_are_not_utf8_stay_apart(tmp_path: Path) -> None:
    content = b"".join(e.event([e.simple(b"a\xff", 1), e.simple(b"a\xfe", 2)], step) for step in range(1, 9))
    answer = read(content, tmp_path)
    assert answer.values("a\\xff") == [1.0] * 8
    assert answer.values("a\\xfe") == [2.0] * 8
    assert answer.notes["encoding"].count == 2


def test_not_a_number_and_infinity_stay(tmp_path: Path) -> None:
    numbers = [float("nan"), float("inf"), float("-inf")]
    answer = read(b"".join(e.event([e.simple("x", n)], i + 1) for i, n in enumerate(numbers * 5)), tmp_path)
    assert np.array_equal(answer.values("x"), numbers * 5, equal_nan=True)


# ---- steps and clocks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**31, 2**40, 2**49, 2**56, 2**62])
def test_steps_of_any_width(step: int, tmp_path: Path) -> None:
    steps = [step + (n if step else 0) for n in range(12)]
    content = b"".join(e.event([e.simple("x", 1)], one) for one in [7, *steps])
    answer = read(content, tmp_path)
    assert answer.steps("x") == [7, *steps]
    assert not answer.notes


def test_a_wrapped_counter_is_unwrapped_and_told(tmp_path: Path) -> None:
    true = [655_360_000 * n for n in range(1, 40)]
    written = [(step + 2**31) % 2**32 - 2**31 for step in true]
    assert min(written) < 0
    answer = read(b"".join(e.event([e.simple("x", 1)], step) for step in written), tmp_path)
    assert answer.steps("x") == true
    assert "overflow" in answer.notes["disagreement"].message


def test_going_back_over_the_wrap(tmp_path: Path) -> None:
    written = [2**31 - 2, 2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 1, -(2**31), -(2**31) + 1]
    answer = read(b"".join(e.event([e.simple("x", 1)], step) for step in written), tmp_path)
    top = 2**31
    assert answer.steps("x") == [top - 2, top - 1, top, top + 1, top - 1, top, top + 1]


def test_negative_steps_are_kept_and_told(tmp_path: Path) -> None:
    answer = read(b"".join(e.event([e.simple("x", 1)], step) for step in (-2, -1, 0, 1)), tmp_path)
    assert answer.steps("x") == [-2, -1, 0, 1]
    assert answer.notes["disagreement"].count == 2


def test_a_log_without_steps_says_so(tmp_path: Path) -> None:
    content = e.version() + b"".join(e.event([e.simple("x", n)], 0, e.VERSION_TIME + n) for n in range(100))
    answer = read(content + b"".join(curve(3)), tmp_path)
    assert answer.steps("x") == [None] * 100
    assert answer.values("x") == list(range(100))
    assert answer.steps("loss") == [1, 2, 3]
    assert answer.notes["no-steps"].count == 100
    assert answer.checkpoint is None


def test_one_point_at_step_0_has_that_step(tmp_path: Path) -> None:
    answer = read(e.event([e.simple("hp_metric", -1)]) + b"".join(curve(3)), tmp_path)
    assert answer.steps("hp_metric") == [0]
    assert not answer.notes


@pytest.mark.parametrize(
    ("written", "seconds", "kind"),
    [
        (1.76e12, 1.76e9, "not in seconds"),
        (1.76e15, 1.76e9, "not in seconds"),
        (1.76e18, 1.76e9, "not in seconds"),
        (1e11, None, "impossible"),
        (float("inf"), None, "impossible"),
        (float("nan"), None, "impossible"),
        (-5.0, None, "impossible"),
    ],
)
def test_clocks_of_other_units(written: float, seconds: float | None, kind: str, tmp_path: Path) -> None:
    answer = read(b"".join(e.event([e.simple("x", 1)], step, written) for step in range(1, 9)), tmp_path)
    assert [time for _, _, time in answer.curves["x"]] == [seconds] * 8
    assert kind in answer.notes["clock"].message
    assert answer.notes["clock"].count == 8


def test_an_omitted_clock_is_unknown(tmp_path: Path) -> None:
    body = e.whole(2, 5) + e.message(5, e.message(1, e.simple("x", 1)))
    answer = read(e.frame(body) * 2 + e.event([e.simple("x", 1)], 6), tmp_path)
    times = np.array([row[2] for row in answer.curves["x"]], np.float64)
    assert np.array_equal(times, [np.nan, np.nan, e.VERSION_TIME], equal_nan=True)
    assert not answer.notes


# ---- sessions and facts -------------------------------------------------------------------------------------------


def test_sessions_become_events(tmp_path: Path) -> None:
    content = e.session(1) + b"".join(curve(9)) + e.session(1, 9) + e.session(2, 12, "done")
    answer = read(content, tmp_path)
    assert [(one.kind, one.step) for one in answer.events] == [("run-start", 0), ("restart", 9), ("run-end", 12)]
    assert answer.events[2].text == "session stopped: done"
    assert str(answer.events[0].place) == "events.out.tfevents.1.h byte 0"


def test_hyperparameters_and_short_texts_are_facts(tmp_path: Path) -> None:
    values = [
        e.hyperparameters({"lr": 3e-4, "layers": 12}, {"optimizer": "adamw"}),
        e.text("hidden_size/text_summary", "4096"),
        e.text("flash/text_summary", "True"),
        e.text("notes", "two\nlines"),
        e.text("essay", "long " * 100),
    ]
    answer = read(e.event(values) + b"".join(curve(3)), tmp_path)
    assert answer.facts == {"lr": 3e-4, "layers": 12, "optimizer": "adamw", "hidden_size": 4096, "flash": True}


def test_a_fact_is_given_once_also_when_the_file_grows(tmp_path: Path) -> None:
    start = e.event([e.text("width", "64")]) + b"".join(curve(3))
    first = read(start, tmp_path)
    more = e.event([e.text("width", "65"), e.text("depth", "2")], 4) + b"".join(curve(3, first=4))
    assert first.facts == {"width": 64}
    assert read(start + more, tmp_path, first.checkpoint).facts == {"depth": 2}
    assert read(start + more, tmp_path).facts == {"width": 64, "depth": 2}


TEXTS = {
    "args": ('{"lr": 3e-4, "bf16": true, "optim": {"name": "adamw", "betas": [0.9, 0.95]}, "seed": null}',
             {"args.lr": 3e-4, "args.bf16": True, "args.optim.name": "adamw"}),
    "hyperparameters": ("|param|value|\n|-|-|\n|gamma|0.99|\n|env_id|CartPole-v1|\n|cuda|True|",
                        {"hyperparameters.gamma": 0.99, "hyperparameters.env_id": "CartPole-v1",
                         "hyperparameters.cuda": True}),
    "three columns": ("|a|b|c|\n|-|-|-|\n|1|2|3|", {}),
    "no rule": ("|a|b|\n|c|d|\n|e|f|", {}),
    "broken object": ('{"lr": 3e-4, ', {}),
    "a list": ("[1, 2]", {"a list": "[1, 2]"}),
    "deep": ('{"a":' * 50_000 + "1" + "}" * 50_000, {}),
    "too long": ('{"a": "' + "x" * 300_000 + '", "b": 1}', {}),
}  # fmt: skip


@pytest.mark.parametrize("tag", TEXTS)
def test_texts_that_state_several_values(tag: str, tmp_path: Path) -> None:
    text, stated = TEXTS[tag]
    answer = read(e.event([e.text(f"{tag}/text_summary", text)]) + b"".join(curve(3)), tmp_path)
    assert answer.facts == stated
    assert answer.steps("loss") == [1, 2, 3]


@pytest.mark.parametrize(
    ("status", "time", "kinds"), [(1, 1.77e9, ["run-end"]), (2, 1.77e9, ["exit-code"]), (3, 1.77e9, []), (1, 0.0, [])]
)
def test_the_end_of_a_session_of_hyperparameters(status: int, time: float, kinds: list[str], tmp_path: Path) -> None:
    ended = e.event([e.session_end(status, time)])
    answer = read(e.event([e.hyperparameters({"lr": 0.1}, {})]) + b"".join(curve(3)) + ended, tmp_path)
    assert [one.kind for one in answer.events] == kinds
    assert [one.time for one in answer.events] == [time] * len(kinds)


def test_a_file_that_holds_its_version_alone_says_so(tmp_path: Path) -> None:
    answer = read(e.version(), tmp_path)
    assert answer.notes["no-points"].message.startswith("only the file's version was written")


def test_media_are_counted_where_there_is_no_point(tmp_path: Path) -> None:
    old = [e.event([e.image("i", 512)], step) for step in range(3)]
    new = [e.event([e.tensor("h", e.floats(1, 2), "histograms", (2,))], step) for step in range(2)]
    message = read(e.version() + b"".join(old + new), tmp_path).notes["no-points"].message
    assert message == "6 records were read; none is a scalar (it holds 2 histograms, 3 images)"


@pytest.fixture
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches and tables so small that a test file has several of each."""
    monkeypatch.setattr(tensorboard, "_SMALLEST", 600)
    monkeypatch.setattr(_event_tiles, "_BLOCK", 400)
    monkeypatch.setattr(_event_tiles, "_FEWEST_ROWS", 3)


# ---- damage -------------------------------------------------------------------------------------------------------


def flipped(content: bytes, at: int, bits: int = 0x5A) -> bytes:
    return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]


def test_a_record_with_a_false_checksum_is_left_out_exactly(tmp_path: Path) -> None:
    records = curve(60)
    start = sum(map(len, records[:37]))
    answer = read(flipped(b"".join(records), start + 40), tmp_path)
    assert answer.steps("loss") == [step for step in range(1, 61) if step != 38]
    assert (answer.notes["checksum"].byte, answer.notes["checksum"].count) == (start, 1)
    assert list(answer.notes) == ["checksum"]


@pytest.mark.usefixtures("small_stretches")
@pytest.mark.parametrize("byte", [14, 22, 32, 36, 40])  # clock, step, tag, value, payload checksum
def test_each_checksum_is_verified_in_a_table(byte: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    whole = _event_tiles.tiles

    def spy(*given: Any) -> Any:
        pieces, count = whole(*given)
        rows.append(count)
        return pieces, count

    monkeypatch.setattr(tensorboard, "tiles", spy)
    records = curve(900, first=200)
    records[600] = flipped(records[600], byte)
    answer = read(b"".join(records), tmp_path)
    assert sum(rows) > 800
    assert answer.steps("loss") == [step for step in range(200, 1100) if step != 800]
    assert list(answer.notes) == ["checksum"]


def test_like_damages_do_not_cancel(tmp_path: Path) -> None:
    records = curve(400)
    content = b"".join(records)
    for number in (50, 51, 300, 301):
        content = flipped(content, sum(map(len, records[:number])) + 15)
    answer = read(content, tmp_path)
    assert len(answer.steps("loss")) == 396
    assert answer.notes["checksum"].count == 4


def _places(record: bytes) -> st.SearchStrategy[int]:
    """Bytes of one record, its edges more often: the length, its checksum, the payload's ends and checksum."""
    size = len(record)
    return st.one_of(st.sampled_from([0, 7, 8, 11, 12, size - 5, size - 4, size - 1]), st.integers(0, size - 1))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.usefixtures("small_stretches")
def test_equal_damages_at_several_places_invent_no_point(tmp_path: Path, data: st.DataObject) -> None:
    """The same flips in several records cancel in a sum over all of them; also where stretches and tables end."""
    tags = ["loss", "train/lr"] if data.draw(st.booleans()) else ["loss"]
    records = [e.event([e.simple(tag, 1 / n)], n) for n in range(200, 320) for tag in tags]
    order = data.draw(st.randoms(use_true_random=False))
    if data.draw(st.booleans()):
        order.shuffle(records)
    flips = data.draw(st.lists(st.tuples(_places(records[0]), st.integers(1, 255)), min_size=1, max_size=3))
    hit = data.draw(st.sets(st.integers(1, len(records) - 1), min_size=1, max_size=6))
    original = list(records)
    for number in hit:
        for at, bits in flips:
            records[number] = flipped(records[number], min(at, len(records[number]) - 1), bits)
    answer = read(b"".join(records), tmp_path)
    written = {tag: set(rows) for tag, rows in read(b"".join(original), tmp_path, name="tfevents.whole").curves.items()}
    spared = read(
        b"".join(one for one, was in zip(records, original, strict=True) if one == was), tmp_path, name="tfevents.left"
    )
    for tag, rows in answer.curves.items():
        assert set(rows) <= written[tag]
    assert answer.curves == spared.curves
    assert {"checksum", "damaged", "cut-off"} & set(answer.notes) or records == original


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 40))
@pytest.mark.usefixtures("small_stretches")
def test_random_damage_invents_no_point(seed: int, count: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    content = bytearray(b"".join(e.event([e.simple(chance.choice("abc"), n)], n) for n in range(1, 300)))
    whole = read(bytes(content), tmp_path, name="tfevents.whole")
    for _ in range(count):
        kind, at = chance.randrange(4), chance.randrange(1, len(content))
        if kind == 0:
            content[at] ^= chance.randrange(1, 256)
        elif kind == 1:
            del content[at : at + chance.randrange(1, 60)]
        elif kind == 2:
            content[at:at] = chance.randbytes(chance.randrange(1, 60))
        else:
            content[at : at + 20] = bytes(len(content[at : at + 20]))
    answer = read(bytes(content), tmp_path)
    for tag, rows in answer.curves.items():
        assert set(rows) <= set(whole.curves[tag])


def test_all_records_of_a_tag_are_damaged(tmp_path: Path) -> None:
    records = [one for pair in zip(curve(50), curve(50, "lr"), strict=True) for one in pair]
    records[1::2] = [flipped(record, 30) for record in records[1::2]]
    answer = read(b"".join(records), tmp_path)
    assert list(answer.curves) == ["loss"]
    assert answer.notes["checksum"].count == 50


def test_a_reading_may_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"".join(curve(50)))
    batches = tensorboard.read(Source.of(path))
    assert isinstance(next(batches), Points)
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("shuffled", [False, True])
def test_more_tags_than_repetitions(shuffled: bool, tmp_path: Path) -> None:
    tags = [f"layer{number:03d}/norm" for number in range(600)]
    order = random.Random(1)
    records = []
    for step in range(1, 6):
        if shuffled:
            order.shuffle(tags)
        records += [e.event([e.simple(tag, step)], step) for tag in tags]
    answer = read(b"".join(records), tmp_path)
    assert all(answer.steps(tag) == [1, 2, 3, 4, 5] for tag in tags)


def test_a_broken_length_loses_its_record_alone(tmp_path: Path) -> None:
    records = curve(60)
    start = sum(map(len, records[:37]))
    answer = read(flipped(b"".join(records), start), tmp_path)
    assert answer.steps("loss") == [step for step in range(1, 61) if step != 38]
    assert answer.notes["damaged"].byte == start
    assert f"{len(records[37])} bytes at 1 place" in answer.notes["damaged"].message


def test_zero_blocks_are_no_records(tmp_path: Path) -> None:
    content = b"".join(curve(30))
    answer = read(content + bytes(4096), tmp_path)
    assert len(answer.steps("loss")) == 30
    assert answer.notes["damaged"].byte == len(content)
    assert answer.checkpoint is not None
    assert answer.checkpoint.offset == len(content)
    answer = read(content + bytes(4096) + b"".join(curve(30, first=31)), tmp_path)
    assert answer.steps("loss") == list(range(1, 61))


def test_bytes_missing_inside_a_record_lose_that_record_alone(tmp_path: Path) -> None:
    records = curve(60)
    records[37] = records[37][:20] + records[37][30:]
    answer = read(b"".join(records), tmp_path)
    assert answer.steps("loss") == [step for step in range(1, 61) if step != 38]
    assert list(answer.notes) == ["damaged"]


def test_a_half_written_image_with_records_after_it(tmp_path: Path) -> None:
    half = e.event([e.image("i", 1 << 16)], 5)[:30_000]
    answer = read(b"".join(curve(9)) + half + b"".join(curve(9, first=10)), tmp_path)
    assert answer.steps("loss") == list(range(1, 19))


def test_records_longer_than_a_stretch(tmp_path: Path) -> None:
    big = e.event([e.image("i", 20 << 20)], 5)
    answer = read(b"".join(curve(9)) + big + b"".join(curve(9, first=10)), tmp_path)
    assert answer.steps("loss") == list(range(1, 19))
    assert not answer.notes


def test_a_record_inside_a_payload_is_no_record(tmp_path: Path) -> None:
    hidden = e.event([e.simple("ghost", 1)], 3)
    holder = e.event([e.message(1, b"i") + e.message(4, hidden * 3)], 3)
    answer = read(b"".join(one + holder for one in curve(20)), tmp_path)
    assert sorted(answer.curves) == ["loss"]
    assert not answer.notes


def test_a_true_checksum_over_nonsense_is_told(tmp_path: Path) -> None:
    answer = read(
        b"".join(curve(5)) + e.frame(b"\x09\x01") + e.frame(b"\xff" * 40) + b"".join(curve(5, first=6)), tmp_path
    )
    assert len(answer.steps("loss")) == 10
    assert answer.notes["not-understood"].count == 2


def test_an_empty_file(tmp_path: Path) -> None:
    answer = read(b"", tmp_path)
    assert answer.notes["no-points"].message == "empty file"


def test_compressed(tmp_path: Path) -> None:
    import gzip

    content = gzip.compress(e.version() + b"".join(curve(50)))
    answer = read(content, tmp_path, name="events.out.tfevents.1.h.gz")
    assert answer.steps("loss") == list(range(1, 51))
    assert answer.checkpoint is None


# ---- sniffing -----------------------------------------------------------------------------------------------------

HEADS = [
    (e.version(), "1760000900.tfevents", 1.0),
    (e.version(), "no_suffix_at_all", 1.0),
    (curve(1)[0], "x", 1.0),
    (e.event([e.image("i", 1 << 17)], 5)[: 64 << 10], "x", 0.9),
    (e.version()[:20], "x", 0.9),
    (flipped(e.version(), 2) + curve(1)[0], "a.tfevents.b", 0.9),
    (b"", "events.out.tfevents.1.h", 0.9),
    (b"", "empty.log", 0.0),
    (bytes(4096), "events.out.tfevents.1.h", 0.6),
    (bytes(4096), "x", 0.0),
    (e.frame(b"\x0a\x05hello"), "train.tfrecord", 0.0),
    (b"step 1 loss 2.0\n" * 50, "tfevents.txt", 0.0),
    ((b"events.out.tfevents" + bytes(238) + b"ustar\x0000").ljust(512, b"\0") + e.version(), "old.tfevents.tar", 0.0),
]


@pytest.mark.parametrize(("head", "name", "score"), HEADS)
def test_sniff(head: bytes, name: str, score: float) -> None:
    assert tensorboard.sniff(head, Path(name)) == score


# ---- properties ---------------------------------------------------------------------------------------------------

Point = tuple[str, int, float, float]  # tag, step, number, time
Written = list[tuple[bytes, list[Point]]]


def _record(kind: int, tag: str, step: int, time: float, number: float) -> tuple[bytes, list[Point]]:
    single = float(np.float32(number))
    point = [(tag, step, single, time)]
    other = tag + "/2"
    table: list[Callable[[], tuple[bytes, list[Point]]]] = [
        lambda: (e.event([e.simple(tag, number)], step, time), point),
        lambda: (e.event([e.tensor(tag, e.floats(number), None)], step, time), point),
        lambda: (e.event([e.tensor(tag, e.content(1, struct.pack("<f", number)))], step, time), point),
        lambda: (e.event([e.tensor(tag, e.doubles(number))], step, time), [(tag, step, number, time)]),
        lambda: (
            e.event([e.simple(tag, number), e.simple(other, -number)], step, time),
            [*point, (other, step, -single, time)],
        ),
        lambda: (e.event([e.text("text", tag * 9)], step, time), []),
        lambda: (e.event([e.image("image", 2048)], step, time), []),
    ]
    return table[kind]()


@st.composite
def written(draw: st.DrawFn) -> Written:
    """Blocks of records; each block repeats a short period, as loggers do, or is a single odd record."""
    records: Written = [(e.version(), [])]
    step, time = draw(st.sampled_from([1, 100, 16_300, 2_097_100])), 1.76e9
    tags = st.sampled_from(["a", "loss", "train/loss", "train/lose", "é/x", "a_rather_long/name_of_a_tag"])
    chosen = random.Random(draw(st.integers(0, 1 << 30)))
    for _ in range(draw(st.integers(1, 4))):
        period = draw(st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6]), tags), min_size=1, max_size=4))
        for _ in range(draw(st.sampled_from([1, 2, 30]))):
            for kind, tag in period:
                time += chosen.random()
                records.append(_record(kind, tag, step, time, chosen.gauss(0, 3)))
            step += 1
    return records


def expected(records: Written) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for _, points in records:
        for tag, step, number, time in points:
            curves.setdefault(tag, []).append((step, struct.pack("<d", number), time))
    return curves


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(records=written())
def test_every_way_of_reading_gives_what_was_written(
    records: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(record for record, _ in records)
    want = expected(records)
    assert read(content, tmp_path).curves == want
    for name, value in (("_SMALLEST", 600), ("_LARGEST", 900)):
        monkeypatch.setattr(tensorboard, name, value)
    assert read(content, tmp_path).curves == want
    with monkeypatch.context() as patch:
        patch.setattr(tensorboard, "period", lambda _: 0)
        assert read(content, tmp_path).curves == want
        patch.setattr(_event_columns, "LONGEST", 0)
        assert read(content, tmp_path).curves == want


@quick
@given(records=written(), share=st.floats(0, 1))
@pytest.mark.usefixtures("small_stretches")
def test_a_prefix_gives_a_prefix_and_the_rest_goes_on(records: Written, share: float, tmp_path: Path) -> None:
    content = b"".join(record for record, _ in records)
    cut = int(len(content) * share)
    ends = np.cumsum([len(record) for record, _ in records])
    whole = int((ends <= cut).sum())
    first = read(content[:cut], tmp_path)
    assert first.curves == expected(records[:whole])
    assert ("cut-off" in first.notes) == (cut > 0 and cut not in ends)
    if first.checkpoint is None:
        return
    assert first.checkpoint.offset == (ends[whole - 1] if whole else 0)
    rest = read(content, tmp_path, first.checkpoint)
    assert rest.curves == expected(records[whole:])


@quick
@given(records=written(), share=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
@pytest.mark.usefixtures("small_stretches")
def test_one_damaged_byte_loses_its_record_and_changes_nothing(
    records: Written, share: float, bits: int, tmp_path: Path
) -> None:
    content = b"".join(record for record, _ in records)
    at = int(len(content) * share)
    ends = np.cumsum([len(record) for record, _ in records])
    hit = int(np.searchsorted(ends, at, side="right"))
    answer = read(flipped(content, at, bits), tmp_path)
    assert answer.curves == expected(records[:hit] + records[hit + 1 :])
    assert {"checksum", "damaged", "cut-off"} & set(answer.notes)


@quick
@given(noise=st.binary(max_size=400), at=st.integers(0, 3000))
@pytest.mark.usefixtures("small_stretches")
def test_noise_between_records_loses_nothing_after_it(noise: bytes, at: int, tmp_path: Path) -> None:
    records = curve(60)
    number = at % 59 + 1  # never first, where noise may look like a compressed file
    answer = read(b"".join(records[:number]) + noise + b"".join(records[number:]), tmp_path)
    assert answer.steps("loss") == list(range(1, 61))


@quick
@given(content=st.binary(max_size=2000))
def test_any_bytes_are_read_without_an_error(content: bytes, tmp_path: Path) -> None:
    assume(not compression(content))
    answer = read(content, tmp_path)
    assert not answer.curves
    assert answer.notes


def test_origins_are_the_records_bytes(tmp_path: Path) -> None:
    records = [one for pair in zip(curve(3000), curve(3000, "lr"), strict=True) for one in pair]
    starts = np.cumsum([0, *map(len, records)])[:-1]
    answer = read(b"".join(records), tmp_path)
    assert answer.places["loss"] == starts[0::2].tolist()
    assert answer.places["lr"] == starts[1::2].tolist()


# ---- checksums ----------------------------------------------------------------------------------------------------


def test_checksums_of_pieces_of_any_length() -> None:
    rng = np.random.default_rng(1)
    buffer = rng.integers(0, 256, 300_000, dtype=np.uint8)
    lengths = np.array(
        [0, 1, 2, 3, 4, 63, 64, 65, 128, 129, 1024, 1025, 5000, 100_001, *rng.integers(0, 3000, 100).tolist()]
    )
    starts = rng.integers(0, 190_000, len(lengths))
    pieces = [buffer[start : start + length].tobytes() for start, length in zip(starts, lengths, strict=True)]
    want = [google_crc32c.value(piece) for piece in pieces]
    assert _crc32c.of_ranges(buffer, starts, lengths).tolist() == want
    assert [_crc32c.checksum(piece) for piece in pieces[:8]] == want[:8]


def test_a_far_byte_adds_what_seven_nearer_ones_do() -> None:
    nearer = [_crc32c.byte_table(place) for place in _crc32c._NEARER]
    assert np.array_equal(_crc32c.byte_table(_crc32c._FAR), np.bitwise_xor.reduce(nearer, axis=0))


@pytest.mark.parametrize("following", [0, 1, 31, 32, 33, 64, 1000])
def test_tables_are_linear_parts_of_the_checksum(following: int) -> None:
    after = bytes(following)
    zero = google_crc32c.value(bytes(2) + after)
    table = _crc32c.pair_table(following)
    for pair in (0, 1, 0x100, 0xABCD, 0xFFFF):
        assert table[pair] == google_crc32c.value(pair.to_bytes(2, "little") + after) ^ zero
