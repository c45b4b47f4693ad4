"""The way of a sentence from the command to the first model call is short enough to be read."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

import quantgraph
from quantgraph.cli import main
from quantgraph.llm import KeylessPlanner

PACKAGE = Path(quantgraph.__file__).parent
SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
MOST = 13
"""Frames of ours between the shell and the model; those of LangGraph, LangChain and typer are not counted."""


def ours(frame: FrameType | None) -> list[str]:
    """The functions of the package on a stack, the outermost first."""
    found = []
    while frame is not None:
        code, path = frame.f_code, Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and "testing" not in path.parts:
            found.append(f"{path.relative_to(PACKAGE)}:{code.co_name}")
        frame = frame.f_back
    return found[::-1]


def test_the_first_model_call_is_few_frames_from_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    way: list[str] = []
    answer = KeylessPlanner._generate

    def watched(self, *args, **options):
        if not way:
            stacks = {ident: ours(frame) for ident, frame in sys._current_frames().items()}
            way.extend(name for ident, stack in stacks.items() if ident not in begun for name in stack)
        return answer(self, *args, **options)

    monkeypatch.setattr(KeylessPlanner, "_generate", watched)
    options = ["--headless", "--model", "keyless", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["quantgraph", "run", SENTENCE, *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    steps = {"cli/_main.py:main", "runs/_execute.py:execute_run", "llm/_recorded_model.py:_generate"}
    assert steps <= {*way}
    assert len(way) <= MOST, "\n".join(way)
