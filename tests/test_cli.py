"""The command line, as a user calls it: what it writes where, and its exit statuses, which are a promise."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.reports import diagnoses
from trainlens import delivery
from trainlens.reports import json as json_report

HEAVY = ("numpy", "polars", "pyarrow", "rich", "matplotlib", "bokeh", "jinja2", "msgspec")


def trainlens(*words: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRAINLENS_")}
    clean |= {"XDG_CACHE_HOME": str(cwd / ".cache"), "COLUMNS": "100", "PYTHONUTF8": "1", **environ}
    command = [sys.executable, "-m", "trainlens", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, encoding="utf-8", timeout=120, check=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A loss that becomes NaN: one error for certain."""
    lines = [f'{{"step": {step}, "loss": {4 - step / 100}}}' for step in range(1, 151)]
    lines += [f'{{"step": {step}, "loss": NaN}}' for step in range(151, 201)]
    path = tmp_path / "bad" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("analyze", "--help")])
def test_help_is_quick(words: tuple[str, ...], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom trainlens.cli import app\n"
        f"try:\n    app({list(words)!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == "[]"
    assert answer.stdout


def test_json_on_standard_output_and_nothing_else(log: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*.*"))
    answer = trainlens("analyze", log, "--format", "json", "-o", "-", "--no-cache", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["summary"]["error"] >= 1
    assert sorted(tmp_path.rglob("*.*")) == before


def test_the_usual_call(log: Path, tmp_path: Path) -> None:
    answer = trainlens("analyze", log, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "ERROR" in answer.stdout
    assert "\x1b" not in answer.stdout
    written = sorted(path.suffix for path in (tmp_path / "trainlens-report").iterdir())
    assert written == [".html", ".png"]
    assert all(str(path.relative_to(tmp_path)) in answer.stdout.replace("\n", " ") for path in
               (tmp_path / "trainlens-report").iterdir())  # fmt: skip


@pytest.mark.parametrize(
    ("words", "shown", "written"),
    [
        (("-f", "terminal"), True, []),
        (("-f", "json"), False, ["trainlens-report"]),
        (("-o", "answer.json"), True, ["answer.json"]),
        (("-o", "answer.json", "-f", "json"), False, ["answer.json"]),
        (("-o", "answer.txt", "-f", "json"), False, ["answer.txt"]),
        (("-o", "reports", "-f", "json", "-f", "terminal"), True, ["reports"]),
        (("-o", "-"), True, []),
    ],
)
def test_where_answers_go(words: tuple[str, ...], shown: bool, written: list[str], log: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    answer = trainlens("analyze", log, "--no-cache", *words, cwd=work)
    assert answer.returncode == 0, answer.stderr
    assert bool(answer.stdout) == shown
    assert [path.name for path in work.iterdir()] == written


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 0), (("--fail-on", "error"), 1), (("--fail-on", "info"), 1), (("--fail-on", "never"), 0),
     (("--fail-on", "error", "--ignore", "*"), 0)],
)  # fmt: skip
def test_findings_and_the_exit_status(words: tuple[str, ...], status: int, log: Path, tmp_path: Path) -> None:
    assert trainlens("analyze", log, "-f", "terminal", "-q", *words, cwd=tmp_path).returncode == status


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("analyze", "nowhere"), "nowhere"),
        (("analyze", "empty"), "empty: "),
        (("analyze",), "Missing argument"),
        (("analyse", "bad"), "No such command"),
        (("analyze", "bad", "--set", "loss-spike.scor=1"), "Did you mean 'score'?"),
        (("analyze", "bad", "--select", "nothing"), "there is no detector 'nothing'"),
        (("analyze", "bad", "-f", "json", "-f", "html", "-o", "-"), "standard output carries one format"),
        (("analyze", "bad", "-f", "json", "-f", "html", "-o", "a.html"), "one file carries one format"),
        (("analyze", "bad", "-f", "json", "-o", "bad/metrics.jsonl/x"), "cannot be written"),
        (("analyze", "bad", "--config", "none.toml"), "none.toml: cannot be read"),
        (("explain", "loss-spik"), "Did you mean 'loss-spike'?"),
        (("list", "nouns"), "There is no seam"),
        (("render", "bad/metrics.jsonl"), "bad/metrics.jsonl: is not JSON"),
        (("render", "none.json"), "none.json: cannot be read"),
        (("export", "bad", "-o", "points.xyz"), "the ending tells no format"),
        (("export", "bad", "-o", "-", "-f", "xml"), "there is no format 'xml'"),
    ],
)
def test_refusals_say_what_and_write_nothing(words: tuple[str, ...], says: str, log: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = trainlens(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"bad", "empty", ".cache"}
    assert [path.name for path in log.parent.iterdir()] == ["metrics.jsonl"]


def test_a_pipe_that_closes_is_quiet(log: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainlens", "analyze", str(log), "-f", "json", "-o", "-", "--no-cache"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 1),
        (("--fail-on", "never"), 0),
        (("--ignore", "*", "--fail-on", "never"), 0),
        (("--select", "baseline-drift"), 3),
        (("--select", "target-missed", "--require", "min(train/loss) <= 2.6"), 0),
        (("--select", "target-missed", "--require", "min(train/loss) <= 2.4"), 1),
        (("--select", "target-missed", "--require", "eval/loss <= 2.4"), 1),
        (("--select", "baseline-drift", "--baseline", "bad"), 0),
        (("--require", "loss is 2"), 2),
        (("--baseline", "nowhere"), 2),
        (("--accepted", "nowhere"), 2),
    ],
)
def test_the_gate(words: tuple[str, ...], status: int, log: Path, tmp_path: Path) -> None:
    answer = trainlens("check", log, "-q", *words, cwd=tmp_path)
    assert (answer.returncode, "Traceback" in answer.stderr) == (status, False)
    assert not (tmp_path / "trainlens-report").exists()


def test_what_was_accepted_passes_the_gate_and_is_counted(log: Path, tmp_path: Path) -> None:
    assert trainlens("check", log, "--write-accepted", "known.toml", cwd=tmp_path).returncode == 0
    answer = trainlens("check", log, "--accepted", "known.toml", cwd=tmp_path)
    assert answer.returncode == 0
    assert "Accepted" in answer.stdout
    assert "known before this gate was set up" in " ".join(answer.stdout.split())
    counted = trainlens("check", log, "--accepted", "known.toml", "-f", "json", "-o", "-", cwd=tmp_path)
    summary = json.loads(counted.stdout)["summary"]
    assert summary["error"] == 0
    assert summary["accepted"] >= 1
    assert summary["unmatched"] == []
    with (tmp_path / "known.toml").open("a") as file:
        file.write('\n[[accept]]\ndetector = "hang"\nfirst_step = 7\nreason = "old"\n')
    for form in ("terminal", "markdown", "github", "sarif"):
        again = trainlens("check", log, "--accepted", "known.toml", "-f", form, "-o", "-", cwd=tmp_path)
        assert again.returncode == 0
        assert "not found any more: hang at 7" in " ".join(again.stdout.split()), form


def test_a_baseline_is_written_and_held_against(log: Path, tmp_path: Path) -> None:
    (tmp_path / "worse.jsonl").write_text(log.read_text().replace('"loss": ', '"loss": 1'))
    assert trainlens("check", log, "--write-baseline", "golden.json", cwd=tmp_path).returncode == 0
    against = ("--select", "baseline-drift", "--baseline", "golden.json")
    assert trainlens("check", log, *against, cwd=tmp_path).returncode == 0
    assert trainlens("check", tmp_path / "worse.jsonl", *against, cwd=tmp_path).returncode == 1


def test_a_baseline_and_what_is_accepted_are_written_at_once(log: Path, tmp_path: Path) -> None:
    written = ("--write-baseline", "golden.json", "--write-accepted", "known.toml")
    assert trainlens("check", log, *written, cwd=tmp_path).returncode == 0
    assert (tmp_path / "golden.json").stat().st_size
    assert (tmp_path / "known.toml").exists()


def test_names_that_were_mapped_hold_for_the_baseline_too(tmp_path: Path) -> None:
    rows = [{"n": at, "objective": 5 - at / 100} for at in range(200)]
    for name, more in (("before", 0), ("after", 10)):
        lines = [json.dumps(row | {"objective": row["objective"] + more}) + "\n" for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    named = ("--map", "objective=train/loss", "--map", "n=step")
    assert trainlens("check", "before.jsonl", *named, "--write-baseline", "golden.json", cwd=tmp_path).returncode == 0
    against = (*named, "--baseline", "golden.json", "--select", "baseline-drift", "-q")
    assert trainlens("check", "before.jsonl", *against, cwd=tmp_path).returncode == 0
    assert trainlens("check", "after.jsonl", *against, cwd=tmp_path).returncode == 1


def test_a_run_with_too_little_to_judge_does_not_pass_the_gate(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.9}\n')
    assert trainlens("check", "a.jsonl", "-q", cwd=tmp_path).returncode == 3
    assert trainlens("analyze", "a.jsonl", "-q", "--fail-on", "error", "-f", "terminal", cwd=tmp_path).returncode == 0
    assert trainlens("check", "a.jsonl", "-q", "--require", "train/loss <= 1.9", cwd=tmp_path).returncode == 0
    assert trainlens("check", "a.jsonl", "-q", "--require", "train/loss <= 1.8", cwd=tmp_path).returncode == 1


def test_paths_below_the_working_directory_are_told_from_there(log: Path) -> None:
    answers = [
        trainlens("check", path, "--format", "github", "--output", "-", cwd=log.parent).stdout
        for path in (log.resolve(), log.name)
    ]
    assert answers[0] == answers[1]
    assert f"file={log.name}," in answers[0]


def test_inspect(log: Path, tmp_path: Path) -> None:
    answer = trainlens("inspect", log, "--no-cache", cwd=tmp_path)
    assert answer.returncode == 0
    row = next(line for line in answer.stdout.splitlines() if line.startswith("train/loss"))
    assert row.split()[1] == "loss"
    assert "1–200" in row
    assert "jsonl" in answer.stdout


def test_export(log: Path, tmp_path: Path) -> None:
    answer = trainlens("export", log, "-o", "-", "--no-cache", cwd=tmp_path)
    rows = answer.stdout.splitlines()
    assert rows[0] == "run,metric,tag,rank,step,time,value,source,attempt"
    assert len(rows) == 201
    assert ",nan," in rows[-1]
    assert trainlens("export", log, "-o", "points.parquet", cwd=tmp_path).returncode == 0
    assert (tmp_path / "points.parquet").read_bytes()[:4] == b"PAR1"


def test_explain_tells_the_thresholds_in_force(tmp_path: Path) -> None:
    answer = trainlens("explain", "loss-spike", "--set", "loss-spike.score=9", cwd=tmp_path)
    assert "How it is found" in answer.stdout
    assert "loss-spike.score = 9.0 deviations (default 6.0; set by --set)" in answer.stdout
    assert "https://" in answer.stdout


def test_list_and_settings(tmp_path: Path) -> None:
    answer = trainlens("list", "reports", cwd=tmp_path)
    assert "terminal" in answer.stdout
    assert "loss-spike" not in answer.stdout
    table = trainlens("settings", cwd=tmp_path, TRAINLENS_JOBS="3").stdout
    row = next(line for line in table.splitlines() if line.startswith("jobs"))
    assert row.split()[1:4] == ["3", "environment", "TRAINLENS_JOBS"]


def test_render_from_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "diagnosis.json"
    path.write_bytes(json_report.render(diagnoses.faulty(), json_report.Options()))
    answer = trainlens("render", path, cwd=tmp_path)
    assert answer.returncode == 0
    assert "Loss spike at 24,310" in answer.stdout
    assert trainlens("render", path, "-o", "again.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_names_of_runs_lead_nowhere_else() -> None:
    names = ["../../etc/passwd", "a/b", "a-b", "A-B", "", "...", "index", "漢字", "x" * 300]
    made = delivery.file_names(names)
    assert len({name.lower() for name in made}) == len(names)
    assert all("/" not in name and not name.startswith(".") and 0 < len(name) <= 103 for name in made)
    assert made[1] == "a-b"


@pytest.mark.parametrize(
    "words", [("export", "DIR", "-o", "LOG"), ("export", "LOG", "-o", "LOG"), ("analyze", "DIR", "-o", "LOG.json")]
)
def test_a_log_is_never_written_over(words: tuple[str, ...], log: Path, tmp_path: Path) -> None:
    twin = log.with_name(f"{log.name}.json")
    twin.write_bytes(log.read_bytes())
    before = log.read_bytes()
    told = {"DIR": str(log.parent), "LOG": str(log), "LOG.json": str(twin)}
    answer = trainlens(*(told.get(word, word) for word in words), cwd=tmp_path)
    assert (answer.returncode, "is one of the logs" in answer.stderr) == (2, True)
    assert log.read_bytes() == twin.read_bytes() == before


def test_own_answers_and_tables_are_no_logs_and_no_file_is_read_twice(log: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "log.jsonl").write_bytes(log.read_bytes())
    for name in ("table.csv", "table.jsonl"):
        assert trainlens("export", place, "-o", place / name, cwd=tmp_path).returncode == 0
    assert trainlens("analyze", place, "-o", place / "answer.json", cwd=tmp_path).returncode == 0
    answer = json.loads(
        trainlens("analyze", place, place / "log.jsonl", place, "-f", "json", "-o", "-", cwd=tmp_path).stdout
    )
    assert [len(run["sources"]) for run in answer["runs"]] == [1]
    assert sorted(report["path"] for report in answer["unread"]) == ["answer.json", "table.csv", "table.jsonl"]


def test_standard_input_plain_and_compressed(log: Path, tmp_path: Path) -> None:
    for content in (log.read_bytes(), gzip.compress(log.read_bytes())):
        answer = subprocess.run(
            [sys.executable, "-m", "trainlens", "analyze", "-", "--format", "json", "-o", "-"],
            cwd=tmp_path,
            input=content,
            capture_output=True,
            check=False,
        )
        assert (answer.returncode, answer.stderr) == (0, b"")
        told = json.loads(answer.stdout)
        assert (told["runs"][0]["name"], told["summary"]["error"]) == ("stdin", 1)


def test_a_directory_with_a_link_into_nowhere_is_no_failure(log: Path, tmp_path: Path) -> None:
    (log.parent / "gone").symlink_to("nowhere")
    answer = trainlens("analyze", log.parent, "-q", "--format", "terminal", cwd=tmp_path)
    assert answer.returncode == 0
    assert trainlens("analyze", log.parent / "gone", cwd=tmp_path).returncode == 2


def test_an_empty_path_is_refused(tmp_path: Path) -> None:
    answer = trainlens("analyze", "", cwd=tmp_path)
    assert answer.returncode == 2
    assert "empty name" in answer.stderr


def test_an_archive_is_not_written_over(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(log, "metrics.jsonl")
    before = path.read_bytes()
    answer = trainlens("analyze", path, "--format", "json", "-o", path, cwd=tmp_path)
    assert answer.returncode == 2
    assert path.read_bytes() == before
