"""The fixed parts of messages by which failures, checkpoints and ends are known, and what must not be taken for them.

PyTorch (c10d, DataLoader, CUDA allocator, torchrun), NCCL, the NVIDIA driver (https://docs.nvidia.com/deploy/xid-errors),
the Linux kernel, SLURM, DeepSpeed, fairseq and Megatron write them.
"""

from __future__ import annotations

import re

from trainlens.model import EventKind

# In the order in which they are tried: what says most comes first.
_PATTERNS: tuple[tuple[EventKind, str], ...] = (
    ("checkpoint-begin", r"saving checkpoint at iteration\s+(?P<step>\d+) to "),
    (
        "checkpoint-end",
        r"successfully saved checkpoint (?:from|at) iteration\s+(?P<step>\d+) to "
        r"|[Ss]aving model checkpoint to \S*checkpoint-(?P<step2>\d+)|[Ss]aved \S*global_step(?P<step3>\d+)/",
    ),
    (
        "checkpoint-load",
        r"successfully loaded checkpoint from .* at iteration\s+(?P<step>\d+)"
        r"|[Rr]esum(?:ing|ed) (?:training )?from (?:checkpoint )?\S*checkpoint-(?P<step2>\d+)",
    ),
    (
        "host-out-of-memory",
        r"is killed by signal: Killed|Detected \d+ oom[_-]kill event|tasks? [\d,-]+: Out Of Memory"
        r"|Out of memory: Killed process \d+|oom-kill:constraint"
        r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|^MemoryError\b",
    ),
    (
        "out-of-memory",
        r"(?:CUDA|HIP) out of memory\. Tried to allocate [\d.]+|OutOfMemoryError: (?:CUDA|HIP)"
        r"|^RuntimeError: CUDA out of memory|^RuntimeError: CUDA error: out of memory"
        r"|XlaRuntimeError: RESOURCE_EXHAUSTED|CUBLAS_STATUS_ALLOC_FAILED",
    ),
    ("worker-killed", r"DataLoader worker \(pid[^)]*\) (?:is killed by signal|exited unexpectedly)"),
    (
        "disk-full",
        r"\[Errno 28\] No space left on device|\[Errno 122\] Disk quota exceeded|No space left on device$"
        r"|PytorchStreamWriter failed writing file|unexpected pos \d+ vs \d+|StorageFull",
    ),
    ("nccl-timeout", r"Watchdog caught collective operation timeout: WorkNCCL\("),
    ("xid", r"NVRM: Xid \("),
    ("gpu-lost", r"GPU has fallen off the bus|Unable to determine the device handle for GPU"),
    ("ecc", r"uncorrectable ECC error"),
    (
        "nccl-error",
        r"NCCL error in:|ncclSystemError|ncclRemoteError|ncclUnhandledCudaError|ncclInternalError"
        r"|socketProgress: Connection closed by remote peer|Net : Connect to \S+ failed",
    ),
    ("hang", r"INFO: task [^ ]+:\d+ blocked for more than \d+ seconds"),
    (
        "loss-scale-floor",
        r"^(?!.*[\"']).*Current loss scale already at minimum|Minimum loss scale reached \(",
    ),
    (
        "overflow",
        r"OVERFLOW! Rank \d+ Skipping step|Overflow detected\. Skipping step|Grad overflow on iteration \d+"
        r"|gradient overflow detected, ignoring gradient"
        r"|(?:WARNING|NOTE): (?:gradient )?overflow detected, setting loss scale",
    ),
    (
        "nan-reported",
        r"found NaN in local|Unexpected result nan|[Ll]oss is (?:nan|NaN|inf), stopping|Detected NaN"
        r"|Invalid loss, terminating|Loss was NaN for \d+ times|Model diverged with loss = NaN",
    ),
    ("time-limit", r"DUE TO TIME LIMIT"),
    ("killed", r"DUE TO TASK FAILURE"),
    ("preemption", r"DUE TO PREEMPTION|DUE TO NODE FAILURE|CANCELLED AT \d{4}-"),
    (
        "segmentation-fault",
        r"Segmentation fault \(core dumped\)|Fatal Python error: Segmentation fault"
        r"|Caught signal 11 \(|: Segmentation fault$",
    ),
    (
        "killed",
        r"line \d+: +\d+ Killed |^Killed$|tasks? [\d,-]+: Killed|died with <Signals\.SIGKILL"
        r"|process received SIGTERM, exiting|Received (?:Signals\.SIGTERM )?15 death signal|Received SIGTERM",
    ),
    ("run-end", r"\[launch\.py:\d+:main\] Process \d+ exits successfully"),
)
SIGNATURES = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

# One of these stands in every line that a signature or a traceback can match; they are searched in whole blocks.
MARKS = (
    "Traceback (most", "rror", "of memory", "Of Memory", "oom_kill", "oom-kill", "oom kill", "illed", "signal",
    "No space", "imeout: Work", "Xid", "fallen off", "nccl", "blocked for", "scale already", "scale reached",
    "verflow", "OVERFLOW", "NaN", "nan, stop", "result nan", "Invalid loss", "inf, stop", "DUE TO", "CANCELLED AT",
    "egmentation", "SIGTERM", "checkpoint at iter", "aved checkpoint", "oaded checkpoint", "model checkpoint to",
    "esum", "exits successfully", "Root Cause", "Net : Con", "unexpected pos", "failed writing", "StorageFull",
    "socketProgress", "device handle", "aved ", "RESOURCE_EXH", "exited unexp", "ALLOC_FAILED",
)  # fmt: skip

# Several lines of these kinds are several events: each skipped step, each save counts.
EACH = frozenset(("overflow", "checkpoint-begin", "checkpoint-end", "checkpoint-load", "xid"))

# What only mentions the words: source code in a traceback or printed at the start of a log, the list of arguments.
MENTIONED = re.compile(
    r"^\s*(?:raise |if |elif |assert |print\w*\(|logg(?:er|ing)\.|return |#|def |except |f?[\"'])|\.{4,} "
    r"|destroy_process_group\(\) was not called"
)
