"""What a user requires of a run, in words: "eval/loss <= 2.1 at 20000", "tokens_per_second >= 0.95 * baseline".

    [STATISTIC(]METRIC[)]  <= | >= | < | > | ==  BOUND  [at STEP | by STEP]  [+- TOLERANCE[%]]

BOUND is a number, also with a unit (`120 ms`, `40 GiB`, `90 %`), or `baseline`, also `0.95 * baseline`, `105 % of
baseline`, `baseline * 1.05`, `baseline + 0.02`, `1.02 * baseline - 0.1`. A step may be written `20_000`, `20,000` or
`20k`. Without a statistic a loss is judged by its end, speed and utilisation by their median, all else by the last
value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from trainlens import catalog
from trainlens.figures import figures
from trainlens.model import Floats, Ints, Series

Relation = Literal["<=", ">=", "<", ">", "=="]
Statistic = Literal["last", "first", "end", "min", "max", "mean", "median", "fall", "rise"]
STATISTICS = ("last", "first", "end", "min", "max", "mean", "median", "fall", "rise")
END = 0.01  # share of the points whose median is the end of a curve, and its begin
_BY_ROLE: dict[str, Statistic] = {
    "loss": "end", "policy-loss": "end", "reward": "end", "step-time": "median", "throughput": "median",
    "utilization": "median", "power": "median", "memory": "max",
}  # fmt: skip

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_THOUSANDS = {"k": 1e3, "m": 1e6}
_LARGEST_STEP = 2**62
_FORM = re.compile(
    rf"\s*(?:(?P<statistic>[a-z]+|p[1-9]\d?)\(\s*(?P<inner>[^()<>=]+?)\s*\)|(?P<metric>[^()<>=]+?))\s*"
    rf"(?P<relation><=|>=|==|<|>|≤|≥)\s*"
    rf"(?:(?:(?P<factor>{_NUMBER})\s*(?P<share>%)?\s*(?:\*|of\s)\s*)?(?P<baseline>baseline)"
    rf"(?:\s*\*\s*(?P<times>{_NUMBER}))?(?:\s*(?P<sign>[-+])\s*(?P<offset>{_NUMBER}))?"
    rf"|(?P<number>{_NUMBER})(?:\s*(?P<unit>%|(?!(?:at|by)\b)[A-Za-z]+))?)"
    rf"(?:\s+(?P<when>at|by)\s+(?:step\s+)?(?P<step>\d[\d_,]*(?:\.\d+)?(?P<thousands>[kKM])?|end))?"
    rf"(?:\s*(?:\+-|\+/-|±)\s*(?P<tolerance>{_NUMBER})(?P<relative>\s*%)?)?\s*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement. The bound is `factor` × the baseline's figure (0: none) + `offset`; `step` None is the end."""

    text: str
    metric: str
    statistic: str  # "" for the usual one of the metric's role
    relation: Relation
    factor: float
    offset: float
    step: int | None = None
    by: bool = False  # up to the step: the best value, or the statistic of all till then
    tolerance: float = 0.0
    relative: bool = False  # the tolerance is a share of the bound
    unit: str = ""  # the catalogue's unit that the bound is in; "" where none was written

    def bound(self, baseline: float | None) -> float:
        return self.offset + (self.factor * baseline if self.factor and baseline is not None else 0.0)

    def met(self, observed: float, bound: float) -> bool:
        """Whether the figure is within the bound and its tolerance; NaN meets nothing."""
        slack = self.tolerance * abs(bound) if self.relative else self.tolerance
        low, high = observed >= bound - slack, observed <= bound + slack
        if self.relation == "==":
            return low and high
        if self.relation in ("<", ">") and not slack:
            return observed < bound if self.relation == "<" else observed > bound
        return high if self.relation[0] == "<" else low

    def statistic_for(self, series: Series) -> str:
        return self.statistic or _BY_ROLE.get(series.about.role, "last")


def parse(text: str) -> Requirement:
    """ValueError, saying what is wrong, when it is no requirement."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no requirement: write METRIC <= NUMBER, e.g. eval/loss <= 2.1 at 20000")
    statistic = found["statistic"] or ""
    if statistic and statistic not in STATISTICS and not re.fullmatch(r"p\d\d?", statistic):
        raise ValueError(f"{text!r}: there is no statistic {statistic!r}; there are {', '.join(STATISTICS)}, p1 to p99")
    unit, scale = _unit(found["unit"], text)
    if found["baseline"]:
        factor = float(found["factor"] or 1) * float(found["times"] or 1) / (100 if found["share"] else 1)
        offset = float((found["sign"] or "") + (found["offset"] or "0"))
        if not factor:
            raise ValueError(f"{text!r}: nothing is left of the baseline")
    else:
        factor, offset = 0.0, float(found["number"]) * scale
    tolerance = float(found["tolerance"] or 0)
    if not np.isfinite([factor, offset, tolerance]).all() or tolerance < 0:
        raise ValueError(f"{text!r}: bound and tolerance must be finite, the tolerance not below 0")
    step = _step(found["step"], found["thousands"], text)
    return Requirement(
        " ".join(text.split()),
        found["inner"] or found["metric"],
        statistic,
        cast(Relation, {"≤": "<=", "≥": ">="}.get(found["relation"], found["relation"])),
        factor,
        offset,
        step,
        found["when"] == "by" and step is not None,
        tolerance / 100 if found["relative"] else tolerance,
        bool(found["relative"]),
        unit,
    )


def _unit(written: str | None, text: str) -> tuple[str, float]:
    """The catalogue's unit and the factor that leads to it. `%` is a share of whatever it is of."""
    if not written or written == "%":
        return "", 0.01 if written else 1.0
    if written.lower() not in catalog.UNITS:
        raise ValueError(f"{text!r}: there is no unit {written!r}; there are s, ms, min, GiB, GB, MiB, MB, W and %")
    return catalog.UNITS[written.lower()]


def _step(written: str | None, thousands: str | None, text: str) -> int | None:
    if written in (None, "end"):
        return None
    step = float(re.sub(r"[_,kKM]", "", str(written))) * _THOUSANDS.get((thousands or "").lower(), 1.0)
    if step != int(step) or step > _LARGEST_STEP:
        raise ValueError(f"{text!r}: {written} is no step")
    return int(step)


def figure(series: Series, required: Requirement) -> tuple[float, int | None]:
    """What is held against the bound, in the metric's unit, and the step it was logged at (None: of many steps)."""
    step, value = series.step, series.value
    statistic = required.statistic_for(series)
    if required.step is not None:
        upto = int(np.searchsorted(step, required.step, "right"))
        step, value = step[:upto], value[:upto]
        if not required.by and not required.statistic:
            statistic = "last"
    if required.by and not required.statistic and len(value):
        known = np.flatnonzero(np.isfinite(value))
        if not len(known):
            return float("nan"), None
        best = known[np.argmin(value[known]) if required.relation[0] == "<" else np.argmax(value[known])]
        return float(value[best]), int(step[best])
    return _statistic(statistic, step, value)


def _statistic(name: str, step: Ints, value: Floats) -> tuple[float, int | None]:
    if not len(value):
        return float("nan"), None
    if name in ("last", "first"):
        at = -1 if name == "last" else 0
        return float(value[at]), int(step[at])
    few = max(1, int(len(value) * END))
    if name == "end":
        return (float(np.median(value[-few:])), int(step[-1]))
    known = value[np.isfinite(value)]
    if not len(known):
        return float("nan"), None
    if name in ("min", "max"):
        at = int(np.nanargmin(value) if name == "min" else np.nanargmax(value))
        return float(value[at]), int(step[at])
    if name in ("fall", "rise"):
        begin, end = float(np.median(value[:few])), float(np.median(value[-few:]))
        return (begin - end if name == "fall" else end - begin) / abs(begin) if begin else float("nan"), None
    if name in ("mean", "median"):
        return float(np.mean(known) if name == "mean" else np.median(known)), None
    return float(np.percentile(known, int(name[1:]))), None


def shown(value: float) -> str:
    return figures(value, 5)
