"""The writers of the formats: the real library's own where there is one, the framework's print statement where not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.samples.training import BATCH, CONTEXT, Row


def tensorboard(rows: Iterable[Row], folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))
    for row in rows:
        values = {"train/loss": row.loss, "train/grad_norm": row.grad_norm, "train/lr": row.rate}
        values |= {} if row.eval_loss is None else {"eval/loss": row.eval_loss}
        for tag, value in values.items():
            writer.add_scalar(tag, value, row.step, walltime=row.time)
    writer.close()


def trainer_state(rows: Iterable[Row], folder: Path, *, every: int, total: int) -> None:
    """`trainer_state.json`, written by transformers' own TrainerState; one entry each `every` steps."""
    from transformers.trainer_callback import TrainerState

    history: list[dict[str, float]] = []
    last = None
    for row in rows:
        last = row
        epoch = round(row.step / total * 3, 4)
        if row.step % every == 0:
            entry = {"epoch": epoch, "grad_norm": row.grad_norm, "learning_rate": row.rate, "loss": round(row.loss, 4)}
            history.append(entry | {"step": row.step})
        if row.eval_loss is not None:
            history.append({"epoch": epoch, "eval_loss": row.eval_loss, "step": row.step})
    assert last is not None
    state = TrainerState(
        epoch=3.0, global_step=last.step, max_steps=total, logging_steps=every, num_train_epochs=3, log_history=history
    )
    state.train_batch_size = BATCH
    folder.mkdir(parents=True, exist_ok=True)
    state.save_to_json(str(folder / "trainer_state.json"))


def lightning_csv(rows: Iterable[Row], folder: Path, *, every: int, steps_an_epoch: int) -> None:
    """`metrics.csv` of Lightning's CSVLogger: training rows and validation rows apart, cells empty between them."""
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(str(folder.parent), name=folder.name, version="", flush_logs_every_n_steps=10_000)
    for row in rows:
        epoch = (row.step - 1) // steps_an_epoch
        if row.step % every == 0:
            logger.log_metrics({"train_loss": row.loss, "lr": row.rate, "epoch": epoch}, step=row.step - 1)
        if row.eval_loss is not None:
            logger.log_metrics({"val_loss": row.eval_loss, "epoch": epoch}, step=row.step - 1)
    logger.save()
    for left in folder.glob("hparams.yaml"):
        left.unlink()


def json_lines(rows: Iterable[Row], folder: Path, *, name: str = "metrics.jsonl", every: int = 1) -> None:
    """One object a row, as most home-made loops write it: Python's json with its bare NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a", encoding="utf-8") as file:
        for row in rows:
            if row.step % every == 0:
                entry: dict[str, float] = {
                    "step": row.step,
                    "loss": row.loss,
                    "grad_norm": row.grad_norm,
                    "lr": row.rate,
                }
                entry |= {"step_time": round(row.seconds, 6), "tokens_per_sec": round(row.tokens / row.seconds, 1)}
                entry |= {} if row.loss_scale is None else {"loss_scale": row.loss_scale, "skipped": int(row.skipped)}
                file.write(json.dumps(entry | row.extra) + "\n")
            if row.eval_loss is not None:
                file.write(json.dumps({"step": row.step, "eval_loss": row.eval_loss}) + "\n")


def megatron(
    rows: Iterable[Row], folder: Path, *, total: int, save_every: int = 0, last_save: int | None = None
) -> None:
    """The lines that Megatron-LM core prints: arguments, iterations, validations, checkpoints (none after the last)."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = {
        "global_batch_size": BATCH,
        "seq_length": CONTEXT,
        "train_iters": total,
        "world_size": 1,
        "clip_grad": 1.0,
    }
    with (folder / "train.log").open("a", encoding="utf-8") as file:
        file.write("------------------------ arguments ------------------------\n")
        for key, value in sorted(arguments.items()):
            file.write(f"  {key} {'.' * (48 - len(key))} {value}\n")
        file.write("-------------------- end of arguments ---------------------\n")
        for row in rows:
            when = datetime.fromtimestamp(row.time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
            file.write(
                f" [{when}] iteration {row.step:8d}/{total:8d} | consumed samples: {row.step * BATCH:12d} | "
                f"elapsed time per iteration (ms): {row.seconds * 1000:.1f} | learning rate: {row.rate:.6E} | "
                f"global batch size: {BATCH:5d} | lm loss: {row.loss:.6E} | loss scale: 1.0 | "
                f"grad norm: {row.grad_norm:.3f} | number of skipped iterations:   0 | "
                f"number of nan iterations:   0 |\n"
            )
            file.flush()
            if row.eval_loss is not None:
                line = f" validation loss at iteration {row.step} | lm loss value: {row.eval_loss:.6E} | "
                file.write(f"{'-' * len(line)}\n{line}\n{'-' * len(line)}\n")
            if save_every and row.step % save_every == 0 and row.step <= (last_save or total):
                file.write(f"saving checkpoint at iteration {row.step:7d} to checkpoints in torch_dist format\n")
                file.write(f"  successfully saved checkpoint from iteration {row.step:7d} to checkpoints\n")


def deepspeed(rows: Iterable[Row], folder: Path, *, every: int, name: str = "train.log") -> None:
    """The lines that DeepSpeed prints each `steps_per_print` steps, and its overflow lines."""
    folder.mkdir(parents=True, exist_ok=True)
    skipped = 0
    with (folder / name).open("w", encoding="utf-8") as file:
        for row in rows:
            when = datetime.fromtimestamp(row.time, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
            scale = row.loss_scale or 1.0
            if row.skipped:
                skipped += 1
                file.write(
                    f"[{when}] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
                    f"Attempted loss scale: {scale:.0f}, reducing to {max(1, scale / 2):.0f}\n"
                )
                if scale <= 1:
                    end = "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
                    file.write(f"Exception: {end}\n")
            if row.step % every == 0:
                file.write(
                    f"[{when}] [INFO] [logging.py:96:log_dist] [Rank 0] step={row.step}, skipped={skipped}, "
                    f"lr=[{row.rate}], mom=[(0.9, 0.999)]\n"
                    f"steps: {row.step} loss: {row.loss:.4f} iter time (s): {row.seconds:.3f} "
                    f"samples/sec: {BATCH / row.seconds:.3f}\n"
                )
