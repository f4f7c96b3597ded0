"""What `inspect` shows of files, names, and lines that were not understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlens import reading
from trainlens.inspection import inspection
from trainlens.settings import load
from trainlens.sources import Source


def shown(path: Path) -> str:
    found = reading.read([path], load({"cache": False}, environ={}), samples=True)
    return inspection(found.runs, found.unread, found.samples)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [f'{{"step": {step}, "loss": {9 - step / 10}, "timestamp": {1.7e9 + step}}}' for step in range(1, 60)]
    rows[9] = '{"step": 10, "loss": 8.0, "time'
    rows[20] = "\x1b[31mhalf a row"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "run" / "notes.txt").write_text("nothing of interest\n")
    return tmp_path / "run"


def test_a_file_with_its_parser_and_the_reason(run: Path) -> None:
    text = shown(run)
    assert text.startswith("run   1 series, 57 points, steps 1–59\n")
    assert " 1  metrics.jsonl\n    jsonl: 57 points, steps 1–59, 14 Nov, 22:13 UTC – 14 Nov, 22:14 UTC, " in text
    assert "by its first bytes: jsonl 0." in text


def test_a_metric_under_both_names(run: Path) -> None:
    row = next(line for line in shown(run).splitlines() if line.startswith("train/loss"))
    assert row.split()[1:5] == ["loss", "loss", "57", "1–59"]


def test_what_was_not_understood_with_its_first_line(run: Path) -> None:
    lines = shown(run).splitlines()
    at = lines.index("Not understood") + 1
    assert "metrics.jsonl line 10: 2 malformed lines" in lines[at]
    assert lines[at + 1] == '    {"step": 10, "loss": 8.0, "time'


def test_files_that_were_not_read(run: Path) -> None:
    assert "ignored  notes.txt  no format of a training log" in shown(run)


def test_a_line_that_would_steer_the_terminal_is_shown(tmp_path: Path) -> None:
    rows = ['{"step": 1, "loss": 2.0}', "\x1b[31mred", '{"step": 2, "loss": 1.0}', '{"step": 3, "loss": 1.0}']
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert "    \\x1b[31mred" in shown(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_by_their_numbers_whatever_the_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes("eins\r\nzwei é\r\ndrei".encode(encoding))
    source = Source.of(path)
    assert list(reading._lines(source, [1, 2, 3, 9])) == [(1, "eins"), (2, "zwei é"), (3, "drei")]
