"""The prompts, which are files: ``decision_agent_v1.txt`` and its like, each with a Chinese twin.

A file is sent as it is, without placeholders. A prompt that changes gets a new version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quantgraph.errors import BadFile, BadOption

__all__ = ["DEFAULT_PROMPT", "_load_prompt", "_prompt_dir", "_prompt_version", "load_prompt_strictly"]

DEFAULT_PROMPT: Final = (
    "You are a decision agent. For every symbol of the facts, answer with one JSON object "
    '{"decisions": {SYM: {"action": "increase | decrease | hold | close", "target_cash_amount": number, '
    '"confidence": number, "reasons": [text]}}}; '
    "target_cash_amount is the total value that the position is to have."
)
"""Stands in for a prompt that :func:`_load_prompt` does not find."""

_FOLDER = Path(__file__).resolve().parent / "prompts"
_ENDING = ".txt"


def _prompt_dir() -> str:
    """Absolute path of the folder of the prompts."""
    return str(_FOLDER)


def _load_prompt(name: str) -> str:
    """Text of a prompt file; :data:`DEFAULT_PROMPT` if there is no such file.

    A run reads its prompts with :func:`load_prompt_strictly`.
    """
    try:
        return load_prompt_strictly(name)
    except (BadOption, BadFile):
        return DEFAULT_PROMPT


def load_prompt_strictly(name: str) -> str:
    """Text of a prompt file.

    Raises
    ------
    BadOption
        If there is no such file in the folder of the prompts; the message lists those that there are.
    BadFile
        If the file is not UTF-8 text, or empty.
    """
    names = sorted(path.name for path in _FOLDER.glob(f"*{_ENDING}"))
    if name not in names:
        raise BadOption(
            f"prompt={name!r:.120} is not a prompt file; valid are {', '.join(names)}", parameter="prompt"
        )
    try:
        text = (_FOLDER / name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{name} is not UTF-8 text: {error}", file=name) from error
    if not text.strip():
        raise BadFile(f"{name} is empty", file=name)
    return text


def _prompt_version(name: str) -> str:
    """Version of a prompt file, from its name.

    >>> _prompt_version("decision_agent_v1.txt")
    'decision/agent/v1'
    """
    return name.removesuffix(_ENDING).replace("_", "/")
