"""Types that the states of all graphs share: a question, the reason of an end, a node's update."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from quantgraph._util.texts import Language

Update = dict[str, Any]
"""What a node returns: the fields it changed."""


EndedBecause = Literal[
    "done",
    "needs_answer",
    "declined",
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
    "code_unavailable",
]


ClarificationKind = Literal[
    "symbol", "window", "strategy", "fields", "plan", "bars", "confirmation", "failure", "approval"
]


class QuestionAnswered(TypedDict):
    """A question and its answer, as plain JSON."""

    question: str
    answer: str
    by: Literal["person", "callable", "default"]
    """Who answered; nobody said a ``default``."""
    message: str
    """Id of the answer's message."""


class Clarification(TypedDict):
    """A question to the user, as plain JSON: the value of ``interrupt()``.

    It is answered with a text, or with ``{"answer": text, "id": id}``, which no other question accepts.
    """

    id: str
    """Made of the run, the place in its graph, and the content."""
    kind: ClarificationKind
    reason: str
    """Why it is asked."""
    worded: NotRequired[bool]
    """Whether ``reason`` is a question already, which no model words again; absent once it is asked."""
    question: str
    """Empty until it is worded."""
    options: list[str]
    """Suggested answers. Any text is valid; for an ``approval``, also numbers or symbols of orders."""
    default: str | None
    """What the answer "default" stands for; for an ``approval``, the answer if nobody is asked."""
    answer_schema: dict[str, Any]
    """JSON schema of the answer."""
    rounds_left: int
    """How many questions may follow."""
    language: Language
    """The user's language."""
    unread: list[str]
    """The user's words that were not understood; for ``fields``, the unknown fields; for ``plan``, the words
    that nothing executes."""
    error: NotRequired[str]
    """What was wrong with the last answer, which did not count."""
    orders: NotRequired[list[dict[str, Any]]]
    """For an ``approval``, see :class:`~quantgraph.broker.session.OrderProposal`."""
