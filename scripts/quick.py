"""Check what changed, in under a minute: lint, types, and the tests that mirror the changed files.

python scripts/quick.py            against the last commit, or of the last commit where nothing is changed
python scripts/quick.py --base X   against the commit or branch X
"""

from __future__ import annotations

import argparse
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
    tests = mirrored_tests(changed)
    checks = [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["lint-imports", "--no-cache"],
        ["mypy"],
        ["pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not proof", "tests/test_house.py", *tests],
    ]
    print("tests:", *(tests or ["none mirror what changed"]))
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


def mirrored_tests(changed: Iterable[Path], root: Path = ROOT) -> list[str]:
    """The test files of source files, and test files that changed themselves; paths from the root.

    ``src/quantgraph/state/cut.py`` has ``tests/state/test_cut.py``, else ``test_cut_*.py``: aspects such as
    ``test_graph_kills.py`` take minutes and are left to ``make proofs`` where there is a main file. A module
    without tests of its own has those of its package as a whole, ``test_market_*.py``.
    """
    found: dict[str, None] = {}
    for path in changed:
        if path.parts[:2] == ("src", "quantgraph"):
            folder = Path("tests", *(part.lstrip("_") for part in path.parts[2:-1]))
            name = path.stem.lstrip("_")
            tests = _tests_of(root, folder, name) or _tests_of(root, folder, path.parent.name)
            found.update(dict.fromkeys(tests))
        elif path.parts[0] == "tests" and path.name.startswith("test_"):
            found[path.as_posix()] = None
    return sorted(found)


def _tests_of(root: Path, folder: Path, name: str) -> list[str]:
    exact, aspects = root / folder / f"test_{name}.py", (root / folder).glob(f"test_{name}_*.py")
    return [path.relative_to(root).as_posix() for path in ([exact] if exact.exists() else sorted(aspects))]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.splitlines()


if __name__ == "__main__":
    raise SystemExit(main())
