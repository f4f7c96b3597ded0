"""YAML by PyYAML's safe loader: plain values, whatever is tagged as an object of Python."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def loaded(text: str) -> Any:
    """The first document of a YAML text; ValueError where it is none."""
    import yaml

    if _deep(text):
        raise ValueError("nested too deep")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """The safe loader, which makes plain values of what is tagged as an object of Python."""

    def plainly(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    for prefix in ("!", "tag:yaml.org,2002:python/"):
        Loader.add_multi_constructor(prefix, plainly)
    loader = Loader(text)
    try:
        return loader.get_data() if loader.check_data() else None
    except (yaml.YAMLError, TypeError, AttributeError) as problem:
        raise ValueError(str(problem)) from None
    finally:
        loader.dispose()


def _deep(text: str) -> bool:
    """Whether brackets or list marks nest deeper than the loader's stack bears."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    steps = np.isin(codes, (ord("["), ord("{"))).astype(np.int64) - np.isin(codes, (ord("]"), ord("}")))
    lists = re.search(r"(?m)^ *(?:[-?] +){40}", text)
    return bool(len(steps) and np.cumsum(steps).max() > 200) or lists is not None or "\n" + " " * 400 in text
