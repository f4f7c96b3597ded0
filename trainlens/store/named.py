"""What names of files say of all that stands in them: their rank, their split, their age. Part of `store`.

Launchers give each process a log of its own (`rank_3.log`; `workerlog.3` of https://github.com/PaddlePaddle/Paddle,
distributed/launch; `attempt_0/3/stdout.log` of torchrun), some trainers each split (`train.jsonl`, `val.jsonl`), and
what rotates logs numbers them. A name says something only beside its like: `rank_3.log` alone may be all that was kept,
`eval.jsonl` alone tells what it tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from trainlens.model import NO_RANK

if TYPE_CHECKING:
    from trainlens.store.relate import File

_RANK = re.compile(r"(?:(?<![a-z])rank[._-]?|\Aworkerlog\.)(\d{1,6})(?!\d)", re.I)
_RANK_ABOVE = re.compile(r"(?:^|/)(?:(?:global_?)?rank[._-]?|attempt_\d+/)(\d{1,6})/", re.I)
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)$")
_ROTATED = re.compile(r"[.-](\d+)$")
_DATE = 8  # digits: dates count on, other numbers of rotated logs count back
_TRAINING = frozenset(("train", "training"))
_HELD_OUT = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev"))


def rank_of(name: str) -> int | None:
    """The rank that the name of a file or of its directory says outright: "node1_rank.0.txt" is of rank 0."""
    found = _RANK.search(PurePath(name).name)
    if found and "rank" in found[0].lower():
        return int(found[1])
    above = _RANK_ABOVE.findall(name)
    return int(above[-1]) if above else None


def told_by_names(files: Sequence[File]) -> None:
    """Puts ranks and splits into the columns of the files whose rows name none themselves."""
    _ranks(files)
    _splits(files)


def _ranks(files: Sequence[File]) -> None:
    siblings: dict[str, dict[int, File]] = {}
    for file in files:
        path = PurePath(file.name)
        if (found := _RANK.search(path.name)) and all(rank == NO_RANK for _, rank in file.columns):
            name = f"{path.name[: found.start(1)]}#{path.name[found.end(1) :]}"
            siblings.setdefault(str(path.with_name(name)), {}).setdefault(int(found[1]), file)
    for ranks in siblings.values():
        for rank, file in ranks.items() if len(ranks) > 1 else ():
            file.columns = {(tag, rank): column for (tag, _), column in file.columns.items()}


def _splits(files: Sequence[File]) -> None:
    """What a held-out file names as the training file beside it does is told under its split."""
    trained = {PurePath(file.name).parent: file for file in files if _stem(file) in _TRAINING}
    for file in files:
        beside = trained.get(PurePath(file.name).parent)
        if beside is None or _stem(file) not in _HELD_OUT or beside.format != file.format:
            continue
        for key in sorted(file.columns.keys() & beside.columns.keys()):
            tag = f"{_stem(file)}/{key[0]}"
            file.columns[tag, key[1]] = replace(file.columns.pop(key), tag=tag)


def _stem(file: File) -> str:
    return PurePath(file.name).name.partition(".")[0].lower()


# ---- in turn ---------------------------------------------------------------------------------------------------------


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts names with their numbers by value."""
    return tuple((int(part or -1), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


def by_age(files: Sequence[File]) -> list[File]:
    """Rotated logs with the oldest first: "log.2.gz", "log.1", "log", or "log-20260101", "log"; all others by name."""
    names = {_unpacked(file.name) for file in files}
    return sorted(files, key=lambda file: _age(_unpacked(file.name), names))


def _age(name: str, names: Collection[str]) -> tuple[tuple[tuple[int, str], ...], bool, int]:
    found = _ROTATED.search(name)
    if found is None or name[: found.start()] not in names:
        return natural(name), True, 0
    number = int(found[1])
    return natural(name[: found.start()]), False, number if len(found[1]) >= _DATE else -number


def _unpacked(name: str) -> str:
    return _PACKED.sub("", name)
