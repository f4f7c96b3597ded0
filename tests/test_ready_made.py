"""What other repositories use ready-made: the GitHub action and the pre-commit hook."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
STORY = ROOT / "sample_logs" / "divergence_in_megatron" / "train.log"


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text("utf-8"))
    return loaded


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(("flags", "status"), [("", 1), ("--fail-on=never\n", 0), ("--no-such-flag\n", 2)])
def test_the_action_annotates_and_writes_the_summary(flags: str, status: int, tmp_path: Path) -> None:
    (program := tmp_path / "trainlens" / "bin" / "trainlens").parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainlens "$@"\n')
    program.chmod(0o755)
    (step,) = [one for one in action()["runs"]["steps"] if one.get("id") == "judge"]
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(STORY, folder)
    answer = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={
            "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(ROOT),
            "GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "PATHS": f"{folder}\n\n", "FLAGS": flags, "SARIF": str(tmp_path / "t.sarif"),
        },
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert answer.returncode == status, answer.stderr
    assert set(step["env"]) == {"PATHS", "FLAGS", "SARIF"}
    if status != 2:
        assert "::error file=" in answer.stdout
        assert (tmp_path / "summary").read_text("utf-8").startswith("## ")
        assert (tmp_path / "t.sarif").stat().st_size > 1000
        assert (tmp_path / "out").read_text() == f"diagnosis={tmp_path / 'trainlens-diagnosis.json'}\n"


def test_the_action_uses_its_inputs_and_installs_this_repository() -> None:
    used = re.findall(r"\$\{\{ inputs\.(\w+) \}\}", (ROOT / ".github/actions/check/action.yml").read_text("utf-8"))
    assert sorted(used) == sorted(action()["inputs"])
    install = action()["runs"]["steps"][0]["run"]
    path = re.search(r'"\$GITHUB_ACTION_PATH/([./]+)"', install)
    assert path is not None
    assert ((ROOT / ".github/actions/check") / path[1]).resolve() == ROOT


def test_the_hook_calls_the_program_on_logs() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["entry"] == "trainlens check"
    for name, taken in {"runs/a/metrics.jsonl": True, "x/events.out.tfevents.1.host": True, "a.py": False}.items():
        assert bool(re.search(hook["files"], name)) == taken
