"""The fixed parts of messages by which failures, checkpoints and ends are known, and what must not be taken for them.

PyTorch (c10d, DataLoader, the allocators of CUDA, ROCm, XPU, MPS and Ascend, torchrun), NCCL and HCCL, XLA, TensorFlow,
the NVIDIA driver (https://docs.nvidia.com/deploy/xid-errors), the Linux kernel, shells, SLURM, LSF, PBS, Kubernetes,
Ray, MPI, DeepSpeed, fairseq and Megatron write them.
"""

from __future__ import annotations

import re

from trainlens.model import EventKind

# In the order in which they are tried: what says most comes first.
_PATTERNS: tuple[tuple[EventKind, str], ...] = (
    (
        "checkpoint-begin",
        r"saving checkpoint at iteration\s+(?P<step>\d+) to "
        r"|^[Ss]aving (?:the )?(?:model )?checkpoint(?=$|\.| to (?!\S*checkpoint-\d))",
    ),
    (
        "checkpoint-end",
        r"successfully saved checkpoint (?:from|at) iteration\s+(?P<step>\d+) to "
        r"|[Ss]aving model checkpoint to \S*checkpoint-(?P<step2>\d+)|[Ss]aved \S*global_step(?P<step3>\d+)/"
        r"|^(?:[Mm]odel )?[Cc]heckpoint saved(?=$|[ .:])|^[Ss]aved (?:the )?(?:model )?checkpoint(?=$|[ .:])",
    ),
    (
        "checkpoint-load",
        r"successfully loaded checkpoint from .* at iteration\s+(?P<step>\d+)"
        r"|[Rr]esum(?:ing|ed) (?:training )?from (?:checkpoint )?\S*checkpoint-(?P<step2>\d+)",
    ),
    (
        "host-out-of-memory",
        r"is killed by signal: Killed|[Dd]etected \d+ oom[_ -]kill event|tasks? [\d,-]+: Out Of Memory"
        r"|[Oo]ut of memory: Kill(?:ed)? process \d+|oom-kill:constraint|cgroup out-of-memory handler"
        r"|Exceeded (?:job|step) memory limit|DUE TO MEMORY LIMIT|TERM_MEMLIMIT: |PBS: job killed: v?mem\b"
        r"|\bOOMKilled\b|The node was low on resource: memory|node (?:is )?running low on memory"
        r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|^MemoryError\b"
        r"|\[Errno 12\] Cannot allocate memory|numpy\.core\._exceptions\._ArrayMemoryError",
    ),
    (
        "out-of-memory",
        r"(?:CUDA|HIP|NPU|XPU|MLU|MUSA) out of memory\. Tried to allocate [\d.]+|MPS backend out of memory"
        r"|OutOfMemoryError: (?:CUDA|HIP|NPU|XPU)|^RuntimeError: (?:CUDA|HIP|NPU|XPU) out of memory"
        r"|(?:CUDA|cuda|HIP)(?: runtime)? error(?: \(2\))? ?: out of memory|Cuda failure (?:2 )?'out of memory'"
        r"|RESOURCE_EXHAUSTED: |ResourceExhaustedError: |OOM when allocating tensor with shape"
        r"|UR_RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|PI_ERROR_OUT_OF_RESOURCES"
        r"|Allocation is out of device memory|Out of memory error on GPU \d|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED"
        r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory|EL0004: ",
    ),
    (
        "worker-killed",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]{1,200}\) (?:is killed by signal|exited unexpectedly)"
        r"|The actor (?:died unexpectedly|is dead because)|A worker died or was killed while executing"
        r"|ActorDiedError: |WorkerCrashedError: |process rank \d+ .{0,200}exited on signal \d+"
        r"|ProcessExitedException: ",
    ),
    (
        "disk-full",
        r"\[Errno 28\]|\[Errno 122\]|No space left on device$|Disk quota exceeded$"
        r"|PytorchStreamWriter failed writing file|unexpected pos \d+ vs \d+|\bStorageFull\b"
        r"|The node was low on resource: ephemeral-storage",
    ),
    (
        "nccl-timeout",
        r"Watchdog caught collective operation timeout: Work[NHRG]CCL\(|\[Rank \d+\] Timeout at NCCL work: "
        r"|Some NCCL operations have failed or timed out|due to ProcessGroupNCCL watchdog hang"
        r"|Heartbeat monitor timed out!|failed to pass monitoredBarrier in \d+ ?ms"
        r"|Timed out waiting \d+ ?ms for (?:recv|send) operation",
    ),
    ("xid", r"NVRM: Xid \("),
    ("gpu-lost", r"fallen off the bus|Unable to determine the device handle for (?:GPU|gpu)"),
    ("ecc", r"uncorrectable (?:NVLink )?ECC error|cudaErrorECCUncorrectable"),
    (
        "nccl-error",
        r"[NRH]CCL (?:function )?error(?: in)?: |ncclSystemError|ncclRemoteError|ncclUnhandledCudaError"
        r"|ncclInternalError|ncclInvalidUsage|HcclError|(?:DIST internal error|hccl\w+:) .{0,200}error code"
        r"|socketProgress: Connection closed by remote peer|Net : Connect to \S+ failed"
        r"|NET/IB : Got completion .{0,99}err"
        r"|Connection closed by peer \[|Connection reset by peer \[",
    ),
    (
        "device-error",
        r"(?:CUDA|HIP|NPU|XPU) error: [a-z]|CUDA (?:runtime|driver) error|cuDNN error: CUDNN_STATUS_(?!SUCCESS)"
        r"|MIOpen Error: |Memory access fault by GPU node|CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INIT)"
        r"|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INIT)|device-side assert triggered"
        r"|block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion|slice health check failed"
        r"|TPU (?:\w+ )?is unhealthy"
        r"|The following tasks are unhealthy|XlaRuntimeError: (?:INTERNAL|UNAVAILABLE|ABORTED|DATA_LOSS)",
    ),
    (
        "hang",
        r"INFO: task \S[^:]*:\d+ blocked for more than \d+ seconds|watchdog: BUG: soft lockup"
        r"|(?:nfs|lustre\S*): server \S+ not responding",
    ),
    (
        "loss-scale-floor",
        r"^(?!.*[\"']).*Current loss scale already at minimum|Minimum loss scale reached \(",
    ),
    (
        "overflow",
        r"OVERFLOW! Rank \d+ Skipping step|Overflow detected\. Skipping step|(?<!No )Grad overflow on iteration \d+"
        r"|[Gg]radient overflow detected, ignoring gradient|Gradient overflow\.  Skipping step"
        r"|(?:WARNING|NOTE): (?:gradient )?overflow detected, setting loss scale",
    ),
    (
        "nan-reported",
        r"[Ff]ound (?:NaN|nan|Inf|inf) in (?:local|grad|loss)|Unexpected result nan"
        r"|[Ll]oss is (?:nan|NaN|inf|Inf), stopp"
        r"|Detected (?:NaN|nan)\b|(?:NaN|nan|NAN) (?:loss )?(?:was )?(?:detected|encountered)"
        r"|[Ll]oss (?:became|went) NaN"
        r"|Invalid loss, terminating|Loss was NaN for \d+ times|Model diverged with loss = (?:NaN|nan)"
        r"|returned nan values in its \d+th output|Non-finite (?:loss|gradient|grad norm)\b",
    ),
    (
        "time-limit",
        r"DUE TO TIME LIMIT|TERM_RUNLIMIT: |PBS: job killed: walltime|job is timed-out|DeadlineExceeded\b",
    ),
    ("node-failure", r"DUE TO NODE FAILURE|srun: error: Node failure on|NodeNotReady\b|NodeLost\b|node .{0,99}is lost"),
    ("killed", r"DUE TO TASK FAILURE"),
    (
        "preemption",
        r"DUE TO (?:JOB )?PREEMPTION|CANCELLED AT \d{4}-|TERM_PREEMPT|this job is preempted"
        r"|[Ii]nstance is being preempted"
        r"|[Pp]reemption (?:signal|notice) received|Received (?:a )?preemption (?:signal|notice)"
        r"|[Ss]pot [Ii]nstance [Ii]nterruption|TERM_OWNER: |^\s*(?:Reason|Status):\s+(?:Evicted|Preempt\w+)",
    ),
    (
        "segmentation-fault",
        r"Segmentation fault \(core dumped\)|Fatal Python error: (?:Segmentation fault|Bus error|Illegal instruction)"
        r"|Caught signal 11 \(|: Segmentation fault$|\bBus error +\(core dumped\)"
        r"|Illegal instruction +\(core dumped\)|^Segmentation fault$|SIGSEGV \(\w+ 0x",
    ),
    (
        "killed",
        r"line \d+: +\d+ (?:Killed|Terminated|Aborted) |^Killed$|^Terminated$|^Aborted(?: \(core dumped\))?$"
        r"|tasks? [\d,-]+: (?:Killed|Terminated|Aborted)"
        r"|died with <Signals\.SIG(?:KILL|TERM|ABRT|SEGV)|Fatal Python error: Aborted"
        r"|process received SIGTERM, exiting|Received (?:Signals\.SIGTERM )?15 death signal|Received SIGTERM"
        r"|[Rr]eceived signal:? (?:15|SIGTERM)|got signal: 15|Bypassing signal SIGTERM",
    ),
    (
        "exit-code",
        r"tasks? [\d,-]+: Exited with exit code [1-9]|failed \(exitcode: ?-?\d+\) local_rank: \d+"
        r"|exits with return code = -?[1-9]|returned non-zero exit status \d+|^Exited with exit code [1-9]"
        r"|process returned a non-zero exit code|exited with code [1-9]\d*\b|command terminated with exit code [1-9]",
    ),
    # A bar of tqdm that was closed, or drawn again after a minute, before its first step; with values it is at work.
    ("no-step", r"\| (?P<step>0)/\d+ \[(?:\d+:\d\d|0[1-9]|[1-5]\d):\d\d<\?, \?\s?\w+/s\]"),
    ("run-end", r"\[launch\.py:\d+:main\] Process \d+ exits successfully"),
)  # fmt: skip
SIGNATURES = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

# One of these stands in every line that a signature or a traceback can match; all are searched in one pass.
MARKS = (
    "Traceback (most", "rror", "illed", "ignal", "No space", "quota exc", "monitoredB", "Xid (", "fallen off", "nccl",
    "blocked for", "not respond", "scale already", "scale reached", "verflow", "OVERFLOW", "NaN", "NAN ", "on-finite",
    "Invalid loss", "DUE TO", "CANCELLED AT", "TERM_", "PBS: job", "egmentation", "SIG", "core dump", "Aborted",
    "Terminated", "aved ", "Root Cause", "Net : Con", "NET/IB", "unexpected pos", "failed writing", "StorageFull",
    "socketProgress", "device handle", "RESOURCE", "STATUS_", "allocating tensor", "EL0004", "Evicted", "reempt",
    "nterruption", "eadlineEx", "Died", "ailure", "health", "Connection ", "Assertion", "access fault", "side assert",
    "bove exception", "xception ignored", "soft lock", "watchdog", "NCCL op", "orker died", "The actor", "of memory",
    "Of Memory", "of-memory", "memory limit", "allocate mem", "device mem", "oom_kill", "oom-kill", "oom kill", "OOMK",
    "imeout: Work", "imeout at NCCL", "imed out", "imed-out", "low on", "nan, stop", "result nan", "nan values",
    "nan detected", "nan encountered", "nan loss", "ted nan", "nd nan", "= nan", "nf, stop", "nd inf", "nd Inf",
    "checkpoint at iter", "aving checkpoint", "aving the", "aving model", "heckpoint saved", "oaded checkpoint",
    "model checkpoint to", "esuming from", "esumed from", "esuming tr",
    "esumed tr", "exits ", "exit code", "exit status", "exitcode", "exited ", "NodeNot", "NodeLost", " is lost",
    "<?, ?",
)  # fmt: skip

# Several lines of these kinds are several events: each skipped step, each save counts.
EACH = frozenset(("overflow", "checkpoint-begin", "checkpoint-end", "checkpoint-load", "xid"))
# What ends a run as well, when it is an exception that is raised.
ENDING = frozenset(("nan-reported", "loss-scale-floor", "overflow", "hang"))

# What only mentions the words: source code in a traceback or printed at the start of a log, the list of arguments,
# warnings, the report of a test suite, allocators that say it is not a failure.
MENTIONED = re.compile(
    r"^\s*(?:raise |if |elif |else:|assert |print\w*\(|logg(?:er|ing)\.|return |#|//|\* |def |class |except |self\."
    r"|with |for |while |f?[\"'`])|\.{4,} |^E {3,}|^(?:FAILED|ERROR|PASSED) \S+::|[a-z]Warning: "
    r"|destroy_process_group\(\) was not called|not a failure|[Ww]ill (?:be )?retr(?:y|ied)|[Rr]etrying"
    r"|[Rr]ecover(?:ing|ed)\b"
    r"|^\s*[\"'][\w. -]+[\"']\s*:|^\s*\w+\s*=\s*[\"'(\[{]|^(?:- |\d+\. )|^(?:USER|ASSISTANT|user|assistant"
    r"|User|Assistant|Human|Q|A|prompt|Prompt|response|Response|completion|question|Question|answer|Answer"
    r"|text|inputs?|labels?|sample|output): "
)
# A quotation mark right before the words, or one of these that is open: they are spoken of, in a sample or in code.
QUOTES = frozenset("\"'`“‘«")
QUOTED = ('"', "`")
