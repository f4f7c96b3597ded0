"""Compressed files: whole, cut, damaged, one behind the other, and made to fill the memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from trainlens import reading, settings
from trainlens.model import Note
from trainlens.sources import Source, compression, source, unpacking

_RANDOM = random.Random(3)
TEXT = b"".join(b'{"step": %d, "loss": %.6f}\n' % (step, _RANDOM.random()) for step in range(20_000))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda plain: zstandard.ZstdCompressor(write_checksum=True).compress(plain),
}
KINDS = pytest.mark.parametrize("kind", PACK)


def unpack(tmp_path: Path, content: bytes) -> tuple[bytes, list[Note]]:
    path = tmp_path / "log"
    path.write_bytes(content)
    found = Source.of(path)
    with found.mapped() as view:
        assert b"".join(found.blocks(1000)) == view
    return b"".join(found.blocks()), list(found.faults.values())


@KINDS
def test_members_and_padding_are_one_stream(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](TEXT)
    assert compression(packed) == kind
    assert unpack(tmp_path, packed) == (TEXT, [])
    assert unpack(tmp_path, packed + packed) == (TEXT + TEXT, [])
    assert unpack(tmp_path, packed + bytes(200_000) + packed + bytes(8)) == (TEXT + TEXT, [])


@KINDS
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_missing_end_is_told_with_its_byte(tmp_path: Path, kind: str, share: float) -> None:
    packed = PACK[kind](TEXT)
    cut = int(len(packed) * share)
    plain, (note,) = unpack(tmp_path, packed[:cut])
    assert TEXT.startswith(plain)
    assert plain or kind == "bz2"  # whose blocks are large
    assert (note.kind, note.byte) == ("cut-off", cut)


@KINDS
def test_what_stands_before_damage_is_read(tmp_path: Path, kind: str) -> None:
    first = PACK[kind](TEXT)
    second = bytearray(PACK[kind](TEXT))
    second[len(second) // 2 :] = bytes(byte ^ 0xA5 for byte in second[len(second) // 2 :])
    plain, notes = unpack(tmp_path, first + bytes(second))
    assert plain.startswith(TEXT)
    (note,) = notes
    assert note.kind in ("damaged", "checksum")
    assert note.byte is not None
    assert note.byte >= len(first)


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_false_checksum_loses_nothing(tmp_path: Path, kind: str) -> None:
    packed = bytearray(PACK[kind](TEXT))
    packed[-6 if kind == "gz" else -2] ^= 0x10
    plain, (note,) = unpack(tmp_path, bytes(packed))
    assert (plain, note.kind) == (TEXT, "checksum")


@KINDS
def test_garbage_behind_the_end_is_left_out(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](TEXT)
    plain, (note,) = unpack(tmp_path, packed + b"no stream at all")
    assert (plain, note.kind, note.byte) == (TEXT, "damaged", len(packed))


@KINDS
def test_a_bomb_is_broken_off(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE", 1 << 20)
    monkeypatch.setattr(unpacking, "RATIO", 50)
    path = tmp_path / "log"
    path.write_bytes(PACK[kind](bytes(400 << 20 if kind == "zst" else 40 << 20)))
    found = Source.of(path)
    assert sum(map(len, found.blocks())) < (200 << 20 if kind == "zst" else 25 << 20)
    assert list(found.faults) == ["limit"]


def test_what_is_large_when_unpacked_is_mapped_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_IN_MEMORY", 1000)
    assert unpack(tmp_path, gzip.compress(TEXT)) == (TEXT, [])


@KINDS
def test_the_note_comes_with_the_points(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](TEXT)
    (tmp_path / f"log.jsonl.{kind}").write_bytes(
        packed[: int(len(packed) * 0.9)] if kind != "bz2" else packed + b"x" * 20
    )
    run, *_ = reading.read([tmp_path], settings.load({}, [])).runs
    (report,) = run.sources
    assert report.points > 10_000
    assert [note.kind for note in report.notes if "stream" in note.message] == [
        "damaged" if kind == "bz2" else "cut-off"
    ]


def test_a_file_damaged_from_the_start_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(TEXT)[:10] + b"\xff" * 50)
    name, report = reading.choose(Source.of(path))
    assert (name, report.state) == (None, "not-read")
    assert "byte 10" in report.reason


@pytest.mark.parametrize(
    ("magic", "way_out"), [(b"7z\xbc\xaf\x27\x1c", "7z x"), (b"Rar!\x1a\x07\0", "unrar"), (b"\x04\x22\x4d\x18", "lz4")]
)
def test_what_must_be_unpacked_by_other_means_is_told(tmp_path: Path, magic: bytes, way_out: str) -> None:
    path = tmp_path / "logs"
    path.write_bytes(magic + bytes(100))
    assert way_out in reading.choose(Source.of(path))[1].reason
