"""The state of a file: what tells whether it is the same, has grown, or was replaced. Part of `store`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlens.sources import Source

EDGE = 64 << 10  # bytes at the beginning, and before where reading goes on, that must be what they were


@dataclass(frozen=True)
class State:
    """The state of a file, taken before it is read: what tells that it is the same one."""

    size: int
    written: int  # nanoseconds since 1970
    inode: int
    head: str
    log: tuple[int, ...] = ()  # of the write-ahead log beside a database

    @classmethod
    def of(cls, source: Source) -> State:
        status = source.path.stat()
        return cls(
            status.st_size, status.st_mtime_ns, status.st_ino, fingerprint(source.path, 0, EDGE), _log(source.path)
        )

    @classmethod
    def of_table(cls, stored: Sequence[Any]) -> State:
        """As JSON keeps it."""
        size, written, inode, head, log = stored
        return cls(size, written, inode, head, tuple(log))

    def stored(self) -> list[Any]:
        return [self.size, self.written, self.inode, self.head, list(self.log)]


def fingerprint(path: Path, start: int, size: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        return hashlib.blake2b(file.read(size), digest_size=16).hexdigest()


def tail_of(path: Path, offset: int) -> str:
    start = max(0, offset - EDGE)
    return fingerprint(path, start, offset - start)


def _log(path: Path) -> tuple[int, ...]:
    """The state of the write-ahead log beside a database, where newer rows wait; nothing for other files."""
    try:
        state = path.with_name(path.name + "-wal").stat()
    except OSError:
        return ()
    return state.st_size, state.st_mtime_ns
