"""Settings that trackers write beside a run: `config.yaml` of W&B and SwanLab, `wandb-metadata.json`. Facts, no curves.

In `config.yaml` each setting stands under "value", beside a "desc"; the tracker's own are left out. Of the metadata the
program, its arguments, the commit, the host and the GPUs become facts. They matter where the run file itself is empty,
lost or older than the settings.

The formats: https://docs.wandb.ai/guides/track/config, https://docs.swanlab.cn/en/guide_cloud/experiment_track/set-experiment-config.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainlens.errors import InputError
from trainlens.model import Batch, Checkpoint, Fact, Place
from trainlens.parsers._json_rows import decoded
from trainlens.parsers._settings import flat
from trainlens.parsers._yaml import loaded
from trainlens.sources import Source

READS_TEXT = True

LARGEST = 4 << 20  # bytes of such a file that are read
_DESCRIBED = re.compile(r"^\S[^\n]*:[ \t]*\r?\n[ \t]+(desc|sort|value):", re.M)
_METADATA = "wandb-metadata.json"
_KEPT = ("program", "args", "git", "host", "python", "gpu", "gpu_count", "cudaVersion", "cuda")


def sniff(head: bytes, path: Path) -> float:
    """How sure it is that this is such a file; its name must be the tracker's too."""
    if path.name == _METADATA:
        return 1.0 if head.lstrip()[:1] == b"{" else 0.0
    if path.name != "config.yaml" or b"\0" in head:
        return 0.0
    text = head.decode("utf-8", "replace")
    return 0.95 if text.startswith("wandb_version:") or _DESCRIBED.search(text) else 0.0


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  read as a whole
    """The settings as facts."""
    content = source.head(LARGEST)
    place = Place(source.name)
    if source.path.name == _METADATA:
        whole: Any = decoded(content)
        if isinstance(whole, dict):
            kept = {name: whole[name] for name in _KEPT if name in whole}
            if isinstance(kept.get("args"), list):
                kept["args"] = " ".join(str(one) for one in kept["args"])
            yield from (Fact(name, value, place) for name, value in flat(kept))
        return
    try:
        told = loaded(content.decode("utf-8", "replace"))
    except ValueError as problem:
        raise InputError(f"is no well-formed settings file: {problem}", where=source.name) from None
    described = told.items() if isinstance(told, dict) else ()
    kept = {name: about["value"] for name, about in described if isinstance(about, dict) and "value" in about}
    kept.pop("_wandb", None)
    yield from (Fact(name, value, place) for name, value in flat(kept))
