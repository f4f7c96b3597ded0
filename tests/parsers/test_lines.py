"""Blocks of whole lines, encodings, prefixes of ranks, clocks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlens.model import NO_RANK
from trainlens.parsers import _lines
from trainlens.parsers._lines import Block
from trainlens.sources import Source


def blocks(content: bytes, size: int = 8, start: int = 0, line: int = 1) -> list[Block]:
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, "x")
        path.write_bytes(content)
        return list(_lines.blocks(Source.of(path), start, line, size))


@settings(deadline=None)
@given(st.lists(st.text("ab\r", max_size=30).map(str.encode)), st.integers(1, 40))
def test_blocks_are_whole_lines_and_lose_nothing(lines: list[bytes], size: int) -> None:
    content = b"\n".join(lines)
    found = blocks(content, size)
    assert b"".join(block.text for block in found) == content
    assert all(block.text.endswith(b"\n") for block in found if not block.torn)
    torn = bool(content) and not content.endswith(b"\n")
    assert [block.torn for block in found] == [torn and at == len(found) - 1 for at in range(len(found))]
    line = 1
    for block in found:
        assert block.line == line
        assert block.count == block.text.count(b"\n")
        line += block.count
        if not block.torn:
            assert content[: block.end].endswith(b"\n")


def test_a_block_begins_where_an_earlier_one_ended() -> None:
    first = blocks(b"one\ntwo\nthr", 100)
    assert [(block.text, block.end, block.torn) for block in first] == [(b"one\ntwo\n", 8, False), (b"thr", 8, True)]
    (found,) = blocks(b"one\ntwo\nthree\n", 100, start=8, line=3)
    assert (found.text, found.line, found.end, found.ends.tolist(), found.torn) == (b"three\n", 3, 14, [5], False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_with_a_mark(encoding: str) -> None:
    text = "Ünï 训练 loss\r\nzwei\n" * 5
    for size in (7, 64, 1000):
        found = blocks(text.encode(encoding), size)
        assert b"".join(block.text for block in found).decode() == text
        assert found[-1].line + found[-1].count == 11
    assert _lines.head_text(text.encode(encoding)) == text.replace("\r", "").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "rank", "rest"),
    [
        ("55:  [2026-06-26 14:26:18] iteration", 55, " [2026-06-26 14:26:18] iteration"),
        (" 0: text", 0, "text"),
        ("[default7]: iteration 1", 7, "iteration 1"),
        ("0: [default3]:[rank5]: Traceback", 5, "Traceback"),
        ("[rank13]: x", 13, "x"),
        ("[rank29]:[E522 02:55:56.46 ProcessGroupNCCL.cpp:694]", 29, "[E522 02:55:56.46 ProcessGroupNCCL.cpp:694]"),
        ("192.168.205.202: [rank4]: x", 4, "x"),
        ("localhost: steps: 1", NO_RANK, "steps: 1"),
        ("[lrdn3321:3]: x", NO_RANK, "x"),
        ("(TaskRunner pid=293776) x", NO_RANK, "x"),
        ("(WorkerDict pid=7, ip=10.0.0.1) x", NO_RANK, "x"),
        ("[2023-04-18 01:46:59,171] [INFO] x", NO_RANK, "[2023-04-18 01:46:59,171] [INFO] x"),
        ("12:30:05 step 3", NO_RANK, "12:30:05 step 3"),
        ("loss: 5", NO_RANK, "loss: 5"),
        ("step: 5", NO_RANK, "step: 5"),
        ("", NO_RANK, ""),
    ],
)
def test_prefixes_of_ranks(line: str, rank: int, rest: str) -> None:
    assert _lines.unprefixed(line) == (rank, rest)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[2023-04-18 01:46:59,171] x", 1681782419.171),
        ("2021-07-25T06:53:45.5 x", 1627196025.5),
        ("2021/05/25 06:53:45 x", 1621925625.0),
        ("2026-05-18_08:33:18", 1779093198.0),
        ("03/11/2026 10:12:03 x", 1773223923.0),
        ("I0811 21:54:55.531340 x", None),
        ("[08/30 23:00:36] x", None),
        ("2023-13-40 01:46:59", None),
        ("1970-01-01 00:00:00", 0.0),
        ("nothing", None),
    ],
)
def test_clocks(line: str, seconds: float | None) -> None:
    assert _lines.clock(line) == seconds


def test_colours_and_cursor_movements_go() -> None:
    assert _lines.plain("\x1b[36m(TaskRunner pid=2)\x1b[0m \x1b[1;92mstep\x1b[0m\x1b[A\x1b[2K=5\x1b]0;title\x07") == (
        "(TaskRunner pid=2) step=5"
    )
