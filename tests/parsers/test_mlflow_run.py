from __future__ import annotations

from pathlib import Path

import pytest

from tests.parsers.door import batches, sniffed, table
from trainlens.model import Event, Fact, Note
from trainlens.parsers import mlflow_files, mlflow_run
from trainlens.sources import Source

RUN = "mlruns/0/0123456789abcdef0123456789abcdef"


def meta(status: object = 3, stage: str = "active", end: object = 1_700_000_000_500) -> str:
    return (
        f"artifact_uri: file:///x\nend_time: {end}\nexperiment_id: '0'\nlifecycle_stage: {stage}\n"
        f"run_id: 0123456789abcdef0123456789abcdef\nrun_name: bold-crow-7\nstatus: {status}\ntags: []\n"
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [(3, "run-end"), (4, "exit-code"), (5, "killed"), ("FINISHED", "run-end"), ("FAILED", "exit-code")],
)
def test_the_status_is_how_the_run_ended(status: object, kind: str) -> None:
    (event,) = [one for one in batches(mlflow_run, meta(status), "meta.yaml", folder=RUN) if isinstance(one, Event)]
    assert (event.kind, event.time) == (kind, 1_700_000_000.5)


@pytest.mark.parametrize("status", [1, 2, "RUNNING", "null", 99])
def test_a_run_that_goes_on_has_no_end(status: object) -> None:
    found = batches(mlflow_run, meta(status, end="null"), "meta.yaml", folder=RUN)
    assert {one.name: one.value for one in found if isinstance(one, Fact)} == {
        "run_name": "bold-crow-7",
        "experiment_id": "0",
    }
    assert not [one for one in found if isinstance(one, Event)]


def test_tags_are_facts_but_for_long_texts() -> None:
    (fact,) = batches(mlflow_run, "abc123\n", "mlflow.source.git.commit", folder=f"{RUN}/tags")
    assert isinstance(fact, Fact)
    assert (fact.name, fact.value) == ("mlflow.source.git.commit", "abc123")
    assert batches(mlflow_run, "x" * 600, "mlflow.log-model.history", folder=f"{RUN}/tags") == []


def test_a_deleted_run_is_left_out_with_a_word(tmp_path: Path) -> None:
    run = tmp_path / RUN
    (run / "metrics").mkdir(parents=True)
    (run / "metrics" / "loss").write_text("1700000000500 2.5 1\n")
    for stage, count in (("deleted", 0), ("active", 1)):
        (run / "meta.yaml").write_text(meta(stage=stage))
        found = list(mlflow_files.read(Source.of(run / "metrics" / "loss")))
        assert len(table(found)) == count
        told = [*found, *mlflow_run.read(Source.of(run / "meta.yaml"))]
        assert len([one for one in told if isinstance(one, Note) and "deleted" in one.message]) == 2 - 2 * count


@pytest.mark.parametrize(
    ("content", "name", "score"),
    [
        (meta(), "meta.yaml", 1.0),
        ("artifact_location: x\nexperiment_id: '0'\nname: Default\n", "meta.yaml", 0.0),
        ("me", f"{RUN}/tags/team", 0.6),
        ("me", f"{RUN}/tags/mlflow.user", 0.0),
        ("me", "tags/team", 0.0),
        (b"\0", f"{RUN}/tags/team", 0.0),
    ],
)
def test_sniff(content: bytes | str, name: str, score: float) -> None:
    assert sniffed(mlflow_run, content, name) == score
