"""Out of memory: a GPU or the host ran out of memory.

Why it matters
It ends the run, often hours in: when a longer batch, an evaluation or a growing leak first needs a little more.

How it is found
What the log says: CUDA's and PyTorch's messages, the kernel's out-of-memory killer, a job's memory limit. Messages of
all ranks and what follows from them (killed workers, broken collectives) are one finding. It is a warning where the
run went on after it.

What to do
Smaller micro-batches with accumulation, activation checkpointing, a sharded optimizer; look for a leak when memory
grew.

When it is wrong
Where a script tries batch sizes on purpose until one does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlens.detectors import _incidents
from trainlens.diagnosis import Evidence, Finding, NotApplicable
from trainlens.figures import number
from trainlens.model import Run

NEEDS = ()


@dataclass(frozen=True)
class Options:
    """No thresholds: the log states it."""


def detect(run: Run, options: Options) -> Sequence[Finding] | NotApplicable:  # noqa: ARG001
    if not _incidents.tells_ends(run):
        return NotApplicable("no text of the run was read that would say so")
    return [_finding(run, one) for one in _incidents.incidents(run) if one.root.kind in _incidents.OUT_OF_MEMORY]


def _finding(run: Run, found: _incidents.Incident) -> Finding:
    event = found.root
    where = "The host" if event.kind == "host-out-of-memory" else "A GPU"
    after = f" after step {found.step:,}" if found.step is not None else ""
    many = f" on {found.ranks} ranks" if found.ranks > 1 else f" on rank {event.rank}" if event.rank >= 0 else ""
    end = "; the run went on" if found.went_on else ""
    evidence = [Evidence(event.kind, first_step=event.step, place=event.place)]
    if (memory := run.get("gpu/memory_share")) is not None and memory.finite.any():
        last = float(memory.value[memory.finite][-1])
        evidence.append(Evidence("memory in use at the last row", memory.metric, observed=last, unit="share"))
        end += f"; {number(last, 'share')} in use in the last row"
    head = f"{where} ran out of memory{after}{many}{end}"
    return Finding(
        detector="out-of-memory",
        severity="warning" if found.went_on else "error",
        metric=None,
        first_step=found.step,
        last_step=found.step,
        title=f"{where} ran out of memory{after}",
        message=f"{head}: “{_incidents.quoted(event, 190 - len(head))}”.",
        rank=event.rank if event.rank >= 0 else None,
        first_time=event.time,
        last_time=event.time,
        evidence=tuple(evidence),
        actions=("Use smaller micro-batches with accumulation, or activation checkpointing",),
    )
