"""The tools that an MCP server offers, as plain data, and who carries their calls out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from langchain_core.tools import BaseTool

from quantgraph.tools._catalog import TRADES, tools_of

FINISH_DAY: Final = "finish_day"
CLIENT_TOOLS: Final = (*tools_of("trader"), "get_today", FINISH_DAY)
"""Names of the tools that a client of a run has."""

SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "math": ("add", "multiply"),
    "search": ("get_information",),
    "trade": ("get_today", "get_positions", "buy", "sell", FINISH_DAY),
    "price": ("get_price_local", "get_price_history", "get_indicators"),
}
"""AI-Trader's four services, and which tools each has."""

_ID = {"type": "string", "minLength": 1, "maxLength": 64}


@dataclass(frozen=True, kw_only=True)
class ServedTool:
    """A tool as a server describes it.

    Attributes
    ----------
    parameters
        JSON schema of its arguments.
    answers
        JSON schema of its answer.
    reads
        Whether it changes nothing.
    destroys
        Whether what it changes cannot be taken back.
    repeatable
        Whether a repeated call has no further effect.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    answers: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    reads: bool = True
    destroys: bool = True
    repeatable: bool = True


@dataclass(frozen=True, kw_only=True)
class ServedText:
    """A text that a server offers as a resource, and as a prompt if it has ``arguments``.

    Attributes
    ----------
    address
        Of the resource; with ``{names}`` it is a template, and ``read`` takes their values.
    kind
        MIME type.
    arguments
        Of the prompt, by name what each is.
    read
        Returns the text; that of a prompt in a ``language``.
    """

    address: str
    name: str
    description: str
    kind: str = "text/markdown"
    arguments: Mapping[str, str] = field(default_factory=dict)
    read: Callable[..., str]

    @property
    def is_template(self) -> bool:
        """Whether its address has names in it."""
        return "{" in self.address


Progress = Callable[[int, int | None, str], None]
"""Tells a waiting client how far its call is: steps done, of how many, and a line."""


class CallHandler(Protocol):
    """Carries calls out. Threads may call at the same time."""

    @property
    def tools(self) -> Mapping[str, ServedTool]:
        """The tools by name."""

    def call(self, name: str, args: Mapping[str, Any], progress: Progress, /) -> Any:
        """Return what one of the tools answers, a JSON value, see :func:`is_refusal`."""


def is_refusal(answer: Any) -> bool:
    """Whether an answer is ``{"error": ..., "code": ..., ...}``."""
    return isinstance(answer, Mapping) and {"error", "code"} <= set(answer)


@cache
def served_tool(name: str) -> ServedTool:
    """Return one of :data:`CLIENT_TOOLS`."""
    if name == "get_today":
        return ServedTool(
            name=name,
            description="Get the day that is open: its date, the rule to follow, your positions with CASH, "
            "the symbols that can be traded, and the order ids used today. Call it first, and after each "
            "reconnection.",
            parameters=_schema({}, ()),
        )
    if name == FINISH_DAY:
        return ServedTool(
            name=name,
            description="End the day: its trades are written into the ledger, and the next day opens. The "
            "answer tells the date that was committed and the next one.",
            parameters=_schema(
                {
                    "notes": {"type": "string", "description": "What you decided and why.", "default": ""},
                    "request_id": {
                        **_ID,
                        "description": "A text of your choice, new each day. A call with one that was used "
                        "answers as the first did and ends no other day: repeat it if an answer was lost.",
                    },
                },
                (),
            ),
            reads=False,
            repeatable=False,
        )
    return _of_catalog(tools_of("trader")[name])


def parameters_of(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    schema: Any = tool.tool_call_schema
    return dict(schema if isinstance(schema, dict) else schema.model_json_schema())


def _of_catalog(tool: BaseTool) -> ServedTool:
    schema = parameters_of(tool)
    properties, required = dict(schema.get("properties", {})), list(schema.get("required", ()))
    trades = tool.name in TRADES
    if trades:
        properties["order_id"] = {
            **_ID,
            "description": "A text of your choice, new for each order. The same order with the same id is "
            "not traded twice and has the first answer: repeat it if an answer was lost.",
        }
        required.append("order_id")
    return ServedTool(
        name=tool.name,
        description=tool.description,
        parameters=_schema(properties, required) | {k: schema[k] for k in ("$defs",) if k in schema},
        reads=not trades,
    )


def _schema(properties: Mapping[str, Any], required: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
