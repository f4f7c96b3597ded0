"""The door of golden-file tests: `golden(name, content)` holds a report to the file of that name beside this one.

On a mismatch the actual text is left beside the golden file as NAME.actual; look at the two, then accept by renaming.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def golden(name: str, content: bytes) -> None:
    expected, actual = FOLDER / name, FOLDER / f"{name}.actual"
    if expected.is_file() and expected.read_bytes() == content:
        actual.unlink(missing_ok=True)
        return
    FOLDER.mkdir(exist_ok=True)
    actual.write_bytes(content)
    raise AssertionError(f"{expected.name} differs: compare it with {actual}, and rename that one if it is right")
