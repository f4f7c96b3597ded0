from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.door import batches, facts, sniffed
from trainlens.parsers import tracker_settings
from trainlens.parsers._yaml import loaded

WANDB = """wandb_version: 1

_wandb:
  desc: null
  value:
    cli_version: 0.15.4
    t:
      1:
      - 1
      - 55
lr:
  desc: null
  value: 0.0006
model:
  desc: null
  value:
    layers: 12
    name: "gpt"
betas:
  desc: null
  value:
  - 0.9
  - 0.95
compile:
  desc: null
  value: true
out_dir:
  desc: null
  value: null
"""
SWANLAB = "lr:\n  desc: ''\n  sort: 0\n  value: 0.001\nm:\n  desc: ''\n  sort: 1\n  value:\n    x: 1\n"


def test_the_settings_of_wandb() -> None:
    found = facts(tracker_settings, WANDB, "config.yaml")
    assert found == {"lr": 0.0006, "model.layers": 12, "model.name": "gpt", "betas": "0.9, 0.95", "compile": True}


def test_the_settings_of_swanlab() -> None:
    assert facts(tracker_settings, SWANLAB, "config.yaml") == {"lr": 0.001, "m.x": 1}


def test_the_machine_and_the_program() -> None:
    told = {"program": "train.py", "args": ["--lr", "1e-3"], "gpu": "A100", "gpu_count": 8, "git": {"commit": "ab"}}
    content = json.dumps({**told, "email": "me@home", "username": "me", "disk": {"total": 1}})
    assert facts(tracker_settings, content, "wandb-metadata.json") == {
        "program": "train.py",
        "args": "--lr 1e-3",
        "git.commit": "ab",
        "gpu": "A100",
        "gpu_count": 8,
    }
    assert facts(tracker_settings, "{", "wandb-metadata.json") == {}


@given(st.text(alphabet="ab:-# '\"|\n\t{[1.~&*!", max_size=200))
def test_any_text_is_yaml_or_is_none(text: str) -> None:
    with contextlib.suppress(ValueError):
        loaded(text)


def test_an_empty_file_has_no_settings() -> None:
    assert batches(tracker_settings, "", "config.yaml") == []


@pytest.mark.parametrize(
    ("content", "name", "score"),
    [
        (WANDB, "config.yaml", 0.95),
        (SWANLAB, "config.yaml", 0.95),
        (SWANLAB, "other.yaml", 0.0),
        ("model:\n  layers: 2\n", "config.yaml", 0.0),
        ('{"os": "Linux"}', "wandb-metadata.json", 1.0),
        ('{"os": "Linux"}', "metadata.json", 0.0),
    ],
)
def test_sniff(content: str, name: str, score: float) -> None:
    assert sniffed(tracker_settings, content, name) == score
