"""Files at an address, by fsspec and the drivers it knows: listed, their heads fetched, read once. Part of `sources`.

fsspec and the driver of the scheme are an extra (`trainlens[remote]`) and imported here alone. Credentials come from
where the driver looks for them; what an address itself holds of them (user:password@, a token, a signature) is used and
never shown.

Protocols: https://filesystem-spec.readthedocs.io/en/latest/api.html#built-in-implementations
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trainlens.errors import InputError
from trainlens.model import SourceReport
from trainlens.sources import archives
from trainlens.sources.holding import Far, Stretch, fresh, room
from trainlens.sources.source import HEAD, Source

_DRIVERS = {
    "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "http": "aiohttp",
    "https": "aiohttp", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs", "hdfs": "pyarrow", "ssh": "paramiko",
    "sftp": "paramiko", "memory": "",
}  # fmt: skip
_FETCHED = re.compile(r"\.(db|sqlite3?|swanlab)$", re.I)  # a library reads these and wants a file
_SKIPPED = re.compile(r"(^|/)(\.|venv/|node_modules/|__pycache__/|site-packages/)")
_SECRET = re.compile(r"(?<=://)[^/@\s'\"]*@|[?#][^\s'\")>]*|(?i:bearer|token|key|signature|password)[=: ]+[^\s&'\"]+")
_DEPTH = 12


class _TooLargeError(Exception):
    pass


def listed(address: str, name: str, most: int) -> tuple[tuple[Source, ...], tuple[SourceReport, ...]]:
    """The files at and below an address; `name` is how it is shown. InputError when there is nothing to read."""
    system, root = _system(address, name)
    with _told(name):
        about = _about(system, root, address)
    if about is not None:
        file = _source(address, posixpath.basename(unquote(urlsplit(name).path)) or "file", about, name)
        opened = _opened(file)
        return ((file,), ()) if opened is None else (tuple(opened[0]), tuple(opened[1]))
    sources: list[Source] = []
    unread: list[SourceReport] = []
    for place, below, its in _files(system, root, name):
        if len(sources) >= most:
            reason = f"only the first {most:,} files are read: name a directory further down"
            unread.append(SourceReport(name, "", state="not-read", reason=reason))
            break
        whole = place if "://" in place else system.unstrip_protocol(place)
        sources.append(_source(_signed(whole, address), below, its, name))
    if not sources:
        raise InputError("is empty, or is not there: no file at or below it", where=name, hint=_hint(address))
    return tuple(sorted(sources, key=lambda source: source.name)), tuple(unread)


def _opened(file: Source) -> tuple[list[Source], list[SourceReport]] | None:
    """The members of an archive, which is fetched as a whole; None for any other file."""
    if not isinstance(file.held, Far) or not archives.is_archive(file):
        return None
    file.held.open().close()
    local = Source(file.path, file.name, file.size, file.modified, Stretch(file.held.copy, 0, file.size))
    return archives.members(local)


def _source(address: str, below: str, about: dict[str, Any], name: str) -> Source:
    copy = fresh(Path(below).suffix if _FETCHED.search(below) else "")
    held = Far(address, copy, _head, _fetch)
    size, modified = about.get("size"), _moment(about)
    path = Path(name.rstrip("/"), below) if not name.endswith(below) else Path(name)
    if size is None or _FETCHED.search(below):
        held.open().close()
        size = copy.stat().st_size
    if _FETCHED.search(below):
        return Source(copy, below, int(size), modified)
    return Source(path, below, int(size), modified, held)


def _about(system: Any, root: str, address: str) -> dict[str, Any] | None:
    """What is known of the one file there; None for a directory."""
    web = address.lower().startswith("http")
    if web and urlsplit(address).path.endswith("/"):
        return None
    about: dict[str, Any] = system.info(root)
    page = web and str(about.get("mimetype", "")).startswith("text/html")
    return None if page or about.get("type") == "directory" else about


def _files(system: Any, root: str, name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Address, path below the root and size of each file, level by level."""
    web = "http" in system.protocol if isinstance(system.protocol, (tuple, list)) else system.protocol == "http"
    if web:
        root = urlsplit(root)._replace(query="", fragment="").geturl()
        root += "" if root.endswith("/") else "/"
    level, seen = [root], {root.rstrip("/")}
    for _ in range(_DEPTH):
        below: list[str] = []
        for directory in level:
            with _told(name):
                entries = sorted(system.ls(directory, detail=True), key=lambda entry: str(entry["name"]))
            for entry in entries:
                place = str(entry["name"])
                path = place[len(root) :].lstrip("/") if place.startswith(root) else ""
                if not path or place.rstrip("/") in seen or _SKIPPED.search(path) or (web and "?" in path):
                    continue
                seen.add(place.rstrip("/"))
                if entry["type"] == "directory" or (web and place.endswith("/")):
                    below.append(place)
                else:
                    yield place, unquote(path) if web else path, entry
        level = below


def _signed(place: str, address: str) -> str:
    """The address of a file below, with the user and the query that the named address had."""
    named, found = urlsplit(address), urlsplit(place)
    user, at, _ = named.netloc.rpartition("@")
    if not at and not named.query:
        return place
    if at and "@" not in found.netloc:
        found = found._replace(netloc=f"{user}@{found.netloc}")
    return found._replace(query=found.query or named.query).geturl()


def _moment(about: dict[str, Any]) -> float:
    """When the file was last written, as Unix seconds; 0 where the server does not say."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        found = about.get(key)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, (int, float)):
            return float(found)
    return 0.0


# ---- what is fetched -------------------------------------------------------------------------------------------------


def _head(address: str) -> bytes:
    system, path = _system(address, "")
    with _told(""), system.open(path, "rb", block_size=HEAD) as stream:
        head: bytes = stream.read(HEAD)
        return head


def _fetch(address: str, into: Path) -> None:
    """The whole file; InputError where it is more than the disk may take."""
    from fsspec.callbacks import Callback

    most = room()

    class Watched(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > most:
                raise _TooLargeError(f"holds more than the {most >> 30:,} GiB that may be put on the temporary disk")

    system, path = _system(address, "")
    with _told(""):
        system.get_file(path, str(into), callback=Watched())


@cache
def _system(address: str, name: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it; InputError where a package is missing."""
    scheme = address.partition(":")[0].lower()
    need = f"pip install fsspec {_DRIVERS.get(scheme, '')}".rstrip()
    try:
        import fsspec
    except ImportError as problem:
        hint = f"`{need}` reads {scheme} addresses; or copy the directory to a disk"
        raise InputError("is a remote address, which needs fsspec", where=name, hint=hint) from problem
    try:
        return fsspec.core.url_to_fs(address)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as problem:
        hint = f"`{need}` reads {scheme} addresses; or copy the directory to a disk"
        raise InputError(f"cannot be reached: {_clean(problem)}", where=name, hint=hint) from problem


class _told:  # noqa: N801  it is used like a function
    """Turns what a driver raises into an InputError without secrets. Drivers of many makers raise what they like."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, InputError):
            raise InputError(_words(problem), where=self.name, hint=_hint(self.name)) from None


def _words(problem: Exception) -> str:
    if isinstance(problem, _TooLargeError):
        return str(problem)
    if isinstance(problem, FileNotFoundError) and isinstance(problem.__cause__, Exception):  # aiohttp's own
        problem = problem.__cause__
    status = getattr(problem, "status", None) or getattr(getattr(problem, "response", None), "status_code", None)
    text = f"{type(problem).__name__} {problem}"
    if isinstance(problem, FileNotFoundError) or status == 404:
        return "is not there (the server knows no such file or directory)"
    if isinstance(problem, PermissionError) or status in (401, 403) or "Credentials" in text or "Forbidden" in text:
        return f"may not be read: no rights, or no credentials were found{f' (status {status})' if status else ''}"
    if isinstance(problem, (ConnectionError, TimeoutError)) or re.search("Connect|resolve|Timeout|EndpointConn", text):
        return "cannot be reached: no answer from the server"
    if isinstance(problem, ImportError):
        return f"cannot be reached: {_clean(problem)}"
    return f"cannot be fetched ({type(problem).__name__}: {_clean(problem)})"


def _clean(problem: Exception) -> str:
    return _SECRET.sub("…", str(problem)).strip()[:300]


def _hint(address: str) -> str:
    scheme = address.partition(":")[0].lower()
    if scheme in ("s3", "gs", "gcs", "hf", "abfs", "abfss", "az"):
        return "Check the address, and that the credentials of its usual command-line tool are set up here"
    return "Check the address and the network, or copy the directory to a disk"
