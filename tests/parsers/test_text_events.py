"""What text logs say of failures: one event an incident and rank; what only mentions the words stays silent."""

from __future__ import annotations

import time

import pytest

from tests.parsers import door
from trainlens.model import Event, Note
from trainlens.parsers import key_value_text

FRAME = '  File "/x/train.py", line 28, in <module>\n    main()\n'
TRACE = "Traceback (most recent call last):\n"


def told(text: str) -> list[Event]:
    return door.events(key_value_text, text)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        # memory of a device
        ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 3 has", "out-of-memory"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 79.1", "out-of-memory"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.90 GiB total", "out-of-memory"),
        ("RuntimeError: CUDA error: out of memory", "out-of-memory"),
        ("RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/THCStorage.cu:58", "out-of-memory"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total", "out-of-memory"),
        ("RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; 60.97 GiB total", "out-of-memory"),
        ("torch.OutOfMemoryError: XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total", "out-of-memory"),
        ("RuntimeError: Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", "out-of-memory"),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 17.9 GB, other allocations: 1.2", "out-of-memory"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying", "out-of-memory"),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: TPU backend error", "out-of-memory"),
        ("ResourceExhaustedError: OOM when allocating tensor with shape[8,4096]", "out-of-memory"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out-of-memory"),
        ("ncclUnhandledCudaError: Cuda failure 2 'out of memory'", "out-of-memory"),
        # memory of the host
        ("RuntimeError: DataLoader worker (pid 41) is killed by signal: Killed.", "host-out-of-memory"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.", "host-out-of-memory"),
        ("slurmstepd: error: Detected 2 oom-kill event(s) in StepId=1.batch. Some", "host-out-of-memory"),
        ("srun: error: nid000000: task 0: Out Of Memory", "host-out-of-memory"),
        ("slurmstepd: error: Exceeded job memory limit", "host-out-of-memory"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "host-out-of-memory"),
        ("=>> PBS: job killed: mem 66060288kb exceeded limit 65011712kb", "host-out-of-memory"),
        ("    Reason:       OOMKilled", "host-out-of-memory"),
        ("ray.exceptions.OutOfMemoryError: Task was killed to node running low on memory", "host-out-of-memory"),
        ("OSError: [Errno 12] Cannot allocate memory", "host-out-of-memory"),
        ("MemoryError", "host-out-of-memory"),
        # processes
        ("RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible", "worker-killed"),
        ("RuntimeError: DataLoader worker (pid(s) 41, 42) exited unexpectedly", "worker-killed"),
        ("ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.", "worker-killed"),
        ("ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing", "worker-killed"),
        ("mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).", "worker-killed"),
        ("x.sh: line 131: 1948759 Killed                  deepspeed --hostfile x", "killed"),
        ("Killed", "killed"),
        ("srun: error: nid000000: tasks 36,38: Killed", "killed"),
        ("srun: error: nid000000: task 1: Aborted", "killed"),
        ("Main process received SIGTERM, exiting", "killed"),
        ("[rank: 0] Received SIGTERM: 15", "killed"),
        ("srun: error: n1: task 3: Exited with exit code 1", "exit-code"),
        ("E0328 10:00:00.1 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 3 "
         "(pid: 21) of binary: /usr/bin/python", "exit-code"),
        ("[2024-01-01 00:00:00,1] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python', '-u', 'x.py'] exits with "
         "return code = 1", "exit-code"),
        ("Exited with exit code 137.", "exit-code"),
        ("command terminated with exit code 137", "exit-code"),
        # disks
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("OSError: [Errno 122] Disk quota exceeded: '/scratch/x'", "disk-full"),
        ("cp: error writing '/scratch/x': Disk quota exceeded", "disk-full"),
        ("RuntimeError: [enforce fail at inline_container.cc:337]PytorchStreamWriter failed writing file", "disk-full"),
        ("[enforce fail at inline_container.cc:424] . unexpected pos 64 vs 0", "disk-full"),
        # collectives
        ("[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
         "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600030 milliseconds", "nccl-timeout"),
        ("[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(Op=ALLREDUCE, "
         "Timeout(ms)=1800000) ran for 1807652 milliseconds before timing out.", "nccl-timeout"),
        ("[E ProcessGroupNCCL.cpp:475] Some NCCL operations have failed or timed out. Due to the", "nccl-timeout"),
        ("RuntimeError: Rank 3 failed to pass monitoredBarrier in 1800000 ms", "nccl-timeout"),
        ("Watchdog caught collective operation timeout: WorkHCCL(SeqNum=7, OpType=ALLGATHER) ran", "nccl-timeout"),
        ("torch.distributed.DistBackendError: NCCL error in: /pytorch/x.cpp:1, unhandled cuda error", "nccl-error"),
        ("RuntimeError: NCCL error in: ../x.cpp:1269, unhandled system error, NCCL version 2.14.3", "nccl-error"),
        ("RuntimeError: HCCL function error: HcclCommInitRootInfo(numRanks), error code is 2", "nccl-error"),
        ("ncclRemoteError: A call failed possibly due to a network error", "nccl-error"),
        ("n1:7:9 [0] misc/socket.cc:538 NCCL WARN Net : Connect to 10.0.0.2<34567> failed : refused", "nccl-error"),
        # devices
        ("[1843.3] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus", "xid"),
        ("NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.", "gpu-lost"),
        ("Unable to determine the device handle for GPU 0000:44:00.0: Unknown Error", "gpu-lost"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "ecc"),
        ("RuntimeError: CUDA error: device-side assert triggered", "device-error"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "device-error"),
        ("RuntimeError: CUDA error: unspecified launch failure", "device-error"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "device-error"),
        ("../aten/src/ATen/native/cuda/Loss.cu:240: nll_loss: block: [0,0,0], thread: [7,0,0] Assertion `t > 0`",
         "device-error"),
        ("RuntimeError: HIP error: invalid device function", "device-error"),
        ("Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.", "device-error"),
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: TPU slice health check failed", "device-error"),
        # stand-still, numbers
        ("[Sat Mar  4 04:23:09 2023] INFO: task python:280058 blocked for more than 120 seconds.", "hang"),
        ("Training Progress:   0%|          | 0/58 [07:16<?, ?it/s]", "no-step"),
        ("train:   0%|          | 0/1000000 [1:00:02<?, ?batch/s]", "no-step"),
        ("FloatingPointError: Minimum loss scale reached (0.0001). Your loss is", "loss-scale-floor"),
        ("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
         "loss-scale-floor"),
        ("2020 | WARNING: overflow detected, setting loss scale to: 64.0", "overflow"),
        ("[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to", "overflow"),
        ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0", "overflow"),
        ("Loss is nan, stopping training", "nan-reported"),
        ("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", "nan-reported"),
        ("rank 3: found NaN in local grad norm in backward pass before data-parallel communication", "nan-reported"),
        # schedulers
        ("slurmstepd: error: *** JOB 1 ON r6i4n5 CANCELLED AT 2021-05-27T21:52:36 DUE TO TIME LIMIT ***", "time-limit"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "time-limit"),
        ("=>> PBS: job killed: walltime 3604 exceeded limit 3600", "time-limit"),
        ("slurmstepd: error: *** JOB 1 ON r6i4n5 CANCELLED AT 2021-05-27T21:52:36 ***", "preemption"),
        ("*** JOB 1 CANCELLED AT 2021-05-27T21:52:36 DUE TO PREEMPTION ***", "preemption"),
        ("submitit WARNING (2024-01-01 00:00:00,1) - Caught signal SIGUSR1 on n: this job is preempted.", "preemption"),
        ("*** JOB 1 ON n1 CANCELLED AT 2021-05-27T21:52:36 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***", "node-failure"),
        ("srun: error: Node failure on nid001", "node-failure"),
        ("Segmentation fault (core dumped)", "segmentation-fault"),
        ("Fatal Python error: Segmentation fault", "segmentation-fault"),
        ("bash: line 1:    77 Bus error               (core dumped) python x.py", "segmentation-fault"),
        ("Saving model checkpoint to out/checkpoint-500", "checkpoint-end"),
        ("saving checkpoint to out", "checkpoint-begin"),
        ("2026-03-02 09:01:59 Saving checkpoint to ckpt/step_250", "checkpoint-begin"),
        ("Saved checkpoint at step 500", "checkpoint-end"),
        ("Checkpoint saved: out/ckpt.pt", "checkpoint-end"),
        (" successfully loaded checkpoint from /x [ t 1/2, p 1/1 ] at iteration 14000", "checkpoint-load"),
    ],
)  # fmt: skip
def test_signatures(line: str, kind: str) -> None:
    for text in (line + "\n", line, "a line\n" + line + "\nanother\n"):
        assert [event.kind for event in told(text)] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        " 0:   max_tokens_to_oom ............................... 12000",
        "  check_for_nan_in_loss_and_grad .................. True",
        '    raise RuntimeError("CUDA out of memory. Tried to allocate 5 GiB")',
        "    if 'CUDA out of memory. Tried to allocate 2' in str(error):",
        "# Segmentation fault (core dumped) happens with old drivers",
        "def handle(): # CANCELLED AT 2021-05-27",
        "[rank11]:[W316 22:17:44.3 ProcessGroupNCCL.cpp:1524] Warning: WARNING: destroy_process_group() was not called",
        "Warning: TORCH_NCCL_AVOID_RECORD_STREAMS is the default now",
        "[rank8]:[W] Failed to check the \"should dump\" flag on TCPStore, with error: Connection reset by peer",
        "error_file: <N/A>",
        "the user asked: what raises an Error? A full disk says No space left",
        "[INFO] [launch.py:335:sigkill_handler] Killing subprocess 3699527",
        "WARNING:root:Closing process 41 via signal SIGTERM",
        "No Grad overflow for 500 iterations",
        "saving checkpoints every 500 steps",
        "not saving checkpoint to out",
        "Training Progress:   0%|          | 0/58 [00:16<?, ?it/s]",
        "Training Progress:   0%|          | 0/58 [07:16<?, ?it/s, loss=2.5]",  # its first step is on the way
        "Training Progress:   2%|▏         | 1/58 [07:16<6:54:12, 436.00s/it]",
        "NaN",
        # settings
        "  error_handling ................................ strict",
        "  on_cuda_oom ................................... CUDA out of memory. Tried to allocate 1 retry",
        '  "loss_scale": 0,',
        '    "message": "CUDA out of memory. Tried to allocate 20.00 MiB",',
        "'abort_on': 'NCCL error: unhandled system error',",
        "error_patterns = ['CUDA error: device-side assert triggered']",
        "Namespace(oom_score=1, watch='Segmentation fault', nan_policy='raise', error_log='x')",
        "max_errors=0, timeout=1800, signal='SIGUSR1'",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # else CUDA error",
        # code
        "        raise OutOfMemoryError('CUDA out of memory. Tried to allocate')",
        "    assert not overflow, 'Gradient overflow.  Skipping step'",
        "    logger.warning('Received SIGTERM')",
        "    self.log.error('Watchdog caught collective operation timeout: WorkNCCL(')",
        "    print('Loss is nan, stopping training')",
        "    except RuntimeError as e:  # CUDA out of memory. Tried to allocate 2",
        "// device-side assert triggered",
        " * Segmentation fault (core dumped)",
        "    with catch('NCCL error in: x'):",
        "Traceback",
        'print("Traceback (most recent call last):")',
        "he wrote “Traceback (most recent call last):” again",
        # warnings and what went well
        "x.py:3: FutureWarning: the error handler is deprecated: CUDA error: invalid argument is raised instead",
        "x.py:9: UserWarning: CUDA out of memory. Tried to allocate 2 GiB. Falling back to the CPU",
        "0 errors, 0 warnings",
        "no errors found; checked 100 files for NaN",
        "[rank0]:[W528 ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been destroyed before it",
        "2024 W tensorflow/x.cc:314] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.27GiB. The caller "
        "indicates that this is not a failure, but may mean that there could be performance gains. OOM when "
        "allocating tensor with shape[1]",
        "WARNING: ConnectionError: Connection reset by peer [10.0.0.1]:443, retrying in 5 s",
        "WARNING:urllib3: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError'",
        "huggingface_hub.utils.HfHubHTTPError: 504 Server Error: Gateway Time-out for url",
        "wandb: ERROR Error while calling W&B API: context deadline exceeded",
        "Recovered from CUDA out of memory. Tried to allocate 2 GiB: batch size halved",
        "n1:7:9 [0] NCCL INFO NET/Plugin: no error",
        "n1:7:9 [0] NCCL INFO cudaDriverVersion 12020",
        "CUDA_LAUNCH_BLOCKING=1 for CUDA errors",
        "process 7 exited with code 0",
        "task 3: Exited with exit code 0",
        "exitcode: 0",
        "Process 7 exits with return code = 0",
        "Saved model; terminated normally, health ok, assertion passed",
        "All nan checks passed",
        "number of nan iterations:   0",
        "Xid table: 79 = fallen of the bus",
        "preemption checkpointing: enabled",
        "Signal handler installed for SIGTERM and SIGUSR1",
        "the connection to the node is closed",
        "compute node n1 has 1 TB of memory",
        # tests
        "E   RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "FAILED tests/test_x.py::test_oom - RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "PASSED tests/test_x.py::test_segfault Segmentation fault (core dumped)",
        # samples and generations
        "user: my script prints CUDA out of memory. Tried to allocate 20.00 MiB, why?",
        "User: what does Segmentation fault (core dumped) mean?",
        "Answer: NCCL error: unhandled system error means that the network failed",
        "response: it was OOMKilled",
        "- Segmentation fault (core dumped) is printed by the shell",
        "1. CUDA error: device-side assert triggered",
        "It said `RuntimeError: CUDA out of memory. Tried to allocate 2 GiB` and stopped.",
        'The sentence "Loss is nan, stopping training" was printed',
        "He killed the process. They were Killed in action.",
        "The report says the worker was terminated and the mission aborted.",
        # metrics
        "eval/word_error_rate=0.12 reconstruction_error=0.4",
        "oom_count: 0, nan_count: 0, error_rate: 0.01",
        "num_ooms: 3",
    ],
)  # fmt: skip
def test_traps_stay_silent(line: str) -> None:
    assert told(line + "\n") == []


def test_a_traceback_is_told_by_its_last_line() -> None:
    (event,) = told("step=5 loss=2.5\n" + TRACE + FRAME * 3 + "TypeError: iteration over a 0-d tensor\nmore\n")
    assert (event.kind, event.text, event.step) == ("traceback", "TypeError: iteration over a 0-d tensor", 5)
    assert event.place is not None
    assert event.place.line == 9


def test_a_traceback_that_says_more_is_that() -> None:
    assert [event.kind for event in told(TRACE + FRAME + "torch.OutOfMemoryError: CUDA out of memory. Tried\n")] == [
        "out-of-memory"
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        # the first says why
        ("{trace}_queue.Empty\n\nDuring handling of the above exception, another exception occurred:\n\n"
         "{trace}RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n",
         ["traceback", "host-out-of-memory"]),
        ("Exception ignored in: <function f>\n{trace}OSError: [Errno 9] Bad file descriptor\n", []),
        ("--- Logging error ---\n{trace}BrokenPipeError: [Errno 32] Broken pipe\nCall stack:\n", []),
        ("{trace}SystemExit: 0\n", []),
        ("{trace}KeyboardInterrupt\n", ["traceback"]),
        ("^C{trace}KeyboardInterrupt\n", ["traceback"]),
        ("{trace}json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n", ["traceback"]),
        ("{trace}pkg.errors.BadShard: shard 7\n", ["traceback"]),
        ("{trace}AssertionError\n", ["traceback"]),
        ("{trace}FloatingPointError: Minimum loss scale reached (0.0001).\n", ["loss-scale-floor", "traceback"]),
        ("{trace}subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.\n", ["exit-code"]),
        ("{trace}torch.distributed.elastic.multiprocessing.api.SignalException: Process got signal: 15\n", ["killed"]),
        ("{trace}ValueError: Caught KeyError in DataLoader worker process 0.\nOriginal {trace}KeyError: 'x'\n",
         ["traceback", "traceback"]),
        ("{trace}INFO: step\nnothing: more\n", []),
    ],
)  # fmt: skip
def test_what_ends_a_traceback(text: str, kinds: list[str]) -> None:
    assert [event.kind for event in told(text.replace("{trace}", TRACE + FRAME))] == kinds


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("3: ", 3), ("[rank3]: ", 3), ("48: [rank48]: ", 48), ("[default3]:", 3), ("[1,3]<stderr>:", 3), ("n1: ", -1),
        ("(Worker pid=7) ", -1), ("worker-0  | ", -1), ("2026-01-01T10:00:0{n}.123456789Z stderr F ", -1),
        ("[2026-01-01 10:00:0{n},123] ", -1),
    ],
)  # fmt: skip
def test_what_launchers_put_before_a_traceback(prefix: str, rank: int) -> None:
    lines = (TRACE + FRAME + "KeyError: 'x'").splitlines()
    (event,) = told("".join(prefix.replace("{n}", str(at)) + line + "\n" for at, line in enumerate(lines)))
    assert (event.kind, event.rank, event.text) == ("traceback", rank, "KeyError: 'x'")


def test_a_flood_is_thinned_and_counted() -> None:
    line = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to 1\n"
    found = door.batches(key_value_text, "".join(line.format(at) for at in range(30_000)))
    overflows = [batch for batch in found if isinstance(batch, Event)]
    assert 2_000 < len(overflows) < 5_000
    assert overflows[-1].text.endswith("(one of 100 like it)")
    (note,) = [batch for batch in found if isinstance(batch, Note) and batch.kind == "limit"]
    assert note.count == 30_000


def test_a_failure_behind_a_long_bar_is_told_by_itself() -> None:
    bar = "Epoch 0:  5%|" + "x" * 3000 + "| 1/20 [00:01<00:20, 2.88s/it]"
    (event,) = told(bar + "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n")
    assert event.rank == 5
    assert "CUDA out of memory" in event.text[:200]


def test_a_very_long_line_is_read_at_its_ends() -> None:
    (event,) = told("Loss is nan, stopping training " + "word " * 400_000 + "\n")
    assert len(event.text) <= 600


def test_chained_tracebacks_are_one() -> None:
    text = TRACE + FRAME + "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert [event.text for event in told(text + TRACE + FRAME + "ValueError: y\n")] == ["KeyError: 'x'"]


def test_tracebacks_of_ranks_that_are_mixed() -> None:
    ranks = range(4)
    lines = [*TRACE.splitlines(), *FRAME.splitlines(), "RuntimeError: broken on {}"]
    text = "".join(f"[rank{rank}]: {line.format(rank)}\n" for line in lines for rank in ranks)
    assert [(event.kind, event.rank, event.text) for event in told(text)] == [
        ("traceback", rank, f"RuntimeError: broken on {rank}") for rank in ranks
    ]


def test_a_traceback_printed_as_a_list() -> None:
    text = (
        "55: ['Traceback (most recent call last):\\n', '  File \"/x.py\", line 2, in f\\n    g()\\n', "
        "'RuntimeError: Storage size calculation overflowed with sizes=[4, 472]\\n']\n"
    )
    (event,) = told(text)
    assert (event.rank, event.text) == (55, "RuntimeError: Storage size calculation overflowed with sizes=[4, 472]")


def test_an_incident_is_told_once_and_again_when_training_went_on() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB.\n"
    assert len(told(oom * 5)) == 1
    assert [event.step for event in told("step=1 loss=2.5\n" + oom + "step=2 loss=2.5\n" + oom)] == [1, 2]


def test_the_root_cause_of_torchrun() -> None:
    text = (
        TRACE + FRAME + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\n"
        "Failures:\n[1]:\n  rank      : 3 (local_rank: 3)\n  exitcode  : -15 (pid: 11)\n" + "-" * 60 + "\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2025-04-01_08:33:18\n  host      : x\n"
        "  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 310608)\n  error_file: <N/A>\n" + "=" * 60 + "\n"
    )
    (event,) = told(text)
    assert (event.kind, event.rank) == ("exit-code", 5)
    assert event.text == ("root cause: rank 5 (local_rank: 1) on x, exit code 1 (pid: 310608), 2025-04-01_08:33:18")
    assert event.time == 1743496398.0


def test_events_have_their_clock() -> None:
    (event,) = told("[2026-03-28 00:22:14,181] x: Segmentation fault (core dumped)\n")
    assert event.time == 1774657334.181


def test_a_log_goes_on_without_telling_twice() -> None:
    first = "step=1 loss=2.5\n" + TRACE + FRAME + "TypeError: x\nSegmentation fault (core dumped)"
    since = door.checkpoint(door.batches(key_value_text, first))
    found = door.batches(key_value_text, first + "\nstep=2 loss=2.5\n", since=since)
    assert [batch for batch in found if isinstance(batch, Event)] == []
    assert door.table(found) == {"loss": [(2, 2.5)]}


LONG = (
    "step=1 loss=2.5\n"
    + "".join(f"[rank{rank}]: {line}\n" for line in (TRACE + FRAME + "KeyError: 'x'").splitlines() for rank in range(3))
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + TRACE
    + FRAME
    + "ValueError: y\nstep=2 loss=2.4\n2: ['Traceback (most recent call last):\\n', '  File \"/x.py\", line 2\\n', "
    + "'TypeError: z\\n']\nstep=3 loss=2.3\nException ignored in: f\n"
    + TRACE
    + FRAME
    + "OSError: q\nRoot Cause (first observed failure):\n[0]:\n  time      : 2025-04-01_08:33:18\n  host      : x\n"
    "  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 310608)\n" + "=" * 60 + "\nKilled\n"
)


@pytest.mark.parametrize("at", range(1, LONG.count("\n")))
def test_reading_goes_on_from_any_line(at: int) -> None:
    whole = told(LONG)
    first = "".join(LONG.splitlines(keepends=True)[:at])
    since = door.checkpoint(door.batches(key_value_text, first))
    rest = [batch for batch in door.batches(key_value_text, LONG, since=since) if isinstance(batch, Event)]
    assert [*told(first), *rest] == whole


@pytest.mark.parametrize("end", range(0, len(LONG), 7))
def test_a_log_that_is_cut_tells_no_more_than_the_whole(end: int) -> None:
    known = [(event.kind, event.rank, event.place) for event in told(LONG)]
    assert [(event.kind, event.rank, event.place) for event in told(LONG[:end])] in [
        known[:count] for count in range(len(known) + 1)
    ]


@pytest.mark.parametrize("part", ["aA_", "a.", "1, ", "'x", "[1]", "task 1,", "successfully loaded checkpoint from "])
def test_no_pattern_runs_away_on_a_long_line(part: str) -> None:
    lines = f"{TRACE}{part * 5_000}\nLoss is nan, stopping training {part * 5_000}\n" * 3
    begin = time.process_time()
    told(lines)
    assert time.process_time() - begin < 3
