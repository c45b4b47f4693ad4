"""Run the code blocks of the documents, and write their output: ``docs.py [--check] [--notebooks]``.

- ``python`` blocks of a file run one after the other in one namespace; functions named ``test_*`` are
  called, by pytest if they take fixtures;
- a ``text`` block right after one holds what it printed;
- ``bash`` lines are calls of ``quantgraph``, which are run, or of ``make``, whose target has to exist, or
  put its environment on the path;
- ``toml`` blocks are read as settings; a ``mermaid`` block is the trading graph;
- README.zh-CN.md has the blocks of README.md;
- each notebook has the cells of the script beside it, and their outputs, from a run in an empty folder; it
  is run again if its cells change.

``--check`` writes nothing and exits with 1 if a file would change. ``--notebooks`` runs all notebooks again,
and nothing else: their outputs have the names of their runs, which are new each time.
"""

from __future__ import annotations

import inspect
import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
TWINS = (ROOT / "README.md", ROOT / "README.zh-CN.md")
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
SCRIPTS = tuple(sorted((ROOT / "notebooks").glob("*.py")))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Page:
    """The blocks of one document while they are run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = path.read_text(encoding="utf-8")
        self._namespace: dict[str, Any] = {"__name__": path.stem}
        self._output = ""

    def refreshed(self) -> str:
        """The document with every output and picture as it really comes out."""
        return _BLOCK.sub(self._block, self._text)

    def _block(self, block: re.Match[str]) -> str:
        kind, body = block.groups()
        line = self._text.count("\n", 0, block.start()) + 2
        match kind:
            case "python":
                self._output = run_python(body, self._namespace, f"{self._path.name}, block at line {line}")
            case "bash":
                for command in body.splitlines():
                    run_command(command)
            case "text":
                body = self._output
            case "mermaid":
                body = picture()
            case "toml":
                read_settings(body)
            case _:
                raise SystemExit(f"{self._path.name}:{line}: nobody knows how to check a {kind} block")
        return f"```{kind}\n{body}```"


def run_python(code: str, namespace: dict[str, Any], name: str) -> str:
    """Run a block, and the tests in it; return what it printed."""
    known = set(namespace)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, name, "exec", dont_inherit=True), namespace)  # noqa: S102 - our own documents
        tests = [name for name in namespace if name.startswith("test_") and name not in known]
        if any(inspect.signature(namespace[test]).parameters for test in tests):
            run_tests(code)
            tests = []
        for test in tests:
            namespace[test]()
    return printed.getvalue()


def run_tests(code: str) -> None:
    """Run a block whose tests take fixtures, as pytest does in a user's project."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "test_block.py")
        file.write_text(code, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"a block with fixtures failed:\n{done.stdout}")


def run_command(line: str) -> None:
    """Run a call of ``quantgraph``; of ``make``, see that the target is there."""
    program, *arguments = shlex.split(line)
    if "AAPL.csv" in arguments:
        write_prices(Path("AAPL.csv"))
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        missing = [target for target in arguments if target not in targets]
        if missing:
            raise SystemExit(f"{line}: the Makefile has no target {missing[0]}")
        return
    if line == "source .venv/bin/activate":
        return
    if program != "quantgraph":
        raise SystemExit(f"{line}: nobody knows how to check {program}")
    from quantgraph.cli import main

    out, err = io.StringIO(), io.StringIO()
    with patch("sys.argv", [program, *arguments]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise SystemExit(f"{line}: ended with {ended.code}: {err.getvalue()}") from None
    if "--json" in arguments:
        json.loads(out.getvalue())


def write_prices(path: Path) -> None:
    """A file as a reader would have it: made-up prices in the columns of yfinance."""
    lines = ["Date,Open,High,Low,Close,Volume"]
    days = [date(2024, 1, 2) + timedelta(days=count) for count in range(360)]
    for number, day in enumerate(each for each in days if each.weekday() < 5):
        price = 180 + 20 * math.sin(number / 9)
        lines.append(f"{day},{price:.2f},{price + 1:.2f},{price - 1:.2f},{price:.2f},50000000")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def picture() -> str:
    """The trading graph as mermaid text."""
    from quantgraph import create_trading_graph

    return create_trading_graph().get_graph(xray=True).draw_mermaid()


def read_settings(text: str) -> None:
    """Read a settings file as the library does."""
    from quantgraph.settings import load_settings

    Path("quantgraph.toml").write_text(text, encoding="utf-8")
    load_settings()
    Path("quantgraph.toml").unlink()


def twin(text: str, original: str) -> str:
    """A translation with the blocks of the original."""
    blocks = [block.group() for block in _BLOCK.finditer(original)]
    if len(blocks) != len(_BLOCK.findall(text)):
        raise SystemExit(f"README.zh-CN.md has not the {len(blocks)} blocks that README.md has")
    rest = iter(blocks)
    return _BLOCK.sub(lambda _: next(rest), text)


def notebook(script: str) -> dict[str, Any]:
    """A script with ``# %%`` cells as a notebook without outputs; ``# %% [markdown]`` cells are text."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"^# %%", script, flags=re.MULTILINE)[1:]):
        head, _, body = part.partition("\n")
        source = body.strip("\n")
        common = {"id": f"cell-{number}", "metadata": {}}
        if head.strip() == "[markdown]":
            words = "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines())
            cells.append({"cell_type": "markdown", **common, "source": words})
        else:
            code = {"execution_count": None, "outputs": [], "source": source}
            cells.append({"cell_type": "code", **common, **code})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def with_outputs(book: dict[str, Any]) -> dict[str, Any]:
    """Run a notebook in an empty folder; its text and pictures stay, how long a cell took does not."""
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        made = nbformat.from_dict(book)
        NotebookClient(made, timeout=120, kernel_name="python3").execute()
    for old, new in zip(book["cells"], made.cells, strict=True):
        if old["cell_type"] == "code":
            old |= {"execution_count": new.execution_count, "outputs": list(map(dict, new.outputs))}
    return book


def same_cells(book: dict[str, Any], path: Path) -> bool:
    """Whether a stored notebook has these cells."""
    stored = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    return [each["source"] for each in stored] == [each["source"] for each in book["cells"]]


def documents() -> dict[Path, str]:
    """Every document as it should be."""
    files = {path: Page(path).refreshed() for path in PAGES}
    original, translation = TWINS
    files[translation] = twin(translation.read_text(encoding="utf-8"), files[original])
    return files


def notebooks(*, again: bool) -> dict[Path, str]:
    """The notebooks whose cells changed, or all ``again``, with outputs."""
    files = {}
    for script in SCRIPTS:
        path, book = script.with_suffix(".ipynb"), notebook(script.read_text(encoding="utf-8"))
        if again or not same_cells(book, path):
            files[path] = json.dumps(with_outputs(book), ensure_ascii=False, indent=1) + "\n"
    return files


def main(arguments: list[str]) -> int:
    """Refresh all files, or say which are stale."""
    for name in list(os.environ):
        if name.startswith(("QUANTGRAPH_", "OPENAI_", "TUSHARE_")):
            del os.environ[name]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        alone = "--notebooks" in arguments
        files = notebooks(again=alone) if alone else documents() | notebooks(again=False)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(path.relative_to(ROOT), "is stale" if "--check" in arguments else "was refreshed")
        if "--check" not in arguments:
            path.write_text(files[path], encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
