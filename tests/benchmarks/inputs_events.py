"""Seeded event files for the benchmark: a million scalars in a second, by filling columns of ready-made records."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tests.parsers import events as e

Kind = Literal["regular", "irregular", "tf2", "media"]
KINDS: tuple[Kind, ...] = ("regular", "irregular", "tf2", "media")

TAGS = (
    "train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "perf/tokens_per_second", "perf/step_time",
    "gpu/memory", "gpu/utilization", "loss/lm", "loss/auxiliary", "optimizer/parameter_norm", "optimizer/update_ratio",
    "grad/layer_00", "grad/layer_11", "grad/layer_23", "data/sequence_length", "eval/loss", "eval/accuracy",
    "eval/perplexity", "eval/calibration",
)  # fmt: skip
_MARK = 123.456  # stands in a ready-made record where the value goes


@dataclass(frozen=True)
class Truth:
    """What a file holds, in file order: indices into TAGS, steps, clocks and values."""

    tag: NDArray[np.int64]
    step: NDArray[np.int64]
    time: NDArray[np.float64]
    value: NDArray[np.float32]


def write(path: Path, kind: Kind, points: int, seed: int = 1) -> Truth:
    """Write an event file of `points` scalars; the truth it holds comes back."""
    rng = np.random.default_rng(seed)
    tag, step = _irregular(points, rng) if kind == "irregular" else _regular(points)
    time = np.sort(1.75e9 + step * 0.36 + rng.random(points) * 1e-3)
    level = 0.5 + 3.0 * (1.0 + step) ** -0.15
    value = (level * (0.3 + tag * 0.17) + rng.normal(0, 0.02, points)).astype(np.float32)
    truth = Truth(tag, step, time, value)
    extra = _media(points, rng) if kind == "media" else {}
    _fill(path, truth, kind == "tf2", extra)
    return truth


def damage(path: Path, truth: Truth, every: int) -> Truth:
    """Flip a bit of the value of every so manieth scalar of a written file; what is left of the truth comes back."""
    from trainlens.parsers._event_frames import frames  # only to find where the records are

    buffer = np.fromfile(path, np.uint8)
    found = frames(buffer, 0, len(buffer))
    hit = np.arange(every // 2, len(truth.step), every)
    buffer[found.starts[hit + 1] + found.lengths[hit + 1] + 8] ^= 1  # the first record holds the version alone
    buffer.tofile(path)
    left = np.ones(len(truth.step), np.bool_)
    left[hit] = False
    return Truth(truth.tag[left], truth.step[left], truth.time[left], truth.value[left])


def _regular(points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = np.arange(points)
    return count % len(TAGS), count // len(TAGS)


def _irregular(points: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """12 tags a step, 4 more each tenth, 4 evaluations each 500th; some steps shuffled, some with tags missing."""
    tags: list[int] = []
    steps: list[int] = []
    step = 0
    while len(tags) < points:
        row = list(range(12)) + ([12, 13, 14, 15] if step % 10 == 0 else [])
        row += [16, 17, 18, 19] if step and step % 500 == 0 else []
        chance = rng.random()
        if chance < 0.01:
            rng.shuffle(row)
        elif chance < 0.03:
            row = [one for one in row if rng.random() < 0.8]
        tags += row
        steps += [step] * len(row)
        step += 1
    return np.array(tags[:points]), np.array(steps[:points])


def _media(points: int, rng: np.random.Generator) -> dict[int, bytes]:
    """Images and histograms, a fifth of the bytes: what stands before the scalar of each index."""
    wanted, extra = points * 55 // 4, {}
    while wanted > 0:
        index = int(rng.integers(1, points))
        step = index // len(TAGS)
        if rng.random() < 1 / 3:
            body = e.message(1, b"image/sample") + e.message(4, e.message(4, rng.bytes(30_000)))
        else:
            histogram = e.message(6, rng.bytes(2400)) + e.message(7, rng.bytes(2400))
            body = e.message(1, b"weights/layer") + e.message(5, histogram)
        extra[index] = e.event([body], step, 1.75e9 + step * 0.36)
        wanted -= len(extra[index])
    return extra


def _fill(path: Path, truth: Truth, tensors: bool, extra: dict[int, bytes]) -> None:
    """Records of one tag and step width are copies of one; all are filled at once and put where they belong."""
    width = np.searchsorted([1, 1 << 7, 1 << 14, 1 << 21, 1 << 28], truth.step, side="right")
    kinds = truth.tag * 8 + width
    made = {int(kind): _record(TAGS[kind // 8], int(kind % 8), tensors) for kind in np.unique(kinds)}
    sizes = np.zeros(len(kinds), np.int64)
    for kind, record in made.items():
        sizes[kinds == kind] = len(record)
    head = e.version(1.75e9 - 1)
    before = np.zeros(len(kinds), np.int64)
    for index, record in extra.items():
        before[index] = len(record)
    ends = len(head) + np.cumsum(sizes + before)
    starts = ends - sizes
    buffer = np.zeros(int(ends[-1]), np.uint8)
    buffer[: len(head)] = np.frombuffer(head, np.uint8)
    for index, record in extra.items():
        buffer[starts[index] - len(record) : starts[index]] = np.frombuffer(record, np.uint8)
    for kind, record in made.items():
        which = np.flatnonzero(kinds == kind)
        rows = _rows(record, kind % 8, truth, which)
        for byte in range(len(record)):
            buffer[starts[which] + byte] = rows[:, byte]
    buffer.tofile(path)


def _record(tag: str, width: int, tensors: bool) -> bytes:
    value = e.tensor(tag, e.floats(_MARK)) if tensors else e.simple(tag, _MARK)
    return e.event([value], 1 << (7 * (width - 1)) if width else 0)


def _rows(record: bytes, width: int, truth: Truth, which: NDArray[np.int64]) -> NDArray[np.uint8]:
    rows = np.tile(np.frombuffer(record, np.uint8), (len(which), 1))
    rows[:, 13:21] = truth.time[which].astype("<f8")[:, None].view(np.uint8)
    for byte in range(width):
        more = 0x80 if byte < width - 1 else 0
        rows[:, 22 + byte] = (truth.step[which] >> (7 * byte)) & 127 | more
    place = record.index(struct.pack("<f", _MARK))
    rows[:, place : place + 4] = truth.value[which].astype("<f4")[:, None].view(np.uint8)
    rows[:, -4:] = _masked_checksums(rows[:, 12:-4]).astype("<u4")[:, None].view(np.uint8)
    return rows


def _masked_checksums(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for byte in range(rows.shape[1]):
        crc = table[(crc ^ rows[:, byte]) & 0xFF] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def write_log(kind: str, path: Path, points: int) -> None:
    """An event file ("events"), JSON lines or Megatron's text; a shorter log is the beginning of a longer one."""
    if kind == "events":
        write(path, "regular", points)
        return
    chance = random.Random(1)
    with path.open("w") as file:
        for step in range(1, points // 8 + 1):
            loss, norm = 3 / step**0.15 + chance.gauss(0, 0.02), 1 + 0.1 * chance.random()
            if kind == "jsonl":
                file.write(
                    f'{{"step": {step}, "loss": {loss:.6f}, "grad_norm": {norm:.6f}, "lr": 0.0003, '
                    f'"epoch": {step / 1e4}, "tokens_per_second": {9e4 * norm:.2f}, '
                    f'"step_time": {0.4 * norm:.6f}, "memory": 71.5, "mfu": 0.41}}\n'
                )
            else:
                file.write(
                    f" [2025-10-0{1 + step // 86400} {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}] "
                    f"iteration {step:8}/ 1000000 | consumed samples: {step * 8:12} | elapsed time per iteration (ms): "
                    f"{400 * norm:.1f} | learning rate: 1.500000E-04 | global batch size:     8 | "
                    f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | "
                    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
                )
