"""Settings beside a log: YAML, JSON or TOML of a trainer, DeepSpeed, Hydra, Lightning or a model; told as facts.

Known by their names ("config.yaml", "training_args.json", "ds_config.json", "hparams.yaml", ".hydra/overrides.yaml") or
by their folder ("configs/"). Nested names are joined by ".". A switch that stands inside of what it switches,
`{"bf16": {"enabled": true}}`, is told under the name of the whole, too. What is left open ("auto", null, "???") is no
fact, neither are long texts. A settings file alone is no run: it belongs to the logs beside it or above it.

YAML is read by PyYAML's safe loader; tags of Python objects, which dumps of argparse and Lightning hold, are passed
over and nothing of them is run. Files of more than 1 MB hold something else than settings and are not read.

The formats: https://yaml.org/spec/1.1, https://toml.io/en/v1.0.0, https://www.deepspeed.ai/docs/config-json,
https://hydra.cc/docs/configure_hydra/workdir.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Note, Place
from trainlens.parsers._json_documents import document
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._row_blocks import in_utf8
from trainlens.parsers._settings import flat, scalar
from trainlens.parsers._yaml import loaded
from trainlens.sources import HEAD, Source

READS_TEXT = True

LARGEST = 1 << 20  # bytes
MOST = 5000  # facts

_NAMES = re.compile(
    r"config|args|hparams|hyperparam|param|settings|options|overrides|^(ds|deepspeed|zero|accelerate|train|training|"
    r"experiment|recipe|hydra)([_.-]|$)",
    re.I,
)
_FOLDERS = frozenset((".hydra", "config", "configs", "conf"))
# Settings of something else than a training: tokenizers, packages, tools.
_OTHERS = re.compile(
    r"^(tokenizer|special_tokens|added_tokens|vocab|package|preprocessor|processor|merges|generation_config|tsconfig|"
    r"pyproject|environment|docker|mkdocs|\.?pre-commit|poetry|uv|cargo|_config|jsconfig|meta)|\.index\.json$",
    re.I,
)
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_MAPPING = re.compile(rb"(?m)^(?:[\w\"'./-]{1,120}\s*[:=](?=\s|$)|\[[\w.\"-]+\]|- [\w+~./-]+=)")


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is a file of settings: by its name, then by its first bytes."""
    suffix = path.suffix.lower()
    named = _NAMES.search(path.stem) or path.parent.name.lower() in _FOLDERS
    if suffix not in _SUFFIXES or not named or _OTHERS.search(path.name):
        return 0.0
    text = in_utf8(head).lstrip()
    if suffix == ".json":
        return 0.3 if text.startswith(b"{") and (len(head) == HEAD or isinstance(decoded(text), dict)) else 0.0
    return 0.3 if _MAPPING.search(text) and b"\0" not in text else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  written as a whole
    """Facts, in the order of the file."""
    if source.size > LARGEST:
        text = f"{source.size:,} bytes are more than settings take: not read (the limit is {LARGEST:,})"
        yield Note("limit", text)
        return
    whole = _parsed(document(source), source)
    if isinstance(whole, list):  # Hydra's overrides: "optimizer.lr=0.1"
        pairs = [one.lstrip("+~").partition("=") for one in whole if isinstance(one, str) and "=" in one]
        whole = {name: scalar(value) for name, _, value in pairs}
    if not isinstance(whole, dict):
        return
    for count, (name, value) in enumerate(flat(whole)):
        if count == MOST:
            yield Note("limit", f"only the first {MOST:,} settings are told")
            return
        yield Fact(name, value, Place(source.name))


def _parsed(content: bytes, source: Source) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        match source.path.suffix.lower():
            case ".json":
                return json.loads(text)
            case ".toml":
                return tomllib.loads(text)
            case _:
                return loaded(text)
    except (ValueError, RecursionError) as problem:
        what = str(problem).partition("\n")[0]
        raise InputError(f"is no well-formed settings file: {what}", where=source.name, hint="Copy it again") from None
