from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.parsers.door import batches, notes, points, rows, sniffed
from trainlens import analyze
from trainlens.errors import InputError
from trainlens.parsers import amd_smi, csv, json_table, jsonl

ROCM = """\
device,GPU use (%),Temperature (Sensor edge) (C),Average Graphics Package Power (W),VRAM Total Memory (B)
card0,95,43.0,301.0,68702699520
card1,96,N/A,302.0,68702699520
"""
AMD = """\
timestamp,gpu,gfx_activity,umc_activity,socket_power,hotspot,used_vram,total_vram
1767456267,0,95,10,300,60,1000,6000
1767456267,1,96,10,300,61,1000,6000
1767456268,0,97,10,300,60,1000,6000
"""
ROCM_JSON = json.dumps(
    {"card0": {"GPU use (%)": "95", "VRAM Total Used Memory (B)": "3000"}, "card1": {"GPU use (%)": "94"},
     "system": {"Driver version": "6.3"}}
)  # fmt: skip
AMD_JSON = json.dumps(
    [
        {"gpu": 0, "usage": {"gfx_activity": {"value": 95, "unit": "%"}, "vcn": "N/A"},
         "power": {"socket_power": {"value": 301, "unit": "W"}},
         "mem_usage": {"used_vram": {"value": 3000, "unit": "MB"}}},
        {"gpu": 1, "usage": {"gfx_activity": {"value": 94, "unit": "%"}}},
    ],
    indent=4,
)  # fmt: skip


def by_rank(content: str) -> dict[tuple[str, int], list[float]]:
    return {(one.tag, one.rank): one.value.tolist() for one in points(batches(amd_smi, content))}


def test_rows_of_rocm_smi() -> None:
    found = by_rank(ROCM + "\n" + ROCM)
    assert found["GPU use (%)", 0] == [95, 95]
    assert found["Average Graphics Package Power (W)", 1] == [302, 302]
    assert ("Temperature (Sensor edge) (C)", 1) not in found
    assert not notes(amd_smi, ROCM)


def test_rows_of_amd_smi_have_a_clock() -> None:
    first = points(batches(amd_smi, AMD))[0]
    assert (first.tag, first.rank, first.value.tolist()) == ("gfx_activity", 0, [95, 97])
    assert first.time is not None
    assert first.time.tolist() == [1767456267, 1767456268]


def test_documents_in_turn() -> None:
    assert by_rank(f"{ROCM_JSON}\n{ROCM_JSON}\n") == {
        ("GPU use (%)", 0): [95, 95], ("VRAM Total Used Memory (B)", 0): [3000, 3000], ("GPU use (%)", 1): [94, 94]
    }  # fmt: skip
    found = by_rank(f"2026-01-03 16:04:27\n{AMD_JSON}\n2026-01-03 16:04:28\n{AMD_JSON}\n")
    assert found["usage/gfx_activity", 1] == [94, 94]
    units = {one.tag: one.unit for one in points(batches(amd_smi, AMD_JSON))}
    assert units == {"usage/gfx_activity": "%", "power/socket_power": "W", "mem_usage/used_vram": "MB"}


@pytest.mark.parametrize("content", [ROCM, AMD, ROCM_JSON + "\n" + ROCM_JSON, AMD_JSON + "\n" + AMD_JSON])
def test_every_beginning_gives_a_beginning(content: str) -> None:
    whole = by_rank(content)
    for end in range(len(content)):
        try:
            found = by_rank(content[:end])
        except InputError:
            continue
        for key, values in found.items():
            assert whole[key][: len(values)] == values


def test_knows_its_own() -> None:
    for content in (ROCM, AMD, ROCM_JSON + "\n", AMD_JSON):
        others = (csv, json_table, jsonl)
        assert sniffed(amd_smi, content, "x.csv") > max(0.9, *(sniffed(one, content, "x.csv") for one in others))
    for other in ("", "gpu,loss\n0,1\n", '{"step": 1}', "device,loss\ncpu,1\n", '[{"gpu": 1, "loss": 2}]'):
        assert sniffed(amd_smi, other) == 0
    with pytest.raises(InputError, match="no samples"):
        rows(amd_smi, "device,GPU use (%)\n")


@pytest.mark.parametrize("content", [ROCM, AMD, AMD_JSON])
def test_the_measures_have_their_canonical_names(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_text(content)
    (run,) = analyze([tmp_path]).runs
    found = {(one.name, one.unit) for one in run.metrics}
    assert found >= {("gpu/utilization", "share"), ("gpu/power", "W")}
    highest = {round(one.max or 0, 6) for one in run.metrics if one.name == "gpu/utilization"}
    assert highest <= {0.94, 0.95, 0.96, 0.97}
