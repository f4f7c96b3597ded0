"""A character model of 0.1 M parameters and the loop that trains it; each fault of the stories is a switch of Plan."""

from __future__ import annotations

import math
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXT = 48
BATCH = 16


@dataclass
class Plan:
    """One training. `rate` gives the learning rate of a step; `wait` the seconds that a step is held up."""

    steps: int
    rate: Callable[[int], float]
    seed: int = 1
    text_length: int = 400_000
    eval_every: int = 0
    clip: float = 1.0
    half: bool = False  # gradients pass through float16 with a dynamic loss scale
    frozen: bool = False  # all but the output bias, which a wrong parameter filter can do
    wait: Callable[[int], float] | None = None
    spoil: Callable[[int, nn.Module], None] | None = None
    ranks: int = 0  # the batch is worked through in so many parts, each timed as a rank of its own
    rank_wait: Callable[[int, int], float] | None = None  # of a step and a rank
    scramble: frozenset[int] = frozenset()  # steps whose batches hold random characters


@dataclass
class Row:
    """What one step measured; `eval_loss` only after an evaluation. Times are Unix seconds."""

    step: int
    loss: float
    grad_norm: float
    rate: float
    seconds: float
    time: float
    tokens: int
    eval_loss: float | None = None
    loss_scale: float | None = None
    skipped: bool = False
    extra: dict[str, float] = field(default_factory=dict)


class Model(nn.Module):
    def __init__(self, characters: int, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, batch: Tensor) -> Tensor:
        hidden = self.embedding(batch) + self.position
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True))


def text(length: int) -> tuple[Tensor, int]:
    """The standard library's own sources as characters, and how many characters there are."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    whole = "".join(path.read_text("utf-8", "ignore") for path in sorted(folder.glob("*.py"))[:60])
    characters = sorted({letter for letter in whole if letter.isascii()})
    index = {letter: number for number, letter in enumerate(characters)}
    return torch.tensor([index[letter] for letter in whole if letter in index][: length + 40_000]), len(characters)


def train(plan: Plan, start: int = 0, model: nn.Module | None = None) -> Iterator[Row]:
    """The rows of a training from step `start` + 1; a given model goes on being trained (a restart)."""
    torch.manual_seed(plan.seed)
    torch.set_num_threads(1)
    data, characters = text(plan.text_length)
    training, held_out = data[: plan.text_length], data[-40_000:]
    model = model or Model(characters)
    if plan.frozen:
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name == "head.bias"
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=1.0, weight_decay=0.05)
    scale = 65536.0 if plan.half else 1.0
    good = 0
    clock = time.time()
    for step in range(start + 1, plan.steps + 1):
        begin = time.process_time()  # other programs on the machine are not part of the story
        batch = _batch(training, characters if step in plan.scramble else 0)
        if plan.spoil:
            plan.spoil(step, model)
        optimizer.zero_grad()
        extra: dict[str, float] = {}
        if plan.ranks:
            loss, extra = _in_parts(model, batch, plan, step)
        else:
            loss = _loss(model, batch)
            (loss * scale).backward()
        overflow = plan.half and not _through_half(chosen, scale)
        norm = float(nn.utils.clip_grad_norm_(chosen, plan.clip or math.inf))
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(step)
        if not overflow:
            before = [parameter.detach().clone() for parameter in chosen] if plan.ranks else []
            optimizer.step()
            extra |= _update_ratio(chosen, before) if plan.ranks else {}
        used = scale
        scale, good = (scale / 2, 0) if overflow else (scale, good + 1)
        if plan.half and good == 200:
            scale, good = scale * 2, 0
        seconds = time.process_time() - begin + (plan.wait(step) if plan.wait else 0.0)
        clock += seconds
        row = Row(step, float(loss.detach()), norm, plan.rate(step), seconds, clock, BATCH * CONTEXT)
        row.extra = extra
        row.loss_scale, row.skipped = (used, overflow) if plan.half else (None, False)
        if plan.eval_every and step % plan.eval_every == 0:
            with torch.no_grad():
                row.eval_loss = sum(float(_loss(model, _batch(held_out))) for _ in range(12)) / 12
        yield row
        if overflow and used <= 1:
            return  # where a scaler at its floor gives up


def _in_parts(model: nn.Module, batch: Tensor, plan: Plan, step: int) -> tuple[Tensor, dict[str, float]]:
    """The mean loss of the parts, and what each rank measured: its time, its activations' spread."""
    extra: dict[str, float] = {}
    losses = []
    for rank, part in enumerate(batch.chunk(plan.ranks)):
        begin = time.process_time()
        loss = _loss(model, part)
        (loss / plan.ranks).backward()
        losses.append(loss.detach())
        waited = plan.rank_wait(step, rank) if plan.rank_wait else 0.0
        extra[f"step_time/rank{rank}"] = round(time.process_time() - begin + waited, 6)
    with torch.no_grad():
        hidden = model.get_submodule("embedding")(batch[:, :-1])
        extra["act_std/embedding"] = float(hidden.std())
    return torch.stack(losses).mean(), extra


def _update_ratio(parameters: list[nn.Parameter], before: list[Tensor]) -> dict[str, float]:
    pairs = list(zip(parameters, before, strict=True))
    moved = math.sqrt(sum(float(((new.detach() - old) ** 2).sum()) for new, old in pairs))
    return {"update_ratio": moved / math.sqrt(sum(float((old**2).sum()) for _, old in pairs))}


def _batch(data: Tensor, random_characters: int = 0) -> Tensor:
    if random_characters:
        return torch.randint(random_characters, (BATCH, CONTEXT + 1))
    begin = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
    return torch.stack([data[i : i + CONTEXT + 1] for i in begin])


def _loss(model: nn.Module, batch: Tensor) -> Tensor:
    scores = model(batch[:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())


def _through_half(parameters: list[nn.Parameter], scale: float) -> bool:
    """Round the scaled gradients to float16 and unscale them, as mixed precision does; False when one overflowed."""
    fine = True
    for parameter in parameters:
        if parameter.grad is not None:
            half = parameter.grad.half()
            fine = fine and bool(torch.isfinite(half).all())
            parameter.grad = half.float() / scale
    return fine


def cosine(peak: float, warmup: int, steps: int, floor: float = 0.1) -> Callable[[int], float]:
    def rate(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        share = (step - warmup) / max(1, steps - warmup)
        return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, share))))

    return rate
