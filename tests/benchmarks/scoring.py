"""Hold what a tool says of runs against what is known of them, fault by fault. Part of the benchmark of rivals.

A fault is one episode: a kind, its first and last step. The rules, the same for every tool:

- A finding and a fault are one pair at most; further findings on a fault that was found cost nothing.
- A moment (spike, NaN, hang, …) is found where both spans meet within 5 log intervals or 0.5 % of the run, and the
  finding is at most 5 times as long as the fault with that slack. A state (divergence, slowdown, …) is found where a
  quarter of both spans is common, or the finding begins within 20 log intervals or 5 % of the run of its begin, or
  is a step inside of it, or lies inside and covers a tenth. Held-out losses have two evaluations of slack.
- A finding that names no step fits a fault of its kind anywhere. One that has two names (a tool that calls spikes and
  explosions of the gradient alike) fits faults of both.
- Faults marked optional (too faint to ask for, or a lawful side effect) may be found or not. A fault's `accept` are
  other names for it, and BRINGS tells what each kind lawfully brings with it: such findings cost nothing.
- All else is a false alarm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOMENTS = frozenset((
    "loss_spike", "grad_spike", "nan_inf", "hang", "lr_anomaly", "rollback", "log_gap", "loss_scale_collapse",
    "skipped_steps",
))  # fmt: skip
HELD_OUT = frozenset(("overfitting", "eval_shift"))
BRINGS: dict[str, frozenset[str]] = {
    kind: frozenset(others.split())
    for kind, others in {
        "divergence": "loss_spike loss_shift plateau grad_spike grad_explosion oscillation clip_ratio_high nan_inf "
        "overfitting eval_shift update_ratio activation_drift grad_vanishing",
        "nan_inf": "divergence grad_explosion log_gap plateau skipped_steps loss_scale_collapse clip_ratio_high",
        "loss_spike": "grad_spike divergence loss_shift clip_ratio_high grad_explosion oscillation eval_shift "
        "update_ratio",
        "grad_spike": "loss_spike clip_ratio_high",
        "loss_shift": "loss_spike divergence eval_shift grad_spike plateau clip_ratio_high",
        "eval_shift": "overfitting loss_spike divergence",
        "plateau": "lr_anomaly grad_vanishing update_ratio overfitting",
        "overfitting": "divergence eval_shift",
        "slowdown": "straggler hang low_mfu low_gpu_util periodic_stall",
        "straggler": "slowdown",
        "periodic_stall": "hang slowdown",
        "hang": "slowdown periodic_stall log_gap rollback",
        "grad_explosion": "clip_ratio_high grad_spike loss_spike update_ratio",
        "grad_vanishing": "plateau grad_spike update_ratio",
        "clip_ratio_high": "grad_spike",
        "oscillation": "loss_spike loss_shift divergence plateau eval_shift",
        "loss_scale_collapse": "skipped_steps",
        "skipped_steps": "loss_scale_collapse nan_inf",
        "lr_anomaly": "plateau loss_spike update_ratio loss_shift divergence grad_spike",
        "rollback": "hang log_gap loss_spike loss_shift lr_anomaly",
        "log_gap": "hang rollback loss_shift",
        "low_gpu_util": "slowdown low_mfu",
        "low_mfu": "slowdown",
        "power_low": "slowdown",
        "comm_high": "slowdown",
        "rank_imbalance": "straggler",
        "update_ratio": "lr_anomaly",
    }.items()
}


@dataclass(frozen=True)
class Said:
    """What a tool said: the names it may have for the fault, and where; no first step means no place was told."""

    kinds: tuple[str, ...]
    first: float | None = None
    last: float | None = None


@dataclass
class Score:
    """Counts by kind of fault, and the false alarms of each healthy run."""

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    healthy: list[int] = field(default_factory=list)

    def f1(self, kinds: Iterable[str]) -> float:
        """NaN where there was nothing to find and nothing was said."""
        kinds = list(kinds)
        found, wrong = sum(self.found[one] for one in kinds), sum(self.missed[one] + self.false[one] for one in kinds)
        return 2 * found / (2 * found + wrong) if found + wrong else math.nan

    def add(self, truth: Mapping[str, Any], said: Sequence[Said]) -> None:
        """Count one run: its pairs of fault and finding, best first, faults that must be found before others."""
        faults = list(truth["events"])
        pairs = sorted(
            (fit - 0.5 * bool(fault.get("optional")), at, by)
            for at, fault in enumerate(faults)
            for by, one in enumerate(said)
            if (fit := _fit(one, fault, truth)) > 0
        )
        paired: dict[int, int] = {}
        for _, at, by in reversed(pairs):
            if at not in paired and by not in paired.values():
                paired[at] = by
        for at, fault in enumerate(faults):
            if not fault.get("optional"):
                (self.found if at in paired else self.missed)[fault["kind"]] += 1
        used = set(paired.values())
        wrong = [one for by, one in enumerate(said) if by not in used and not _excused(one, faults, truth)]
        self.false.update(one.kinds[0] for one in wrong)
        if truth["healthy"]:
            self.healthy.append(len(wrong))


def _excused(one: Said, faults: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]) -> bool:
    """Whether an unpaired finding is a further one on a fault, near an optional fault, or what a fault brings."""
    for fault in faults:
        same = fault["kind"] in one.kinds
        if same and _fit(one, fault, truth) > 0:
            return True
        near = _meets(one, fault, max(_slack(kind, truth) for kind in (*one.kinds, fault["kind"])))
        if near and (
            (same and fault.get("optional")) or BRINGS.get(fault["kind"], frozenset()).intersection(one.kinds)
        ):
            return True
    return False


def _fit(one: Said, fault: Mapping[str, Any], truth: Mapping[str, Any]) -> float:
    """How well a finding fits a fault; 0 when it does not."""
    kind, begin, end = fault["kind"], fault["first_step"], max(fault["first_step"], fault["last_step"])
    if kind not in one.kinds:
        accepted = set(one.kinds).intersection(fault.get("accept", ()))
        return 0.5 if accepted and (one.first is None or _share(one, begin, end) >= 0.25) else 0.0
    if one.first is None:
        return 0.6
    slack, first, last = _slack(kind, truth), one.first, _last(one)
    if kind in MOMENTS:
        short = last - first <= 5 * (end - begin + 2 * slack)
        return 1 + 1 / (1 + abs(first - begin)) if short and _meets(one, fault, slack) else 0.0
    share = _share(one, begin, end)
    if share >= 0.25:
        return 1 + share
    if abs(first - begin) <= slack and first <= end + slack:
        return 1.0
    inside = first >= begin - slack and last <= end + slack
    if first == last:
        return 0.8 if inside else 0.0
    return 0.7 if inside and last - first >= 0.1 * (end - begin) else 0.0


def _slack(kind: str, truth: Mapping[str, Any]) -> float:
    """Steps by which a finding may be beside a fault of this kind."""
    about = truth.get("attrs", {})
    interval, steps = about.get("log_every") or 1, about.get("steps") or 1000
    if kind in MOMENTS:
        return float(max(5 * interval, 0.005 * steps))
    return float(max(20 * interval, 0.05 * steps, 2 * (about.get("eval_every") or 0) if kind in HELD_OUT else 0))


def _meets(one: Said, fault: Mapping[str, Any], slack: float) -> bool:
    if one.first is None:
        return True
    end = max(fault["first_step"], fault["last_step"])
    return bool(one.first - slack <= end and fault["first_step"] - slack <= _last(one))


def _share(one: Said, begin: float, end: float) -> float:
    """What both spans have in common, as a share of all they cover."""
    if one.first is None:
        return 0.0
    whole, common = max(_last(one), end) - min(one.first, begin), min(_last(one), end) - max(one.first, begin)
    return max(common, 0.0) / whole if whole > 0 else 0.0


def _last(one: Said) -> float:
    first = one.first or 0.0
    return first if one.last is None else max(one.last, first)
