"""Choosing a parser costs little whatever a file begins with: no pattern runs away on long lines of one thing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainlens import plugins
from trainlens.sources import HEAD

DEAR = 1.0  # CPU seconds; a pattern that runs away takes minutes
UNITS = (
    "[", "-", "=", "a ", "1 ", "1,", "(1", "a: 1 ", "a=1|", '{"', '"', "_", ".", ": ", "E+", "%|", "\\", "'a': ", "0",
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_long_lines(unit: str) -> None:
    head = (unit * (HEAD // len(unit))).encode()
    for name, parser in plugins.load_all("parsers").items():
        begin = time.process_time()
        parser.sniff(head, Path("log"))
        assert time.process_time() - begin < DEAR, name
