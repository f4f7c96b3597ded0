"""Libraries that are dear to import: they are imported when one of their names is first used."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module of that name. Type checkers are told of the module itself, under TYPE_CHECKING."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value
