"""The tools by which a model that was to write code asks its user, or declines.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

from langchain_core.tools import tool

from quantgraph.errors import BadOption
from quantgraph.tools._results import with_docstring

_MAX_CHARACTERS = 1_000


@tool("ask", return_direct=True, parse_docstring=True)
@with_docstring
def ask(question: str) -> str:
    """Ask the user one question, if the rule has two readings that trade differently. It ends your turn.

    Args:
        question: The question, in the user's language, with the possible answers.
    """
    return _text("question", question)


@tool("decline", return_direct=True, parse_docstring=True)
@with_docstring
def decline(reason: str) -> str:
    """Say that the rule cannot be coded with these data. It ends the run.

    Args:
        reason: Why, in the user's language, in one or two sentences.
    """
    return _text("reason", reason)


def _text(name: str, value: str) -> str:
    """Return a text on one line."""
    text = " ".join(value.split())
    if not 0 < len(text) <= _MAX_CHARACTERS:
        raise BadOption(f"{name} must have 1 to {_MAX_CHARACTERS} characters; it has {len(text)}")
    return text
