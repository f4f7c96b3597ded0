"""Files that tell of machines and not of training: which they are, and the nodes they were written on. Part of `store`.

A poller writes beside the training, often one on each node, and all of them name the same GPUs 0 to 7. They are files
of one run: a GPU's rank is the number of its node times the GPUs of a node, plus its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainlens import catalog
from trainlens.sources.grouping import MACHINES

if TYPE_CHECKING:
    from trainlens.store.relate import File

# What is written beside the training, by others and for a while: such a file tells of no attempt.
BESIDE = MACHINES | {"lm-eval", "torch-profiler", "nsys"}
ROLES = frozenset(("utilization", "memory", "power", "temperature"))
_OF_TRAINING = frozenset(("loss", "eval-loss", "score", "perplexity", "reward", "grad-norm", "learning-rate",
                          "step-time", "throughput", "policy-loss"))  # fmt: skip
_HOST = re.compile(r"(?:^|[/._-])((?:node|host|worker|server|machine|rank)[-_.]?\w*\d+)", re.I)


def watches(file: File) -> bool:
    """Whether a file holds samples of machines: by its format, or by its names where it has a clock and no steps."""
    if file.format in MACHINES:
        return True
    if not file.columns or any(one.step is not None or one.time is None for one in file.columns.values()):
        return False
    roles = {about.role for about in catalog.resolve({tag for tag, _ in file.columns}).values()}
    return bool(roles & ROLES) and not roles & _OF_TRAINING


def nodes(files: Sequence[File]) -> list[list[File]]:
    """The files of each node, in order of their names: two that tell of the same GPUs at once are of two nodes."""
    found: dict[str, list[list[File]]] = {}
    order: list[list[File]] = []
    for file in files:
        host = _HOST.search(file.name)
        own = found.setdefault(host[1].lower() if host else "", [])
        node = next((node for node in own if not any(_both(file, other) for other in node)), None)
        if node is None:
            node = []
            own.append(node)
            order.append(node)
        node.append(file)
    return order if any(_alike(a, b) for a in order for b in order if a is not b) else [[*files]] if files else []


def number_ranks(order: Sequence[Sequence[File]]) -> None:
    """Give the GPUs of several nodes ranks of their own."""
    if len(order) < 2:
        return
    size = 1 + max(max(rank, 0) for node in order for file in node for _, rank in file.columns)
    for number, node in enumerate(order):
        for file in node:
            file.columns = {(tag, number * size + max(rank, 0)): one for (tag, rank), one in file.columns.items()}


def repeats(file: File, other: File) -> bool:
    """Whether two files hold the same samples: a copy."""
    keys = file.columns.keys() & other.columns.keys()
    return bool(keys) and all(
        len(a.value) == len(b.value)
        and np.array_equal(a.value, b.value, equal_nan=True)
        and (a.time is None or b.time is None or np.array_equal(a.time, b.time, equal_nan=True))
        for a, b in ((file.columns[key], other.columns[key]) for key in keys)
    )


def nearest(file: File, spans: Mapping[int, tuple[float, float]]) -> int:
    """The group of files whose time a file shares most; the first where it shares none."""
    own = file.times()
    if own is None:
        return min(spans, default=0)
    shared = {group: min(own[1], last) - max(own[0], first) for group, (first, last) in spans.items()}
    best = max(shared, key=lambda group: (shared[group], -group), default=0)
    return best if shared.get(best, 0) > 0 else min(spans, default=0)


def _alike(one: Sequence[File], other: Sequence[File]) -> bool:
    """Whether two nodes tell of the same quantities."""
    return any(a.columns.keys() & b.columns.keys() for a in one for b in other)


def _both(one: File, other: File) -> bool:
    """Whether the same GPUs are told of at the same time; without clocks files count as written in turn."""
    if not one.columns.keys() & other.columns.keys():
        return False
    a, b = one.times(), other.times()
    return a is not None and b is not None and min(a[1], b[1]) > max(a[0], b[0])
