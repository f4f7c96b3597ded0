"""Files at an address: a server of this process and the file system that fsspec keeps in memory."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import pickle
import sys
import tarfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from trainlens import reading, settings
from trainlens.errors import InputError
from trainlens.sources import find, remote, shown

LOG = b"".join(b'{"step": %d, "loss": %g}\n' % (step, 3 / step) for step in range(1, 9000))


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        type(self).asked.append(f"{self.path} {self.headers.get('Range', '')}")
        if "forbidden" in self.path:
            self.send_error(403)
        else:
            super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    Quiet.asked = []
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{served.server_port}", tmp_path
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def memory() -> str:
    place = f"memory://{uuid.uuid4().hex}"
    system = fsspec.filesystem("memory")
    system.pipe(f"{place}/a/log.jsonl", LOG)
    system.pipe(f"{place}/b/log.jsonl.gz", gzip.compress(LOG))
    return place


def test_a_directory_far_away_is_a_directory(memory: str) -> None:
    found = reading.read([memory], settings.load({}, []))
    assert {run.name: run.sources[0].points for run in found.runs} == {"a": 8999, "b": 8999}
    assert found.runs[0].path == f"{memory}/a"


def test_a_file_is_fetched_once_also_by_another_process(memory: str) -> None:
    (source, _) = find(memory).sources
    with source.mapped() as view:
        assert view == LOG
    fsspec.filesystem("memory").rm(memory, recursive=True)
    assert b"".join(pickle.loads(pickle.dumps(source)).blocks()) == LOG


def test_an_archive_far_away(memory: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("run/log.jsonl")
        member.size = len(LOG)
        archive.addfile(member, io.BytesIO(LOG))
    fsspec.filesystem("memory").pipe(f"{memory}.tar.gz", packed.getvalue())
    (source,) = find(f"{memory}.tar.gz").sources
    assert (source.name, b"".join(source.blocks())) == ("run/log.jsonl", LOG)


def test_a_web_server(server: tuple[str, Path]) -> None:
    host, root = server
    (root / "x" / "deep er").mkdir(parents=True)
    (root / "x" / "deep er" / "log.jsonl").write_bytes(LOG)
    (root / "x" / "weights.pt").write_bytes(b"PK\x03\x04" + bytes(500_000))
    for address in (f"http://{host}/x", f"http://{host}/x/"):
        found = find(address)
        assert {source.name: source.size for source in found.sources} == {
            "deep er/log.jsonl": len(LOG),
            "weights.pt": 500_004,
        }
    work, unread = reading.work([f"http://{host}/x/"], settings.load({}, []))
    assert [file.source.name for run in work for file in run.files] == ["deep er/log.jsonl"]
    assert [report.state for report in unread] == ["ignored"]
    (source,) = (work[0].files[0].source,)
    assert b"".join(source.blocks()) == LOG


def test_secrets_are_used_and_never_shown(server: tuple[str, Path]) -> None:
    host, root = server
    (root / "log.jsonl").write_bytes(LOG)
    address = f"http://bob:hunter2@{host}/log.jsonl?X-Signature=abc123"
    found = find(address)
    assert any("X-Signature=abc123" in asked for asked in Quiet.asked)
    (run,) = reading.read([address], settings.load({}, [])).runs
    assert run.sources[0].points == 8999
    for told in (repr(found), repr(run), shown(address)):
        assert "hunter2" not in told
        assert "abc123" not in told
    with pytest.raises(InputError) as problem:
        reading.read([address.replace("log.jsonl", "none")], settings.load({}, []))
    assert "hunter2" not in str(problem.value)
    assert "abc123" not in str(problem.value)


def test_what_fails_is_told_in_words(server: tuple[str, Path]) -> None:
    host, _ = server
    for address, words in {
        f"http://{host}/nothing": "is not there",
        "http://127.0.0.1:9/x": "cannot be reached",
        f"http://{host}/forbidden/": "no rights",
        "memory://nowhere-at-all": "is not there",
    }.items():
        with pytest.raises(InputError, match=words):
            find(address)


def test_without_the_extra_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    remote._system.cache_clear()
    with pytest.raises(InputError, match="needs fsspec") as problem:
        find("s3://user:pw@bucket/run")
    assert "pip install fsspec s3fs" in problem.value.hint
    assert "pw" not in str(problem.value)
    remote._system.cache_clear()


def test_a_driver_that_is_missing_is_named() -> None:
    pytest.importorskip("fsspec")
    for address, driver in {"sftp://host/x": "paramiko", "abfs://box/x": "adlfs"}.items():
        with pytest.raises(InputError, match=f"pip install fsspec {driver}"):
            find(address)
