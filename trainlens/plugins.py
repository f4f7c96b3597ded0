"""The four seams: parsers, detectors, causes, reports. A plug-in is a module; its file name is its public name.

To add one is to add a file: nothing is registered. Modules whose names begin with an underscore are helpers. Outsiders
offer theirs as entry points in the groups `trainlens.parsers`, `trainlens.detectors`, `trainlens.causes` and
`trainlens.reports`, each a module of the same shape.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, runtime_checkable

from trainlens.citations import Citation
from trainlens.diagnosis import Diagnosis, Explained, Finding, NotApplicable, NotEnoughData, Verdict
from trainlens.errors import PluginError
from trainlens.model import Batch, Checkpoint, Run
from trainlens.sources import Source

Seam = Literal["parsers", "detectors", "causes", "reports"]

# ---- the four contracts: what a module must hold -------------------------------------------------------------------


@runtime_checkable
class Parser(Protocol):
    """`sniff` looks at a bounded head of the (decompressed) file and says how sure it is, 0 to 1; `read` streams.

    A tail that is cut off is the normal end of a live log. Damage is a Note. `since` is the Checkpoint that an earlier
    reading of the same, shorter file ended with: go on from there. A module may also hold `TELLS_END = True`: such
    a file would say how its run ended, so that its silence means something; `PROVES = True`: when its `sniff` says 1,
    a checksum or the like has proved it, and no other parser is asked; `READS_TEXT = True`: it is not asked about files
    that are no text; `READS_BESIDE = True`: it looks into files beside its source that are no sources themselves.
    """

    def sniff(self, head: bytes, path: Path) -> float: ...

    def read(self, source: Source, since: Checkpoint | None = None) -> Iterator[Batch]: ...


Answer = Sequence[Finding | Explained] | NotApplicable | NotEnoughData


@runtime_checkable
class Detector(Protocol):
    """`NEEDS` names what must be there, all of it; "a|b" means one of them suffices.

    An entry is a canonical metric, "role:loss" (a metric of that role) or "event:xid" (an event of that kind). Where
    one is missing the runner answers *not applicable* and `detect` is not called. `Options` is a frozen dataclass of
    `threshold()` fields. Pure. A module may also hold `TOLD_INSIDE`: detectors whose findings tell this one inside of
    theirs when the steps touch; `COST_INSIDE`: detectors that count the same lost seconds where both find the steps.
    Beside findings it may return what it saw and did not flag, each an `Explained`: told, and no verdict changes.
    """

    NEEDS: tuple[str, ...]
    Options: type[Any]

    def detect(self, run: Run, options: Any) -> Answer: ...


@runtime_checkable
class CauseSet(Protocol):
    """`EXPLAINS` names the detectors whose findings these causes explain; each cause answers with one Verdict."""

    EXPLAINS: tuple[str, ...]
    CAUSES: tuple[Callable[[Finding, Run], Verdict], ...]


@runtime_checkable
class Report(Protocol):
    """`SUFFIX` is the file's ending (".html"); `render` tells the diagnosis from itself alone, deterministically.

    Of its `Options`, users may set the fields that are a `choice()`.
    """

    SUFFIX: str
    Options: type[Any]

    def render(self, diagnosis: Diagnosis, options: Any) -> bytes: ...


# ---- thresholds ----------------------------------------------------------------------------------------------------


def threshold(default: Any, meaning: str, *, source: Citation, unit: str = "", choices: tuple[str, ...] = ()) -> Any:
    """One field of a detector's Options: its default, what it means, its unit, and where the figure comes from."""
    return dataclasses.field(
        default=default, metadata={"meaning": meaning, "source": source, "unit": unit, "choices": choices}
    )


def choice(default: Any, meaning: str, *, choices: tuple[str, ...] = ()) -> Any:
    """One field of a report's Options that users may set: its default and what it means."""
    return threshold(default, meaning, source=Citation(""), choices=choices)


@dataclass(frozen=True, slots=True)
class Threshold:
    name: str
    default: Any
    meaning: str
    unit: str
    source: Citation
    choices: tuple[str, ...]


def thresholds(options: type[Any]) -> tuple[Threshold, ...]:
    """The thresholds of an Options class, in its order."""
    return tuple(
        Threshold(
            name=field.name,
            default=field.default,
            meaning=field.metadata.get("meaning", ""),
            unit=field.metadata.get("unit", ""),
            source=field.metadata.get("source", Citation("")),
            choices=field.metadata.get("choices", ()),
        )
        for field in dataclasses.fields(options)
    )


# ---- finding and loading -------------------------------------------------------------------------------------------


@cache
def names(seam: Seam) -> tuple[str, ...]:
    """The public names of a seam's plug-ins, sorted; nothing is imported but the wing itself."""
    wing = importlib.import_module(f"trainlens.{seam}")
    own = [_public(found.name) for found in pkgutil.iter_modules(wing.__path__) if not found.name.startswith("_")]
    return tuple(sorted({*own, *_entry_points(seam)}))


@cache
def load(seam: Seam, name: str) -> Any:
    """The module of one plug-in; PluginError when there is none, it cannot be imported or lacks a part."""
    entry = _entry_points(seam).get(name)
    try:
        module = entry.load() if entry else importlib.import_module(f"trainlens.{seam}.{name.replace('-', '_')}")
    except ModuleNotFoundError as problem:
        if problem.name and problem.name.startswith(f"trainlens.{seam}."):
            raise PluginError(f"there is no {seam[:-1]} {name!r}", hint=f"`trainlens list {seam}` names them") from None
        raise PluginError(f"{seam[:-1]} {name!r} cannot be loaded: {problem}") from problem
    except Exception as problem:  # an outsider's module may fail in any way; the user must learn which one it was
        raise PluginError(f"{seam[:-1]} {name!r} cannot be loaded: {problem}") from problem
    contract = {"parsers": Parser, "detectors": Detector, "causes": CauseSet, "reports": Report}[seam]
    if not isinstance(module, contract):
        parts = sorted(part for part in _parts(contract) if not hasattr(module, part))
        raise PluginError(f"{seam[:-1]} {name!r} lacks {', '.join(parts)}")
    return module


def load_all(seam: Seam) -> dict[str, Any]:
    return {name: load(seam, name) for name in names(seam)}


def outsiders(seam: Seam) -> list[tuple[str, str, str]]:
    """The plug-ins of others: name, module, and the version of the distribution that brought it."""
    found = _entry_points(seam).values()
    return sorted((entry.name, entry.value, entry.dist.version if entry.dist else "") for entry in found)


@cache
def says(seam: Seam, name: str, flag: str) -> bool:
    """Whether a plug-in holds `FLAG = True`. Our own are not imported for that: the text of the module is searched."""
    wing = importlib.import_module(f"trainlens.{seam}")
    text = Path(wing.__path__[0]) / f"{name.replace('-', '_')}.py"
    if name in _entry_points(seam) or not text.is_file():
        return bool(getattr(load(seam, name), flag, False))
    return re.search(rf"^{flag}\b[^=\n]*= True\b", text.read_text("utf-8"), re.MULTILINE) is not None


def page(module: ModuleType) -> str:
    """The page of a plug-in: its docstring, whose first line is its summary."""
    return (module.__doc__ or "").strip()


def _public(module_name: str) -> str:
    return module_name.replace("_", "-")


@cache
def _entry_points(seam: Seam) -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=f"trainlens.{seam}")}


def _parts(contract: type[Any]) -> Iterable[str]:
    return {*contract.__annotations__, *(name for name in vars(contract) if not name.startswith("_"))}
