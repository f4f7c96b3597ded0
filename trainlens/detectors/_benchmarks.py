"""Benchmark scores over checkpoints: one curve a task, how uncertain each score is, and which task guesses."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from trainlens.model import Floats, Ints, Run, Series
from trainlens.signals import mad

_CHANCE = (
    (0.5, "piqa winogrande boolq copa rte wic wsc qnli mrpc axb axg xcopa xwinograd storycloze xstory pawsx cb"),
    (0.25, "hellaswag arc mmlu hendryckstest openbookqa race sciq logiqa cmmlu ceval agieval gpqa"),
    (0.2, "commonsenseqa csqa mathqa siqa"),
    (0.1, "mmlupro"),
)  # shares right by guessing among as many answers as the task offers


@dataclass(frozen=True, eq=False)
class Task:
    """One benchmark's main score by checkpoint, turned so that up is better; perplexities as -ln.

    `error` is the standard error of each score; `stated` tells that the log gives it, else it is the scatter.
    """

    name: str
    metric: str
    step: Ints
    value: Floats
    shown: Floats  # as logged
    error: Floats
    stated: bool
    positional: bool

    def __len__(self) -> int:
        return len(self.value)

    def size(self, at: int) -> float:
        """What a share is taken of: the score; 1 for the logarithm of a perplexity, whose differences are shares."""
        return abs(float(self.value[at])) if self.value is self.shown else 1.0


def tasks(run: Run) -> list[Task]:
    """The tasks of a run by name: of several measures of a task the main one."""
    chosen: dict[str, Series] = {}
    for series in sorted(run.with_role("score"), key=lambda one: (one.metric.count("/"), one.metric)):
        head, _, rest = series.metric.partition("/")
        if head == "bench" and rest and series.about.better != "none":
            chosen.setdefault(rest.split("/")[0], series)
    found = (_task(run, name, series) for name, series in sorted(chosen.items()))
    return [task for task in found if task is not None]


def _task(run: Run, name: str, series: Series) -> Task | None:
    finite = series.finite
    step, shown = series.step[finite], series.value[finite]
    if not len(shown):
        return None
    error = _stated(run, series)
    known = np.full(len(step), np.nan)
    if error is not None and len(error):
        at = np.minimum(np.searchsorted(error.step, step), len(error) - 1)
        known = np.where(error.step[at] == step, np.abs(error.value[at]), np.nan)
    stated = bool(np.isfinite(known).any())
    value = shown
    if series.about.better == "lower":
        value = -np.log(shown) if (shown > 0).all() else -shown
        known = known / shown if (shown > 0).all() else known
    rough = scatter(value)
    if stated:
        known = np.where(np.isfinite(known), known, float(np.nanmedian(known)))
    error_of = np.maximum(known, rough) if stated else np.full(len(step), rough)
    return Task(name, series.metric, step, value, shown, error_of, stated, series.positional)


def _stated(run: Run, series: Series) -> Series | None:
    """The series that gives the standard error of another, by its name."""
    rest = series.metric.removeprefix("bench/")
    names = (f"stderr/{rest}", f"bench/{rest}_stderr", f"bench/{rest}/stderr", f"{series.metric}_std_err")
    found = (run.get(name) for name in names)
    return next((one for one in found if one is not None and one.finite.any()), None)


def scatter(value: Floats) -> float:
    """Standard deviation of single scores about a curve that bends little; 0 of fewer than 5, which cannot tell it."""
    if len(value) < 5:
        return 0.0
    bends = value[1:-1] - (value[:-2] + value[2:]) / 2
    rough = float(np.median(np.abs(bends))) * 1.4826 / 1.5**0.5
    return rough * (1 + 4 / len(value)) if rough > 0 else mad(np.diff(value))


def chance(task: Task) -> float | None:
    """The share that guessing gets right, where the task is known; in per cent where the scores are."""
    plain = re.sub(r"[^a-z0-9]", "", task.name.lower())
    for share, names in _CHANCE:
        if any(plain == name or (len(name) > 3 and plain.startswith(name)) for name in names.split()):
            if plain.startswith("mmlupro"):
                share = 0.1
            return share * 100 if float(np.abs(task.shown).max()) > 1.0 else share
    return 0.25 if plain.startswith("arc") else None
