"""Each notebook has the cells of the script beside it and their outputs, and runs from top to bottom."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# The kernel talks over loopback sockets, so it gets a process in which they are not disabled.
RUN = """
import sys, nbclient, nbformat
book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
nbclient.NotebookClient(book, timeout=60, kernel_name="python3", coalesce_streams=True).execute()
nbformat.write(book, sys.argv[2])
"""


def _cells(notebook: Path) -> list[dict[str, Any]]:
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def test_notebooks_and_scripts_come_in_pairs() -> None:
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_are_those_of_the_script(notebook: Path) -> None:
    script = notebook.with_suffix(".py").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]]
    kinds = ["markdown" if "[markdown]" in head else "code" for head, _, _ in parts]
    texts = [
        re.sub(r"^# ?", "", body, flags=re.MULTILINE) if kind == "markdown" else body
        for kind, (_, _, body) in zip(kinds, parts)
    ]

    cells = _cells(notebook)
    assert [cell["cell_type"] for cell in cells] == kinds
    assert ["".join(cell["source"]).strip() for cell in cells] == [text.strip() for text in texts]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_small_and_tell_no_place(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    assert len(text.encode()) <= 300_000
    assert not re.findall(r"(?:/home|/root|/tmp|/Users|/mnt|[A-Z]:)[/\\\\][\w.]", text)
    outputs = [output for cell in _cells(notebook) for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert "plotly" not in text
    counts = [cell["execution_count"] for cell in _cells(notebook) if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run: make notebooks"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_ends_with_a_bare_graph(notebook: Path) -> None:
    # A graph as a cell's value is drawn by a server on the internet.
    last = [
        "".join(cell["source"]).splitlines()[-1] for cell in _cells(notebook) if cell["cell_type"] == "code"
    ]
    assert not [line for line in last if line in ("graph", "trading", "desk")]


@pytest.mark.proof
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    out = tmp_path / "done.ipynb"
    home = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook), str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **home},
        timeout=110,
    )

    assert done.returncode == 0, done.stderr
    outputs = [output for cell in _cells(out) for output in cell.get("outputs", ())]
    stored = [output for cell in _cells(notebook) for output in cell.get("outputs", ())]
    assert [output["output_type"] for output in outputs] == [output["output_type"] for output in stored]
    assert not [output for output in outputs if output.get("name") == "stderr"]
