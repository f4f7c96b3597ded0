"""The stories of sample_logs/: `python -m tests.samples [STORY …]`, all of them without a name."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from tests.samples import machines, policies, writers
from tests.samples.training import Model, Plan, Row, cosine, text, train

ROOT = Path(__file__).resolve().parents[2] / "sample_logs"


def healthy_tensorboard(folder: Path) -> None:
    writers.tensorboard(train(Plan(900, cosine(3e-3, 50, 900), eval_every=50)), folder)


def healthy_trainer_state(folder: Path) -> None:
    rows = train(Plan(1200, cosine(2e-3, 60, 1200), seed=2, eval_every=100))
    writers.trainer_state(rows, folder, every=10, total=1200)


def healthy_lightning(folder: Path) -> None:
    rows = train(Plan(1000, lambda step: 2e-3 * min(1, step / 30), seed=3, eval_every=100))
    writers.lightning_csv(rows, folder, every=5, steps_an_epoch=100)


def healthy_megatron(folder: Path) -> None:
    rows = train(Plan(700, cosine(3e-3, 40, 700), seed=4, eval_every=100))
    writers.megatron(rows, folder, total=700, save_every=200)


def healthy_warmup_stable_decay(folder: Path) -> None:
    def rate(step: int) -> float:
        return 3e-3 * min(1.0, step / 50, max(0.02, (1000 - step) / 200))

    writers.json_lines(train(Plan(1000, rate, seed=5, eval_every=100)), folder)


def loss_spike_after_rate_jump(folder: Path) -> None:
    """The learning rate is 60 times too large for three steps, as a wrong scheduler state after a reload does it."""
    plain = cosine(2e-3, 50, 1000)
    rows = train(Plan(1000, lambda step: plain(step) * (60 if 600 < step <= 603 else 1), seed=6))
    writers.json_lines(rows, folder)


def loss_spikes_from_bad_batches(folder: Path) -> None:
    """Two stretches of batches that hold random characters: the loss leaves its band at once and comes back."""
    bad = frozenset({*range(400, 404), *range(720, 722)})
    rows = train(Plan(900, cosine(3e-3, 50, 900), seed=7, scramble=bad))
    writers.tensorboard(rows, folder)


def divergence_in_megatron(folder: Path) -> None:
    """From step 350 on the learning rate grows by 2 % a step, without clipping: the loss climbs and stays up."""
    plan = Plan(600, lambda step: 2e-3 if step < 350 else 2e-3 * 1.02 ** (step - 350), seed=8, clip=0)
    writers.megatron(train(plan), folder, total=600)


def nan_in_trainer_state(folder: Path) -> None:
    """One weight becomes infinite at step 500 of 800; every value after it is not a number."""

    def spoil(step: int, model: nn.Module) -> None:
        if step == 500:
            with torch.no_grad():
                next(model.parameters())[0] = float("inf")

    rows = train(Plan(800, cosine(2e-3, 50, 800), seed=9, spoil=spoil))
    writers.trainer_state(rows, folder, every=5, total=800)


def overfitting_in_lightning(folder: Path) -> None:
    """3,000 characters to learn from: the training loss goes on falling long after the validation loss has turned."""
    rows = train(Plan(1500, lambda step: 3e-3 * min(1, step / 30), seed=10, text_length=3000, eval_every=50))
    writers.lightning_csv(rows, folder, every=5, steps_an_epoch=50)


def slowdown_in_megatron(folder: Path) -> None:
    """From step 420 on each step waits, as it does when a node computes slowly: half as fast until the end."""
    rows = train(Plan(700, cosine(3e-3, 40, 700), seed=11, wait=lambda step: 0.02 if step >= 420 else 0.0))
    writers.megatron(rows, folder, total=700)


def checkpoint_stalls(folder: Path) -> None:
    """Saving holds the training up at each 50th step."""
    rows = train(Plan(800, cosine(3e-3, 40, 800), seed=12, wait=lambda step: 0.3 if step % 50 == 0 else 0.0))
    writers.json_lines(rows, folder)


def restart_in_tensorboard(folder: Path) -> None:
    """The run dies after step 520 and goes on from its checkpoint at 400, in an event file of its own."""
    plan = Plan(800, cosine(3e-3, 50, 800), seed=13)
    model = Model(text(plan.text_length)[1])
    kept: dict[str, torch.Tensor] = {}

    def keep(step: int, trained: nn.Module) -> None:
        if step == 401:
            kept.update({name: value.clone() for name, value in trained.state_dict().items()})

    first = itertools.takewhile(lambda row: row.step <= 520, train(replace(plan, spoil=keep), model=model))
    writers.tensorboard(first, folder)
    model.load_state_dict(kept)
    later = (replace(row, time=row.time + 900) for row in train(replace(plan, seed=14), start=400, model=model))
    writers.tensorboard(later, folder)


def overflow_in_deepspeed(folder: Path) -> None:
    """Half precision; from step 600 on the weights are made so large that each backward pass overflows."""

    def spoil(step: int, model: nn.Module) -> None:
        if step >= 600:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1.6)

    rows = train(Plan(640, cosine(2e-3, 50, 640), seed=15, half=True, spoil=spoil))
    writers.deepspeed(rows, folder, every=10)


def never_learns(folder: Path) -> None:
    """A wrong parameter filter leaves only the output bias to train: the loss falls a little and then not at all."""
    rows = train(Plan(600, lambda _: 1e-5, seed=16, frozen=True))
    writers.json_lines(rows, folder)


def loader_starves_and_leaks(folder: Path) -> None:
    """Each step waits for its batch, and each batch is kept: the process grows by what the system says it does."""
    chance = random.Random(19)
    waits = [0.004 + chance.expovariate(1 / 0.003) for _ in range(901)]
    kept: list[torch.Tensor] = []

    def rows() -> Iterator[Row]:
        for row in train(Plan(900, cosine(3e-3, 40, 900), seed=19, wait=lambda step: waits[step])):
            kept.append(torch.zeros(1 << 17) + row.step)
            row.extra = {"data_time": round(waits[row.step], 6), "process/memory_rss_bytes": _resident()}
            yield row

    writers.json_lines(rows(), folder)


def _resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def saving_and_evaluating_stop_in_megatron(folder: Path) -> None:
    """Both come each 50 steps up to step 350 and no more, while the training goes on."""
    rows = train(Plan(700, cosine(3e-3, 40, 700), seed=20, eval_every=50))
    quiet = (replace(row, eval_loss=None) if row.step > 350 else row for row in rows)
    writers.megatron(quiet, folder, total=700, save_every=50, last_save=350)


def healthy_policy(folder: Path) -> None:
    """A small policy is taught by its rewards; it gets more certain and briefer as it learns."""
    _rows(folder, policies.train(400, rate=1.0))


def entropy_collapse_of_a_policy(folder: Path) -> None:
    """From step 150 on rewards are paid to the wrong answers, 100 times too large: certain at once, of anything."""
    _rows(folder, policies.train(400, rate=1.0, spoiled_from=150))


def _rows(folder: Path, rows: Iterator[dict[str, float]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def straggler_among_four_ranks(folder: Path) -> None:
    """From step 250 on rank 2 is slower than the others; the update ratio and activations are logged too."""

    def wait(step: int, rank: int) -> float:
        return 0.002 if rank == 2 and step >= 250 else 0.0

    writers.json_lines(train(Plan(500, cosine(3e-3, 40, 500), seed=18, ranks=4, rank_wait=wait)), folder)


def out_of_memory_in_megatron(folder: Path) -> None:
    """A batch that asks for more memory than there is ends the run with the allocator's own words."""

    def spoil(step: int, _: nn.Module) -> None:
        if step == 251:
            torch.empty(1 << 46)

    def rows() -> Iterator[Row]:
        yield from train(Plan(600, cosine(3e-3, 40, 600), seed=17, spoil=spoil))

    try:
        writers.megatron(rows(), folder, total=600, save_every=100)
    except RuntimeError:
        with (folder / "train.log").open("a", encoding="utf-8") as file:
            file.write(traceback.format_exc().replace(str(ROOT.parent) + "/", ""))


def gpu_falls_off_the_bus(folder: Path) -> None:
    """One GPU throttles from step 240 on, the other is nearly full; at step 480 the driver loses one."""
    machines.training(folder, 600, seed=21, until=480)
    machines.gpus(folder, 245, seed=21, sick_from=120)
    machines.fallen_off(folder, 1940)


def healthy_gpus(folder: Path) -> None:
    machines.training(folder, 600, seed=22)
    machines.gpus(folder, 300, seed=22)


def communication_over_a_slow_link(folder: Path) -> None:
    machines.training(folder, 600, seed=23, communication=0.38)


def schedule_begins_again(folder: Path) -> None:
    machines.large_model(folder, seed=24, resume=600)


def no_warmup_of_a_large_model(folder: Path) -> None:
    machines.large_model(folder, seed=27)


def benchmarks_fall_back(folder: Path) -> None:
    machines.benchmarks(folder, seed=25, falls_from=7)


def healthy_benchmarks(folder: Path) -> None:
    machines.benchmarks(folder, seed=26)


STORIES: dict[str, Callable[[Path], None]] = {
    name: value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
}


def main(names: list[str]) -> None:
    for name in names or sorted(STORIES):
        folder = ROOT / name
        for old in folder.glob("*"):
            if old.name != "expected.toml":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        STORIES[name](folder)
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
