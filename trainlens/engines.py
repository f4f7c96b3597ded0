"""How many runs are worked through: functions of map's shape, so that the analysis does not care which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Work = TypeVar("Work")
Answer = TypeVar("Answer")


def in_turn(function: Callable[[Work], Answer], work: Iterable[Work]) -> Iterator[Answer]:
    """One after another, in this process."""
    return map(function, work)


def processes(function: Callable[[Work], Answer], work: Iterable[Work], jobs: int) -> Iterator[Answer]:
    """In `jobs` processes, answers in the order of the work. The function must be importable, its values pickle."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(function, work)
