"""What the tests of the command share."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app

SENTENCES = (
    "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229",
    "000341.SZ, buy when the 2-day average crosses above the 5-day average, sell when it crosses below, "
    "from 20240102 to 20240329",
)


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str, str]]:
    """The folders of two runs in one place, a Chinese and an English one; and stdout and stderr of each."""
    place, runs = tmp_path_factory.mktemp("two"), []
    for sentence in SENTENCES:
        done = CliRunner().invoke(app, ["run", sentence, "--headless", "--out", str(place)])
        assert done.exit_code == 0, done.stderr
        (folder,) = {path.parent for path in place.glob("*/run.json")} - {run[0] for run in runs}
        runs.append((folder, done.stdout, done.stderr))
    return runs
