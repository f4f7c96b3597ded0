"""The metrics: canonical names, their aliases, units, which way is better, and what can be told of an unknown name.

A tag is read as words ("train/lm-loss", "Loss_train/Loss" and "trainLoss" alike), of which the split (training or
held-out) and the unit are taken off; what is left is looked up among the aliases. Nothing else in trainlens guesses
from a raw tag.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast

import numpy as np

from trainlens.catalog.languages import english
from trainlens.catalog.table import CLOCKS, FAMILIES, RUNNING_MEANS, TABLE, guess, word_set
from trainlens.model import NO_RANK, Floats, Metric, Panel

Axis = Literal["step", "time", "rank", "run"]
Split = Literal["train", "eval", ""]

_AXES: dict[Axis, frozenset[str]] = {
    "step": word_set(
        "step steps globalstep globalsteps iteration iterations iter iters itr it niter "
        "currentsteps currentstep numupdates trainglobalstep trainerglobalstep trainstep "
        "trainingstep trainiter trainingiteration stepnum numsteps optimizerstep updatestep "
        "globalstepmaxsteps stepidx stepindex iterationnumber iternum totaltimesteps "
        "timetotaltimesteps timestepstotal timesteps timestep envstep envsteps"
    ),
    "time": word_set(
        "timestamp timestamps walltime timems unixtime datetime date createtime createdat loggedat "
        "utc utctime epochtime timestampms timeutc isotime"
    ),
    "rank": word_set("rank globalrank localrank dprank workerrank rankid gpuid gpuindex deviceid deviceindex"),
    "run": word_set("run runid runname experiment experimentname trial trialid runuuid"),
}


def axis(tag: str) -> Axis | None:
    """The axis that a column or key is, None for a quantity. A bare "time" is none: it may be a duration."""
    key = _letters(english(tag))
    return next((name for name, keys in _AXES.items() if key in keys), None)


METRICS: tuple[Metric, ...] = tuple(about for about, _ in TABLE)
_BY_NAME = {about.name: about for about in METRICS}


@cache
def _aliases(split: Split) -> dict[str, tuple[Metric, int]]:
    """Letters → metric and its place among the aliases (0 is best), for tags of one split."""
    found: dict[str, tuple[Metric, int]] = {}
    for about, keys in TABLE:
        own, _, rest = about.name.partition("/")
        if own in ("train", "eval") and (own == "eval") != (split == "eval"):
            continue
        canonical = rest if own in ("train", "eval") else about.name
        for place, key in enumerate([_letters(canonical), *keys.split()]):
            found.setdefault(key, (about, place))
    return found


def metric(name: str) -> Metric | None:
    """The metric of a canonical name, None when the catalogue has no such."""
    return _BY_NAME.get(name)


# ---- a tag as words --------------------------------------------------------------------------------------------------

_TRAIN = word_set("train training trn 训练")
_HELD_OUT = word_set("val valid validation eval evaluation evals vali heldout 验证 评估")
_TEST = word_set("test testing dev")
_BYTES = ("kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib")
# A unit as written, in small letters → the catalogue's unit and the factor that leads to it.
UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("s", 1.0)),
    **dict.fromkeys(("ms", "msec", "milliseconds"), ("s", 1e-3)),
    "us": ("s", 1e-6), "ns": ("s", 1e-9), "min": ("s", 60.0), "minutes": ("s", 60.0), "hours": ("s", 3600.0),
    "bytes": ("bytes", 1.0), "w": ("W", 1.0), "watts": ("W", 1.0), "mw": ("W", 1e-3), "mhz": ("MHz", 1.0),
    # Trainers divide by 1024, whichever way they spell it: torch.cuda.memory_allocated() / 1024**2 is printed as "MB".
    **{name: ("bytes", 1024.0 ** (at // 2 + 1)) for at, name in enumerate(_BYTES)},
    "megabytes": ("bytes", 1e6), "gigabytes": ("bytes", 1e9),  # spelt out, by MLflow among others: of 1000
    **dict.fromkeys(("%", "percent", "pct", "percentage"), ("share", 0.01)),
}  # fmt: skip
_BRACKET = re.compile(r"\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]\s*$")
_WORD = re.compile(r"[^\W_]+")
_RATE = re.compile(r"/\s*(s|sec|second|min|it|iter)\W*$", re.I)  # "iter/s" is no time in seconds
_CAMEL = re.compile(r"(?<=[a-z]{2})(?=[A-Z])")
_RANK = re.compile(
    r"(?:^|(?<=[/._\s:-]))(rank|dp_rank|gpu|device|host|node)[\s_:.=/-]?(\d+)(?=$|[/._\s:,-])[/._\s:-]?", re.I
)


@dataclass(frozen=True, slots=True)
class _Name:
    tag: str
    words: tuple[str, ...]
    split: Split
    test: bool  # of a test set, which gives way to a validation set
    unit: tuple[str, float] | None
    summary: bool  # "train_loss" without a folder: often the one figure that closes a run

    @property
    def bare(self) -> str:
        return split_rank(self.tag)[0]

    @property
    def key(self) -> str:
        return "".join(self.words)


_DCGM = re.compile(r"^DCGM_FI_(?:DEV|PROF)_")  # "dev" is the device there
_IN_MIB = 100, 2e6  # no GPU at work holds so few bytes; GiB are below, and stay open
_RESETS = 0.05  # part of a clock's rows at which it may begin anew
_SCATTERS, _SURE = 0.25, 8  # part of the rows at which a duration is shorter than the one before, of so many at least


def _letters(tag: str) -> str:
    return "".join(_WORD.findall(tag)).lower()


def _read(tag: str, written: str = "") -> _Name:
    """`written` is the unit that stands beside the values; the one in the name goes before it."""
    text, unit = english(_DCGM.sub("", split_rank(tag)[0].strip())), None
    if (bracket := _BRACKET.search(text)) and bracket[1].lower() in UNITS:
        text, unit = text[: bracket.start()], UNITS[bracket[1].lower()]
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text))]
    if unit is None and len(words) > 1 and words[-1] in UNITS and words[-2] != "per" and not _RATE.search(text):
        unit = UNITS[words.pop()]
    unit = unit or UNITS.get(written.lower())
    held_out, test = not _HELD_OUT.isdisjoint(words), not _TEST.isdisjoint(words)
    trained = not _TRAIN.isdisjoint(words)
    split: Split = "eval" if held_out or test else "train" if trained else ""
    left = tuple(word for word in words if word not in _HELD_OUT and word not in _TEST and word not in _TRAIN)
    if "".join(left) == "tel":
        split = "eval"
    return _Name(
        tag, left, split, test and not held_out, unit, trained and bool(re.search(r"(^|/)train_[a-z_]+$", tag))
    )


def split_rank(tag: str) -> tuple[str, int]:
    """The tag without its rank, and the rank: "step_time/rank3" → ("step_time", 3); NO_RANK when it names none.

    The number of a GPU counts as a rank: "system.gpu.0.powerWatts" → ("system.gpu.powerWatts", 0).
    """
    found = _RANK.search(tag)
    if not found:
        return tag, NO_RANK
    kept = "" if "rank" in found[1].lower() else found[1] + "."
    bare = (tag[: found.start()] + kept + tag[found.end() :]).strip("/._ :-")
    return (bare, int(found[2])) if bare and not bare.isdigit() and bare.lower() != found[1].lower() else (tag, NO_RANK)


# ---- from tags to metrics --------------------------------------------------------------------------------------------


def resolve(
    tags: Iterable[str],
    sizes: Mapping[str, int] | None = None,
    units: Mapping[str, str] | None = None,
    told: Mapping[str, Metric] | None = None,
) -> dict[str, Metric]:
    """The metric of each tag of a run. Where several tags claim one name the best has it, the others keep their own.

    `sizes` are the numbers of points: a tag with less than a tenth of the points of another claimant stands back.
    `units` are those written beside the values. `told` holds the tags of which the user said what they are: they have
    the names given to them, whoever else claims these. All tags are needed at once, because some names mean something
    only beside others ("time" beside "data_time").
    """
    told = told or {}
    given = {about.name for about in told.values()}
    names = {tag: _read(tag, units.get(tag, "") if units else "") for tag in tags if tag not in told}
    beside = frozenset(name.key for name in names.values())
    found, claims = dict(told), defaultdict(list)
    for tag, name in names.items():
        found[tag], place = _lookup(name, beside)
        if found[tag].name in given:
            found[tag] = Metric(tag)
        if found[tag].name in _BY_NAME:
            claims[found[tag].name].append((name.test, name.summary, name.split == "", place, len(tag), tag))
    if any(about.role == "reward" for about in found.values()):
        for tag, about in found.items():
            if about.role == "loss":
                found[tag] = replace(about, role="policy-loss", better="none")
    for canonical, claimants in claims.items():
        best = _best(canonical, claimants, sizes or {})
        groups = itertools.count(1)
        for *_, tag in sorted(claimants):
            if names[tag].bare != names[best].bare:
                own = f"{canonical}/{next(groups)}" if canonical == "lr" or tag == canonical else tag
                found[tag] = replace(found[tag], name=own)
    return found


def _best(canonical: str, claimants: list[Any], sizes: Mapping[str, int]) -> str:
    most = max(sizes.get(one[-1], 0) for one in claimants)
    return cast(str, min(claimants, key=lambda one: (10 * sizes.get(one[-1], 0) < most, one[-1] != canonical, one))[-1])


def runs_on(tag: str) -> bool:
    """Whether it is a clock, a counter or a mean since the start: of two values at one step the later is right."""
    key = _read(tag).key
    return key in RUNNING_MEANS or key in CLOCKS or _lookup(_read(tag), frozenset())[0].role == "counter"


def settle(about: Metric, tag: str, value: Floats, claimed: frozenset[str] = frozenset()) -> Metric:
    """The metric that its values betray where the name leaves it open; `claimed` are names of other tags.

    A share of 37 is a percentage; the memory of a GPU is no 30,000 bytes but MiB; a "time" that often goes back is
    that of one step and no clock: of milliseconds now and then, of seconds all the time.
    """
    if about.role == "clock" and "step_time" not in claimed and _read(tag).key == "time":
        backs = np.diff(value[np.isfinite(value)]) < 0
        often = _RESETS if about.scale < 1.0 else _SCATTERS
        sure = len(backs) >= (1 if about.scale < 1.0 else _SURE) and backs.mean() > often
        return replace(_BY_NAME["step_time"], scale=about.scale) if sure else about
    if about.unit not in ("share", "bytes") or about.scale != 1.0 or _read(tag).unit:
        return about
    finite = value[np.isfinite(value) & (value >= 0)]
    if about.unit == "bytes":
        of_gpu = about.name in ("gpu/memory_used", "gpu/memory_total") and "byte" not in tag.lower()
        least, most = _IN_MIB
        return replace(about, scale=1024.0**2) if of_gpu and len(finite) and least < np.max(finite) < most else about
    return replace(about, scale=0.01) if len(finite) and np.median(finite) > 1.5 else about


def _lookup(name: _Name, beside: frozenset[str]) -> tuple[Metric, int]:
    """The metric of one tag as if it were alone to claim its name, and how good an alias it is (0 is best)."""
    key, tag = name.key, name.tag
    if key.endswith("vssamples") or key in RUNNING_MEANS:
        return Metric(tag), 0
    if special := _special(name, beside):
        return special, 0
    if key in CLOCKS:
        return Metric(tag, "s", "none", "clock", "other", name.unit[1] if name.unit else 1.0), 0
    about, place = _aliases(name.split).get(key, (None, 0))
    if about is None and name.words[:1] and name.words[0] in _DEVICES:  # of a list of devices
        about, place = _aliases(name.split).get(key.removeprefix(name.words[0]), (None, 0))
        if about is not None and about.panel != "resources" and about.role != "utilization":
            about = None
    if about is None or (about.unit == "bytes" and not name.unit and key == "memory"):
        return guess(tag, frozenset(name.words), name.split == "eval", name.unit), 99
    if about.role == "memory" and name.unit and about.name != "gpu/memory_total":
        about = _BY_NAME["gpu/memory_used" if name.unit[0] == "bytes" else "gpu/memory_share"]
    if name.unit and about.unit and name.unit[0] != about.unit:
        return guess(tag, frozenset(name.words), name.split == "eval", name.unit), 99
    if name.split == "eval" and not about.name.startswith("eval/"):
        return _of_evaluation(about, name), 0
    if name.unit and name.unit[0] == about.unit:
        return replace(about, scale=name.unit[1]), place
    return about, place


_DEVICES = frozenset(("gpu", "gpus", "device", "devices", "card", "cards", "accelerators"))
_SUMMARIES = ("runtime", "samplespersecond", "stepspersecond")  # of the row that closes a run of the HF trainer


def _special(name: _Name, beside: frozenset[str]) -> Metric | None:
    """Names that mean something only beside others, or by their first part."""
    key, in_seconds = name.key, not name.unit or name.unit[0] == "s"
    if (
        name.split != "eval"
        and in_seconds
        and key in ("time", "data")
        and beside & {"datatime", "data"}
        and "time" in beside
    ):
        about = _BY_NAME["step_time" if key == "time" else "data_time"]
        return replace(about, scale=name.unit[1] if name.unit else 1.0)
    if key == "memory" and "datatime" in beside and not name.unit:  # mmdetection and its kin: MB, unsaid
        return replace(_BY_NAME["gpu/memory_used"], scale=1024.0**2)
    if key == "memallocated" and not name.unit and "/" not in name.tag:  # DeepSpeed's timer: GB
        return replace(_BY_NAME["gpu/memory_used"], scale=1024.0**3)
    if (
        key == "mem" and name.unit == UNITS["%"] and "sm" in beside
    ):  # nvidia-smi dmon: time its memory is read or written
        return replace(_BY_NAME["gpu/memory_bandwidth"], scale=0.01)
    if key == "throughput" and beside & {"iterationtime", "lmloss"}:  # Megatron-LM's event files
        return _BY_NAME["tflops"]
    if (name.split == "eval" and key in CLOCKS) or (name.summary and key in _SUMMARIES):
        return Metric(name.tag, role="duration")
    for pattern, canonical, role in FAMILIES:
        if found := pattern.match(name.tag):
            panel: Panel = "resources" if role == "throttle" else "stability"
            return Metric(canonical.format(**found.groupdict()), "", "none", role, panel)
    return None


def _of_evaluation(about: Metric, name: _Name) -> Metric:
    """A quantity of the evaluation loop: its speed is never judged, what it measures keeps its own name."""
    if about.unit in ("s", "tokens/s", "samples/s", "TFLOP/s"):
        return Metric(name.tag, role="duration")
    return replace(about, name=name.tag) if about.role in ("reward", "counter") else Metric(name.tag)
