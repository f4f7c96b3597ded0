"""The scalars of plain YAML, as trackers write it: mappings in blocks. Lists, anchors and folded texts are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainlens.model import Value

_ENTRY = re.compile(r"""(?:"([^"\\]*)"|'([^']*)'|([^\s"'#&*?|>%@`\[\]{},:-][^:]*|-[^\s:][^:]*)):(?:\s+(.*))?$""")
_WORDS: dict[str, Value] = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = frozenset(("", "~", "null", "Null", "NULL", "{}", "[]"))
_NUMBER = re.compile(r"[-+]?(\d[\d_]*|(\d[\d_]*)?\.\d+|\d[\d_]*\.)([eE][-+]?\d+)?$")


def scalars(text: str) -> Iterator[tuple[str, Value]]:
    """Numbers, texts and flags, each under its names from the outermost, joined by "."; null is left out."""
    above: list[tuple[int, str]] = []
    skipped = -1  # lines that are indented deeper than this belong to a list or a text
    for line in text.splitlines():
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not bare or bare.startswith(("#", "---", "...")) or 0 <= skipped < indent:
            continue
        skipped = indent if bare == "-" or bare.startswith("- ") else -1
        found = None if skipped >= 0 or len(bare) > 10_000 else _ENTRY.match(bare)
        if found is None:
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        name = next(part for part in found.groups()[:3] if part is not None).strip()
        cell = (found[4] or "").strip()
        if not cell or cell.startswith(("#", "&")):
            above.append((indent, name))
        elif cell[0] in "|>[{*!":
            skipped = indent
        elif (value := scalar(cell)) is not None:
            yield ".".join([*(part for _, part in above), name]), value


def scalar(cell: str) -> Value | None:
    """What a cell states; None for null."""
    if cell[:1] in ("'", '"') and len(cell) > 1 and cell[-1] == cell[0]:
        return cell[1:-1].replace("''", "'") if cell[0] == "'" else cell[1:-1].replace('\\"', '"')
    cell = cell.partition(" #")[0].rstrip()
    if cell in _NOTHING:
        return None
    if cell in _WORDS:
        return _WORDS[cell]
    if found := _NUMBER.match(cell):
        whole = not found[3] and "." not in found[1]
        return int(cell) if whole and len(cell) < 300 else float(cell)
    return cell
