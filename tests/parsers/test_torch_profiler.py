from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.door import batches, facts, notes, points, rows, sniffed
from trainlens import analyze
from trainlens.errors import InputError
from trainlens.parsers import _trace_events, json_table, jsonl, torch_profiler
from trainlens.parsers._trace_events import Event
from trainlens.parsers._trace_windows import Windows
from trainlens.sources import Source

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(category: str, name: str, begin: float, length: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": length, **more}


def step(number: int, at: float) -> list[dict[str, Any]]:
    """A step of 100 µs: 40 compute, 30 communication (10 of it hidden), 10 copy, 30 idle; 20 of loading data."""
    return [
        event("user_annotation", f"ProfilerStep#{number}", at, 98),
        event("gpu_user_annotation", f"ProfilerStep#{number}", at + 50, 98),
        event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 20),
        event("kernel", "sgemm", at, 30, args={"stream": 7, "bandwidth": 1.5, "note": '}, {"ph": no'}),
        event("kernel", "relu", at + 20, 20),
        event("kernel", NCCL, at + 30, 30),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at + 55, 15),
        event("cpu_op", "aten::mm", at, 90),
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "ts": at},
    ]


def trace(events: list[dict[str, Any]], **about: Any) -> str:
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    tail = {"traceName": "x.json", "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}
    return json.dumps({**head, **about, "traceEvents": events, **tail}, indent=2)


THREE = [one for number in range(3) for one in step(10 + number, 1000.0 + 100 * number)]
EXPECTED = {
    "step_time": [100e-6, 100e-6, 98e-6],
    "data_time": [20e-6] * 3,
    "gpu/utilization": [0.7, 0.7, 70 / 98],
    "profile/compute_share": [0.4, 0.4, 40 / 98],
    "profile/memcpy_share": [0.1, 0.1, 10 / 98],
    "profile/idle_share": [0.3, 0.3, 28 / 98],
    "comm_share": [0.2, 0.2, 20 / 98],
    "comm_time": [30e-6] * 3,
    "profile/data_share": [0.0] * 3,
    "profile/host_share": [0.2, 0.2, 20 / 98],
    "profile/comm_overlap": [1 / 3] * 3,
}


def values(content: bytes | str) -> dict[str, list[float]]:
    return {tag: [value for _, value in found] for tag, found in rows(torch_profiler, content).items()}


def close(found: dict[str, list[float]], expected: dict[str, list[float]]) -> bool:
    return found.keys() == expected.keys() and all(np.allclose(found[tag], expected[tag]) for tag in expected)


def test_where_a_step_goes() -> None:
    assert close(values(trace(THREE)), EXPECTED)
    first = points(batches(torch_profiler, trace(THREE)))[0]
    assert first.step is not None
    assert (first.step.tolist(), first.rank, first.time) == ([10, 11, 12], 3, None)


@pytest.mark.parametrize("order", [["name", "ph"], ["cat", "name"], ["ts", "ph"]])
def test_whatever_key_comes_first(order: list[str]) -> None:
    turned = [{**{key: one[key] for key in order if key in one}, **one} for one in THREE]
    assert close(values(trace(turned)), EXPECTED)


@pytest.mark.parametrize("size", [64, 200, 1001])
def test_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, size))
    assert close(values(trace(THREE)), EXPECTED)
    assert not notes(torch_profiler, trace(THREE))


def test_compressed_compact_or_bare() -> None:
    assert close(values(gzip.compress(trace(THREE).encode())), EXPECTED)
    assert close(values(json.dumps(json.loads(trace(THREE)))), EXPECTED)
    assert close(values(json.dumps(THREE)), EXPECTED)


def test_texts_for_times_and_bare_words() -> None:
    texts = [{**one, "ts": str(one["ts"]), "dur": str(one.get("dur", 0))} for one in THREE]
    assert close(values(trace(texts)), EXPECTED)
    assert close(values(trace(THREE).replace('"bandwidth": 1.5', '"bandwidth": inf')), EXPECTED)


@pytest.mark.parametrize("order", [1, -1])
def test_events_in_any_order(order: int) -> None:
    assert close(values(trace(THREE[::order])), EXPECTED)


def test_facts_without_names_of_users() -> None:
    found = facts(torch_profiler, trace(THREE, username="somebody", host_name="node7"))
    assert found == {"backend": "nccl", "world_size": 8, "gpus_per_node": 1, "gpu_name": "NVIDIA H100"}


def test_the_clock() -> None:
    found = points(batches(torch_profiler, trace(THREE, baseTimeNanoseconds=1711964646000000000)))[0]
    assert found.time is not None
    assert found.time[0] == pytest.approx(1711964646.001)


def test_cut_off() -> None:
    text = trace(THREE)
    (note,) = notes(torch_profiler, text[: text.index("ProfilerStep#12")])
    assert note.kind == "cut-off"
    assert values(text[: text.index("ProfilerStep#12")])["step_time"] == pytest.approx([100e-6, 98e-6])


def test_a_trace_without_steps_is_one_window() -> None:
    found = rows(torch_profiler, trace([one for one in step(1, 0.0) if "ProfilerStep" not in one["name"]]))
    assert "step_time" not in found
    assert found["gpu/utilization"] == [(None, 1.0)]


@pytest.mark.parametrize("name", ["step {}", "train_step#{}", "iteration_{}"])
def test_annotations_of_the_user_are_steps(name: str) -> None:
    own = [{**one, "name": one["name"].replace("ProfilerStep#", "s:")} for one in THREE]
    marks = [event("user_annotation", name.format(10 + at), 1000.0 + 100 * at, 98) for at in range(3)]
    assert close(values(trace(own + marks)), EXPECTED)


def test_else_the_ends_of_the_optimizers_steps() -> None:
    own = [one for one in THREE if "ProfilerStep" not in one["name"]]
    ends = [event("user_annotation", "Optimizer.step#AdamW.step", 990.0 + 100 * at, 10) for at in range(4)]
    found = values(trace(own + ends))
    assert found["step_time"] == pytest.approx([100e-6] * 3)
    assert found["gpu/utilization"] == pytest.approx([0.7] * 3)
    assert rows(torch_profiler, trace(own + ends))["step_time"][0][0] is None


def test_times_that_are_no_numbers_count_for_nothing() -> None:
    broken = [event("kernel", "k", 1000.0, 5) | {"ts": "soon"}, event("cpu_op", "x", 1000.0, 5) | {"dur": "long"}]
    assert close(values(trace(THREE + broken)), EXPECTED)


def test_loading_that_the_gpu_waits_for() -> None:
    wait = event("user_annotation", "enumerate(DataLoader)#x", 1070.0, 20)
    assert values(trace([*step(10, 1000.0), wait]))["profile/data_share"] == [pytest.approx(20 / 98)]


def test_a_trace_of_the_host_alone() -> None:
    text = trace([one for one in THREE if "kernel" not in one["cat"] and "gpu" not in one["cat"]])
    assert rows(torch_profiler, text).keys() == {"step_time", "data_time"}
    assert [note.kind for note in notes(torch_profiler, text)] == ["no-points"]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=20))
def test_overlaps_count_once(spans: list[tuple[int, int]]) -> None:
    windows = Windows()
    windows.add([Event("X", "kernel", "k", begin, length) for begin, length in spans])
    busy = np.zeros(100, bool)
    for begin, length in spans:
        busy[begin : begin + length] = True
    first, last = np.array([0.0, 10.0, 33.0]), np.array([10.0, 33.0, 100.0])
    assert windows.covered(first, last, "compute").tolist() == [busy[:10].sum(), busy[10:33].sum(), busy[33:].sum()]


def test_no_trace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no events"):
        batches(torch_profiler, '{"schemaVersion": 1}')
    monkeypatch.setattr(_trace_events, "LONGEST", 100)
    with pytest.raises(InputError, match="no events"):
        batches(torch_profiler, '{"x": "' + "a" * 1000 + '"}')


def test_knows_its_own() -> None:
    assert sniffed(torch_profiler, trace(THREE)) == 1
    assert sniffed(torch_profiler, json.dumps(THREE)) > max(
        sniffed(json_table, json.dumps(THREE)), sniffed(jsonl, json.dumps(THREE))
    )
    for other in ('{"loss": [1, 2]}', '[{"step": 1, "loss": 2}]', "", "step 1 loss 2", '{"ph": 7.1, "ts": 3}\n' * 3):
        assert sniffed(torch_profiler, other) == 0


def test_the_measures_have_their_canonical_names(tmp_path: Path) -> None:
    (tmp_path / "rank3.pt.trace.json").write_text(trace(THREE))
    (run,) = analyze([tmp_path]).runs
    units = {one.name: one.unit for one in run.metrics}
    assert units.keys() == EXPECTED.keys()
    assert units["comm_share"] == units["profile/idle_share"] == "share"
