"""Finding files and sorting them into runs."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from trainlens import reading
from trainlens.errors import InputError
from trainlens.sources import Source, find, finding, group, inner_last


def lay(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
    return root


def grouped(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Run → (file, prefix). The format of a file is its ending."""
    files = [(source, Path(source.name).suffix) for source in find(root).sources]
    return {run.name: [(file.source.name, file.prefix) for file in run.files] for run in group(files, root)}


# ---- finding ---------------------------------------------------------------------------------------------------------


def test_files_are_named_from_the_directory_in_order(tmp_path: Path) -> None:
    lay(tmp_path, "b.log", "a/z.log", ".git/x", ".hidden", "venv/y", "node_modules/z", "trainlens-report/r.html")
    found = find(tmp_path)
    assert [source.name for source in found.sources] == ["a/z.log", "b.log"]
    assert found.sources[1].size == len("b.log")


def test_a_hidden_store_of_a_tracker_is_told(tmp_path: Path) -> None:
    found = find(lay(tmp_path, "a.log", ".aim/meta/index", ".git/x"))
    assert [(one.path, one.state) for one in found.unread] == [(".aim", "ignored")]
    assert "an Aim repository, which only its own tools open" in found.unread[0].reason


def test_links_keep_their_names_and_loops_end(tmp_path: Path) -> None:
    lay(tmp_path, "store/a/log", "store/b/log")
    view = tmp_path / "view"
    view.mkdir()
    for name, target in {"lr-3e-4": "../store/a", "lr-1e-3": "../store/b", "loop": "..", "self": "."}.items():
        (view / name).symlink_to(target)
    assert [source.name for source in find(view).sources] == ["lr-1e-3/log", "lr-3e-4/log"]


def test_what_the_wandb_client_writes_about_itself_is_left_out(tmp_path: Path) -> None:
    run = "wandb/offline-run-20240214_191836-ab"
    own = [f"{run}/files/wandb-summary.json", "swanlog/run-20261201_031508-ab/debug/debug.log"]
    own += ["wandb/debug-internal.log", f"{run}/logs/debug.log", f"{run}/logs/debug-core.log"]
    lay(tmp_path, *own, f"{run}/run-ab.wandb", f"{run}/files/output.log", "debug.log", "cache/core.log")
    (tmp_path / run / "logs" / "debug-linked.log").symlink_to(tmp_path / "cache" / "core.log")
    found = find(tmp_path)
    kept = ["cache/core.log", "debug.log", f"{run}/files/output.log", f"{run}/run-ab.wandb"]
    assert [source.name for source in found.sources] == kept
    assert sorted(one.path for one in found.unread) == sorted(own)
    assert {one.state for one in found.unread} == {"ignored"}


def test_a_file_reached_twice_is_taken_once(tmp_path: Path) -> None:
    lay(tmp_path, "run-1/log")
    (tmp_path / "latest").symlink_to("run-1")
    assert [source.name for source in find(tmp_path).sources] == ["run-1/log"]


def test_a_broken_link_is_told(tmp_path: Path) -> None:
    lay(tmp_path, "log")
    (tmp_path / "gone").symlink_to("nowhere")
    assert [(report.path, report.state) for report in find(tmp_path).unread] == [("gone", "ignored")]


def test_too_many_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_FILES", 2)
    found = find(lay(tmp_path, "1", "2", "3"))
    assert len(found.sources) == 2
    assert "of 3 files only 2" in found.unread[0].reason


def test_logs_are_not_lost_among_the_files_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_FILES", 20)
    data = [
        f"data{folder}/sample_{number}.{kind}" for folder in range(3) for number in range(9) for kind in ("npy", "json")
    ]
    logs = {"train.log", "zz/sub/log.csv", "zz/metrics.jsonl", "data2/events.out.tfevents.1.host"}
    found = find(lay(tmp_path, *data, *logs))
    assert len(found.sources) == 20
    assert logs <= {source.name for source in found.sources}
    monkeypatch.setattr(finding, "MOST_LISTED", 30)
    assert "more than 30 files" in find(tmp_path).unread[0].reason


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is empty"):
        find(tmp_path)


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_compressed_files_are_read_as_if_they_were_not(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"step 1\nstep 2\n"))
    source = Source.of(path)
    assert source.head(6) == b"step 1"
    assert b"".join(source.blocks(4)) == b"step 1\nstep 2\n"
    with source.mapped() as view:
        assert bytes(view) == b"step 1\nstep 2\n"


# ---- grouping --------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "a directory is a run": (["x.tb", "y.log"], {"": [("x.tb", ""), ("y.log", "")]}),
    "sister directories are runs": (["a/x.tb", "b/x.tb"], {"a": [("a/x.tb", "")], "b": [("b/x.tb", "")]}),
    "names below the root are paths": (
        ["实验一/学习率=3e-4/x.tb"],
        {"实验一/学习率=3e-4": [("实验一/学习率=3e-4/x.tb", "")]},
    ),
    "splits are parts": (
        ["train/x.tb", "validation/x.tb"],
        {"": [("train/x.tb", "train/"), ("validation/x.tb", "validation/")]},
    ),
    "evaluation beside the training's own files": (["x.tb", "eval/x.tb"], {"": [("eval/x.tb", "eval/"), ("x.tb", "")]}),
    "a run that is called test": (["test/x.tb"], {"test": [("test/x.tb", "")]}),
    "curves of add_scalars": (
        ["x.tb", "Loss_train/x.tb", "Loss_val/x.tb"],
        {"": [("Loss_train/x.tb", "Loss_train/"), ("Loss_val/x.tb", "Loss_val/"), ("x.tb", "")]},
    ),
    "hyper-parameters of the writer": (
        ["x.tb", "1760000260.4567/x.tb"],
        {"": [("1760000260.4567/x.tb", ""), ("x.tb", "")]},
    ),
    "runs named by their time": (
        ["1760000260/x.tb", "1760000261/x.tb"],
        {"1760000260": [("1760000260/x.tb", "")], "1760000261": [("1760000261/x.tb", "")]},
    ),
    "neutral directories": (["x.log", "logs/y.tb"], {"": [("logs/y.tb", ""), ("x.log", "")]}),
    "one Lightning version": (["lightning_logs/version_0/m.csv"], {"": [("lightning_logs/version_0/m.csv", "")]}),
    "two Lightning versions": (
        ["lightning_logs/version_0/m.csv", "lightning_logs/version_1/m.csv"],
        {
            "lightning_logs/version_0": [("lightning_logs/version_0/m.csv", "")],
            "lightning_logs/version_1": [("lightning_logs/version_1/m.csv", "")],
        },
    ),
    "checkpoints": (["s.json", "checkpoint-500/s.json"], {"": [("checkpoint-500/s.json", ""), ("s.json", "")]}),
    "the trainer's runs directory": (
        ["s.json", "runs/Oct01_host/x.tb"],
        {"": [("runs/Oct01_host/x.tb", ""), ("s.json", "")]},
    ),
    "MLflow": (
        [f"mlruns/0/{'0a' * 16}/metrics/train/loss", f"mlruns/0/{'1b' * 16}/metrics/loss"],
        {
            "0a" * 16: [(f"mlruns/0/{'0a' * 16}/metrics/train/loss", "")],
            "1b" * 16: [(f"mlruns/0/{'1b' * 16}/metrics/loss", "")],
        },
    ),
    "one W&B run": (
        ["wandb/run-20240214_191836-ab/run-ab.wandb", "wandb/run-20240214_191836-ab/files/output.log"],
        {
            "": [
                ("wandb/run-20240214_191836-ab/files/output.log", ""),
                ("wandb/run-20240214_191836-ab/run-ab.wandb", ""),
            ]
        },
    ),
    "two W&B runs": (
        [
            "wandb/run-20240214_191836-ab/run-ab.wandb",
            "wandb/run-20240214_191836-ab/files/output.log",
            "wandb/offline-run-20240215_000000-cd/run-cd.wandb",
        ],
        {
            "wandb/offline-run-20240215_000000-cd": [("wandb/offline-run-20240215_000000-cd/run-cd.wandb", "")],
            "wandb/run-20240214_191836-ab": [
                ("wandb/run-20240214_191836-ab/files/output.log", ""),
                ("wandb/run-20240214_191836-ab/run-ab.wandb", ""),
            ],
        },
    ),
    "a directory for each rank": (
        ["rank_0/x.log", "rank_1/x.log", "rank_10/tb/y.tb"],
        {"": [("rank_0/x.log", ""), ("rank_1/x.log", ""), ("rank_10/tb/y.tb", "")]},
    ),
    "ranks of two runs": (
        [f"{run}/global_rank{rank}/x.log" for run in "ab" for rank in (0, 8)],
        {run: [(f"{run}/global_rank{rank}/x.log", "") for rank in (0, 8)] for run in "ab"},
    ),
    "ranks of an adapter that were tried": (
        ["rank_4/x.log", "rank_8/x.log"],
        {"rank_4": [("rank_4/x.log", "")], "rank_8": [("rank_8/x.log", "")]},
    ),
    "one rank that was kept": (["rank_0/x.log"], {"rank_0": [("rank_0/x.log", "")]}),
    "attempts of torchrun": (
        [f"job/attempt_{attempt}/{rank}/stdout.log" for attempt in (0, 1) for rank in (0, 1)],
        {"job": [(f"job/attempt_{attempt}/{rank}/stdout.log", "") for attempt in (0, 1) for rank in (0, 1)]},
    ),
    "attempts with a log each": (
        ["attempt_0/x.log", "attempt_1/x.log"],
        {"attempt_0": [("attempt_0/x.log", "")], "attempt_1": [("attempt_1/x.log", "")]},
    ),
    "runs that bear numbers": (["0/x.log", "1/x.log"], {"0": [("0/x.log", "")], "1": [("1/x.log", "")]}),
    "SwanLab's curves": (
        ["swanlog/run-20250605_144317-a/logs/1/1000.log", "swanlog/run-20250605_144317-a/logs/2/1000.log"],
        {
            "": [
                ("swanlog/run-20250605_144317-a/logs/1/1000.log", ""),
                ("swanlog/run-20250605_144317-a/logs/2/1000.log", ""),
            ]
        },
    ),
    "two runs of SwanLab": (
        ["run-20250605_144317-a/logs/1/1000.log", "run-20250606_144317-b/logs/1/1000.log"],
        {
            "run-20250605_144317-a": [("run-20250605_144317-a/logs/1/1000.log", "")],
            "run-20250606_144317-b": [("run-20250606_144317-b/logs/1/1000.log", "")],
        },
    ),
    "DVCLive": (
        ["dvclive/plots/metrics/acc.tsv", "dvclive/plots/metrics/train/loss.tsv"],
        {"dvclive": [("dvclive/plots/metrics/acc.tsv", ""), ("dvclive/plots/metrics/train/loss.tsv", "")]},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path: Path, layout: str) -> None:
    names, runs = LAYOUTS[layout]
    root = tmp_path / "experiment"
    assert grouped(lay(root, *names)) == {name or "experiment": files for name, files in runs.items()}


def test_a_single_file_is_a_run_of_its_name(tmp_path: Path) -> None:
    lay(tmp_path, "train.log")
    found = find(tmp_path / "train.log")
    (run,) = group([(found.sources[0], "megatron")], found.root)
    assert (run.name, run.path) == ("train.log", str(tmp_path / "train.log"))


def test_a_resumed_wandb_run_is_one_run(tmp_path: Path) -> None:
    places = ["run-20240216_000000-my-ab", "offline-run-20240215_000000-my-ab", "run-20240214_000000-cd"]
    files = [(Source.of(lay(tmp_path, f"{place}/x.wandb") / place / "x.wandb", f"{place}/x.wandb")) for place in places]
    runs = {run.name: len(run.files) for run in group([(source, "wandb") for source in files], tmp_path)}
    assert runs == {"offline-run-20240215_000000-my-ab": 2, "run-20240214_000000-cd": 1}
    assert len(group([(source, "swanlab") for source in files], tmp_path)) == 3


def test_links_in_a_circle_and_into_nowhere_are_told(tmp_path: Path) -> None:
    lay(tmp_path, "log")
    for name, target in {"x1": "x2", "x2": "x1", "gone": "nowhere"}.items():
        (tmp_path / name).symlink_to(target)
    found = find(tmp_path)
    assert [source.name for source in found.sources] == ["log"]
    assert sorted(report.path for report in found.unread) == ["gone", "x1", "x2"]


def test_a_socket_or_device_is_refused() -> None:
    with pytest.raises(InputError, match="device"):
        find("/dev/null")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(InputError, match="empty name"):
        find("")


def test_odd_names_and_directories_that_may_not_be_read(tmp_path: Path) -> None:
    odd = [os.fsdecode(b"caf\xe9.log"), "two\nlines.log", " blanks .log"]
    lay(tmp_path, *odd)
    assert [source.name for source in find(tmp_path).sources] == sorted(odd)
    assert all(source.head() for source in find(tmp_path).sources)


def test_a_huge_sparse_file_costs_its_head(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(50 << 30)
    (source,) = find(tmp_path).sources
    name, report = reading.choose(source)
    assert (name, report.state) == (None, "ignored")


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"step 1\n" * 100_000))
    writer.start()
    (source,) = find(pipe).sources
    writer.join()
    assert (source.name, source.size) == ("pipe.log", 700_000)
    assert b"".join(source.blocks()) == b"step 1\n" * 100_000
    assert find(pipe).sources == (source,)  # not a second time


def test_inner_paths_come_last_and_none_twice(tmp_path: Path) -> None:
    lay(tmp_path, "a/log", "b/log")
    named = [tmp_path / "a/log", tmp_path / "b", tmp_path / "a", tmp_path / "b"]
    assert inner_last(named) == [tmp_path / "b", tmp_path / "a", tmp_path / "a/log"]
