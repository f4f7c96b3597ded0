"""Unusual hyperparameter: a setting far outside what is usual, or one that the curves contradict.

Why it matters
A zero too many in a learning rate, clipping that was left out, GPUs that no parallel size uses: each is set once and
costs the whole run. What the logs show against what was set tells that a setting did not arrive.

How it is found
The facts of the logs, by all names that trainers give them, are held against usual ranges: batch in tokens, learning
rate for the model's size, weight decay, clipping, sequence length, precision, Adam's betas and epsilon, least rate,
parallel sizes, pipeline bubble, memory. Ranges of language models are asked of runs that begin from scratch with at
least `large` weights only. Then settings are held against the logs: rate, clipping, tokens a step, batch, steps. One
finding a parameter. Usual is no law: what is unusual is told as info; a warning is a contradiction that wastes the run
(GPUs that nothing uses, half precision without a loss scale, a rate `apart` times the configured one).

What to do
Look at the value where it was set; where it is meant, accept the finding or leave this detector out.

When it is wrong
Where a method asks for other values (Muon, normalised updates, maximal update parametrisation), or the facts belong to
another launch than the curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.citations import GPT3, JUDGEMENT, MEGATRON_3D, USUAL
from trainlens.detectors import _contradictions, _memory_estimate, _setup_parallel, _setup_ranges
from trainlens.diagnosis import Finding, NotApplicable
from trainlens.model import Run
from trainlens.plugins import threshold

NEEDS = ()


@dataclass(frozen=True)
class Options:
    large: float = threshold(1e8, "weights from which ranges of language models are asked", source=JUDGEMENT)
    batch_low: float = threshold(
        2.5e5, "tokens of a batch that are few for a billion weights", unit="tokens", source=GPT3
    )
    batch_high: float = threshold(1.6e7, "tokens of a batch that are many", unit="tokens", source=USUAL)
    rate: float = threshold(10.0, "learning rate above or below the usual for the size", unit="times", source=GPT3)
    decay_high: float = threshold(0.3, "weight decay that is high", source=USUAL)
    clip_high: float = threshold(10.0, "clipping threshold that hardly clips", source=USUAL)
    tensor: int = threshold(8, "tensor-parallel size that leaves a node", unit="GPUs", source=MEGATRON_3D)
    bubble: float = threshold(0.20, "pipeline bubble against the time of work", unit="share", source=MEGATRON_3D)
    memory: float = threshold(0.95, "estimated memory against that of the GPU", unit="share", source=JUDGEMENT)
    apart: float = threshold(
        3.0, "logged rate against the configured one that is a warning", unit="times", source=JUDGEMENT
    )
    same: float = threshold(0.05, "difference that is taken for the same", unit="share", source=JUDGEMENT)


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:
    if not run.facts:
        return NotApplicable("the logs state no settings")
    return [
        *_setup_ranges.unusual(run, options),
        *_setup_parallel.unusual(run, options.tensor, options.bubble),
        *_memory_estimate.too_large(run, options.memory),
        *_contradictions.contradicted(run, options.same, options.apart),
    ]
