"""Values that the states of all graphs share: a question, and why a run ended."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from quantgraph._util.texts import Language

__all__ = ["Clarification", "ClarificationKind", "EndedBecause", "Update"]

Update = dict[str, Any]
"""What a node returns: the fields that it changed."""


EndedBecause = Literal[
    "done",
    "needs_answer",
    "max_retries",
    "repeated_error",
    "no_progress",
    "budget_calls",
    "budget_tokens",
    "budget_money",
    "timeout",
    "causality_failed",
    "data_unavailable",
    "cancelled",
    "model_unavailable",
]


ClarificationKind = Literal["symbol", "window", "strategy", "fields", "failure", "approval"]


class Clarification(TypedDict):
    """A question to the user; what ``interrupt()`` hands to the host, plain JSON.

    It is answered with a text, or with ``{"answer": text, "id": id}``, which no other question takes.
    """

    id: str
    """Name by the run, the place in its graph, and the content."""
    kind: ClarificationKind
    reason: str
    """Why it has to be asked."""
    question: str
    """Empty until it is worded."""
    options: list[str]
    """Answers to choose from. Any text will do; of an ``approval``, numbers or symbols of orders, too."""
    default: str | None
    """What the answer "default" stands for; of an ``approval``, what is taken where nobody is asked."""
    answer_schema: dict[str, Any]
    """JSON schema of the answer."""
    rounds_left: int
    """Questions that may follow this one."""
    language: Language
    """The user's."""
    unread: list[str]
    """Words of the user that could not be placed; of ``fields``, the fields that there are not."""
    error: NotRequired[str]
    """What was wrong with the last answer; it did not count."""
    orders: NotRequired[list[dict[str, Any]]]
    """Of an ``approval``, see :class:`~quantgraph.broker.open_session.OrderProposal`."""
