"""The ground: what is pinned fits what is declared, and nothing names the machine it was made on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def _pinned() -> dict[str, list[str]]:
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK, re.MULTILINE):
        pins.setdefault(canonicalize_name(name), []).append(version)
    return pins


def test_every_declared_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    pins = _pinned()
    for text in declared:
        wanted = Requirement(text)
        versions = pins.get(canonicalize_name(wanted.name), [])
        assert versions, f"{wanted.name} is not in requirements.lock; run scripts/lock.sh"
        assert all(wanted.specifier.contains(version, prereleases=True) for version in versions), (
            f"{text}; run scripts/lock.sh"
        )


def test_every_pin_has_hashes_and_the_lock_names_no_place() -> None:
    for entry in re.split(r"\n(?=\S)", LOCK.strip()):
        assert "--hash=sha256:" in entry, entry
    assert not re.search(r"://|^-|file:|@ ", LOCK, re.MULTILINE)


@pytest.mark.parametrize("script", ["scripts/setup.sh", "scripts/lock.sh", ".ci/run"])
def test_scripts_can_be_run_and_stop_at_the_first_error(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert re.search(r"^set -eu", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_a_python_that_is_too_old_gives_one_clear_line(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text(
        f'#!/bin/sh\ncase "$1" in --version) echo Python 3.10.13;; *) exec {sys.executable} -c '
        '"import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])" "$2";; esac\n'
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "scripts" / "setup.sh"), str(old)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == "quantgraph: Python 3.10.13 is too old, 3.11 or newer is needed; try: make PYTHON=python3.12\n"
    )


def test_the_tests_run_on_a_set_up_that_make_takes_for_ready() -> None:
    command = ["make", "--no-print-directory", "-n", "test"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=outside)
    steps = done.stdout
    for tool in ("ruff check", "ruff format --check", "lint-imports", "mypy"):
        assert tool in steps
    assert steps.rstrip().endswith('pytest -n 2 --dist loadfile -m "not proof"')
