"""The tag that a file of one curve is named for: TensorBoard's downloads and other tables of a lone "value"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trainlens import catalog

# A download of one chart: https://github.com/tensorflow/tensorboard/tree/master/tensorboard/plugins/scalar
_CHART = re.compile(r"run[-_](?P<run>.*?)[-_]tag-(?P<tag>.+)", re.I)
_SPLIT = re.compile(
    r"(?:(?P<run>.*)[_.-])?(?P<split>train|training|val|valid|validation|eval|evaluation|test|dev)", re.I
)
_METRICS = ("plots", "metrics")  # DVCLive: a file a metric, its folders are part of the name


def curve(path: Path) -> tuple[str, str]:
    """Run ("" where the name tells none) and tag of a file that holds one curve."""
    stem = path.name.removesuffix(".gz")
    stem = stem[: -len(Path(stem).suffix)] if Path(stem).suffix.lower() in (".csv", ".tsv", ".json", ".txt") else stem
    found = _CHART.fullmatch(stem)
    if found is None:
        return "", stem
    run, tag = found["run"].strip("."), found["tag"]
    if split := _SPLIT.fullmatch(run):
        return split["run"] or "", f"{split['split']}/{tag}"
    return run, tag


def of_folder(path: Path) -> str:
    """The name of a metric that DVCLive keeps in a file of its own ("plots/metrics/train/loss.tsv"), "" for others."""
    parts = path.parts[:-1]
    at = next((at for at in range(len(parts) - 1) if parts[at : at + 2] == _METRICS), None)
    return "" if at is None else "/".join([*parts[at + 2 :], path.stem])


def renamed(names: Sequence[str], path: Path) -> tuple[str, list[str]]:
    """Run and names of the columns of a table that holds one curve; as they are where it holds more."""
    measured = [
        at for at, name in enumerate(names) if catalog.axis(name) is None and name.lower() not in ("epoch", "wall time")
    ]
    own = list(names)
    if len(measured) != 1:
        return "", own
    at = measured[0]
    if (tag := of_folder(path)) and tag.rpartition("/")[2] == own[at]:
        own[at] = tag
    elif own[at].lower() in ("value", "values"):
        run, own[at] = curve(path)
        return run, own
    return "", own
