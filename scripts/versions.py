"""Run a part of the tests, and the command, on other versions than those of requirements.lock.

python scripts/versions.py lowest    the lowest declared versions of the dependencies, on the lowest Python
python scripts/versions.py newest    the newest ones that the ranges allow, on each declared Python here

Each has an environment of its own, ``.venv-lowest`` or ``.venv-3.13``, which is made when it is missing or
when the requirements changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PART = [  # graphs, interrupts, replay, files, and what is closed to generated code and what it needs
    "tests/graph/test_graph_answers.py",
    "tests/graph/test_approval.py",
    "tests/runtime/test_nested_graphs.py",
    "tests/runtime/test_nested_graphs_langgraph_keys.py",
    "tests/subgraphs/signal/nodes/test_clarify.py",
    "tests/runs/test_replay_ends.py",
    "tests/recording",
    "tests/broker/ledger/test_ledger.py",
    "tests/state/test_frames.py",
    "tests/state/test_frames_signal.py",
    "tests/data/files",
    "tests/sandbox/test_lockdown.py",
    "tests/sandbox/test_clock.py",
]
EXTRAS = ("postgres", "mcp", "excel")
TOOLS = {"httpx", "hypothesis", "pytest", "pytest-socket", "pytest-timeout", "pytest-xdist"}
DEMO = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年"
WITHOUT_SECURITY = "5日均线上穿20日均线买入，下穿卖出，2025年"


def main() -> int:
    """Run all that was asked for; 1 if something failed, or if no Python is here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("which", choices=["lowest", "newest"])
    which = parser.parse_args().which
    kinds = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"]]
    declared = [kind for kind in kinds if kind.startswith("3.")]
    pythons = {version: find_python(version) for version in declared[: 1 if which == "lowest" else None]}
    for version in [version for version, python in pythons.items() if python is None]:
        print(f"quantgraph: Python {version} is not on this machine: it is left out", file=sys.stderr)
    passed = [
        checked(python, "lowest" if which == "lowest" else version, requirements(which))
        for version, python in pythons.items()
        if python is not None
    ]
    return 0 if passed and all(passed) else 1


def find_python(version: str) -> str | None:
    """A Python of this version, from the path or among those of pyenv; None if there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for python in (shutil.which(f"python{version}"), *sorted(root.glob(f"versions/{version}.*/bin/python"))):
        # One that pyenv has put on the path may stand for a version that is not chosen, and fails.
        if python and subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0:
            return str(python)
    return None


def requirements(which: str) -> list[str]:
    """The dependencies with the extras that these tests use, and what the tests need."""
    project, extras = PROJECT["project"], PROJECT["project"]["optional-dependencies"]
    named = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    declared = [*map(Requirement, named)]
    tools = [text for text in PROJECT["dependency-groups"]["dev"] if Requirement(text).name in TOOLS]
    return [*(lowest(each) if which == "lowest" else str(each) for each in declared), *tools]


def lowest(dependency: Requirement) -> str:
    """The dependency at the lower end of its range, which has to be a release."""
    (floor,) = [part.version for part in dependency.specifier if part.operator == ">="]
    extras = f"[{','.join(sorted(dependency.extras))}]" if dependency.extras else ""
    return f"{dependency.name}{extras}=={floor}"


def checked(python: str, name: str, wanted: Sequence[str]) -> bool:
    """Whether the part of the tests and the command work in an environment of these requirements."""
    place = ROOT / f".venv-{name}"
    made = place / ".requirements"
    asked = "\n".join([*wanted, repr(PROJECT["project"]["entry-points"])])  # an installation has both
    if not made.is_file() or made.read_text(encoding="utf-8") != asked:
        print(f"quantgraph: setting up {place.name}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "venv", place], check=True)
        subprocess.run([*pip, "--only-binary", ":all:", *wanted], check=True)
        subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)
        made.write_text(asked, encoding="utf-8")
    # anyio's plugin, which no test needs, warns of newer versions of pytest.
    options = ["-q", "-n", "2", "--dist", "worksteal", "-p", "no:anyio"]
    tests = subprocess.run([place / "bin" / "python", "-m", "pytest", *options, *PART], cwd=ROOT, check=False)
    works = tests.returncode == 0 and command_works(place / "bin" / "quantgraph")
    print(f"quantgraph: {place.name} {'passed' if works else 'FAILED'}", flush=True)
    return works


def command_works(command: Path) -> bool:
    """Whether the demo trades, and a question is asked and answered by another process."""
    with tempfile.TemporaryDirectory() as runs:

        def result(*arguments: str | Path) -> dict[str, object]:
            line = [command, *arguments, "--json", "--out", runs]
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            return dict(json.loads(done.stdout)) if done.stdout else {"ended_because": done.stderr}

        demo, asked = result("run", DEMO, "--headless"), result("run", WITHOUT_SECURITY)
        answered = result("resume", str(asked.get("run_dir")), "--answer", "000341.SZ", "--headless")
    ends = [each.get("ended_because") for each in (demo, asked, answered)]
    if ends != ["done", "needs_answer", "done"]:
        print(f"quantgraph: the command ended with {ends}", file=sys.stderr)
    return ends == ["done", "needs_answer", "done"]


if __name__ == "__main__":
    raise SystemExit(main())
