"""The ground: what is pinned fits what is declared, and nothing names the machine it was made on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


DEMO_LOCK = (ROOT / "requirements-demo.lock").read_text(encoding="utf-8")
NOT_IN_THE_DEMO = {
    "numba",
    "llvmlite",
    "tushare",
    "langchain-openai",
    "openai",
    "langchain-community",
    "zstandard",
}


def _pinned(lock: str = LOCK) -> dict[str, list[str]]:
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE):
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


@pytest.mark.parametrize("lock", [LOCK, DEMO_LOCK], ids=["all", "demo"])
def test_every_pin_has_hashes_and_the_lock_names_no_place(lock: str) -> None:
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        assert "--hash=sha256:" in entry, entry
    assert not re.search(r"://|^-|file:|@ ", lock, re.MULTILINE)


def test_the_demo_needs_at_most_ninety_of_the_pinned_packages() -> None:
    demo, pins = _pinned(DEMO_LOCK), _pinned()
    assert all(set(versions) <= set(pins[name]) for name, versions in demo.items()), "run scripts/lock.sh"
    assert len(demo) <= 90
    assert not demo.keys() & NOT_IN_THE_DEMO


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
        ["sh", str(ROOT / "scripts" / "setup.sh"), str(old), "demo"],
        capture_output=True,
        text=True,
        check=False,
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
    assert '--dist loadfile -m "not proof" $(.venv/bin/python scripts/features.py --tests core)' in steps


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_demo_and_own_prices_run_in_a_fresh_checkout(tmp_path: Path) -> None:
    place = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
    for name in ("scripts/setup.sh", "requirements-demo.lock", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, place / name)
    shutil.copytree(ROOT / "src", place / "src", dirs_exist_ok=True)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON"))}
    spoken = outside | {"LC_ALL": "C.UTF-8", "HOME": str(tmp_path)}
    base = Path(sys.base_prefix, "bin", "python3")

    def done(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=place,
            env=spoken,
            stdin=subprocess.DEVNULL,
        )

    demo = done("make", f"PYTHON={base}", "demo")
    assert demo.returncode == 0, demo.stderr
    steps = [line for line in demo.stdout.splitlines() if line.startswith("quantgraph: ")]
    assert [line[12:15] for line in steps] == ["1/3", "2/3", "3/3"]
    assert "page: runs/" in demo.stderr  # in English, as the locale is not Chinese
    again = done("make", f"PYTHON={base}", "demo")
    assert again.returncode == 0
    assert "installing" not in again.stdout

    days = pd.bdate_range("2024-01-02", periods=120)
    close = 100 + 10 * np.sin(np.arange(120) / 6)
    bars = pd.DataFrame({"Open": close, "High": close + 1, "Low": close - 1, "Close": close, "Volume": 1e6})
    bars.set_index(days.rename("Date")).to_csv(place / "AAPL.csv")
    command = place / ".venv" / "bin" / "quantgraph"
    own = done(
        command,
        "run",
        "AAPL, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2024",
        "--source",
        "AAPL.csv",
        "--headless",
        "--json",
    )
    assert own.returncode == 0, own.stderr
    assert json.loads(own.stdout)["account"]["trades"] > 0
    spoken["OPENAI_API_KEY"] = "x"
    model = done(command, "run", "AAPL, 2024", "--source", "AAPL.csv", "--model", "gpt-5", "--headless")
    assert "run: pip install langchain-openai" in model.stderr
