"""Runs with known faults, made from a fixed seed: a loss that falls by a power law, and one planted fault each.

Noise is normal, heavy-tailed (Student, 4 degrees of freedom) or correlated (0.6 from point to point), 0.8 to 6 % of the
loss; runs have 500 to 6,000 points, logged at every step or every tenth. Sizes of faults go from faint (well above the
noise of that run) to severe. A third of the runs is healthy. Part of the benchmark of rivals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainlens.model import Floats

SEED = 20261201
HEALTHY, EACH = 42, 6
LAWS = ("normal", "student", "correlated")


@dataclass
class Made:
    """Columns of a run under way. A fault changes them and says where it stands, in points from 0."""

    random: np.random.Generator
    points: int
    interval: int
    sigma: float
    size: int  # 0 faint, 1 moderate, 2 severe
    columns: dict[str, Floats] = field(default_factory=dict)
    eval_every: int = 1
    events: list[dict[str, Any]] = field(default_factory=list)
    again: tuple[int, int] | None = None  # rows of these points are written twice, as after a restart
    left_out: tuple[int, int] | None = None

    def step(self, at: int) -> int:
        return (min(at, self.points - 1) + 1) * self.interval

    def told(self, kind: str, first: int, last: int, **more: Any) -> None:
        self.events.append({"kind": kind, "first_step": self.step(first), "last_step": self.step(last), **more})

    def place(self, low: float, high: float) -> int:
        return int(self.random.uniform(low, high) * self.points)

    def graded(self, faint: float, moderate: float, severe: float) -> float:
        return (faint, moderate, severe)[self.size]

    @property
    def t(self) -> Floats:
        return np.arange(self.points, dtype=np.float64)


def _curve(made: Made, law: str) -> None:
    n, random = made.points, made.random
    t = made.t
    warm = max(5, n // int(random.integers(20, 60)))
    peak = 10 ** random.uniform(-4, -2.7)
    decay = random.choice(["cosine", "linear", "constant", "late"])
    x = np.clip((t - warm) / max(1, n - warm), 0, 1)
    shape = {
        "cosine": 0.55 + 0.45 * np.cos(np.pi * x), "linear": 1 - 0.95 * x, "constant": np.ones(n),
        "late": np.where(x < 0.8, 1.0, 1 - 0.95 * (x - 0.8) / 0.2),
    }[decay]  # fmt: skip
    rate = peak * np.minimum(1, (t + 1) / warm) * shape
    floor, start, power = random.uniform(1.6, 2.8), random.uniform(5, 9), random.uniform(0.35, 0.6)
    smooth = floor + (start - floor + 2) * (1 + t / (0.01 * n)) ** -power
    if law == "student":
        noise = random.standard_t(4, n) / math.sqrt(2)
    else:
        noise = random.normal(0, 1, n)
        if law == "correlated":
            for at in range(1, n):
                noise[at] = 0.6 * noise[at - 1] + 0.8 * noise[at]
    gradient = random.uniform(0.4, 1.5) * (1 + 3 * (1 + t / (0.005 * n)) ** -1) * np.exp(random.normal(0, 0.12, n))
    made.columns = {
        "loss": smooth * (1 + made.sigma * noise),
        "smooth": smooth,
        "learning_rate": rate,
        "grad_norm": gradient,
        "step_time": random.uniform(0.2, 3) * np.exp(random.normal(0, 0.02, n)),
    }
    made.eval_every = max(1, n // 40)
    made.columns["eval_loss"] = smooth * random.uniform(1.01, 1.04) * (1 + 0.004 * random.normal(0, 1, n))


def _height(made: Made) -> float:
    """A rise, as a share of the loss: never less than ten times the noise."""
    return max(10 * made.sigma, made.graded(0.15, 0.5, 2.0))


def _loss_spike(made: Made) -> None:
    at, tail = made.place(0.25, 0.8), made.graded(3, 8, 20)
    shape = np.where(made.t >= at, np.exp(-np.maximum(made.t - at, 0) / tail), 0)
    made.columns["loss"] *= 1 + _height(made) * shape
    made.columns["grad_norm"] *= 1 + made.graded(2, 6, 20) * np.where(shape > 0.5, 1, 0)
    made.told("loss_spike", at, at + int(3 * tail))
    made.told("grad_spike", at, at + int(tail), optional=True)


def _grad_spike(made: Made) -> None:
    at, width = made.place(0.25, 0.8), int(made.graded(1, 3, 5))
    made.columns["grad_norm"][at : at + width] *= made.graded(15, 40, 200)
    made.told("grad_spike", at, at + width - 1, accept=["grad_explosion"])


def _divergence(made: Made) -> None:
    at = made.place(0.5, 0.75)
    rise = np.clip((made.t - at) / (0.12 * made.points), 0, None)
    grown = made.graded(0.35, 0.8, 2.0) * (1 - np.exp(-rise))
    for name in ("loss", "eval_loss"):
        made.columns[name] *= 1 + np.maximum(grown, 0) * (1 + 6 * made.sigma)
    made.columns["grad_norm"] *= 1 + 3 * (1 - np.exp(-rise))
    made.told("divergence", at, made.points, accept=["loss_shift"])


def _loss_shift(made: Made) -> None:
    at = made.place(0.35, 0.7)
    height = max(4 * made.sigma, made.graded(0.08, 0.15, 0.3))
    made.columns["loss"][at:] *= 1 + height
    made.columns["eval_loss"][at:] *= 1 + height
    made.told("loss_shift", at, made.points, accept=["divergence"])
    made.told("eval_shift", at, made.points, optional=True)


def _nan(made: Made) -> None:
    at = made.place(0.3, 0.9)
    last = made.points if made.size == 2 else at + int(made.graded(1, 10, 0))
    for name in ("loss", "grad_norm"):
        made.columns[name][at:last] = math.nan
    made.told("nan_inf", at, last - 1)


def _plateau(made: Made) -> None:
    at = made.place(0.15, 0.3) if made.size else made.place(0.08, 0.12)
    held = made.columns["smooth"][at]
    for name in ("loss", "eval_loss"):
        made.columns[name][at:] *= held / made.columns["smooth"][at:]
    made.told("plateau", at, made.points)


def _overfitting(made: Made) -> None:
    at = made.place(0.35, 0.6)
    rise = np.clip((made.t - at) / (made.points - at), 0, None)
    made.columns["eval_loss"] *= 1 + made.graded(0.12, 0.3, 0.8) * rise
    made.told("overfitting", at, made.points)


def _slowdown(made: Made) -> None:
    at = made.place(0.4, 0.7)
    made.columns["step_time"][at:] *= made.graded(1.25, 1.6, 3.5)
    made.told("slowdown", at, made.points)


def _periodic_stall(made: Made) -> None:
    period = int(made.random.choice([20, 25, 50]))
    made.columns["step_time"][period - 1 :: period] *= made.graded(3, 6, 15)
    made.told("periodic_stall", period - 1, made.points)


def _hang(made: Made) -> None:
    at = made.place(0.3, 0.8)
    made.columns["step_time"][at] += made.graded(120, 600, 7200) * made.interval
    made.told("hang", at - 1, at)


def _rate_fault(made: Made) -> None:
    at = made.place(0.35, 0.7)
    if made.size == 2:
        made.columns["learning_rate"][at:] = 0.0
        made.told("lr_anomaly", at, made.points)
        made.told("plateau", at, made.points, optional=True)
    else:
        width = int(made.graded(3, 0.05 * made.points, 0))
        made.columns["learning_rate"][at : at + width] *= made.graded(10, 0.02, 0)
        made.told("lr_anomaly", at, at + width - 1)


def _rollback(made: Made) -> None:
    at = made.place(0.4, 0.8)
    back = int(made.points * made.graded(0.02, 0.05, 0.1))
    made.again = (at - back, at)
    made.told("rollback", at - back, at)


def _gap(made: Made) -> None:
    at = made.place(0.3, 0.7)
    made.left_out = (at, at + int(made.points * made.graded(0.03, 0.06, 0.15)))
    made.told("log_gap", *made.left_out)


def _explosion(made: Made) -> None:
    at = made.place(0.4, 0.7)
    made.columns["grad_norm"][at:] *= made.graded(15, 60, 500)
    made.told("grad_explosion", at, made.points)


FAULTS: tuple[Callable[[Made], None], ...] = (
    _loss_spike, _grad_spike, _divergence, _loss_shift, _nan, _plateau, _overfitting, _slowdown, _periodic_stall, _hang,
    _rate_fault, _rollback, _gap, _explosion,
)  # fmt: skip


def write(folder: Path, seed: int = SEED) -> None:
    """TRUTH.jsonl and RUN/metrics.jsonl of 126 runs."""
    folder.mkdir(parents=True)
    truths = []
    planned: list[Callable[[Made], None] | None] = [None] * HEALTHY + [fault for fault in FAULTS for _ in range(EACH)]
    for number, fault in enumerate(planned):
        random = np.random.default_rng([seed, number])
        points = int(random.choice([500, 1200, 2500, 6000]))
        made = Made(random, points, int(random.choice([1, 1, 10])), float(random.uniform(0.008, 0.06)), number % 3)
        _curve(made, LAWS[number // 3 % len(LAWS)])
        if fault is not None:
            fault(made)
        name = f"m{number:03}"
        (folder / name).mkdir()
        lines = (json.dumps(row) + "\n" for row in _rows(made))
        (folder / name / "metrics.jsonl").write_text("".join(lines), "utf-8")
        about = {"steps": made.step(points), "log_every": made.interval, "eval_every": made.eval_every * made.interval}
        cause = "healthy" if fault is None else fault.__name__.strip("_")
        truths.append({
            "run": name, "source": "made", "cause": cause, "healthy": fault is None, "events": made.events,
            "attrs": about,
        })  # fmt: skip
    (folder / "TRUTH.jsonl").write_text("".join(json.dumps(truth) + "\n" for truth in truths), "utf-8")


def _rows(made: Made) -> list[dict[str, float]]:
    order = list(range(made.points))
    if made.again is not None:
        order = order[: made.again[1]] + order[made.again[0] :]
    if made.left_out is not None:
        order = order[: made.left_out[0]] + order[made.left_out[1] :]
    tokens, clock, rows = 524_288, 1_760_000_000.0, []
    shown = ("loss", "grad_norm", "learning_rate", "step_time")
    for at in order:
        seconds = float(made.columns["step_time"][at])
        unseen = made.left_out[1] - made.left_out[0] if made.left_out is not None and at == made.left_out[1] else 0
        clock += seconds * made.interval * (1 + unseen)
        row: dict[str, float] = {"step": made.step(at)}
        row |= {name: float(f"{made.columns[name][at]:.6g}") for name in shown}
        rows.append(row | {"tokens_per_sec": float(f"{tokens / seconds:.6g}"), "wall_time": round(clock, 3)})
        if (at + 1) % made.eval_every == 0:
            rows.append({"step": made.step(at), "eval_loss": float(f"{made.columns['eval_loss'][at]:.6g}")})
    return rows
