"""Check what changed, in under a minute: lint, types, and the tests that use the changed files.

python scripts/quick.py            against the last commit, or of the last commit where nothing is changed
python scripts/quick.py --base X   against the commit or branch X
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def main() -> int:
    """Run the checks one after the other; the first that fails is the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--base", help="commit to compare with")
    base = parser.parse_args().base
    changed = changed_files(base) or changed_files("HEAD~1")
    tests = relevant_tests(changed)
    checks = [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["lint-imports", "--no-cache"],
        ["python", "scripts/house.py", "--check"],
        ["python", "scripts/features.py", "--check"],
        ["mypy"],
        ["pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not proof", "tests/test_house.py", *tests],
    ]
    print("tests:", *(tests or ["none use what changed"]))
    for program, *options in checks:
        done = subprocess.run([BIN / program, *options], cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
    return 0


def changed_files(base: str | None) -> list[Path]:
    """Python files that differ from a commit, new ones included; paths from the root."""
    listed = _git("diff", "--name-only", "--diff-filter=d", base or "HEAD")
    if base is None:
        listed += _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in listed if name.endswith(".py")]


def relevant_tests(changed: Iterable[Path], root: Path = ROOT) -> list[str]:
    """Test files for changed source files, and test files that changed themselves; paths from the root.

    A module is tested by the files of its room that import it, or that bear its name: tests of
    ``src/quantgraph/market/money/_fees.py`` are below ``tests/market/``.
    """
    found: set[str] = set()
    for path in changed:
        if path.parts[:2] == ("src", "quantgraph"):
            found.update(_tests_of_module(root, path))
        elif path.parts[0] == "tests" and path.name.startswith("test_"):
            found.add(path.as_posix())
    return sorted(found)


def _tests_of_module(root: Path, path: Path) -> list[str]:
    name, room = (
        path.stem.lstrip("_"),
        root / "tests" / (path.parts[2].lstrip("_") if len(path.parts) > 3 else ""),
    )
    module = ".".join(path.with_suffix("").parts[1:])
    files = [file for file in room.rglob("test_*.py") if room.name != "tests" or file.parent == room]
    return [
        file.relative_to(root).as_posix()
        for file in files
        if file.stem == f"test_{name}"
        or re.search(rf"{re.escape(module)}\b", file.read_text(encoding="utf-8"))
    ]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.splitlines()


if __name__ == "__main__":
    raise SystemExit(main())
