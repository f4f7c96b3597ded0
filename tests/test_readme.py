"""README.md tells the truth: its tables are those of the code, and it begins with its two commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainlens import plugins
from trainlens.plugins import Seam
from trainlens.settings import load

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def table(seam: Seam) -> str:
    """The plug-ins of a seam with their summaries, as the README has them."""
    rows = [(name, plugins.page(module).splitlines()[0]) for name, module in plugins.load_all(seam).items()]
    lines = [f"| `{name}` | {summary} |" for name, summary in rows]
    return "\n".join([f"| {seam[:-1]} | |", "| --- | --- |", *lines])


@pytest.mark.parametrize("seam", ["parsers", "detectors"])
def test_tables_are_made_from_the_code(seam: Seam) -> None:
    block = re.search(rf"<!-- {seam}: .*? -->\n(.*?)\n<!-- end -->", README, re.S)
    assert block
    assert block[1] == table(seam), f"the table of {seam} should be:\n{table(seam)}"


def test_the_first_two_shell_blocks_are_the_two_commands() -> None:
    install, test = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)[:2]
    assert "pip install" in install
    assert "trainlens analyze sample_logs/" in install
    assert "[test]" in test
    assert "pytest" in test


def test_every_command_is_told() -> None:
    for command in ("analyze", "check", "inspect", "export", "explain", "list", "render", "schema", "settings"):
        assert f"`trainlens {command}" in README


def test_the_settings_of_the_example_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example, gate = re.findall(r"^```toml\n(.*?)^```", README, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(gate, "utf-8")
    assert len(load().require) == 3
    (tmp_path / "pyproject.toml").write_text(example, "utf-8")
    settings = load()
    assert settings.ignore == ("gradient-clipping",)
    loss_spike = plugins.load("detectors", "loss-spike")
    assert settings.options_for("loss-spike", loss_spike.Options).size == 0.05
