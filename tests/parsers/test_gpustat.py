from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.parsers.door import batches, points, rows, sniffed
from trainlens import catalog
from trainlens.errors import InputError
from trainlens.parsers import gpustat, json_table, jsonl, key_value_text


def printed(second: int, busy: int) -> str:
    return (
        f"node1              Sat Jan  3 16:04:{second} 2026  535.1\n"
        f"[0] NVIDIA A100 | 61'C,  {busy} %,  300 / 400 W | 30000 / 81920 MB | somebody(29000M)\n"
        "[1] NVIDIA A100 | 60'C,  30 %,  ?? % | 20000 / 81920 MB |\n".replace("30 %,  ?? %", "?? %")
    )


def document(second: int, busy: int) -> dict[str, Any]:
    gpus = [{"index": 0, "uuid": "GPU-0", "name": "A100", "temperature.gpu": 61, "fan.speed": None,
             "utilization.gpu": busy, "power.draw": 300, "memory.used": 30000, "memory.total": 81920,
             "processes": [{"username": "somebody", "pid": 1}]},
            {"index": 1, "utilization.gpu": None, "temperature.gpu": 60, "memory.used": 20000,
             "memory.total": 81920}]  # fmt: skip
    return {"hostname": "node1", "driver_version": "535", "query_time": f"2026-01-03T16:04:{second}", "gpus": gpus}


FORMS = [
    printed(27, 95) + "\n" + printed(29, 96),
    json.dumps(document(27, 95)) + "\n" + json.dumps(document(29, 96)) + "\n",
    json.dumps(document(27, 95), indent=4) + "\n" + json.dumps(document(29, 96), indent=4),
]


def by_rank(content: str) -> dict[tuple[str, int], list[float]]:
    return {(one.tag, one.rank): one.value.tolist() for one in points(batches(gpustat, content))}


@pytest.mark.parametrize("content", FORMS)
def test_moments(content: str) -> None:
    assert by_rank(content) == {
        ("temperature.gpu", 0): [61, 61], ("utilization.gpu", 0): [95, 96], ("power.draw", 0): [300, 300],
        ("memory.used", 0): [30000, 30000], ("memory.total", 0): [81920, 81920], ("temperature.gpu", 1): [60, 60],
        ("memory.used", 1): [20000, 20000], ("memory.total", 1): [81920, 81920],
    }  # fmt: skip
    for one in points(batches(gpustat, content)):
        assert one.time is not None
        assert one.time.tolist() == [1767456267, 1767456269]


@pytest.mark.parametrize("content", FORMS)
def test_every_beginning_gives_a_beginning(content: str) -> None:
    whole = by_rank(content)
    for end in range(0, len(content), 3):
        try:
            found = by_rank(content[:end])
        except InputError:
            continue
        for key, values in found.items():
            assert whole[key][: len(values)] == values


def test_knows_its_own() -> None:
    for content in FORMS:
        others = (json_table, jsonl, key_value_text)
        assert sniffed(gpustat, content, "x.json") > max(0.9, *(sniffed(one, content, "x.json") for one in others))
    for other in ("", "[0] loss 3 | 2\n", '{"hostname": "x", "loss": 3}\n', "step 1 loss 2\n"):
        assert sniffed(gpustat, other) == 0
    with pytest.raises(InputError, match="no samples"):
        rows(gpustat, "[0] nothing\n")


def test_lists_of_devices_have_the_same_names() -> None:
    tags = {"gpus/utilization.gpu": "gpu/utilization", "gpus/power.draw": "gpu/power",
            "devices/temp": "gpu/temperature",
            "gpus/memory.total": "gpu/memory_total", "gpus/loss": "gpus/loss"}  # fmt: skip
    for tag, name in tags.items():
        assert catalog.resolve([tag])[tag].name == name, tag


def test_memory_without_a_unit_is_in_mib_where_bytes_cannot_be() -> None:
    about = catalog.resolve(["gpus/memory.used"])["gpus/memory.used"]
    for values, scale in (([30000.0], 2.0**20), ([3e10], 1.0), ([22.9], 1.0), ([], 1.0)):
        assert catalog.settle(about, "gpus/memory.used", np.array(values)).scale == scale
