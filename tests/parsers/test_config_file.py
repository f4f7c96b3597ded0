from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.door import batches, facts, notes, points, sniffed
from trainlens.errors import InputError
from trainlens.parsers import config_file, json_table
from trainlens.reading import read as read_runs
from trainlens.settings import load


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("config.yaml", "lr: 1e-4\nmodel:\n  dim: 64\n  tied: true\n", {"lr": 1e-4, "model.dim": 64,
                                                                     "model.tied": True}),
        ("hparams.yaml", "betas:\n- 0.9\n- 0.95\nname: a\nwarmup: null\n", {"betas": "0.9, 0.95", "name": "a"}),
        ("overrides.yaml", "- optim.lr=0.1\n- +model=big\n- x\n", {"optim.lr": 0.1, "model": "big"}),
        ("args.yaml", "!!python/object:argparse.Namespace\nlr: 0.1\nfn: !!python/name:os.system ''\n", {"lr": 0.1}),
        ("config.yaml", "wandb_version: 1\nlr:\n  desc: null\n  value: 0.5\n", {"wandb_version": 1, "lr": 0.5}),
        ("ds_config.json", '{"bf16": {"enabled": true}, "gradient_clipping": "auto", "train_batch_size": 32}',
         {"bf16": True, "bf16.enabled": True, "train_batch_size": 32}),
        ("training_args.json", '{"clip": 1.0, "fsdp": [], "bf16": false}', {"clip": 1.0, "bf16": False}),
        ("train.toml", "[training]\nsteps = 10\nseq = [1, 2]\n", {"training.steps": 10, "training.seq": "1, 2"}),
        ("config.json", '{"groups": [{"lr": 1}, {"lr": 2}]}', {"groups.0.lr": 1, "groups.1.lr": 2}),
        ("config.yaml", "a: &x {b: 1}\nc: *x\n", {"a.b": 1, "c.b": 1}),
    ],
)  # fmt: skip
def test_settings_are_facts(name: str, text: str, expected: dict[str, Any]) -> None:
    assert sniffed(config_file, text, name) == 0.3
    assert facts(config_file, text, name) == expected
    assert points(batches(config_file, text, name)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer_config.json", '{"a": 1}'), ("pyproject.toml", "[a]\nb = 1\n"), ("log.yaml", "a: 1\n"),
        ("config.yaml", "just words\n"), ("config.json", "[1, 2]"), ("config.json", '{"a": '), ("config.bin", "a: 1\n"),
    ],
)  # fmt: skip
def test_other_files_are_no_settings(name: str, text: str) -> None:
    assert sniffed(config_file, text, name) == 0.0


def test_results_of_the_end_are_no_settings() -> None:
    text = json.dumps({"epoch": 3.0, "train_loss": 1.5})
    assert sniffed(config_file, text, "all_results.json") == 0.0
    assert sniffed(json_table, text, "all_results.json") == 0.3


@pytest.mark.parametrize(
    "text", ["a: [" * 5000, "a: {" * 5000, "- " * 5000 + "a", "a: b: c\n", "\ta: 1", "a: *unknown\n", "a: 'open\n"]
)
def test_what_is_malformed_or_hostile_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        batches(config_file, text, "config.yaml")


def test_aliases_of_aliases_end() -> None:
    levels = ["a0: &a0 {x: 1, y: 2}"]
    levels += [f"a{at}: &a{at} {{" + ", ".join(f"k{n}: *a{at - 1}" for n in range(9)) + "}" for at in range(1, 9)]
    text = "\n".join(levels) + "\n"
    assert len(facts(config_file, text, "config.yaml")) == config_file.MOST
    assert [one.kind for one in notes(config_file, text, "config.yaml")] == ["limit"]


def test_what_is_too_large_is_not_read() -> None:
    text = "a: 1\n" + "# " + "x" * config_file.LARGEST
    assert facts(config_file, text, "config.yaml") == {}
    assert [one.kind for one in notes(config_file, text, "config.yaml")] == ["limit"]


def test_settings_belong_to_the_logs_beside_and_above_them(tmp_path: Path) -> None:
    for name, text in {
        "a/log.jsonl": '{"step": 1, "loss": 2}\n',
        "a/.hydra/config.yaml": "max_grad_norm: 0.5\n",
        "a/configs/ds_config.json": '{"train_batch_size": 8}', "b/config.yaml": "lr: 0.1\n",
        "c/version_0/metrics.csv": "step,loss\n1,2\n", "c/version_0/hparams.yaml": "vocab_size: 100\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reading = read_runs([tmp_path], load(flags={"cache": False}))
    told = {run.name: {fact.name: fact.value for fact in run.facts} for run in reading.runs}
    assert told == {"a": {"max_grad_norm": 0.5, "train_batch_size": 8}, "c": {"vocab_size": 100}}
    assert not any(note.kind == "no-points" for run in reading.runs for file in run.sources for note in file.notes)
