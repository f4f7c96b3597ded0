"""What text logs say of failures: one event an incident and rank; what only mentions the words stays silent."""

from __future__ import annotations

import pytest

from tests.parsers import door
from trainlens.model import Event
from trainlens.parsers import key_value_text

FRAME = '  File "/x/train.py", line 28, in <module>\n    main()\n'
TRACE = "Traceback (most recent call last):\n"


def told(text: str) -> list[Event]:
    return door.events(key_value_text, text)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 3 has", "out-of-memory"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.90 GiB total", "out-of-memory"),
        ("RuntimeError: DataLoader worker (pid 41) is killed by signal: Killed.", "host-out-of-memory"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.", "host-out-of-memory"),
        ("RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible", "worker-killed"),
        ("x.sh: line 131: 1948759 Killed                  deepspeed --hostfile x", "killed"),
        ("srun: error: nid000000: tasks 36,38: Killed", "killed"),
        ("Main process received SIGTERM, exiting", "killed"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("[enforce fail at inline_container.cc:424] . unexpected pos 64 vs 0", "disk-full"),
        ("[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
         "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600030 milliseconds", "nccl-timeout"),
        ("torch.distributed.DistBackendError: NCCL error in: /pytorch/x.cpp:1, unhandled cuda error", "nccl-error"),
        ("[1843.3] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus", "xid"),
        ("NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.", "gpu-lost"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "ecc"),
        ("[Sat Mar  4 04:23:09 2023] INFO: task python:280058 blocked for more than 120 seconds.", "hang"),
        ("FloatingPointError: Minimum loss scale reached (0.0001). Your loss is", "loss-scale-floor"),
        ("2020 | WARNING: overflow detected, setting loss scale to: 64.0", "overflow"),
        ("Loss is nan, stopping training", "nan-reported"),
        ("slurmstepd: error: *** JOB 1 ON r6i4n5 CANCELLED AT 2021-05-27T21:52:36 DUE TO TIME LIMIT ***", "time-limit"),
        ("slurmstepd: error: *** JOB 1 ON r6i4n5 CANCELLED AT 2021-05-27T21:52:36 ***", "preemption"),
        ("*** JOB 1 CANCELLED AT 2021-05-27T21:52:36 DUE TO PREEMPTION ***", "preemption"),
        ("Segmentation fault (core dumped)", "segmentation-fault"),
        ("Fatal Python error: Segmentation fault", "segmentation-fault"),
        ("Saving model checkpoint to out/checkpoint-500", "checkpoint-end"),
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
        "NaN",
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
    assert event.text == "root cause: rank 5 (local_rank: 1), exit code 1 (pid: 310608)"


def test_events_have_their_clock() -> None:
    (event,) = told("[2026-03-28 00:22:14,181] x: Segmentation fault (core dumped)\n")
    assert event.time == 1774657334.181


def test_a_log_goes_on_without_telling_twice() -> None:
    first = "step=1 loss=2.5\n" + TRACE + FRAME + "TypeError: x\nSegmentation fault (core dumped)"
    since = door.checkpoint(door.batches(key_value_text, first))
    found = door.batches(key_value_text, first + "\nstep=2 loss=2.5\n", since=since)
    assert [batch for batch in found if isinstance(batch, Event)] == []
    assert door.table(found) == {"loss": [(2, 2.5)]}
