"""The start of the command: as a module, completed by a shell, and without what it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

SLOW = ("pandas", "numpy", "langgraph", "langchain_core", "plotly", "sqlalchemy", "pydantic")


def module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quantgraph", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def completed(line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    environment = {
        "_QUANTGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    return module(**environment).stdout.split()


def test_python_m_quantgraph_is_the_command() -> None:
    command = Path(sys.executable).parent / "quantgraph"
    for arguments in (["--help"], ["runs", "--out", "nowhere", "--since", "x"]):
        there = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
        here = module(*arguments)
        assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)


def test_a_shell_completes_commands_options_and_choices() -> None:
    assert completed("quantgraph ru") == ["run", "runs"]
    assert completed("quantgraph run x --market ") == ["cn", "us"]
    assert "--session-budget" in completed("quantgraph run x --se")


def test_a_shell_completes_the_names_of_runs_and_none_that_it_would_obey() -> None:
    for name in ("first", "second", "$(touch x)", "a b", "`id`", "x\x1b[2J"):
        folder = Path("mine", name)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    os.utime("mine/first/run.json", (0, 0))
    Path("mine/no-run").mkdir()
    assert completed("quantgraph show --out mine ") == ["second", "first"]
    assert completed("quantgraph compare --out mine first se") == ["second"]
    assert completed("quantgraph show ") == []
    Path("quantgraph.toml").write_text("no = toml = at all")
    assert completed("quantgraph show ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_in_a_home(shell: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = module("--install-completion", shell, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    shown = module("--show-completion", shell, **environment)
    assert shown.returncode == 0
    assert "_QUANTGRAPH_COMPLETE=complete_" in shown.stdout
    written = [path.read_text() for path in tmp_path.rglob("*quantgraph*") if path.is_file()]
    assert any(shown.stdout.strip() in text for text in written)


def test_the_command_starts_without_what_it_does_not_need_yet() -> None:
    code = f"import sys, quantgraph.cli._main; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
