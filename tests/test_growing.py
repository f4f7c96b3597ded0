"""A file that grows, read again and again through the cache, gives what one reading of it gives: for every parser that
can go on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.parsers import events as e
from tests.parsers import wandb_files as w
from trainlens import plugins
from trainlens.model import Batch, Checkpoint, Event, Fact, Note, Points
from trainlens.sources import Source
from trainlens.store import cache


def told(batches: list[Batch]) -> dict[str, object]:
    """All that batches say, however they are divided: rows by tag, rank and run; the rest without order."""
    rows: dict[tuple[str, int, str], list[tuple[object, ...]]] = {}
    for one in batches:
        if isinstance(one, Points):
            columns = [
                [None] * len(one.value) if column is None else np.asarray(column).tolist()
                for column in (one.step, one.origin, one.time)
            ]
            values = [value.hex() for value in one.value.tolist()]
            times = [None if time is None or time != time else time for time in columns[2]]
            rows.setdefault((one.tag, one.rank, one.run), []).extend(
                zip(columns[0], columns[1], times, values, strict=True)
            )
    return {
        "points": rows,
        "events": sorted(str(one) for one in batches if isinstance(one, Event)),
        "facts": sorted(str((one.name, one.value, one.run)) for one in batches if isinstance(one, Fact)),
        "notes": sorted(str(one) for one in batches if isinstance(one, Note)),
    }


# ---- one file of each format, with what may be wrong in it -----------------------------------------------------------


def event_file() -> bytes:
    parts = [(e.version())]
    parts.append(e.event([e.hyperparameters({"lr": 0.1}, {"model": "small"})]))
    for step in range(1, 60):
        time = 1.76e9 + step
        parts.append(e.event([e.simple("loss", 3 / step)], step, time))
        parts.append(e.event([e.tensor("eval/loss", e.floats(2 / step))], step, time))
        if step in (20, 40):
            broken = bytearray(e.event([e.simple("loss", 1.0)], step, time))
            broken[-1] ^= 1
            parts += [bytes(broken), (e.event([e.text("note", "same words")], step, time))]
        if step in (25, 45):
            parts.append(bytes([7]) * 37)
        if step == 30:
            parts.append(e.session(1, step))
    return b"".join(parts)


def json_lines() -> bytes:
    rows: list[str] = ['{"learning_rate": 0.1, "model": "small"}']
    for step in range(1, 80):
        rows.append(json.dumps({"step": step, "loss": 3 / step, "grad_norm": float("nan") if step == 9 else 1.0}))
        if step % 25 == 0:
            rows += ["no object", json.dumps({"step": step, "eval_loss": 2 / step}), "\0" * 30]
    return "\n".join([*rows, '{"train_runtime": 12.5, "train_loss": 0.3}', ""]).encode()


def table() -> bytes:
    lines = ["step,loss,lr"]
    for step in range(1, 80):
        lines.append(f"{step},{3 / step},{'' if step % 10 else '0.1'}")
        if step % 30 == 0:
            lines += ["step,loss,lr", "1,2,3,4,5,6"]
    return "\n".join([*lines, ""]).encode()


def megatron() -> bytes:
    lines = ["using world size: 8, data-parallel size: 8", "  hidden_size ..................... 1024"]
    for step in range(1, 70):
        lines.append(
            f" [2025-10-09 08:{step % 60:02}:20] iteration {step:8}/    1000 | consumed samples: {step * 8:12} | "
            f"elapsed time per iteration (ms): {400 + step}.5 | learning rate: 1.500000E-04 | "
            "global batch size:     8 | "
            f"lm loss: {3 / step:.6E} | loss scale: 1.0 | grad norm: 1.250 | number of skipped iterations:   0 | "
            "number of nan iterations:   0 |"
        )
        if step % 20 == 0:
            lines += [
                f"saving checkpoint at iteration {step:7} to out",
                "Traceback (most recent call last):",
                "  File x",
            ]
            lines += ["RuntimeError: CUDA error: out of memory", "some other words"]
    return "\n".join([*lines, ""]).encode()


def deepspeed() -> bytes:
    lines = []
    for step in range(1, 60):
        lines.append(
            f"[2025-10-09 08:{step:02}:20,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={step * 10}, skipped=0, "
            f"lr=[{0.1 / step!r}], mom=[(0.9, 0.999)]"
        )
        lines.append(f"steps: {step * 10} loss: {3 / step:.4f} iter time (s): 0.5 samples/sec: 100.5")
    return "\n".join([*lines, ""]).encode()


def pairs() -> bytes:
    lines = ["starting", "lr = 0.1"]
    for step in range(1, 90):
        lines.append(
            f"step {step}: train loss {3 / step:.4f}, time {32 + step}ms, mfu {-100.0 if step < 4 else 41.5:.2f}%"
        )
        if step % 30 == 0:
            lines += ["Traceback (most recent call last):", "ValueError: nothing"]
    return "\n".join([*lines, ""]).encode()


def mlflow() -> bytes:
    lines = [f"{1_760_000_000_000 + step} {3 / step!r} {step}" for step in range(1, 80)]
    return "\n".join([*lines[:20], "no line", *lines[20:50], "nor this", *lines[50:], ""]).encode()


def nvidia_smi() -> bytes:
    lines = ["timestamp, index, name, utilization.gpu [%], memory.used [MiB]"]
    for second in range(60):
        now = f"2025/10/09 08:00:{second:02}.000"
        lines += [f"{now}, {card}, NVIDIA A100, {90 + card} %, {1000 + second} MiB" for card in (0, 1)]
        if second % 20 == 0:
            lines.append("Failed to read, at all")
    return "\n".join([*lines, ""]).encode()


def swanlab() -> bytes:
    lines = []
    for step in range(1, 50):
        created = f"2025-10-09T08:{step:02}:20+00:00"
        lines.append(f'{{"index": {step}, "data": {3 / step}, "create_time": "{created}"}}')
        if step % 20 == 0:
            lines.append("no json")
    return "\n".join([*lines, ""]).encode()


def wandb() -> bytes:
    records = [w.config({"lr": "0.1", "model": '"small"'})]
    for step in range(60):
        records.append(
            w.row({"loss": str(3 / (step + 1)), "_step": str(step), "_timestamp": str(w.START + step)}, step)
        )
        if step % 7 == 3:
            records.append(w.sample(step, {"gpu.0.powerWatts": str(100 + step)}))
        if step == 30:
            records.append(w.config({"lr": "0.1", "batch": "8"}))
    return w.run_file([*records, w.exited(0)])


FILES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "tensorboard": ("", "events.out.tfevents.1.host", event_file),
    "jsonl": ("", "log.jsonl", json_lines),
    "csv": ("", "metrics.csv", table),
    "megatron": ("", "train.log", megatron),
    "deepspeed": ("", "ds.log", deepspeed),
    "key-value-text": ("", "out.log", pairs),
    "mlflow-files": (f"mlruns/0/{'0a' * 16}/metrics", "loss", mlflow),
    "nvidia-smi": ("", "gpu.csv", nvidia_smi),
    "swanlab": ("swanlog/run-20250605_144317-a/logs/loss", "1000.log", swanlab),
    "wandb": ("", "run-ab.wandb", wandb),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("format_", FILES)
def test_a_file_that_grows_gives_what_one_reading_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, seed: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "DEAR", -1.0)
    monkeypatch.setattr(cache, "MOST_PARTS", 3)
    folder, name, write = FILES[format_]
    content, parser = write(), plugins.load("parsers", format_)
    path = tmp_path / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    first = max(200, len(content) // 5)
    cuts = sorted(chance.sample(range(first, len(content)), 4))
    if seed % 3 == 0 and b"\n" in content:  # between lines
        cuts = [content.rindex(b"\n", 0, cut) + 1 for cut in cuts]
    for cut in [*cuts, len(content)]:
        path.write_bytes(content[:cut])
        source = Source.of(path)
        found = told(list(cache.cached(source, format_, parser.read)))
        assert found == told(list(parser.read(Source.of(path), None))), cut
        assert told(list(cache.cached(source, format_, parser.read))) == found, "unchanged"
    assert found["points"]


@pytest.mark.parametrize(
    ("format_", "first", "rest"),
    [
        ("jsonl", '{"epoch": 1, "loss": 3.0}\n{"epoch": 2, "loss": 2.0}\n', '{"step": 3, "epoch": 3, "loss": 1.0}\n'),
        ("csv", "epoch,step,loss\n1,,3.0\n2,,2.5\n", "3,30,1.0\n4,40,0.5\n"),
    ],
)
def test_what_later_rows_say_of_earlier_ones_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, first: str, rest: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "DEAR", -1.0)
    path, parser = tmp_path / FILES[format_][1], plugins.load("parsers", format_)
    for content in (first, first + rest):
        path.write_text(content)
        found = told(list(cache.cached(Source.of(path), format_, parser.read)))
        assert found == told(list(parser.read(Source.of(path), None)))


@pytest.mark.parametrize("format_", FILES)
def test_reading_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "DEAR", -1.0)
    folder, name, write = FILES[format_]
    content, parser = write(), plugins.load("parsers", format_)
    path = tmp_path / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    since: list[Checkpoint | None] = []

    def read(source: Source, checkpoint: Checkpoint | None = None) -> object:
        since.append(checkpoint)
        return parser.read(source, checkpoint)

    path.write_bytes(content[: len(content) // 2])
    list(cache.cached(Source.of(path), format_, read))  # type: ignore[arg-type]
    path.write_bytes(content)
    list(cache.cached(Source.of(path), format_, read))  # type: ignore[arg-type]
    assert since[0] is None
    assert since[1] is not None
    assert since[1].offset > len(content) // 4
