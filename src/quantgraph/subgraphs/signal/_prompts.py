"""The prompts of the signal nodes: a file for each node and language in ``prompts/``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

PromptName = Literal["reflection", "signal_generate", "validation"]

_FOLDER = Path(__file__).resolve().parent / "prompts"


@cache
def prompt_text(name: PromptName, language: str) -> str:
    """Return the prompt of a node in the user's language, with its placeholders.

    A prompt that changes its meaning gets a new version.
    """
    ending = "_v1_zh.txt" if language == "zh" else "_v1.txt"
    return (_FOLDER / f"{name}{ending}").read_text(encoding="utf-8")
