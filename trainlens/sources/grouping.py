"""Files, each with its parser, sorted into runs by where they lie. Part of `sources`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlens.sources import Source


@dataclass(frozen=True)
class RunFile:
    """One file of a run, the parser that reads it, and what is put before its tags ("train/")."""

    source: Source
    format: str
    prefix: str = ""
    reason: str = ""  # why that parser


@dataclass(frozen=True)
class RunFiles:
    """The files of one run. Plain values: this is what a worker is sent."""

    name: str
    path: str
    files: tuple[RunFile, ...]


Directory = tuple[str, ...]  # parts of a path below the root

_SPLITS = ("train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev")
_NEUTRAL = re.compile(
    r"(logs?|tensorboard(_logs)?|tb(_logs)?|events|runs|logging|wandb|files|metrics|summaries|lightning_logs|csv_logs|"
    r"trainer|output|results|plots|swanlog|console|aux)$"
)
_NUMBERED = re.compile(r"version_\d+$|run-\d{8}_\d{6}-|offline-run-")  # Lightning, W&B: of several each is a run
# What only tells of machines is no run; its directory is of the run above it, or of the one that all nodes share.
MACHINES = frozenset(("nvidia-smi", "dcgm", "amd-smi", "gpustat", "torch-memory", "kernel-log"))
_OF_MACHINES = re.compile(
    r"(?:(?:node|host|worker|server|machine)[-_.]?\w*|.*(?:gpu|smi|nvidia|dcgm|rocm|dmon|system|hardware|monitor|telemetry)"
    r".*|dmesg|kernel)$"
)
_TRACKED = re.compile(r"run-\d{8}_\d{6}-")  # SwanLab: below "logs" a directory for each curve
_WANDB = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-([\w.-]+)$")
_SNAPSHOT = re.compile(r"(?:.*__)?(checkpoint|ckpt|step|global_step)[-_]?\d+$", re.I)
# A directory for each rank; below those of the attempts of torchrun, https://docs.pytorch.org/docs/stable/elastic/run.html,
# the bare numbers. Numbers without a 0 among them may be ranks of an adapter that were tried.
_RANK = re.compile(r"((?:global_?)?rank[._-]?)(\d{1,6})$", re.I)
_ATTEMPT = re.compile(r"(attempt_)(\d+)$")
_NUMBER = re.compile(r"()(\d{1,6})$")
_TIME = re.compile(r"\d{9,11}(\.\d+)?$")  # SummaryWriter.add_hparams
_ADDRESS = re.compile(r"^(\w{2,}):/(?=[^/])")  # a path knows no double slash
_MLFLOW = re.compile(r"[0-9a-f]{32}$")
_MLFLOW_NAME = re.compile(rb"^run_name: *([^\r\n]+)", re.M)
_NO_LOGS = frozenset(("config-file",))  # formats that say how a run was set up: they belong to the logs above
_DVCLIVE = ("plots", "metrics")  # a file a metric: https://dvc.org/doc/dvclive/how-it-works


def group(files: Sequence[tuple[Source, str]], root: Path) -> list[RunFiles]:
    """Sort files, each with its parser, into runs: a directory is a run, unless its name says that it is a part of one.

    Parts are directories of a split ("validation"), whose name is put before the tags; directories that only sort files
    ("logs") and stand alone; checkpoints with their copies of the log; the metrics of an MLflow, SwanLab or DVCLive
    run; what W&B wrote of a run that was resumed; and directories that hold nothing but settings.
    """
    places = [(tuple(source.name.split("/")[:-1]), source, parser) for source, parser in files]
    tree = _Tree((directory, parser) for directory, _, parser in places)
    runs: dict[Directory, list[RunFile]] = defaultdict(list)
    for directory, source, parser in places:
        run, prefix = tree.home(directory)
        runs[run].append(RunFile(source, parser, prefix))
    whole = root.name or root.resolve().name
    names = {run: _run_name(run, found) for run, found in runs.items()}
    often = Counter(names.values())
    return [
        RunFiles(
            (f"{names[run]}-{run[-1][:8]}" if often[names[run]] > 1 else names[run]) or whole,
            _ADDRESS.sub(r"\1://", root.joinpath(*run).as_posix()),
            tuple(found),
        )
        for run, found in sorted(runs.items())
    ]


def _run_name(run: Directory, files: Sequence[RunFile]) -> str:
    """Where the run lies; of one of MLflow the name that its meta file has, else its id."""
    if not run or not _MLFLOW.match(run[-1]):
        return "/".join(run)
    for file in files:
        if file.source.name.endswith("/meta.yaml") and (found := _MLFLOW_NAME.search(file.source.head(1 << 16))):
            return found[1].decode("utf-8", "replace").strip("'\" ") or run[-1]
    return run[-1]


class _Tree:
    """Which formats lie in each directory itself, and in it with all below."""

    def __init__(self, files: Iterable[tuple[Directory, str]]) -> None:
        self._own: dict[Directory, set[str]] = defaultdict(set)
        self._below: dict[Directory, set[str]] = defaultdict(set)
        self._children: dict[Directory, set[Directory]] = defaultdict(set)
        self._homes: dict[Directory, tuple[Directory, str]] = {}
        for directory, parser in files:
            self._own[directory].add(parser)
            for depth in range(len(directory) + 1):
                self._below[directory[:depth]].add(parser)
                self._children[directory[: max(depth - 1, 0)]].add(directory[:depth])

    def home(self, directory: Directory) -> tuple[Directory, str]:
        """The directory that stands for the run of this one, and the prefix of its tags."""
        if directory not in self._homes:
            self._homes[directory] = self._home(directory)
        return self._homes[directory]

    def _home(self, directory: Directory) -> tuple[Directory, str]:
        for depth, part in enumerate(directory):
            if _MLFLOW.match(part) and directory[depth + 1 : depth + 2] in (("metrics",), ("params",), ("tags",), ()):
                return directory[: depth + 1], ""
            if _TRACKED.match(part) and directory[depth + 1 : depth + 2] == ("logs",) and len(directory) == depth + 3:
                return self.home(directory[: depth + 1])
            if directory[depth : depth + 2] == _DVCLIVE:
                return self.home(directory[:depth])
        if not directory:
            return directory, ""
        if (first := self._first_of_run(directory)) != directory:
            return self.home(first)
        prefix = self._part(directory)
        if prefix is None:
            return directory, ""
        home, before = self.home(directory[:-1])
        return home, before + prefix

    def _first_of_run(self, directory: Directory) -> Directory:
        """Of the directories that W&B made for one run, a new one at each resume, the first; any other as it is."""
        found = _WANDB.match(directory[-1])
        if not found or "wandb" not in self._below[directory]:
            return directory
        same = {directory[-1]: found[1]}
        for other in self._children[directory[:-1]]:
            its = _WANDB.match(other[-1]) if other and "wandb" in self._below[other] else None
            if its and its[2] == found[2]:
                same[other[-1]] = its[1]
        return (*directory[:-1], min(same, key=lambda name: same[name]))

    def _part(self, directory: Directory) -> str | None:
        """The prefix of a directory that is a part of the one above; None for a run of its own."""
        name = directory[-1].lower()
        if _SNAPSHOT.match(name) or self._below[directory] <= _NO_LOGS:
            return ""
        above, own = directory[:-1], self._below[directory]
        if self._is_of_a_process(directory):
            return ""
        if own <= MACHINES and (self._own.get(above, set()) - MACHINES or _OF_MACHINES.match(name)):
            return ""
        beside = [other for other in self._children[above] - {above, directory} if self._below[other] & own]
        shared = bool(self._own.get(above, set()) & own)
        stem, _, last = name.rpartition("_")
        if name in _SPLITS:
            kin = shared or name.startswith("train") or any(other[-1].lower() in _SPLITS for other in beside)
            return f"{directory[-1]}/" if kin else None
        if last in _SPLITS:  # SummaryWriter.add_scalars: a directory for each curve
            kin = any(other[-1].lower().rpartition("_")[0] == stem for other in beside)
            return f"{directory[-1]}/" if kin else None
        if _TIME.match(name):
            return "" if shared else None
        if above and above[-1].lower() == "runs" and not beside:
            return ""
        return "" if (_NEUTRAL.match(name) or _NUMBERED.match(name)) and not beside else None

    def _is_of_a_process(self, directory: Directory) -> bool:
        """Whether it holds what one rank of a run wrote, or all ranks at one of its attempts."""
        above = directory[:-1]
        if _ATTEMPT.match(directory[-1]):
            names = [other[-1] for other in self._children[directory] - {directory}]
            return "0" in names and all(map(_NUMBER.match, names))
        shape = _NUMBER if above and _ATTEMPT.match(above[-1]) else _RANK
        numbers = {int(found[2]) for other in self._children[above] - {above} if (found := shape.match(other[-1]))}
        return shape.match(directory[-1]) is not None and 0 in numbers and len(numbers) > 1
