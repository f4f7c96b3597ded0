"""Archives read as the directories they hold."""

from __future__ import annotations

import io
import sqlite3
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from trainlens import reading, settings
from trainlens.errors import InputError
from trainlens.sources import Found, archives, find, finding

LOG = b"".join(b'{"step": %d, "loss": %g}\n' % (step, 3 / step) for step in range(1, 2000))
FILES = {"run/a/log.jsonl": LOG, "run/b/log.jsonl": LOG + LOG[-400:], "notes.txt": b"nothing\n"}
MODES = {"x.tar": "w", "x.tgz": "w:gz", "x.tar.bz2": "w:bz2", "x.tar.xz": "w:xz"}
METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def tar(path: Path, files: Mapping[str, bytes] = FILES, mode: str = "") -> Path:
    with tarfile.open(path, mode or MODES[path.name]) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, files: Mapping[str, bytes] = FILES, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def held(found: Found) -> dict[str, bytes]:
    for source in found.sources:
        with source.mapped() as view:
            assert bytes(view) == b"".join(source.blocks(1000)), source.name
        assert source.head(100) == b"".join(source.blocks())[:100]
        assert b"".join(source.blocks(start=7)) == b"".join(source.blocks())[7:]
    return {source.name: b"".join(source.blocks()) for source in found.sources}


@pytest.mark.parametrize("name", MODES)
def test_members_of_tar(tmp_path: Path, name: str) -> None:
    found = find(tar(tmp_path / name))
    assert held(found) == FILES
    assert found.unread == ()


@pytest.mark.parametrize("method", METHODS)
def test_members_of_zip(tmp_path: Path, method: str) -> None:
    assert held(find(zipped(tmp_path / "x.zip", method=METHODS[method]))) == FILES


def test_an_archive_in_a_directory_is_a_directory_of_it(tmp_path: Path) -> None:
    zipped(tmp_path / "old.zip")
    (tmp_path / "log.jsonl").write_bytes(LOG)
    found = find(tmp_path)
    assert held(found) == {"log.jsonl": LOG, **{f"old.zip/{name}": content for name, content in FILES.items()}}
    names = {run.name for run in reading.read([tmp_path], settings.load({}, [])).runs}
    assert names == {tmp_path.name, "old.zip/run/a", "old.zip/run/b"}


def test_a_large_archive_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tar(tmp_path / "x.tar")
    monkeypatch.setattr(finding, "ARCHIVE_MET", 100)
    assert [(report.path, report.state) for report in find(tmp_path).unread] == [("x.tar", "ignored")]
    assert held(find(tmp_path / "x.tar")) == FILES


@pytest.mark.parametrize("name", ["x.tar", "x.tgz"])
def test_a_cut_tar_gives_what_came_before(tmp_path: Path, name: str) -> None:
    path = tar(tmp_path / name)
    path.write_bytes(path.read_bytes()[: -int(path.stat().st_size * 0.6)])
    found = find(path)
    content = held(found)
    assert content["run/a/log.jsonl"] == LOG or LOG.startswith(content["run/a/log.jsonl"])
    assert len(content["run/a/log.jsonl"]) > 1000
    assert [report.state for report in found.unread] == ["not-read"]


@pytest.mark.parametrize("name", ["x.tar", "x.tgz"])
def test_links_devices_and_ways_out_are_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with tarfile.open(path, MODES[name]) as archive:  # type: ignore[call-overload]
        for odd, kind in {
            "link": tarfile.SYMTYPE,
            "hard": tarfile.LNKTYPE,
            "null": tarfile.CHRTYPE,
            "p": tarfile.FIFOTYPE,
        }.items():
            member = tarfile.TarInfo(odd)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        for bad in ("../../out.jsonl", "/abs.jsonl", "ok.jsonl", "a/../b.jsonl"):
            member = tarfile.TarInfo(bad)
            member.size = len(LOG)
            archive.addfile(member, io.BytesIO(LOG))
    found = find(path)
    assert list(held(found)) == ["ok.jsonl"]
    assert [report.reason[:2] for report in found.unread] == ["7 "]


def test_ways_out_of_a_zip(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"../up.jsonl": LOG, "/abs.jsonl": LOG, "C:\\dos.jsonl": LOG, "ok.jsonl": LOG})
    assert list(held(find(path))) == ["ok.jsonl"]


def test_members_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"locked.jsonl": LOG, "ok.jsonl": LOG}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[6] |= 1  # encrypted, in the member's own header and in the table of contents
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    found = find(path)
    assert list(held(found)) == ["ok.jsonl"]
    assert "password" in found.unread[0].reason


def test_a_damaged_member_gives_what_came_before(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"log.jsonl": LOG}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[len(LOG) - 5] ^= 1
    path.write_bytes(bytes(content))
    (source,) = find(path).sources
    assert len(b"".join(source.blocks())) > len(LOG) // 2
    assert list(source.faults) == ["damaged"]


def test_a_zip_without_its_end_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="zip -FF"):
        find(path)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["arr_0.npy", "arr_1.npy"], "numpy"),
        (["archive/data.pkl", "archive/data/0", "archive/version"], "checkpoint"),
        (["trainer/log.py", "trainer-1.dist-info/WHEEL"], "wheel"),
        (["[Content_Types].xml", "word/document.xml"], "office"),
        (["META-INF/MANIFEST.MF", "a.class"], "Java"),
    ],
)
def test_zips_that_hold_no_logs_are_left_alone(tmp_path: Path, names: list[str], what: str) -> None:
    found = find(zipped(tmp_path / "x.zip", dict.fromkeys(names, LOG)))
    assert found.sources == ()
    assert what in found.unread[0].reason


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MEMBERS", 2)
    for path in (tar(tmp_path / "x.tar"), tar(tmp_path / "x.tgz"), zipped(tmp_path / "x.zip")):
        found = find(path)
        assert len(found.sources) == 2
        assert "first 2 members" in found.unread[0].reason
    monkeypatch.setattr(archives, "FREE", len(LOG))
    monkeypatch.setattr(archives, "RATIO", 1)
    assert "1 times its size" in find(zipped(tmp_path / "y.zip")).unread[-1].reason


def test_a_database_in_an_archive_can_be_read(tmp_path: Path) -> None:
    database = tmp_path / "trackio.db"
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE metrics (id INTEGER, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)"
        )
        rows = [(step, "2025-10-01T00:00:00", "first", step, f'{{"loss": {1 / (step + 1)}}}') for step in range(50)]
        connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    path = zipped(tmp_path / "x.zip", {"trackio.db": database.read_bytes()})
    (run,) = reading.read([path], settings.load({}, [])).runs
    assert run.sources[0].points == 50


def test_weights_in_an_archive_cost_nothing(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tgz", {"model.safetensors": bytes(10_000), **FILES})
    found = find(path)
    assert held(found) == FILES
    assert [(report.path, report.state) for report in found.unread] == [("model.safetensors", "ignored")]
