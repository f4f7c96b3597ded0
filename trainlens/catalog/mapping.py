"""What a user says that names mean, where the catalogue would guess wrongly: `raw=canonical`. Part of `catalog`.

`my_objective=train/loss` names a metric, `dt=step_time:ms` also the unit its values are in, `n=step` an axis, and
`aux_loss=none` says that a tag is none of the catalogue's metrics. The left side is a tag as written, or a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, cast

from trainlens import catalog
from trainlens.model import Metric

NONE = "none"
TOLD_AXES = ("step", "time", "rank")


@dataclass(frozen=True, slots=True)
class Meaning:
    """`about` without a name: none of the catalogue's metrics. `axis` is "" for a metric."""

    pattern: str
    about: Metric
    axis: Literal["step", "time", "rank", ""] = ""

    def means(self, tag: str) -> bool:
        """Whether the tag is meant, with or without the rank in it."""
        return any(one == self.pattern or fnmatchcase(one, self.pattern) for one in (tag, catalog.split_rank(tag)[0]))


def meaning(entry: str) -> Meaning:
    """One entry understood; ValueError with what is wrong, and the valid names behind it."""
    raw, equals, name = (part.strip() for part in entry.rpartition("="))
    if not (raw and equals and name):
        raise ValueError("is no raw=canonical")
    if name in TOLD_AXES:
        return Meaning(raw, Metric(""), cast(Literal["step", "time", "rank"], name))
    wanted, colon, unit = (part.strip() for part in name.partition(":"))
    about = Metric("") if wanted == NONE else catalog.metric(wanted)
    if about is None and wanted.startswith("bench/") and len(wanted) > len("bench/"):
        about = catalog.resolve([wanted])[wanted]
    if about is None:
        raise ValueError(f"there is no metric {wanted!r}", *(one.name for one in catalog.METRICS), *TOLD_AXES, NONE)
    if not colon:
        return Meaning(raw, about)
    scales = {written: scale for written, (of, scale) in catalog.UNITS.items() if of == about.unit and about.unit}
    if unit.lower() not in scales:
        raise ValueError(f"{wanted} cannot be in {unit!r}", *scales)
    return Meaning(raw, replace(about, scale=scales[unit.lower()]))


def told(meanings: Sequence[Meaning], tags: Iterable[str]) -> dict[str, Metric]:
    """The metrics of those tags that a user said something of; of several entries for one tag the last holds."""
    found = {}
    for tag in tags:
        said = next((one for one in reversed(meanings) if not one.axis and one.means(tag)), None)
        if said is not None:
            found[tag] = said.about if said.about.name else Metric(tag)
    return found
