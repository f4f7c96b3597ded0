from __future__ import annotations

import pickle

import pytest

from tests.parsers.door import batches, lines, points, rows, sniffed
from trainlens.errors import InputError
from trainlens.parsers import nsys, torch_memory

SUMMARY = """\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 1                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 0            |        cudaMalloc retries: 2         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |  22374 MiB |  43303 MiB |   1024 GiB |   1002 GiB |
|       from large pool |  22000 MiB |  43000 MiB |   1020 GiB |    998 GiB |
|---------------------------------------------------------------------------|
| Allocations           |     541    |     832    |  172302    |  171761    |
|===========================================================================|
"""


def test_a_table_is_one_moment() -> None:
    found = rows(torch_memory, SUMMARY + SUMMARY)
    assert found["Allocated memory/Cur Usage"] == [(None, 22374 * 2.0**20)] * 2
    assert found["Allocated memory/Tot Alloc"][0] == (None, 2.0**40)
    assert found["Allocated memory/from large pool/Peak Usage"][0] == (None, 43000 * 2.0**20)
    assert found["Allocations/Cur Usage"][0] == (None, 541)
    assert found["cudaMalloc retries"] == [(None, 2), (None, 2)]
    assert {one.rank for one in points(batches(torch_memory, SUMMARY))} == {1}
    assert lines(torch_memory, SUMMARY)["CUDA OOMs"] == [4]


def test_every_beginning_gives_a_beginning() -> None:
    whole = rows(torch_memory, SUMMARY)
    for end in range(len(SUMMARY)):
        for tag, values in rows(torch_memory, SUMMARY[:end]).items():
            assert whole[tag][: len(values)] == values


def test_a_snapshot_is_refused_and_never_opened() -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return pytest.fail, ("a pickle was opened",)

    content = pickle.dumps({"segments": [], "device_traces": [Trap()]})
    assert sniffed(torch_memory, content) == 1
    with pytest.raises(InputError, match="pickle") as told:
        batches(torch_memory, content, "snapshot.pickle")
    assert "_memory_viz" in (told.value.hint or "")


@pytest.mark.parametrize(
    ("name", "command"), [("a.nsys-rep", "nsys export"), ("a.qdrep", "nsys"), ("a.ncu-rep", "ncu")]
)
def test_recordings_of_nsight_are_refused_with_the_way_out(name: str, command: str) -> None:
    content = b"NVR\0\1\2\3" + bytes(100)
    assert sniffed(nsys, content, name) > 0.5
    with pytest.raises(InputError, match="own format") as told:
        batches(nsys, content, name)
    assert command in (told.value.hint or "")


def test_knows_its_own() -> None:
    assert sniffed(torch_memory, SUMMARY) > 0.9
    for other in (b"", b"\x80\4weights", "step 1 loss 2\n", SUMMARY + "step 1 loss 2\n" * 20):
        assert sniffed(torch_memory, other) == 0
    assert sniffed(nsys, "text", "a.nsys-rep") == 0
