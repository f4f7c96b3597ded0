from __future__ import annotations

import pytest

from tests.parsers.door import batches, sniffed
from trainlens.errors import InputError
from trainlens.parsers import wandb


@pytest.mark.parametrize(
    ("content", "what"), [(b":W&B\xe1\xbe\x00rest", "not supported"), (b"\x00\x01\x02\x03rest", "header is damaged")]
)
def test_refused_with_the_kind_of_file_and_the_way_out(content: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what) as raised:
        batches(wandb, content, "run-abc.wandb")
    assert "wandb" in raised.value.what
    assert raised.value.where == "run-abc.wandb"
    assert "CSV or JSON" in raised.value.hint


@pytest.mark.parametrize(
    ("content", "name", "score"),
    [(b":W&B\xe1", "x", 1.0), (b"\0\1", "x.wandb", 0.95), (b"", "x.wandb", 0.0), (b'{"a": 1}', "x.jsonl", 0.0)],
)
def test_sniff(content: bytes, name: str, score: float) -> None:
    assert sniffed(wandb, content, name) == score
