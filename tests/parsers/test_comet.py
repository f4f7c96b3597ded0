from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import pytest

from tests.parsers.door import points, sniffed, table
from trainlens.errors import InputError
from trainlens.model import Batch, Fact, Note
from trainlens.parsers import comet
from trainlens.sources import Source

START = 1_760_000_000_000


def metric(name: str, value: object, step: int | None, second: float = 0) -> str:
    told = {"epoch": None, "metricName": name, "metricValue": value, "step": step}
    payload = {"local_timestamp": START + int(1000 * second), "message_id": 1, "metric": told}
    return json.dumps({"payload": payload, "type": "metric_msg"})


def parameter(name: str, value: object) -> str:
    return json.dumps({"payload": {"param": {"paramName": name, "paramValue": value}}, "type": "parameter_msg"})


def experiment(path: Path, *lines: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("experiment.json", "{}")
        made.writestr("messages.json", "\n".join(lines) + "\n")
    return path


def read(path: Path) -> list[Batch]:
    return list(comet.read(Source.of(path)))


def test_points_with_time_and_place(tmp_path: Path) -> None:
    lines = [metric("loss", 2.5, 0), "no json", metric("n", 7, 3), metric("loss", "NaN", 10, 1.5)]
    found = read(experiment(tmp_path / "ab.zip", *lines))
    shown = table(found)
    assert (shown["loss"][0], shown["loss"][1][0], shown["n"]) == ((0, 2.5), 10, [(3, 7.0)])
    assert math.isnan(shown["loss"][1][1])
    loss = points(found)[0]
    assert loss.time is not None
    assert loss.origin is not None
    assert (loss.time.tolist(), loss.origin.tolist()) == ([1_760_000_000.0, 1_760_000_001.5], [1, 4])


def test_samples_get_the_step_of_their_moment_and_others_without_a_step_count(tmp_path: Path) -> None:
    curve = [metric("loss", 1.0, at, at) for at in (0, 100, 200)]
    others = [metric("sys.gpu.0.gpu_utilization", 50, None, 150), metric("free", 1, None), metric("free", 2, None)]
    found = table(read(experiment(tmp_path / "ab.zip", *curve, *others)))
    assert found["sys.gpu.0.gpu_utilization"] == [(150, 50.0)]
    assert found["free"] == [(None, 1.0), (None, 2.0)]


def test_parameters_are_facts_but_for_counters(tmp_path: Path) -> None:
    name = json.dumps({"payload": {"other": {"key": "Name", "val": "first"}}, "type": "log_other"})
    found = read(experiment(tmp_path / "ab.zip", parameter("lr", 0.1), parameter("curr_step", 3), name))
    assert [(one.name, one.value) for one in found if isinstance(one, Fact)] == [("lr", 0.1), ("comet_name", "first")]


@pytest.mark.parametrize("value", [True, None, "word", [1]])
def test_what_is_no_number_is_no_point(tmp_path: Path, value: object) -> None:
    assert table(read(experiment(tmp_path / "ab.zip", metric("loss", value, 1)))) == {}


def test_a_line_longer_than_memory_allows_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comet, "LONGEST", 500)
    lines = [metric("loss", 1.0, 0), json.dumps({"payload": {"x": "y" * 5000}}), metric("loss", 2.0, 1)]
    assert table(read(experiment(tmp_path / "ab.zip", *lines))) == {"loss": [(0, 1.0), (1, 2.0)]}


def test_damage(tmp_path: Path) -> None:
    path = experiment(tmp_path / "ab.zip", *(metric("loss", at / 7, at, at) for at in range(2000)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 20] = bytes(20)
    path.write_bytes(content)
    found = read(path)
    assert set(table(found).get("loss", [])) <= {(at, at / 7) for at in range(2000)}
    assert [one.kind for one in found if isinstance(one, Note)] == ["damaged"]
    path.write_bytes(content[:200])
    with pytest.raises(InputError, match="cannot be opened"):
        read(path)


def test_sniff(tmp_path: Path) -> None:
    path = experiment(tmp_path / "ab.zip", metric("loss", 1.0, 0))
    assert comet.sniff(path.read_bytes(), path) == 0.95
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("model.bin", "x")
    assert comet.sniff(path.read_bytes(), path) == 0.0
    assert sniffed(comet, b"{}", "ab.zip") == 0.0
